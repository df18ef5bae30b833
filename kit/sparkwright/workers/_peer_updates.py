"""Updates between a worker and the others, and how far each of them has trained."""

import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError
from sparkwright.masters import SharedTrainingMaster
from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.ring import Ring
from sparkwright.mesh.update_mesh import UpdateMesh
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Group

from ._phases import PhaseRecorder
from ._shared_parameters import SharedParameters
from ._state_transfer import Snapshot
from .requests import WorkerSettings

_IDLE_S = 0.01
# How often a wait checks whether to stop.
_LOOK_S = 0.2
# Header of an update: number of minibatches trained by its sender.
_CLOCK = struct.Struct("<q")
HEADER_BYTES = _CLOCK.size
# Clock of an idle worker, for which other workers do not wait.
_RESTING = (1 << 62) - 1


class PeerUpdates:
    """Send this worker's updates and apply the others'."""

    def __init__(
        self,
        settings: WorkerSettings[SharedTrainingMaster],
        port: PeerPort,
        shared: SharedParameters,
        phases: PhaseRecorder,
    ) -> None:
        self._settings, self._shared, self._phases = settings, shared, phases
        self._me = (settings.worker, settings.attempt)
        mesh = settings.master.mesh
        self._mesh = UpdateMesh(
            port,
            me=self._me,
            name=f"sparkwright-mesh-{settings.worker}",
            max_pending_bytes=mesh.max_pending_bytes,
            chunk_bytes=mesh.chunk_bytes,
            peer_timeout_s=mesh.peer_timeout_s,
            connect_timeout_s=mesh.connect_timeout_s,
        )
        # Neighbors to fetch a state from, because this worker missed too many updates.
        self.behind: deque[tuple[int, int]] = deque()
        self._mesh.on_catch_up = self.behind.append
        self.sequence = 0  # of the last update sent
        self.clock = 0  # minibatches trained; a new worker starts at the others' clock
        self.absorbed_s = 0.0  # to apply received updates, since the caller last reset it
        self._clocks: dict[int, int] = {}  # other worker -> clock
        self._attempts: dict[int, int] = {}  # other worker -> attempt
        self._resting = False

    def close(self) -> None:
        """Disconnect from the other workers."""
        self._mesh.close()

    def follow(self, group: Group) -> None:
        """Keep the clocks of the members of `group`."""
        others = [seat for seat in group.seats if seat.worker != self._me[0]]
        self._clocks = {s.worker: self._clocks.get(s.worker, self.clock) for s in others}
        self._attempts = {seat.worker: seat.attempt for seat in others}

    def reshape(self, group: Group) -> None:
        """Connect to this worker's neighbors in `group`."""
        mesh = self._settings.master.mesh
        self._mesh.reshape(group.seats, mode=mesh.mode, max_downstreams=mesh.max_downstreams)

    def reading_all(self) -> AbstractContextManager[None]:
        """Keep reading while waiting, to avoid a deadlock with blocked neighbors."""
        return self._mesh.reading_all()

    def publish(self, words: NDArray[np.int32], *, minibatches: int) -> None:
        """Send the update of that many `minibatches`."""
        self.clock += minibatches
        self._send(self.clock, words)

    def rest(self) -> None:
        """Tell the other workers not to wait for this idle worker."""
        if not self._resting:
            self._resting = True
            self._send(_RESTING, np.empty(0, np.int32))

    def wake(self) -> None:
        """End a rest; the next update says so."""
        self._resting = False

    def _send(self, clock: int, words: NDArray[np.int32]) -> None:
        self.sequence = self._mesh.publish(_CLOCK.pack(clock) + words.tobytes())

    def absorb(self) -> None:
        """Apply received updates."""
        began_s = time.monotonic()
        messages: list[NDArray[np.int32]] = []
        for update in self._mesh.take():
            (clock,) = _CLOCK.unpack_from(update.payload)
            worker, attempt = update.origin
            if self._attempts.get(worker) == attempt:  # ignore clocks of earlier attempts
                self._clocks[worker] = clock
            words = np.frombuffer(update.payload, np.int32, offset=_CLOCK.size)
            if words.size:
                messages.append(words)
        self._shared.absorb(messages)
        if messages:
            self.absorbed_s += self._phases.since(PhaseCode.APPLY, began_s) - began_s

    @property
    def staleness(self) -> int:
        """Minibatches by which the slowest other worker is behind, as far as known."""
        return max(0, self.clock - min(self._clocks.values(), default=self.clock))

    def is_within_staleness(self) -> bool:
        """Return False after a short wait if slower workers exceed the staleness limit."""
        limit = self._settings.master.max_staleness
        if limit is None or self.staleness <= limit:
            return True
        began_s = time.monotonic()
        self._mesh.wait(_IDLE_S)
        self._phases.since(PhaseCode.WAIT, began_s, joins=True)
        return False

    def absorb_until(
        self, ring: Ring, group: Group, sequences: Sequence[int], *, check: Callable[[], None]
    ) -> None:
        """Apply all updates that the other workers sent, up to their `sequences` by rank."""
        versions = {
            (seat.worker, seat.attempt): sequence
            for seat, sequence in zip(group.seats, sequences, strict=True)
            if sequence and seat.worker != self._me[0]
        }
        began_s = time.monotonic()
        timeout_s = self._settings.master.mesh.peer_timeout_s
        while not self._mesh.wait_for(versions, timeout_s=_LOOK_S):
            check()
            if self.behind or time.monotonic() > began_s + timeout_s:
                raise NetworkError(
                    f"worker {self._me[0]} waited {timeout_s:g} s "
                    "for updates sent by other workers before averaging."
                )
        ring.all_gather(b"")  # wait for workers with more updates to apply
        self._phases.since(PhaseCode.WAIT, began_s, joins=True)
        self.absorb()

    def meet(self, clock: int) -> None:
        """Continue like all others at `clock`, after an averaging."""
        self.clock, self._resting = clock, False
        self._clocks = dict.fromkeys(self._clocks, clock)

    def restore(self, found: Snapshot) -> None:
        """Continue from the clocks and updates of another worker's state."""
        self.clock = max(self.clock, found.clock)
        self._clocks = {worker: found.clocks.get(worker, self.clock) for worker in self._clocks}
        self._mesh.restored(found.versions)

    @property
    def clocks(self) -> dict[int, int]:
        """Worker -> its clock, as far as known, with this worker's."""
        return {**self._clocks, self._me[0]: _RESTING if self._resting else self.clock}

    @property
    def versions(self) -> dict[tuple[int, int], int]:
        """(Worker, attempt) -> its last update that is applied."""
        return self._mesh.taken_versions

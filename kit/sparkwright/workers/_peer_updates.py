"""Exchange of gradient sharing: updates, meetings that average, and what is logged of them."""

import math
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError
from sparkwright.masters import SharedTrainingMaster
from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.ring import Ring
from sparkwright.mesh.update_mesh import UpdateMesh
from sparkwright.timeline import PhaseCode
from sparkwright.updates import Encoded
from sparkwright.workers.protocol import Group

from ._flat import MEASURE_EVERY_S, Vector, sample_of, update_ratio
from ._member import RunMember
from ._minibatches import RoundDone, non_finite_state
from ._phases import PhaseRecorder
from ._shared_parameters import SharedParameters
from ._state_transfer import Snapshot
from .requests import WorkerSettings

_IDLE_S = 0.01
# How often a wait checks whether to stop.
_LOOK_S = 0.2
# Header of an update: number of minibatches trained by its sender.
_CLOCK = struct.Struct("<q")
# Clock of an idle worker, for which other workers do not wait.
_RESTING = (1 << 62) - 1
# Minimum interval of residual measurements without debug mode, and their maximum share of time.
_STATISTICS_S, _STATISTICS_SHARE = 1.0, 0.02


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


class _Report(NamedTuple):
    """A worker's report, exchanged before averaging."""

    sequence: int  # of its last update
    clock: int
    minibatches: int  # since the last averaging
    iterations: int


_REPORT = struct.Struct("<qqqq")


class Meetings:
    """Average a worker's state with the others'."""

    def __init__(
        self,
        settings: WorkerSettings[SharedTrainingMaster],
        member: RunMember,
        shared: SharedParameters,
        updates: PeerUpdates,
    ) -> None:
        self._settings, self._member, self._kept = settings, member, member.kept
        self._replica, self._shared, self._updates = member.replica, shared, updates
        self.minibatches = 0  # since the last averaging: the weight in the next one

    def reset_to_shared(self) -> None:
        """Reset to the shared state; this worker then has weight 0 in the next average."""
        # Including the optimizer's moments, which may be NaN.
        state = self._kept.average.copy()
        state[: self._shared.vector.size] = self._shared.vector
        self._replica.state.write(state)
        self.minibatches = 0

    def average(self, ring: Ring, group: Group, *, validate: bool) -> None:
        """Apply all updates, average, keep the average, and validate it if asked."""
        replica, shared, kept = self._replica, self._shared, self._kept
        phases, updates = self._member.phases, self._updates
        began_s = time.monotonic()
        if not replica.state.is_finite(updater=True):
            self.reset_to_shared()
            if self._settings.stop_at_non_finite:
                raise non_finite_state(group.progress.epoch, worker=self._settings.worker)
        mine = _Report(
            sequence=updates.sequence,
            clock=updates.clock,
            minibatches=self.minibatches,
            iterations=replica.state.iterations,
        )
        reports = ring.exchanged(mine, _REPORT)
        phases.since(PhaseCode.WAIT, began_s)
        sequences = [report.sequence for report in reports]
        updates.absorb_until(ring, group, sequences, check=self._member.control.check)
        met_s = time.monotonic()
        weights = [report.minibatches for report in reports]
        if not sum(weights):
            weights = [1] * ring.size
        size, share = shared.vector.size, weights[ring.rank] / sum(weights)
        residual = shared.residual()
        mean_residual = residual / ring.size
        kept.mean(ring, weights)
        np.multiply(shared.vector, share, out=kept.work[:size])
        if ring.size > 1:
            ring.all_reduce(kept.work)
            ring.all_reduce(mean_residual)
        averaged_s = phases.since(PhaseCode.AVERAGE, met_s)
        shared.reset(kept.work[:size])
        # Validate, keep and deliver the mean of the replicas, which includes unsent updates. The
        # full sum of residuals would overshoot, because they point in similar directions.
        kept.work[:size] -= mean_residual
        replica.state.write(kept.work)
        replica.state.set_iterations(max(report.iterations for report in reports))
        updates.meet(max(report.clock for report in reports))
        kept.keep(replace(group.progress, iterations=replica.state.iterations))
        phases.since(PhaseCode.APPLY, averaged_s)
        try:
            if validate:
                self._member.validate(ring)
        finally:
            replica.state.write(np.subtract(shared.vector, residual, out=residual))


class MessageLog:
    """Measure messages now and then, because measuring takes time from training."""

    def __init__(
        self, member: RunMember, shared: SharedParameters, updates: PeerUpdates, *, debug: bool
    ) -> None:
        self._state, self._control = member.replica.state, member.control
        self._shared, self._updates, self._debug = shared, updates, debug
        self._before: Vector | None = None  # sample of the parameters, if an update is measured
        self._measured_s = -math.inf
        self._statistics_s = 0.0  # time of the next residual measurement

    def before_training(self) -> None:
        """Sample the parameters if the next update is to be measured."""
        now_s, self._before = time.monotonic(), None
        if now_s - self._measured_s >= MEASURE_EVERY_S:
            self._measured_s = now_s
            self._before = sample_of(self._state.trainable_views())

    def after_training(self, done: RoundDone, *, minibatches: int) -> None:
        """Add the size of the update to the readings of `done`, if it is to be measured."""
        if self._before is not None:
            after = sample_of(self._state.trainable_views())
            ratio = update_ratio(self._before, after, minibatches=minibatches)
            done.readings["update_ratio"] = ratio

    def residual(self) -> dict[str, float]:
        """Return statistics of the residual before encoding; NaN if not due."""
        now_s = time.monotonic()
        if not (self._debug or now_s >= self._statistics_s):
            return dict.fromkeys(("residual_p50", "residual_p99", "residual_max"), np.nan)
        statistics = self._shared.statistics(exact=self._debug)
        took_s = time.monotonic() - now_s
        self._statistics_s = now_s + max(_STATISTICS_S, took_s / _STATISTICS_SHARE)
        if self._debug:
            step = self._updates.clock + 1
            self._control.send("debug", {"step": step, "line": statistics.line()})
        median, _, p99, *_ = statistics.percentiles
        return {"residual_p50": median, "residual_p99": p99, "residual_max": statistics.maximum}

    def columns(
        self, encoded: Encoded, residual: dict[str, float], *, minibatches: int
    ) -> dict[str, NDArray[np.float32]]:
        """Return log columns of a sent message, a row per minibatch; the last has its bytes."""
        values = {
            "threshold": encoded.thresholds[0],
            "sparsity": encoded.selected / encoded.size,
            "message_bytes": encoded.size_bytes + _CLOCK.size,
            "staleness": self._updates.staleness,
            **residual,
        }
        columns = {name: np.full(minibatches, v, np.float32) for name, v in values.items()}
        columns["message_bytes"][:-1] = 0
        return columns

"""What a worker sends to the driver: checkpoints, its last average, and the result."""

from typing import Any

from numpy.typing import NDArray

from sparkwright.mesh.ring import Ring
from sparkwright.networks import pack_arrays
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Group

from ._control import ControlLine
from ._gathering import broadcast_bytes
from ._kept_state import KeptState
from ._phases import PhaseRecorder
from ._replica_base import Replica
from ._row_buffer import RowBuffer


class Delivery:
    """Send the driver the state that a worker keeps."""

    def __init__(
        self,
        kept: KeptState,
        replica: Replica,
        control: ControlLine,
        rows: RowBuffer,
        phases: PhaseRecorder,
    ) -> None:
        self._kept, self._replica = kept, replica
        self._control, self._rows, self._phases = control, rows, phases

    def send_checkpoint(self, ring: Ring, group: Group, *, write: bool = True) -> None:
        """Send a checkpoint of the last average from rank 0 to the driver; `write`: for a file."""
        with self._phases.phase(PhaseCode.CHECKPOINT):
            self._send_checkpoint(ring, group, write=write)

    def _send_checkpoint(self, ring: Ring, group: Group, *, write: bool) -> None:
        state, kept = self._replica.state, self._kept
        # First, so that the checkpoint's log contains the rows of all workers.
        self._rows.flush()
        complete = group.is_complete
        own, lost = pack_arrays(state.read_counters()), []
        if not state.own_updater:
            own = ring.all_gather(own)
        elif complete and write:  # moments are too large to gather on all workers
            own = self._of_all(ring, own)
        else:  # the driver's memory does not hold the moments of every worker
            own, complete = ring.all_gather(b""), False
        if kept.rounded is not None and complete and write:
            lost = self._of_all(ring, kept.rounded.lost.tobytes())
        if ring.rank:
            return
        # If a worker is absent, all workers later get the state of rank 0.
        own, lost = (
            [
                one
                for seat, one in zip(group.seats, each, strict=False)
                if seat.worker < group.owners
            ]
            for each in (own if complete else [], lost)
        )
        extras = kept.extras()
        fixed = pack_arrays(extras[len(state.own) :])
        first = own[0] if complete else pack_arrays(extras[: len(state.own)])
        self._send_average("checkpoint", (first, fixed, *own[1:], *lost), {"write": write})

    def _of_all(self, ring: Ring, mine: bytes) -> list[bytes]:
        """Gather large contents by rank on rank 0; return empty bytes on other ranks."""
        everyone = (broadcast_bytes(ring, mine, source=rank) for rank in range(ring.size))
        return [b"" if ring.rank else each for each in everyone]

    def deliver(self) -> None:
        """Send the driver the last average, and the counters with the seeds of worker 0."""
        with self._phases.phase(PhaseCode.DELIVER):
            replica = self._replica
            replica.state.write(self._kept.average[: self._kept.size])
            replica.state.set_iterations(self._kept.progress.iterations)
            counters = self._kept.extras()[: len(replica.state.own)]
            self._send_average("result", (pack_arrays(counters),))

    def send_vector(self, vector: NDArray[Any]) -> None:
        """Send the driver a state to keep if the run ends immediately."""
        self._send_average("result", (), vector=vector)

    def send_snapshot(self) -> None:
        """Send the driver the last average, on the reader thread, even within a step."""
        with self._kept.keeping:
            if self._kept.progress.averagings:
                self._send_average("result", ())

    def _send_average(
        self,
        kind: str,
        rest: tuple[bytes, ...],
        fields: dict[str, Any] | None = None,
        *,
        vector: NDArray[Any] | None = None,
    ) -> None:
        vector = self._kept.average if vector is None else vector
        self._control.send(
            kind,
            {
                "epoch": self._kept.progress.epoch,
                "size": int(vector.size),
                "dtype": vector.dtype.str,
                "progress": self._kept.progress.to_dict(),
                "xla": self._replica.uses_xla,
                **(fields or {}),
            },
            (vector, *rest),
        )

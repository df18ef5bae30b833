"""What a worker sends to the driver: rows of its log, checkpoints, and the last average."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.mesh.ring import Ring
from sparkwright.networks import pack_arrays
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Group

from ._control import ControlLine
from ._kept_state import KeptState
from ._minibatches import RoundDone
from ._phases import PhaseRecorder
from ._replica_base import Replica
from ._usage import UsageMeter

_SEND_EVERY_S = 0.1


class RowBuffer:
    """Collects the log rows of averaged rounds; lost rounds are not logged."""

    def __init__(self, control: ControlLine, usage: UsageMeter | None = None) -> None:
        self._control, self._usage = control, usage
        self._blocks: list[dict[str, Any]] = []
        self._losses: list[NDArray[np.float32]] = []
        self._examples: list[NDArray[np.int32]] = []
        self._columns: dict[str, list[NDArray[np.float32]]] = {}
        self._sent_s = 0.0

    def add(
        self,
        done: RoundDone,
        *,
        epoch: int,  # from 1
        round: int,  # from 1
        seconds: float,
        averagings: int | None = None,  # of the run so far, including theirs
        columns: dict[str, NDArray[np.float32]] | None = None,  # the same ones each time
    ) -> None:
        self._blocks.append(
            {
                "epoch": epoch,
                "round": round,
                "count": len(done.losses),
                "ended_s": time.monotonic(),
                "seconds": seconds,
                "metrics": done.metrics,
                "readings": done.readings | self._usage_now(done),
                **({} if averagings is None else {"averagings": averagings}),
            }
        )
        self._losses.append(done.losses)
        self._examples.append(done.examples)
        for name, values in (columns or {}).items():
            self._columns.setdefault(name, []).append(values)
        # Send the first round without delay, so that the first loss is shown early.
        if self._sent_s == 0.0 or time.monotonic() - self._sent_s >= _SEND_EVERY_S:
            self.flush()

    def _usage_now(self, done: RoundDone) -> dict[str, float]:
        return {} if self._usage is None or not len(done.losses) else self._usage.readings()

    def flush(self) -> None:
        if not self._blocks:
            return
        now_s = time.monotonic()
        for block in self._blocks:
            # Ages instead of times, because the driver's clock may differ.
            block["age_s"] = now_s - block.pop("ended_s")
        parts = [self._losses, self._examples, *self._columns.values()]
        self._control.send(
            "rows",
            {"blocks": self._blocks, "columns": list(self._columns)},
            tuple(np.concatenate(part) for part in parts),
        )
        self._blocks, self._losses, self._examples, self._columns = [], [], [], {}
        self._sent_s = now_s


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
        everyone = (ring.broadcast_bytes(mine, source=rank) for rank in range(ring.size))
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

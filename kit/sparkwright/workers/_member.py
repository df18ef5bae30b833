"""Common part of averaging and sharing workers: join rings, average, send results."""

import os
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError, NetworkError
from sparkwright.masters import OuterOptimizer
from sparkwright.masters.parameter_averaging import Updater
from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.ring import Ring, RingPort
from sparkwright.networks import pack_arrays, unpack_arrays
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Ending, Failure, Group, Progress

from ._batch_layout import BatchLayout
from ._control import ControlLine, Dismissed
from ._histogram_taker import HistogramTaker
from ._phases import NO_PHASES, PhaseRecorder
from ._replica_base import Replica
from ._rounded_average import RoundedAverage
from ._row_buffer import RowBuffer
from ._scoring import validation_sums
from ._usage import UsageMeter
from .failure import failure_of
from .requests import WorkerSettings
from .shard import Shard, ShardServer, ShardSource
from .stream import StreamedShard

Meta = TypeVar("Meta", bound=tuple[Any, ...])
# Early-stopping decision that rank 0 sends to the ring.
# Answer of the callbacks: whether to end, and the learning rate; NaN: unchanged.
_ANSWER = struct.Struct("<?d")
# Interval at which rank 0 sends a message to the ring while it waits for callbacks.
_LOOK_S = 1.0


class RunMember:
    """A worker's membership in a run: its state, and averaging with the other workers."""

    def __init__(
        self,
        *,
        settings: WorkerSettings[Any],
        replica: Replica,
        shard: Shard,
        validation: Shard,
        control: ControlLine,
        port: PeerPort,
        updater: Updater = "average",
        velocity: int = 0,
        device: str = "",
        phases: PhaseRecorder = NO_PHASES,
        usage: UsageMeter | None = None,
    ) -> None:
        """Prepare the worker; `register` sends the first message."""
        self.settings, self.replica, self.control = settings, replica, control
        self.shard, self.validation, self.updater = shard, validation, updater
        self.shards = ShardSource(
            port,
            connect_timeout_s=settings.master.mesh.connect_timeout_s,
            peer_timeout_s=settings.master.mesh.peer_timeout_s,
        )
        self.rows, self.phases = RowBuffer(control, usage), phases
        self.histograms = HistogramTaker(settings, replica, shard, control, phases)
        self._port = port
        self._ring_port = RingPort(port, authenticate=settings.master.mesh.authenticate)
        self._server = ShardServer(shard, port)
        control.ring.on_canceled(self._ring_port.abandon)
        self._device = device
        self._validation_layout = (
            BatchLayout(replica.model, validation.columns) if validation.rows else None
        )
        state = replica.state
        self.size = state.averaged_size + (state.updater_size if updater == "average" else 0)
        # The last average, which the driver or new workers may request, and the next one.
        # In the layout of `ModelState.read`, then the velocity of the outer optimizer, if any.
        self.average = np.zeros(self.size + velocity, state.dtype)
        self.work = np.empty_like(self.average)
        self.progress = Progress()  # at `average`
        exchange = settings.master.exchange
        self.rounded = (
            RoundedAverage(exchange.precision, state.trainable_size, state.dtype)
            if exchange.is_rounded
            else None
        )
        self._keeping = threading.Lock()  # held while average and progress change together
        self.synchronized = False

    def close(self) -> None:
        """Close the connections to other workers."""
        self._server.close()
        if isinstance(self.shard, StreamedShard):
            self.shard.close()
        self.shards.close()
        self._ring_port.close()

    def register(self) -> None:
        """Register this worker and its data with the coordinator."""
        self.control.on_snapshot_request(self._send_snapshot)
        self.control.send(
            "register",
            {
                "worker": self.settings.worker,
                "attempt": self.settings.attempt,
                "host": self.control.local_host,
                "address": self._port.address,
                "rows": self.shard.rows,
                "validation_rows": self.validation.rows,
                "device": self._device,
                "pid": os.getpid(),
            },
        )

    def report(self, group: Group, ending: Ending, failure: Failure | None = None) -> None:
        """Report to the coordinator how training with `group` ended."""
        self.rows.flush()
        self.control.send(
            "report",
            {
                "generation": group.generation,
                "ending": ending,
                "progress": self.progress.to_dict() if self.synchronized else None,
                "failure": failure.to_dict() if failure else None,
            },
        )

    def failure_of(self, error: Exception) -> Failure:
        """Describe an exception; call it in an `except` block."""
        return failure_of(error, worker=self.settings.worker, host=self.control.local_host)

    # -- ring -------------------------------------------------------------------------------

    def meet(self, group: Group, work: Callable[[Ring], Ending]) -> tuple[Ending, Failure | None]:
        """Join the ring of `group` and run `work` with it; return how it ended."""
        ring: Ring | None = None
        try:
            ring = self.join(group)
            return work(ring), None
        except NetworkError:
            return "broken", None
        except Dismissed:
            raise
        except Exception as error:
            return "failed", self.failure_of(error)
        finally:
            self.leave(ring, group)

    def use_shards(self, group: Group) -> None:
        """Use the addresses of the members of `group` to read their examples."""
        self.shards.use({s.worker: (s.host, s.port) for s in group.seats}, group.rows)

    def join(self, group: Group) -> Ring:
        with self.phases.phase(PhaseCode.WAIT):
            ring = self._ring_port.join(
                generation=group.generation,
                rank=group.rank_of(self.settings.worker),
                addresses=[(seat.host, seat.port) for seat in group.seats],
                workers=[seat.worker for seat in group.seats],
                connect_timeout_s=self.settings.master.mesh.connect_timeout_s,
                peer_timeout_s=self.settings.master.mesh.peer_timeout_s,
                each_with_each=self.settings.master.exchange.is_rounded,
            )
        self.control.ring.use(ring, generation=group.generation)
        return ring

    def leave(self, ring: Ring | None, group: Group) -> None:
        self.control.ring.use(None, generation=group.generation)
        if ring is not None:
            ring.abort()

    def synchronize(self, ring: Ring, group: Group) -> None:
        """Load the same starting state on all workers."""
        began_s = time.monotonic()
        replica, source = self.replica, max(group.source, 0)
        if self.rounded is not None:
            self.rounded.begin()
        extras = b""
        if ring.rank == source:
            extras = self._fetch_start() if group.source < 0 else pack_arrays(self.extras())
            self.work[:] = self.average
        extras = _broadcast_bytes(ring, extras, source=source)
        # Into `work`, because an interrupted broadcast must not corrupt the current average.
        ring.broadcast(self.work, source=source)
        self.keep_average(group.progress)
        replica.write(self.average[: self.size])
        replica.use_learning_rate(group.progress.learning_rate, afresh=not self.synchronized)
        if not self.synchronized or group.source < 0:
            self.write_extras(extras, workers=group.owners)
            self.synchronized = True
        replica.iterations = group.progress.iterations
        if self.updater == "reset":
            replica.reset_updater()
        self.phases.since(PhaseCode.STATE, began_s)

    def keep_average(self, progress: Progress, *, changed: bool = True) -> None:
        """Make `work` the current average, if it `changed`, and set `progress`."""
        with self._keeping:
            if changed:
                self.average, self.work = self.work, self.average
            self.progress = progress

    def has_validation(self, group: Group) -> bool:
        """Whether any member of `group` has validation examples."""
        return any(group.validation_rows[seat.worker] for seat in group.seats)

    def _fetch_start(self) -> bytes:
        """Receive the driver's state into `average`; return the state that is not averaged."""
        self.control.send("fetch_start")
        message = self.control.next_order()
        if message.kind != "start":
            raise NetworkError(f"expected the starting state. Received: {message.kind!r}.")
        size = int(message.fields["size"])
        if size != self.average.size:
            raise DataError(
                f"the worker's network has {self.average.size} numbers to average. Received: "
                f"{size} from the driver. Implement `get_config` of custom layers completely."
            )
        vector = np.frombuffer(message.payload, self.average.dtype, size)
        np.copyto(self.average, vector)
        return bytes(memoryview(message.payload)[vector.nbytes :])

    def extras(self) -> list[NDArray[Any]]:
        """Return the state that is not averaged, with the seeds of worker 0."""
        state = self.replica.state
        values = state.read_extras()
        state.own_seeds(values, worker=-self.settings.worker)
        return values

    def write_extras(self, content: bytes, *, workers: int = 1) -> None:
        """Load the state that is not averaged."""
        # The state of worker 0; in a checkpoint, then the own state of each other worker, and the
        # rounding errors of all workers.
        state, worker = self.replica.state, self.settings.worker
        like = state.read_extras()
        size = sum(array.nbytes for array in like)
        values = unpack_arrays(content[:size], like)
        if len(content) == size or worker >= workers:
            state.own_seeds(values, worker=worker)
            return state.write_extras(values)
        like = state.read_counters()
        each = sum(array.nbytes for array in like)
        start = size + (worker - 1) * each
        if worker:
            values[: len(like)] = unpack_arrays(content[start : start + each], like)
        if self.rounded is not None:
            lost, start = self.rounded.lost.nbytes, size + (workers - 1) * each
            self.rounded.begin(content[start:][worker * lost : (worker + 1) * lost])
        return state.write_extras(values)

    def mean(self, ring: Ring, weights: list[int], own: NDArray[Any] | None = None) -> bool:
        """Write this worker's part of the weighted mean to `work`; False if weights are 0."""
        total, mine = sum(weights), weights[ring.rank]
        if not total:
            return False
        if mine and own is not None:  # without the optimizer's state
            np.multiply(own, own.dtype.type(mine / total), out=self.work[: self.size])
        elif mine:
            averages = self.updater == "average"
            part = self.work[: self.size]
            self.replica.state.read(updater=averages, out=part, scale=mine / total)
        else:
            self.work[: self.size] = 0
        return True

    def take_outer_step(self, outer: OuterOptimizer) -> None:
        """Apply the outer optimizer to the mean in `work`, in place."""
        parameters = slice(self.replica.state.trainable_size)
        before, after = self.average, self.work
        outer.step(before[parameters], after[parameters], before[self.size :], after[self.size :])

    def validate(self, ring: Ring) -> None:
        """Compute loss and metrics on the validation data of all workers."""
        began_s, replica = time.monotonic(), self.replica

        def next_batch() -> None:
            self.control.check()
            self.control.activity.steps += 1

        with self.control.activity.compute():
            sums = validation_sums(
                replica,
                self.validation,
                self._validation_layout,
                batch_size=self.settings.master.batch_size_per_worker,
                next_batch=next_batch,
            )
        scored_s = self.phases.since(PhaseCode.VALIDATE, began_s)
        ring.all_gather(b"")  # wait for workers with more validation data
        ring.all_reduce(sums)
        self.phases.since(PhaseCode.WAIT, scored_s)
        metrics = replica.metric_results(sums[2:])
        self.progress = replace(self.progress, validated=self.progress.epoch)
        replica.reset_metrics()
        if ring.rank == 0:
            self.rows.flush()
            self.control.send(
                "validated",
                {
                    "epoch": self.progress.epoch,
                    "loss": float(sums[0] / sums[1]),
                    "metrics": metrics,
                },
            )

    def await_callbacks(self, ring: Ring) -> bool:
        """Wait until the driver's callbacks have run; return True if training ends."""
        began_s, answer = time.monotonic(), b""
        now = {"epoch": self.progress.epoch, "round": self.progress.round}
        if ring.rank == 0:
            self.control.send("callbacks", now)
        # Without a timeout: rank 0 sends a message to the ring every second.
        while not answer:
            if ring.rank == 0:
                found = self.control.answer(**now, timeout_s=_LOOK_S)
                if found is not None:
                    rate = found.fields["learning_rate"]
                    answer = _ANSWER.pack(found.fields["ends"], np.nan if rate is None else rate)
            answer = ring.all_gather(answer)[0]
        ends, rate = _ANSWER.unpack(answer)
        self.phases.since(PhaseCode.WAIT, began_s)
        if not ends:
            rate = None if np.isnan(rate) else rate
            self.progress = self.progress.after_callbacks(rate)
            self.replica.use_learning_rate(self.progress.learning_rate)
        return ends

    # -- to the driver ----------------------------------------------------------------------

    def send_checkpoint(self, ring: Ring, group: Group, *, write: bool = True) -> None:
        """Send a checkpoint of the last average from rank 0 to the driver; `write`: for a file."""
        with self.phases.phase(PhaseCode.CHECKPOINT):
            self._send_checkpoint(ring, group, write=write)

    def _send_checkpoint(self, ring: Ring, group: Group, *, write: bool) -> None:
        state = self.replica.state
        # First, so that the checkpoint's log contains the rows of all workers.
        self.rows.flush()
        complete = group.is_complete
        own, lost = pack_arrays(state.read_counters()), []
        if not state.own_updater:
            own = ring.all_gather(own)
        elif complete and write:  # moments are too large to gather on all workers
            own = self._of_all(ring, own)
        else:  # the driver's memory does not hold the moments of every worker
            own, complete = ring.all_gather(b""), False
        if self.rounded is not None and complete and write:
            lost = self._of_all(ring, self.rounded.lost.tobytes())
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
        extras = self.extras()
        fixed = pack_arrays(extras[len(state.own) :])
        first = own[0] if complete else pack_arrays(extras[: len(state.own)])
        self._send_average("checkpoint", (first, fixed, *own[1:], *lost), {"write": write})

    def _of_all(self, ring: Ring, mine: bytes) -> list[bytes]:
        """Gather large contents by rank on rank 0; return empty bytes on other ranks."""
        everyone = (_broadcast_bytes(ring, mine, source=rank) for rank in range(ring.size))
        return [b"" if ring.rank else each for each in everyone]

    def deliver(self) -> None:
        """Send the driver the last average, and the counters with the seeds of worker 0."""
        with self.phases.phase(PhaseCode.DELIVER):
            replica = self.replica
            replica.write(self.average[: self.size])
            replica.iterations = self.progress.iterations
            counters = self.extras()[: len(replica.state.own)]
            self._send_average("result", (pack_arrays(counters),))

    def send_vector(self, vector: NDArray[Any]) -> None:
        """Send the driver a state to keep if the run ends immediately."""
        self._send_average("result", (), vector=vector)

    def _send_snapshot(self) -> None:
        """Send the driver the last average, on the reader thread, even within a step."""
        with self._keeping:
            if self.progress.averagings:
                self._send_average("result", ())

    def _send_average(
        self,
        kind: str,
        rest: tuple[bytes, ...],
        fields: dict[str, Any] | None = None,
        *,
        vector: NDArray[Any] | None = None,
    ) -> None:
        vector = self.average if vector is None else vector
        self.control.send(
            kind,
            {
                "epoch": self.progress.epoch,
                "size": int(vector.size),
                "dtype": vector.dtype.str,
                "progress": self.progress.to_dict(),
                "xla": self.replica.uses_xla,
                **(fields or {}),
            },
            (vector, *rest),
        )


def exchanged(ring: Ring, mine: Meta, layout: struct.Struct) -> list[Meta]:
    """All-gather a named tuple, encoded by `layout`; return the tuples by rank."""
    kind: Any = type(mine)
    contents = ring.all_gather(layout.pack(*mine), same_size=True)
    return [kind(*layout.unpack(content)) for content in contents]


def _broadcast_bytes(ring: Ring, content: bytes, *, source: int) -> bytes:
    sizes = ring.all_gather(len(content).to_bytes(8, "little"), same_size=True)
    lengths = [int.from_bytes(raw, "little") for raw in sizes]
    buffer = np.frombuffer(content, np.uint8).copy() if ring.rank == source else None
    if buffer is None:
        buffer = np.empty(lengths[source], np.uint8)
    ring.broadcast(buffer, source=source)
    return buffer.tobytes()

"""A worker's part in parameter averaging: rounds of minibatches, each ended by an all-reduce."""

import struct
import threading
import time
import traceback
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError, NetworkError, NonFiniteLossError
from sparkwright.masters._plan import minibatch_count
from sparkwright.mesh._ring import Ring, RingPort
from sparkwright.networks import pack_arrays, unpack_arrays
from sparkwright.runs._protocol import Ending, Failure, Group, Progress

from ._control import ControlLine, Dismissed
from ._local_trainer import AveragingSettings, LocalTrainer
from ._replica import Replica
from ._rows import RowBuffer
from ._shard import Shard

# What each worker says before an averaging: minibatches done, stop wanted, iterations.
_META = struct.Struct("<q?q")


class AveragingWorker:
    """Trains one shard in a group of workers until the run ends."""

    def __init__(
        self,
        *,
        settings: AveragingSettings,
        replica: Replica,
        shard: Shard,
        validation: Shard,
        control: ControlLine,
        port: RingPort,
        gone: threading.Event,
    ) -> None:
        """Prepare to train; `gone` is set when whoever asked for this is no longer there.

        Raises:
            DataError: if the data does not fit the network.
        """
        self._settings, self._replica = settings, replica
        self._shard, self._validation = shard, validation
        self._control, self._port, self._gone = control, port, gone
        control.when_regrouping(port.abandon)
        self._trainer = LocalTrainer(settings, replica, shard)
        self._validation_layout = replica.arrange(validation.columns) if validation.rows else None
        size = replica.state.averaged_size
        if settings.save_updater:
            size += replica.state.updater_size
        # The last average, which a newcomer or the driver may ask for, and the one in the making.
        self._average = np.zeros(size, replica.state.dtype)
        self._work = np.empty_like(self._average)
        self._progress = Progress()
        self._keeping = threading.Lock()  # held while average and progress change together
        self._rows = RowBuffer(control)
        self._synchronised = False

    def run(self) -> None:
        """Take part until dismissed."""
        control = self._control
        control.when_asked_for_a_snapshot(self._send_snapshot)
        try:
            self._register()
            while True:
                order = control.next_order()
                if order.kind == "deliver":
                    self._deliver()
                elif order.kind == "group":
                    self._serve(Group.from_dict(order.fields))
        except Dismissed:
            return
        finally:
            self._trainer.close()

    def _register(self) -> None:
        self._control.send(
            "register",
            {
                "worker": self._settings.worker,
                "attempt": self._settings.attempt,
                "host": self._control.local_host,
                "address": self._port.address,
                "rows": self._shard.rows,
                "validation_rows": self._validation.rows,
            },
        )

    def _send_snapshot(self) -> None:
        """Send the driver the last average, from the control line's thread, in mid-step."""
        with self._keeping:
            if self._progress.averagings:
                self._send_average(b"")

    def _send_average(self, counters: bytes) -> None:
        vector: NDArray[Any] = self._average
        self._control.send(
            "result",
            {
                "size": int(vector.size),
                "dtype": vector.dtype.str,
                "progress": self._progress.to_dict(),
                "xla": self._replica.uses_xla,
            },
            (vector, counters),
        )

    # -- one group --------------------------------------------------------------------------

    def _serve(self, group: Group) -> None:
        """Train with `group` until it ends one way or another, and report how."""
        failure: Failure | None = None
        ring: Ring | None = None
        ending: Ending = "broken"
        try:
            ring = self._port.join(
                generation=group.generation,
                rank=group.rank_of(self._settings.worker),
                addresses=[(seat.host, seat.port) for seat in group.seats],
                connect_timeout_s=self._settings.connect_timeout_s,
                peer_timeout_s=self._settings.peer_timeout_s,
            )
            self._control.use_ring(ring, generation=group.generation)
            self._synchronise(ring, group)
            ending = self._train(ring, group)
        except NetworkError:
            ending = "broken"
        except Dismissed:
            raise
        except Exception as error:
            ending = "failed"
            failure = failure_of(error, worker=self._settings.worker, host=self._control.local_host)
        finally:
            self._control.use_ring(None, generation=group.generation)
            if ring is not None:
                ring.abort()
        self._rows.flush()
        self._control.send(
            "report",
            {
                "generation": group.generation,
                "ending": ending,
                "progress": self._progress.to_dict() if self._synchronised else None,
                "failure": failure.to_dict() if failure else None,
            },
        )

    def _synchronise(self, ring: Ring, group: Group) -> None:
        """Start from the same state as everybody else."""
        replica, source = self._replica, max(group.source, 0)
        extras = b""
        if ring.rank == source:
            extras = self._fetch_start() if group.source < 0 else pack_arrays(self._extras())
            self._work[:] = self._average
        extras = _broadcast_bytes(ring, extras, source=source)
        # Not into the average itself: half of one would be worse than the one there is.
        ring.broadcast(self._work, source=source)
        with self._keeping:
            self._average, self._work = self._work, self._average
            self._progress = group.progress
        replica.write(self._average)
        if not self._synchronised or group.source < 0:
            self._write_extras(extras)
            self._synchronised = True
        replica.iterations = group.progress.iterations
        if not self._settings.save_updater:
            replica.reset_updater()

    def _fetch_start(self) -> bytes:
        """Rank 0 of the first group: the driver's state; returns what is not averaged."""
        self._control.send("fetch_start")
        message = self._control.next_order()
        if message.kind != "start":
            raise NetworkError(f"expected the starting state. Received: {message.kind!r}.")
        size = int(message.fields["size"])
        if size != self._average.size:
            raise DataError(
                f"the worker's network has {self._average.size} numbers to average. Received: "
                f"{size} from the driver. Give custom layers a complete `get_config`."
            )
        vector = np.frombuffer(message.payload, self._average.dtype, size)
        np.copyto(self._average, vector)
        return bytes(memoryview(message.payload)[vector.nbytes :])

    def _extras(self) -> list[NDArray[Any]]:
        """What is not averaged, as worker 0 would have it."""
        state = self._replica.state
        values = state.read_extras()
        state.own_seeds(values, worker=-self._settings.worker)
        return values

    def _write_extras(self, content: bytes) -> None:
        state = self._replica.state
        values = unpack_arrays(content, state.read_extras())
        state.own_seeds(values, worker=self._settings.worker)
        state.write_extras(values)

    def _train(self, ring: Ring, group: Group) -> Ending:
        totals = [minibatch_count(rows, self._settings.batch_size) for rows in group.rows]
        while self._progress.epoch < self._settings.epochs:
            if self._progress.round == 0:
                self._replica.reset_metrics()
            while any(
                position < total
                for position, total in zip(self._progress.positions, totals, strict=True)
            ):
                remaining = [
                    totals[seat.worker] - self._progress.positions[seat.worker]
                    for seat in group.seats
                ]
                if not any(remaining):
                    return "waiting"  # for an absent worker's data
                if self._round(ring, group):
                    return "stopped"
            self._progress = self._progress.after_epoch()
            if sum(group.validation_rows) and self._progress.validated < self._progress.epoch:
                self._validate(ring)
        return "finished"

    def _round(self, ring: Ring, group: Group) -> bool:
        """One averaging; True if it was the last one because somebody wants to stop."""
        if self._gone.is_set():
            raise Dismissed("the task that started this worker is gone")
        worker, progress = self._settings.worker, self._progress
        began_s = time.perf_counter()
        done = self._trainer.round(
            epoch=progress.epoch,
            position=progress.positions[worker],
            stopping=self._control.stopping,
        )
        computed_s = time.perf_counter()
        stopping = self._control.stopping.is_set()
        iterations = self._replica.iterations
        metas = [
            _META.unpack(content)
            for content in ring.all_gather(_META.pack(len(done.losses), stopping, iterations))
        ]
        met_s = time.perf_counter()
        changed = self._average_with(ring, [count for count, _, _ in metas])
        self._replica.iterations = max(count for _, _, count in metas)
        done_by = {seat.worker: m[0] for seat, m in zip(group.seats, metas, strict=True)}
        with self._keeping:
            if changed:
                self._average, self._work = self._work, self._average
            self._progress = progress.after_round(done_by, iterations=self._replica.iterations)
        ended_s = time.perf_counter()
        self._rows.add(
            done,
            progress=self._progress,
            seconds=ended_s - began_s,
            phases={
                "data": done.data_s,
                "compute": computed_s - began_s - done.data_s,
                "wait": met_s - computed_s,
                "average": ended_s - met_s,
            },
        )
        return any(stop for _, stop, _ in metas)

    def _average_with(self, ring: Ring, weights: list[int]) -> bool:
        """Replace this worker's state by the mean, weighted by the minibatches each did.

        The mean is also in `_work` then; False if nobody did anything.
        """
        replica, save_updater = self._replica, self._settings.save_updater
        total, mine = sum(weights), weights[ring.rank]
        if not total:
            return False
        if mine:
            replica.read(self._work, updater=save_updater, scale=mine / total)
        else:
            self._work[:] = 0
        if ring.size > 1:
            ring.all_reduce(self._work)
            replica.write(self._work)
        if not save_updater:
            replica.reset_updater()
        return True

    def _validate(self, ring: Ring) -> None:
        """Loss and metrics of the averaged network over everybody's validation data."""
        replica, shard = self._replica, self._validation
        replica.reset_metrics()
        loss_sum = 0.0
        batch_size = max(self._settings.batch_size, 64)
        for start in range(0, shard.rows, batch_size):
            if self._gone.is_set():
                raise Dismissed("the task that started this worker is gone")
            block = {name: a[start : start + batch_size] for name, a in shard.columns.items()}
            assert self._validation_layout is not None
            loss, _ = replica.evaluate(self._validation_layout, block)
            loss_sum += loss * min(batch_size, shard.rows - start)
        sums = np.concatenate([[loss_sum, shard.rows], replica.metric_state()])
        ring.all_gather(b"")  # wait for those with more validation data
        ring.all_reduce(sums)
        metrics = replica.metric_results(sums[2:])
        self._progress = replace(self._progress, validated=self._progress.epoch)
        replica.reset_metrics()
        if ring.rank == 0:
            self._rows.flush()
            self._control.send(
                "validated",
                {
                    "epoch": self._progress.epoch,
                    "loss": float(sums[0] / sums[1]),
                    "metrics": metrics,
                },
            )

    def _deliver(self) -> None:
        """Send the driver the last average, and the counters as worker 0 would have them."""
        replica = self._replica
        replica.write(self._average)
        replica.iterations = self._progress.iterations
        counters = self._extras()[: len(replica.state.counters)]
        self._send_average(pack_arrays(counters))


def failure_of(error: Exception, *, worker: int, host: str) -> Failure:
    """Describe an exception that is being handled, for its way to the driver."""
    kinds = {NonFiniteLossError: "non_finite", DataError: "data", NetworkError: "network"}
    kind = next((name for cls, name in kinds.items() if isinstance(error, cls)), "error")
    reason = str(getattr(error, "reason", "") or error)
    return Failure(
        worker=worker,
        host=host,
        kind=kind,
        reason=reason if kind != "error" else f"{type(error).__name__}: {reason}",
        traceback=traceback.format_exc(),
    )


def _broadcast_bytes(ring: Ring, content: bytes, *, source: int) -> bytes:
    lengths = [
        int.from_bytes(raw, "little") for raw in ring.all_gather(len(content).to_bytes(8, "little"))
    ]
    buffer = np.frombuffer(content, np.uint8).copy() if ring.rank == source else None
    if buffer is None:
        buffer = np.empty(lengths[source], np.uint8)
    ring.broadcast(buffer, source=source)
    return buffer.tobytes()

"""Common part of averaging and sharing workers: join rings, average, send results."""

import os
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sparkwright.errors import DataError, NetworkError
from sparkwright.masters.parameter_averaging import Updater
from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.ring import Ring
from sparkwright.mesh.ring_port import RingPort
from sparkwright.networks import pack_arrays
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Ending, Failure, Group

from ._batch_layout import BatchLayout
from ._control import ControlLine, Dismissed
from ._delivery import Delivery, RowBuffer
from ._histogram_taker import HistogramTaker
from ._kept_state import KeptState
from ._phases import NO_PHASES, PhaseRecorder
from ._replica_base import Replica
from ._usage import UsageMeter
from .failure import failure_of
from .requests import WorkerSettings
from .shard import Shard, ShardServer, ShardSource
from .stream import StreamedShard

# Answer of the callbacks: whether to end, and the learning rate; NaN: unchanged.
_ANSWER = struct.Struct("<?d")
# Interval at which rank 0 sends a message to the ring while it waits for callbacks.
_LOOK_S = 1.0


class RunMember:
    """A worker's membership in a run: it joins rings, synchronizes, validates, and reports."""

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
        self.shard, self.validation = shard, validation
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
        self.kept = KeptState(
            replica,
            worker=settings.worker,
            exchange=settings.master.exchange,
            updater=updater,
            velocity=velocity,
        )
        self.delivery = Delivery(self.kept, replica, control, self.rows, phases)

    def close(self) -> None:
        """Close the connections to other workers."""
        self._server.close()
        if isinstance(self.shard, StreamedShard):
            self.shard.close()
        self.shards.close()
        self._ring_port.close()

    def register(self) -> None:
        """Register this worker and its data with the coordinator."""
        self.control.on_snapshot_request(self.delivery.send_snapshot)
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
                "progress": self.kept.progress.to_dict() if self.kept.synchronized else None,
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
        if self.kept.rounded is not None:
            self.kept.rounded.begin()
        extras = b""
        if ring.rank == source:
            extras = self._fetch_start() if group.source < 0 else pack_arrays(self.kept.extras())
            self.kept.work[:] = self.kept.average
        extras = ring.broadcast_bytes(extras, source=source)
        # Into `work`, because an interrupted broadcast must not corrupt the current average.
        ring.broadcast(self.kept.work, source=source)
        self.kept.keep(group.progress)
        replica.state.write(self.kept.average[: self.kept.size])
        replica.use_learning_rate(group.progress.learning_rate, afresh=not self.kept.synchronized)
        if not self.kept.synchronized or group.source < 0:
            self.kept.write_extras(extras, workers=group.owners)
            self.kept.synchronized = True
        replica.state.set_iterations(group.progress.iterations)
        if self.kept.updater == "reset":
            replica.reset_updater()
        self.phases.since(PhaseCode.STATE, began_s)

    def _fetch_start(self) -> bytes:
        """Receive the driver's state into `average`; return the state that is not averaged."""
        self.control.send("fetch_start")
        message = self.control.next_order()
        if message.kind != "start":
            raise NetworkError(f"expected the starting state. Received: {message.kind!r}.")
        size = int(message.fields["size"])
        if size != self.kept.average.size:
            raise DataError(
                f"the worker's network has {self.kept.average.size} numbers to average. Received: "
                f"{size} from the driver. Implement `get_config` of custom layers completely."
            )
        vector = np.frombuffer(message.payload, self.kept.average.dtype, size)
        np.copyto(self.kept.average, vector)
        return bytes(memoryview(message.payload)[vector.nbytes :])

    def validate(self, ring: Ring) -> None:
        """Compute loss and metrics on the validation data of all workers."""
        began_s, replica = time.monotonic(), self.replica

        def next_batch() -> None:
            self.control.check()
            self.control.activity.steps += 1

        with self.control.activity.compute():
            sums = replica.validation_sums(
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
        self.kept.progress = replace(self.kept.progress, validated=self.kept.progress.epoch)
        replica.model.reset_metrics()
        if ring.rank == 0:
            self.rows.flush()
            self.control.send(
                "validated",
                {
                    "epoch": self.kept.progress.epoch,
                    "loss": float(sums[0] / sums[1]),
                    "metrics": metrics,
                },
            )

    def await_callbacks(self, ring: Ring) -> bool:
        """Wait until the driver's callbacks have run; return True if training ends."""
        # Without a timeout: rank 0 sends a message to the ring every second.
        began_s, answer = time.monotonic(), b""
        now = {"epoch": self.kept.progress.epoch, "round": self.kept.progress.round}
        if ring.rank == 0:
            self.control.send("callbacks", now)
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
            self.kept.progress = self.kept.progress.after_callbacks(rate)
            self.replica.use_learning_rate(self.kept.progress.learning_rate)
        return ends

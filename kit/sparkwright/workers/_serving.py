"""Handling of requests in a trainer process: train in a run, train a round, infer."""

import contextlib
import hashlib
import os
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sparkwright.errors import ConfigurationError, NetworkError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.masters.plan import by_epoch
from sparkwright.mesh.port import PeerPort, address_in
from sparkwright.mesh.relay import RelayClient
from sparkwright.networks import pack_arrays, unpack_arrays
from sparkwright.timeline import PhaseCode
from sparkwright.timeline.clocks import Offset
from sparkwright.timeline.spans import SpanBlock

from ._averaging_worker import AveragingWorker
from ._batch_layout import BatchLayout
from ._control import ControlLine
from ._flat import sample_of, update_ratio
from ._member import RunMember
from ._minibatches import may_be_averaged
from ._phases import PhaseRecorder, PhaseReporter, WorkerClocks, add_beginning, add_end
from ._replica import make_replica
from ._replica_base import Replica
from ._share_trainer import ShareTrainer
from ._sharing_worker import SharingWorker
from ._usage import UsageMeter
from .adapting import summarize
from .inference import run_inference
from .protocol import Failure
from .requests import (
    Adapting,
    Answer,
    Evaluating,
    InferRequest,
    Request,
    RoundRequest,
    TrainRequest,
    ValidateRequest,
)
from .shard import Shard, ShardSource
from .stream import StreamedShard

# Number of cached replicas; each holds weights, optimizer state and compiled functions.
_KEPT_REPLICAS = 2
Worker = AveragingWorker | SharingWorker


class Service:
    """Answer requests, with a cache of replicas."""

    def __init__(self, device: str, refusal: ConfigurationError | None, *, ready_s: float) -> None:
        # Each request raises `refusal`, if any; Keras was loaded at `ready_s`.
        self._device, self._refusal, self._ready_s = device, refusal, ready_s
        self._replicas: OrderedDict[tuple[str, str], Replica] = OrderedDict()
        self._digests: dict[tuple[str, str], str] = {}  # of the weights of replicas that infer
        self._round_run = ""  # the run whose counters the replica holds
        self._clocks = WorkerClocks()  # of runs with a timeline
        self._usage = UsageMeter(device)

    def answer(self, request: Any, gone: threading.Event) -> Answer:
        """Process a request; stop early if `gone` is set."""
        match request:
            case TrainRequest():
                return self._train(request, gone)
            case RoundRequest():
                return self._round(request)
            case ValidateRequest():
                return self._validate(request)
            case InferRequest():
                return self._infer(request, gone)
            case _:
                raise NetworkError(
                    f"a trainer accepts only requests. Received: {type(request).__name__}."
                )

    def _replica(self, request: Request) -> Replica:
        if self._refusal is not None:
            raise self._refusal
        key = _replica_key(request)
        replica = self._replicas.pop(key, None)
        if replica is None:
            while len(self._replicas) >= _KEPT_REPLICAS:
                old, _ = self._replicas.popitem(last=False)
                self._digests.pop(old, None)
            replica = make_replica(request.definition, xla=key[1])  # pyright: ignore[reportArgumentType]
        self._replicas[key] = replica
        master = None if isinstance(request, InferRequest) else request.settings.master
        replica.keep_own_updater(getattr(master, "updater", "average") == "local")
        return replica

    def discard(self, request: Request) -> None:
        """Remove the request's replica from the cache."""
        self._replicas.pop(_replica_key(request), None)
        self._digests.pop(_replica_key(request), None)

    # -- requests ---------------------------------------------------------------------------

    def _train(self, request: TrainRequest, gone: threading.Event) -> Answer:
        phases = PhaseRecorder(on=request.settings.master.collect_training_stats)
        name = f"sparkwright-{request.run}"
        control = ControlLine(
            request.controller,
            secret=request.secret,
            timeout_s=request.settings.master.mesh.connect_timeout_s,
            name=name,
        )
        with contextlib.ExitStack() as stack:
            stack.callback(control.close)
            if phases.on:
                stack.callback(self._reporting(request, control, phases))
            began_s = time.monotonic()
            self._digests.pop(_replica_key(request), None)
            port = _port(request, control, name=name)
            stack.callback(port.close)
            control.on_connect_back(port.connect_back)
            replica = self._replica(request)
            self._usage.begin(cores=replica.device[1])
            worker = stack.enter_context(
                contextlib.closing(
                    worker_of(
                        request,
                        replica,
                        control,
                        port,
                        device=self._device,
                        phases=phases,
                        usage=self._usage,
                    )
                )
            )
            phases.since(PhaseCode.BUILD, began_s)
            _abort_after_task(gone, control)
            worker.run()
            if control.lost and not gone.is_set():
                number = request.settings.worker
                reason = f"worker {number} lost its connection to the driver."
                return Answer(failed=Failure(worker=number, kind="lost", reason=reason))
        return Answer()

    def _reporting(
        self, request: TrainRequest, control: ControlLine, phases: PhaseRecorder
    ) -> Callable[[], None]:
        """Start reporting `phases` to the driver; return a function that reports the rest."""
        source = request.settings.master.time_source
        add_beginning(phases, request.times, ready_s=self._ready_s)
        reporter = PhaseReporter(
            control, phases, self._machine_clock(request), measure=source is None
        )

        def end() -> None:
            add_end(phases, request.times)
            reporter.close()

        return end

    def _machine_clock(self, request: TrainRequest | RoundRequest) -> Any:
        settings = request.settings
        return self._clocks.of(settings.master.time_source, worker=settings.worker)

    def _round(self, request: RoundRequest) -> Answer:
        phases = PhaseRecorder(on=request.settings.master.collect_training_stats)
        began_s = time.monotonic()
        replica, settings = self._replica(request), request.settings
        self._digests.pop(_replica_key(request), None)
        replica.share_updates(None)
        shard = Shard(Path(request.shard), consume=True)
        nobody = ShardSource(None, connect_timeout_s=0.0, peer_timeout_s=0.0)
        nobody.rows = settings.rows
        trainer = ShareTrainer(settings, replica, shard, nobody, phases)
        phases.since(PhaseCode.BUILD, began_s)
        try:
            is_new = self._round_run != request.run or (request.first and request.epoch == 0)
            with phases.phase(PhaseCode.STATE):
                _write_state(replica, request, is_new=is_new)
            if is_new:
                self._round_run = request.run
                self._usage.begin(cores=replica.device[1])
            if request.first:
                replica.model.reset_metrics()
            replica.state.set_iterations(request.iterations)
            replica.use_learning_rate(request.learning_rate, afresh=is_new)
            averages = settings.master.updater == "average"
            if not averages:
                replica.reset_updater()
            before = sample_of(replica.state.trainable_views())
            done = trainer.round(request.share, stopping=threading.Event())
            finite = may_be_averaged(done, replica, settings, epoch=request.epoch, updater=averages)
            if done.readings:
                after, count = sample_of(replica.state.trainable_views()), len(done.losses)
                done.readings["update_ratio"] = update_ratio(before, after, minibatches=count)
                done.readings |= self._usage.readings()
        finally:
            trainer.close()
        vector = replica.state.read(updater=averages)
        fields = {
            "worker": settings.worker,
            "losses": done.losses.tolist(),
            "examples": done.examples.tolist(),
            "metrics": done.metrics,
            "readings": done.readings,
            "iterations": replica.state.iterations,
            "weight": len(done.losses) if finite else 0,
            "vector_bytes": vector.nbytes,
            "place": {
                "host": socket.gethostname(),
                "device": self._device,
                "pid": os.getpid(),
            },
        }
        counters = b""
        if settings.worker == 0:
            counters = pack_arrays(replica.state.read_counters())
        spans = self._spans(request, phases) if phases.on else None
        return Answer(fields=fields, payload=vector.tobytes() + counters, result=spans)

    def _validate(self, request: ValidateRequest) -> Answer:
        replica, settings = self._replica(request), request.settings
        self._digests.pop(_replica_key(request), None)
        is_new = self._round_run != request.run
        _write_state(replica, request, is_new=is_new)
        if is_new:
            self._round_run = ""  # the next training round must load its counters
        shard = Shard(Path(request.shard), consume=True)
        layout = BatchLayout(replica.model, shard.columns)
        size = settings.master.batch_size_per_worker
        if request.sums is None:
            sums = replica.validation_sums(shard, layout, batch_size=size)
        else:  # metrics are created with the first minibatch, which another process may have scored
            replica.loss(layout, {name: array[:size] for name, array in shard.columns.items()})
            sums = np.array(request.sums)
        metrics = replica.metric_results(sums[2:])
        fields = {"worker": settings.worker, "metrics": metrics}
        return Answer(fields=fields, payload=sums.tobytes())

    def _spans(self, request: RoundRequest, phases: PhaseRecorder) -> tuple[SpanBlock, Any]:
        """Return the spans of a round's phases and the clock state."""
        clock = self._machine_clock(request)
        add_beginning(phases, request.times, ready_s=self._ready_s)
        add_end(phases, request.times)
        block, _ = phases.take()
        # The driver measures the offset from the start and end of the job.
        measured = Offset(0.0, 0.0) if request.settings.master.time_source is None else None
        block = block._replace(starts_s=block.starts_s + clock.shift_s)
        return block, clock.state(measured)

    def _infer(self, request: InferRequest, gone: threading.Event) -> Answer:
        if isinstance(request.what, Adapting):
            (examples,) = request.columns.values()
            return Answer(result=summarize(request.definition.build(), examples))
        replica, key = self._replica(request), _replica_key(request)
        self._round_run = ""  # the next training round must reload its counters
        if self._digests.get(key) != request.digest:
            self._digests.pop(key, None)
            if not request.weights:
                return Answer(kind="weights")
            _read_weights(replica, Path(request.weights), request.digest)
            self._digests[key] = request.digest
        result = run_inference(replica, request, gone)
        if isinstance(request.what, Evaluating):
            result = request.what.without_code(result)
        return Answer(result=result)


def _write_state(
    replica: Replica, request: RoundRequest | ValidateRequest, *, is_new: bool
) -> None:
    """Write the request's state; `is_new`: the replica does not hold the run's counters."""
    replica.state.write(np.frombuffer(request.vector, replica.state.dtype))
    if is_new:
        values = unpack_arrays(request.extras, replica.state.read_extras())
        replica.state.own_seeds(values, worker=request.settings.worker)
        replica.state.write_extras(values)


def worker_of(
    request: TrainRequest,
    replica: Replica,
    control: ControlLine,
    port: PeerPort,
    *,
    device: str = "",
    phases: PhaseRecorder,
    usage: UsageMeter | None = None,
) -> Worker:
    """Create the worker for `request`, which trains `replica` and records `phases`."""
    settings = request.settings
    replica.share_updates(None)  # reset the setting of an earlier run
    averaging = isinstance(settings.master, ParameterAveragingTrainingMaster)
    member = RunMember(
        settings=settings,
        replica=replica,
        shard=_shard(request),
        validation=Shard(Path(request.validation), consume=request.consume),
        control=control,
        port=port,
        updater=settings.master.updater if averaging else "average",
        velocity=settings.master.velocity_size(replica.state.trainable_size) if averaging else 0,
        device=device,
        phases=phases,
        usage=usage,
    )
    if averaging:
        return AveragingWorker(settings, member)
    return SharingWorker(settings, member, port)


def _port(request: TrainRequest, control: ControlLine, *, name: str) -> PeerPort:
    """Create the worker's port: a listener, or a relay over the driver."""
    settings, mesh = request.settings, request.settings.master.mesh
    common: dict[str, Any] = {
        "secret": request.secret,
        "worker": settings.worker,
        "encrypt": mesh.encrypt,
        "name": name,
    }
    if settings.master.exchange.among != "driver":
        host = _listen_host(request.listen_host) or control.local_host
        return PeerPort(host=host, ports=mesh.ports_from(os.environ), **common)
    relay = RelayClient(
        request.controller,
        secret=request.secret,
        me=(settings.worker, settings.attempt),
        encrypt=mesh.encrypt,
        timeout_s=mesh.connect_timeout_s,
    )
    return PeerPort(host=control.local_host, ports=(), relay=relay, **common)


def _shard(request: TrainRequest) -> Shard:
    """Open the worker's examples, in files or from a pipeline."""
    master = request.settings.master
    if request.stream is None:
        return Shard(Path(request.shard), consume=request.consume)
    # Examples that may be prefetched or trained before a rewind.
    at_once = max(by_epoch(master.exchange.every or 5).values())
    return StreamedShard(
        request.stream,
        worker=request.settings.worker,
        workers=request.shards,
        window=(2 * at_once + master.prefetch_batches) * master.batch_size_per_worker,
    )


def _listen_host(wanted: str) -> str:
    """Return `wanted`, or this machine's address in it if it is a network."""
    return address_in(wanted) if "/" in wanted else wanted


def _replica_key(request: Request) -> tuple[str, str]:
    xla = "auto" if isinstance(request, InferRequest) else request.settings.master.xla
    return request.definition.fingerprint, xla


def _read_weights(replica: Replica, path: Path, digest: str) -> None:
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise NetworkError("the digest of the received weights does not match the request.")
    vector = np.frombuffer(content, replica.state.dtype, replica.state.averaged_size)
    replica.state.write(vector)
    rest = content[vector.nbytes :]
    replica.state.write_extras(unpack_arrays(rest, replica.state.read_extras()))


def _abort_after_task(gone: threading.Event, control: ControlLine) -> None:
    """Disconnect from the coordinator once the task is gone, which ends all waits."""

    def wait() -> None:
        while not control.gone.is_set():
            if gone.wait(0.2):
                control.hang_up()
                return

    threading.Thread(target=wait, name="sparkwright-abandon", daemon=True).start()

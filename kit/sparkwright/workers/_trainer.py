"""The trainer process: holds TensorFlow and warm replicas, outlives Spark's Python workers.

Spark ends an idle Python worker after about a minute; starting TensorFlow again costs nine
seconds, and a compiled step more. So a task only streams its partition to a file and asks a
trainer on the same machine, which stays until its owner (Spark's Python daemon, or the process
that uses a ParallelWrapper) is gone. One trainer serves one task at a time and one device.

    python -m sparkwright.workers._trainer SOCKET OWNER_PID DEVICE CORES

The application's secret comes through standard input: arguments, environment and files can be read
by other processes.
"""

import contextlib
import faulthandler
import hashlib
import importlib
import os
import select
import shutil
import signal
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sparkwright.errors import ConfigurationError, NetworkError, SparkwrightError
from sparkwright.mesh._auth import SECRET_BYTES, TRAINER
from sparkwright.mesh._connection import Connection
from sparkwright.mesh._handshake import close_socket, greet_client
from sparkwright.timeline import PhaseCode

from ._gpus import device_environment, ready_device
from ._requests import Answer, Evaluating, InferRequest, Request, RoundRequest, TrainRequest
from ._slim_imports import import_keras
from ._wire import pack, unpack

# Replicas of the networks used last; each holds weights, optimizer state and compiled functions.
_KEPT_REPLICAS = 2
# A trainer whose task is gone ends its work between two calls; if it does not, it ends itself.
_ABANDONED_S = 4.0
# A trainer that nobody has used for so long gives its memory back.
_IDLE_S = 3600.0


class Trainer:
    """Serves requests one after another."""

    def __init__(self, path: Path, *, device: str, secret: bytes) -> None:
        """Prepare to listen at `path`; `device` names what this trainer computes on."""
        self._path, self._device, self._secret = path, device, secret
        self._refusal: ConfigurationError | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._replicas: OrderedDict[tuple[str, str], Any] = OrderedDict()
        self._round_run = ""  # the run whose counters the replica holds
        self._digests: dict[tuple[str, str], str] = {}
        self._clocks: Any = None  # of runs with a timeline
        self._ready_s = 0.0  # when TensorFlow was there

    def set_up(self, cores: int) -> None:
        """Fix devices and threads before TensorFlow starts; it cannot change its mind later."""
        os.environ["KERAS_BACKEND"] = "tensorflow"
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        os.environ.update(device_environment(self._device))
        os.environ["OMP_NUM_THREADS"] = str(cores)
        import_keras()
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self._device, self._refusal = ready_device(self._device)

    def serve(self) -> None:
        """Listen, and answer until idle for an hour."""
        # Not before TensorFlow is there: a handshake has to be answered within seconds.
        self._socket.bind(str(self._path))
        self._socket.listen(8)
        self._socket.settimeout(_IDLE_S)
        self._ready_s = time.monotonic()
        while True:
            try:
                sock, _ = self._socket.accept()
            except TimeoutError:
                return
            try:
                if _peer_user(sock) != os.getuid():
                    raise NetworkError("the peer is another user.")
                greet_client(sock, self._secret, identity=TRAINER)
            except (NetworkError, OSError):
                sock.close()
                continue
            self._converse(Connection(sock))

    def close(self) -> None:
        """Stop listening."""
        close_socket(self._socket)

    def _converse(self, connection: Connection) -> None:
        """Answer one task's requests until it hangs up."""
        try:
            while (message := connection.receive()) is not None:
                request: Request | None = None
                watch = _Watch(connection.socket)
                try:
                    _import_from(message.fields["path"])
                    # The peer has proved the secret: what it sends of the user's own is run.
                    request = unpack(message, own_code=True)
                    answer = self._answer(request, watch.gone)
                except SparkwrightError as error:
                    answer = Answer.of_error(error)
                except Exception as error:
                    # A user's layer may have failed half-way: what it left behind is not trusted.
                    if request is not None:
                        self._forget(request)
                    answer = Answer.of_error(error)
                finally:
                    watch.close()
                if watch.gone.is_set():
                    break
                connection.send("answer", *pack(answer, own_code=False))
        except (NetworkError, OSError):
            pass
        connection.close()

    def _answer(self, request: Any, gone: threading.Event) -> Answer:
        match request:
            case TrainRequest():
                return self._train(request, gone)
            case RoundRequest():
                return self._round(request)
            case InferRequest():
                return self._infer(request, gone)
            case _:
                raise NetworkError(f"a trainer takes requests. Received: {type(request).__name__}.")

    def _replica(self, request: Request) -> Any:
        from ._replica import Replica

        if self._refusal is not None:
            raise self._refusal
        key = _replica_key(request)
        replica = self._replicas.pop(key, None)
        if replica is None:
            while len(self._replicas) >= _KEPT_REPLICAS:
                old, _ = self._replicas.popitem(last=False)
                self._digests.pop(old, None)
            replica = Replica(request.definition, xla=key[1])  # pyright: ignore[reportArgumentType]
        self._replicas[key] = replica
        return replica

    def _forget(self, request: Request) -> None:
        self._replicas.pop(_replica_key(request), None)
        self._digests.pop(_replica_key(request), None)

    # -- requests ---------------------------------------------------------------------------

    def _train(self, request: TrainRequest, gone: threading.Event) -> Answer:
        from sparkwright.masters import MeshConfig
        from sparkwright.mesh._port import PeerPort

        from ._control import ControlLine
        from ._phases import PhaseRecorder
        from ._taking_part import worker_of

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
            port = PeerPort(
                secret=request.secret,
                worker=request.settings.worker,
                encrypt=request.settings.master.mesh.encrypt,
                host=_listen_host(request.listen_host) or control.local_host,
                ports=MeshConfig(ports=request.ports).ports_from(os.environ),
                name=name,
            )
            stack.callback(port.close)
            worker = stack.enter_context(
                contextlib.closing(
                    worker_of(
                        request,
                        self._replica(request),
                        control,
                        port,
                        device=self._device,
                        phases=phases,
                    )
                )
            )
            phases.since(PhaseCode.BUILD, began_s)
            _abort_when_gone(gone, control)
            worker.run()
            if control.lost and not gone.is_set():
                return Answer(
                    kind="lost",
                    error=f"worker {request.settings.worker} lost its connection to the driver.",
                )
        return Answer()

    def _reporting(self, request: TrainRequest, control: Any, phases: Any) -> Callable[[], None]:
        """Begin to tell the driver of `phases`; returns what tells it the rest."""
        from ._phase_reporter import PhaseReporter, add_beginning, add_end

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
        from ._phase_reporter import WorkerClocks

        self._clocks = self._clocks or WorkerClocks()
        settings = request.settings
        return self._clocks.of(settings.master.time_source, worker=settings.worker)

    def _round(self, request: RoundRequest) -> Answer:
        from sparkwright.networks import pack_arrays, unpack_arrays

        from ._local_trainer import LocalTrainer
        from ._minibatches import non_finite_state
        from ._phases import PhaseRecorder
        from ._shard import Shard
        from ._shard_service import ShardSource
        from ._update_ratio import sample_of, update_ratio

        phases = PhaseRecorder(on=request.settings.master.collect_training_stats)
        began_s = time.monotonic()
        replica, settings = self._replica(request), request.settings
        self._digests.pop(_replica_key(request), None)
        replica.share_updates(None)
        shard = Shard(Path(request.shard), consume=True)
        nobody = ShardSource(secret=b"", connect_timeout_s=0.0, peer_timeout_s=0.0)
        trainer = LocalTrainer(settings, replica, shard, nobody, phases)
        phases.since(PhaseCode.BUILD, began_s)
        try:
            with phases.phase(PhaseCode.STATE):
                replica.write(np.frombuffer(request.vector, replica.state.dtype))
            if self._round_run != request.run or (request.first and request.epoch == 0):
                values = unpack_arrays(request.extras, replica.state.read_extras())
                replica.state.own_seeds(values, worker=settings.worker)
                replica.state.write_extras(values)
                self._round_run = request.run
            if request.first:
                replica.reset_metrics()
            replica.iterations = request.iterations
            if not settings.master.save_updater:
                replica.reset_updater()
            before = sample_of(replica.state.trainable_views())
            done = trainer.round(request.share, stopping=threading.Event())
            finite = not len(done.losses) or replica.state.is_finite(
                updater=settings.master.save_updater
            )
            if not finite and settings.stop_at_non_finite:
                raise non_finite_state(request.epoch, worker=settings.worker)
            if done.readings:
                after, count = sample_of(replica.state.trainable_views()), len(done.losses)
                done.readings["update_ratio"] = update_ratio(before, after, minibatches=count)
        finally:
            trainer.close()
        vector = replica.state.read(updater=settings.master.save_updater)
        fields = {
            "worker": settings.worker,
            "losses": done.losses.tolist(),
            "examples": done.examples.tolist(),
            "metrics": done.metrics,
            "readings": done.readings,
            "iterations": replica.iterations,
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

    def _spans(self, request: RoundRequest, phases: Any) -> Any:
        """What a round's answer tells of its phases: the spans, and the state of the clocks."""
        from sparkwright.timeline.clocks import Offset

        from ._phase_reporter import add_beginning, add_end

        clock = self._machine_clock(request)
        add_beginning(phases, request.times, ready_s=self._ready_s)
        add_end(phases, request.times)
        block, _ = phases.take()
        # The driver measures the offset: the job is the question, and this its answer.
        measured = Offset(0.0, 0.0) if request.settings.master.time_source is None else None
        block = block._replace(starts_s=block.starts_s + clock.shift_s)
        return block, clock.state(measured)

    def _infer(self, request: InferRequest, gone: threading.Event) -> Answer:
        from ._inference import run_inference

        replica, key = self._replica(request), _replica_key(request)
        self._round_run = ""  # a run that shares the replica begins its next round with its own
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


def _import_from(path: list[str]) -> None:
    """Import from these places too: a user's file may have been sent since this process began."""
    if missing := [folder for folder in path if folder not in sys.path]:
        sys.path.extend(missing)
        importlib.invalidate_caches()


def _listen_host(wanted: str) -> str:
    """`wanted` itself, or this machine's address in it if it is a network."""
    from sparkwright.mesh._addresses import address_in

    return address_in(wanted) if "/" in wanted else wanted


def _replica_key(request: Request) -> tuple[str, str]:
    xla = "auto" if isinstance(request, InferRequest) else request.xla
    return request.definition.fingerprint, xla


def _read_weights(replica: Any, path: Path, digest: str) -> None:
    from sparkwright.networks import unpack_arrays

    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise NetworkError("the weights that arrived are not those that were announced.")
    vector = np.frombuffer(content, replica.state.dtype, replica.state.averaged_size)
    replica.write(vector)
    rest = content[vector.nbytes :]
    replica.state.write_extras(unpack_arrays(rest, replica.state.read_extras()))


class _Watch:
    """Notices, while a request is worked on, that the task which asked is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self.gone = threading.Event()
        self._finished = threading.Event()
        self._socket = sock
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._look, name="sparkwright-watch", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | select.POLLHUP)
        poller.register(self._wake_read, select.POLLIN)
        ready = {number for number, _ in poller.poll()}
        if self._wake_read in ready:
            return
        # A task sends nothing while it waits: bytes or a hang-up both mean the end.
        self.gone.set()
        if not self._finished.wait(_ABANDONED_S):
            os._exit(3)

    def close(self) -> None:
        self._finished.set()
        os.write(self._wake_write, b"x")
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)


def _abort_when_gone(gone: threading.Event, control: Any) -> None:
    """Hang up on the coordinator as soon as the task is gone, which ends every wait."""

    def wait() -> None:
        while not control.gone.is_set():
            if gone.wait(0.2):
                control.hang_up()
                return

    threading.Thread(target=wait, name="sparkwright-abandon", daemon=True).start()


def _peer_user(sock: socket.socket) -> int:
    if not hasattr(socket, "SO_PEERCRED"):
        return os.getuid()  # the folder's permissions are all there is
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[4:8], sys.byteorder)


def _end_with(owner: int, path: Path) -> None:
    """End this process as soon as `owner` does."""

    def watch() -> None:
        try:
            handle = os.pidfd_open(owner)
            select.select([handle], [], [])
        except (OSError, AttributeError):
            while _is_alive(owner):
                time.sleep(0.5)
        shutil.rmtree(path.parent, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=watch, name="sparkwright-owner", daemon=True).start()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main(arguments: list[str]) -> None:
    """Run a trainer."""
    path, owner, device, cores = arguments
    faulthandler.enable()
    secret = sys.stdin.buffer.read(SECRET_BYTES)
    if len(secret) != SECRET_BYTES:
        raise SystemExit("the secret must come through standard input, from a TrainerPool.")
    # Ctrl-C in the terminal is the driver's affair, and the owner's end is noticed by `_end_with`,
    # which cleans up; Spark's daemon sends a hang-up as it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _end_with(int(owner), Path(path))
    trainer = Trainer(Path(path), device=device, secret=secret)
    trainer.set_up(int(cores))
    try:
        trainer.serve()
    finally:
        trainer.close()
        Path(path).unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""The trainer process, which holds Keras and cached replicas and outlives Spark's Python workers.

Spark ends an idle Python worker after about a minute. Restarting TensorFlow takes nine seconds,
plus the time to compile. So a task only writes its partition to a file and sends a request to a
trainer on the same machine. The trainer ends with its owner: Spark's Python daemon, or the process
that uses a ParallelWrapper. It serves one task at a time, on one device.

    python -m sparkwright.workers._trainer SOCKET OWNER_PID DEVICE CORES BACKEND

The application's secret is read from standard input, because other processes can read arguments,
environment and files.
"""

import contextlib
import faulthandler
import importlib
import os
import select
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator, Iterable
from pathlib import Path

from sparkwright.errors import ConfigurationError, NetworkError, SparkwrightError
from sparkwright.mesh.auth import SECRET_BYTES, TRAINER
from sparkwright.mesh.connection import Connection
from sparkwright.mesh.handshake import close_socket, greet_client

from ._control import say_farewell
from ._mark import open_mark
from ._serving import Service
from ._wire import pack, unpack
from .folders import hold, remove_abandoned_data
from .gpus import device_environment, ready_device
from .requests import Answer, Request

# Optional imports of Keras that a trainer does not use. Hiding them saves more than one second and
# 80 MB for each trainer. Keras on JAX would also import TensorFlow, which costs much more; JAX
# needs SciPy.
_NOT_NEEDED = ("IPython", "matplotlib", "pandas", "sklearn")
# If the task is gone, work ends between two compiled calls; after this time the process exits.
_ABANDONED_S = 4.0
# An idle trainer exits after this time.
_IDLE_S = 3600.0
# After this time without a task, it looks for files of tasks that were killed.
_TIDY_S = 1.0


class Trainer:
    """Serve requests sequentially."""

    def __init__(self, path: Path, *, device: str, secret: bytes) -> None:
        self._path, self._device, self._secret = path, device, secret
        self._refusal: ConfigurationError | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def set_up(self, cores: int, backend: str = "tensorflow") -> None:
        """Set devices and threads and import Keras, whose backend cannot change them later."""
        os.environ["KERAS_BACKEND"] = backend
        if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "3":
            # Keep errors in the log, because error messages quote its end.
            os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        os.environ.update(device_environment(self._device))
        # JAX's XLA reads the number of cores from NPROC.
        os.environ["OMP_NUM_THREADS"] = os.environ["NPROC"] = str(cores)
        # The user's layers and losses are imported later and find the hidden packages.
        others = ("scipy",) if backend == "tensorflow" else ("tensorflow",)
        with hidden((*_NOT_NEEDED, *others)):
            importlib.import_module("keras")
        if backend == "tensorflow":
            import tensorflow as tf

            tf.config.threading.set_intra_op_parallelism_threads(cores)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        self._device, self._refusal = ready_device(self._device)

    def serve(self) -> None:
        """Listen and answer requests until idle for an hour; remove what killed tasks leave."""
        # Only after Keras has been imported, because handshakes time out within seconds.
        self._socket.bind(str(self._path))
        self._socket.listen(8)
        service = Service(self._device, self._refusal, ready_s=time.monotonic())
        while True:
            if self._is_idle(_TIDY_S):
                remove_abandoned_data()
                if self._is_idle(_IDLE_S):
                    return
            sock, _ = self._socket.accept()
            try:
                if _peer_user(sock) != os.getuid():
                    raise NetworkError("the peer is another user.")
                greet_client(sock, self._secret, identity=TRAINER)
            except (NetworkError, OSError):
                sock.close()
                continue
            _serve_task(Connection(sock), service)

    def _is_idle(self, seconds: float) -> bool:
        """Whether no task connects within this time."""
        connects = select.poll()
        connects.register(self._socket, select.POLLIN)
        return not connects.poll(1000 * seconds)

    def close(self) -> None:
        close_socket(self._socket)


def _serve_task(connection: Connection, service: Service) -> None:
    """Answer one task's requests until it disconnects."""
    try:
        while (message := connection.receive()) is not None:
            request: Request | None = None
            watch = _Watch(connection.socket)
            try:
                _import_from(message.fields["path"])
                # The peer has proved the secret, so unpickling the user's code is allowed.
                request = unpack(message, own_code=True)
                answer = service.answer(request, watch.gone)
            except SparkwrightError as error:
                answer = Answer.of_error(error)
            except Exception as error:
                # A user's layer may have left the replica in an inconsistent state.
                if request is not None:
                    service.discard(request)
                answer = Answer.of_error(error)
            finally:
                watch.close()
            if watch.gone.is_set():
                break
            connection.send("answer", *pack(answer, own_code=False))
    except (NetworkError, OSError):
        pass
    connection.close()


def _import_from(path: list[str]) -> None:
    """Append missing folders to `sys.path`, for user files shipped after this process started."""
    if missing := [folder for folder in path if folder not in sys.path]:
        sys.path.extend(missing)
        importlib.invalidate_caches()


@contextlib.contextmanager
def hidden(packages: Iterable[str]) -> Generator[None]:
    """Hide packages from `import` within the context; loaded packages stay available.

    Example:
        >>> with hidden(["tabnanny"]):
        ...     import tabnanny
        Traceback (most recent call last):
            ...
        ModuleNotFoundError: import of tabnanny halted; None in sys.modules
        >>> import tabnanny
    """
    absent = [name for name in packages if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


class _Watch:
    """Detect, while a request is processed, that its task has disconnected."""

    def __init__(self, sock: socket.socket) -> None:
        self.gone = threading.Event()
        self._finished = threading.Event()
        self._socket = sock
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._poll, name="sparkwright-watch", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | select.POLLHUP)
        poller.register(self._wake_read, select.POLLIN)
        ready = {number for number, _ in poller.poll()}
        if self._wake_read in ready:
            return
        # A waiting task sends nothing, so bytes or a disconnect both mean that it is gone.
        say_farewell()
        self.gone.set()
        if not self._finished.wait(_ABANDONED_S):
            remove_abandoned_data()
            os._exit(3)

    def close(self) -> None:
        self._finished.set()
        os.write(self._wake_write, b"x")
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)


def _peer_user(sock: socket.socket) -> int:
    if not hasattr(socket, "SO_PEERCRED"):
        return os.getuid()  # only the folder's permissions protect the socket
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[4:8], sys.byteorder)


def _end_with(owner: int, path: Path) -> None:
    """Exit this process when process `owner` ends."""

    def watch() -> None:
        try:
            ends = select.poll()  # unlike `select`, also above 1,023 open files
            ends.register(os.pidfd_open(owner), select.POLLIN)
            ends.poll()
        except (OSError, AttributeError):
            while _is_alive(owner):
                time.sleep(0.5)
        say_farewell()
        shutil.rmtree(path.parent, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=watch, name="sparkwright-owner", daemon=True).start()


def _end(_number: int, _frame: object) -> None:
    say_farewell()
    os._exit(0)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main(arguments: list[str]) -> None:
    path, owner, device, cores, backend = arguments
    faulthandler.enable()
    secret = sys.stdin.buffer.read(SECRET_BYTES)
    if len(secret) != SECRET_BYTES:
        raise SystemExit("the secret must come through standard input, from a TrainerPool.")
    # The driver handles Ctrl-C. `_end_with` detects the owner's end and cleans up; Spark's daemon
    # sends SIGHUP when it exits.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    _end_with(int(owner), Path(path))
    hold(Path(path).parent)
    open_mark(Path(path))
    trainer = Trainer(Path(path), device=device, secret=secret)
    trainer.set_up(int(cores), backend)
    try:
        trainer.serve()
    finally:
        trainer.close()
        Path(path).unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])

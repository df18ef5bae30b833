"""The trainer process: holds Keras and warm replicas, outlives Spark's Python workers.

Spark ends an idle Python worker after about a minute; starting TensorFlow again costs nine
seconds, and a compiled step more. So a task only streams its partition to a file and asks a
trainer on the same machine, which stays until its owner (Spark's Python daemon, or the process
that uses a ParallelWrapper) is gone. One trainer serves one task at a time and one device.

    python -m sparkwright.workers._trainer SOCKET OWNER_PID DEVICE CORES BACKEND

The application's secret comes through standard input: arguments, environment and files can be read
by other processes.
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

from ._serving import Service
from ._wire import pack, unpack
from .gpus import device_environment, ready_device
from .requests import Answer, Request

# Keras imports these if they are installed: to accept their objects, and to draw. A trainer has
# minibatches of arrays and draws nothing. Without them each trainer starts more than a second
# earlier and holds 70 MB less. Keras on JAX would import TensorFlow, which takes far more.
_NOT_NEEDED = ("IPython", "matplotlib", "pandas", "sklearn")
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

    def set_up(self, cores: int, backend: str = "tensorflow") -> None:
        """Fix devices and threads before Keras' backend starts; it cannot change them later."""
        os.environ["KERAS_BACKEND"] = backend
        if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "3":
            # The trainer's log has errors: the message about a process that ended quotes them.
            os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        os.environ.update(device_environment(self._device))
        # NPROC is what XLA of JAX takes for the number of cores.
        os.environ["OMP_NUM_THREADS"] = os.environ["NPROC"] = str(cores)
        # The user's layers and losses, which come later, find the hidden packages.
        others = () if backend == "tensorflow" else ("tensorflow",)
        with hidden((*_NOT_NEEDED, *others)):
            importlib.import_module("keras")
        if backend == "tensorflow":
            import tensorflow as tf

            tf.config.threading.set_intra_op_parallelism_threads(cores)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        self._device, self._refusal = ready_device(self._device)

    def serve(self) -> None:
        """Listen, and answer until idle for an hour."""
        # Not before Keras is there: a handshake has to be answered within seconds.
        self._socket.bind(str(self._path))
        self._socket.listen(8)
        self._socket.settimeout(_IDLE_S)
        service = Service(self._device, self._refusal, ready_s=time.monotonic())
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
            _serve_task(Connection(sock), service)

    def close(self) -> None:
        """Stop listening."""
        close_socket(self._socket)


def _serve_task(connection: Connection, service: Service) -> None:
    """Answer one task's requests until it hangs up."""
    try:
        while (message := connection.receive()) is not None:
            request: Request | None = None
            watch = _Watch(connection.socket)
            try:
                _import_from(message.fields["path"])
                # The peer has proved the secret: what it sends of the user's own is run.
                request = unpack(message, own_code=True)
                answer = service.answer(request, watch.gone)
            except SparkwrightError as error:
                answer = Answer.of_error(error)
            except Exception as error:
                # A user's layer may have failed half-way: what it left behind is not trusted.
                if request is not None:
                    service.forget(request)
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
    """Import from these places too: a user's file may have been sent since this process began."""
    if missing := [folder for folder in path if folder not in sys.path]:
        sys.path.extend(missing)
        importlib.invalidate_caches()


@contextlib.contextmanager
def hidden(packages: Iterable[str]) -> Generator[None]:
    """Meanwhile `import` does not find these packages; those that are loaded already it does.

    Args:
        packages: names of top-level packages.

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
    path, owner, device, cores, backend = arguments
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
    trainer.set_up(int(cores), backend)
    try:
        trainer.serve()
    finally:
        trainer.close()
        Path(path).unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])

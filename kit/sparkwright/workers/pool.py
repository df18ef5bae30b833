"""Pool of trainer processes on this machine."""

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import hmac
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from sparkwright.errors import NetworkError, RunTimeoutError, WorkerError
from sparkwright.mesh.auth import SECRET_BYTES, TRAINER
from sparkwright.mesh.connection import Connection
from sparkwright.mesh.handshake import greet_server
from sparkwright.networks.backend import Backend

from ._mark import read_mark
from ._wire import pack, unpack
from .failure import log_end, trainer_end
from .folders import (
    SCRATCH,
    hold,
    own_folder,
    remove,
    remove_abandoned,
    remove_abandoned_data,
    scratch_root,
    user_id,
)
from .gpus import device_environment
from .requests import Answer, Evaluating, InferRequest, Request

if TYPE_CHECKING:
    import psutil

# Long enough for TensorFlow to start in many trainers of a machine concurrently.
_START_TIMEOUT_S = 600.0
_MOST_TRAINERS = 256
_LOOK_AGAIN_S = 0.02
# Spark gives a GPU to one task at a time, so the wait is only for a canceled task to end.
_GPU_TIMEOUT_S = 600.0
# With a limited number of trainers, each holder releases its trainer after a block of 8 MB.
_TRAINER_TIMEOUT_S = 3600.0
# A block of 8 MB takes seconds. The coordinator limits the duration of training.
_INFERENCE_TIMEOUT_S = 3600.0
_ENDING_S = 5.0
# Number of failed handshakes, of five seconds each, after which a trainer is killed.
_UNANSWERED = 2
_started: list[subprocess.Popen[bytes]] = []


@functools.cache
def driver_secret() -> bytes:
    """Return the secret of this driver process, which tasks send to their trainers.

    All runs of a Spark application share it, because trainers are reused across runs.
    """
    return os.urandom(SECRET_BYTES)


class TrainerPool:
    """The trainer processes of one owner process and one application on this machine.

    A trainer has a socket, a lock file and a log in the owner's folder. The lock grants exclusive
    use; the kernel releases it when its holder dies.
    """

    def __init__(self, *, owner: int, secret: bytes) -> None:
        """Open or create the folder of process `owner`, whose end also ends the trainers."""
        started = _start_time(owner)
        label = hmac.digest(secret, f"{owner} {started}".encode(), "sha256").hex()[:16]
        root = Path(tempfile.gettempdir())
        if len(str(root)) > 56:  # a Unix socket's path has at most 107 characters
            root = Path("/tmp")
        self._owner, self._secret = owner, secret
        self.folder = root / f"sparkwright-{user_id()}-{label}"
        hold(self.folder)
        remove_abandoned(root)
        remove_abandoned_data()

    @contextlib.contextmanager
    def borrow(
        self,
        *,
        device: str,  # "cpu" or "gpu-ADDRESS"
        cores: int,  # threads; on a GPU, a trainer's first task sets it
        backend: Backend = "tensorflow",
        # Trainers in use among callers with this limit; None: one per task, or one on a GPU.
        at_most: int | None = None,
    ) -> Generator["BorrowedTrainer"]:
        """Lock a trainer for `device` for exclusive use, starting it if necessary.

        If none is free, waits until another task of this machine releases one.
        """
        kind = "" if backend == "tensorflow" else f"{backend}-"
        if device.startswith("gpu"):
            name = kind + _gpu_name(device)
            handle, name = self._hold_one(
                [name, *(f"{name}-{number}" for number in range(1, at_most or 1))],
                timeout_s=_GPU_TIMEOUT_S,
                remedy="Give each task its own GPU: set `spark.task.resource.gpu.amount` to 1.",
            )
        else:
            most = min(at_most or _MOST_TRAINERS, _MOST_TRAINERS)
            handle, name = self._hold_one(
                [f"{kind}{device}-{cores}-{number}" for number in range(most)],
                timeout_s=_TRAINER_TIMEOUT_S,
                remedy="Increase or omit `eval_workers`.",
            )
        try:
            stem = self.folder / name
            arguments = [str(self._owner), device, str(cores), backend]
            trainer = BorrowedTrainer(stem, arguments, secret=self._secret)
            try:
                yield trainer
            finally:
                trainer.close()
        finally:
            os.close(handle)

    def _hold_one(self, names: list[str], *, timeout_s: float, remedy: str) -> tuple[int, str]:
        """Lock the first free trainer; return (file descriptor of the lock, name)."""
        deadline = time.monotonic() + timeout_s
        while True:
            for name in names:
                handle = os.open(self.folder / f"{name}.lock", os.O_CREAT | os.O_RDWR, 0o600)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(handle)
                else:
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, str(os.getpid()).encode(), 0)
                    return handle, name
            if time.monotonic() > deadline:
                holders = [(self.folder / f"{name}.lock").read_text() or "?" for name in names]
                several = f"one of {len(names)} trainers" if len(names) > 1 else "the trainer"
                raise RunTimeoutError(
                    f"process {os.getpid()} on {socket.gethostname()} waited {timeout_s:g} s for "
                    f"{several} of {names[0]}, which process {', '.join(holders)} holds. {remedy}"
                )
            time.sleep(_LOOK_AGAIN_S)

    def scratch(self) -> Path:
        """Make a folder for data; `folders.remove` it, or the next one does after this process."""
        return own_folder(SCRATCH, scratch_root() or self.folder)

    def close(self) -> None:
        """Kill all trainers and remove the folder."""
        for file in self.folder.glob("*.pid"):
            _end_trainer(file)
        _started[:] = [process for process in _started if process.poll() is None]
        remove(self.folder)


class BorrowedTrainer:
    """A connection to a locked trainer, valid within `borrow`."""

    def __init__(self, stem: Path, arguments: list[str], *, secret: bytes) -> None:
        """Connect to the trainer `stem`; start it with `arguments` if it is not running."""
        self._socket_path = Path(f"{stem}.sock")
        self._log_path = Path(f"{stem}.log")
        self._pid_path = Path(f"{stem}.pid")
        self._arguments = arguments
        self._secret = secret
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._connection = self._reach()

    def ask(self, request: Request) -> Answer:
        """Send `request` and wait for the answer; training has no timeout."""
        infers = isinstance(request, InferRequest)
        worker = -1 if infers else request.settings.worker
        self._connection.socket.settimeout(_INFERENCE_TIMEOUT_S if infers else None)
        try:
            fields, payload = pack(request, own_code=True)
            self._connection.send("request", {"path": _path(), **fields}, payload)
            message = self._connection.receive()
        except TimeoutError:
            raise RunTimeoutError(
                f"process {os.getpid()} on {socket.gethostname()} waited {_INFERENCE_TIMEOUT_S:g} "
                f"s for trainer process {self._pid()} to run the network over a block of examples. "
                f"Its log: {self._log_path}. Use a smaller network, or executors with more cores."
            ) from None
        except (NetworkError, OSError):
            message = None
        if message is None:
            reason = self._end(worker)
            error = WorkerError(worker=worker, host=socket.gethostname(), reason=reason)
            if not infers and not self._is_closed:
                error.at = read_mark(self._socket_path)
            raise error
        answer = unpack(message, own_code=False)
        assert isinstance(answer, Answer)
        if isinstance(request, InferRequest) and isinstance(request.what, Evaluating):
            found = request.what.with_code(answer.result or {})
            return dataclasses.replace(answer, result=found)
        return answer

    def close(self) -> None:
        """Close the connection; the trainer keeps running."""
        self._is_closed = True
        self._connection.close()

    def _reach(self) -> Connection:
        deadline = time.monotonic() + _START_TIMEOUT_S
        problem: OSError | None = None
        unanswered = 0
        while time.monotonic() < deadline:
            try:
                return self._connect()
            except NetworkError as error:
                problem, unanswered = error, unanswered + 1
            except OSError as error:
                problem = error
            # The trainer listens but does not answer. A canceled request ends within seconds, so
            # the trainer hangs or is stopped. This task holds the lock, so it may kill it.
            if unanswered == _UNANSWERED and self._process is None:
                _end_trainer(self._pid_path)
            if self._process is None:
                if _trainer_at(self._pid_path) is None:
                    self._start()
            elif (status := self._process.poll()) is not None:
                raise WorkerError(
                    worker=-1,
                    host=socket.gethostname(),
                    reason=f"a trainer process could not start: it ended with status {status}. "
                    f"Its log:\n{log_end(self._log_path)}",
                )
            time.sleep(_LOOK_AGAIN_S)
        raise RunTimeoutError(
            f"process {os.getpid()} on {socket.gethostname()} waited {_START_TIMEOUT_S:g} s for "
            f"trainer process {self._pid()} to answer: {problem}. Its log: {self._log_path}"
        )

    def _connect(self) -> Connection:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(str(self._socket_path))
            greet_server(sock, self._secret, to=TRAINER)
        except OSError:
            sock.close()
            raise
        return Connection(sock)

    def _start(self) -> None:
        """Start the trainer in this process group, which Spark's daemon kills when it exits."""
        self._socket_path.unlink(missing_ok=True)
        environment = {
            **os.environ,
            **device_environment(self._arguments[1]),
            "PYTHONPATH": os.pathsep.join(_path()),
        }
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "sparkwright.workers._trainer",
                    str(self._socket_path),
                    *self._arguments,
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        self._pid_path.write_text(str(self._process.pid))
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(self._secret)
        # The trainer outlives this object; the reference avoids an unreaped child.
        _started[:] = [p for p in _started if p.poll() is None] + [self._process]

    def _pid(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            return int(self._pid_path.read_text())
        return -1

    def _end(self, worker: int) -> str:
        """Describe why the trainer disconnected."""
        if self._is_closed:
            return "the task closed the connection to its trainer process."
        pid, status = self._pid(), None
        child = next((p for p in [self._process, *_started] if p and p.pid == pid), None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = None if child is None else child.wait(_ENDING_S)
        return trainer_end(
            worker=worker, host=socket.gethostname(), status=status, log=self._log_path
        )


def _path() -> list[str]:
    """Return absolute `sys.path`, which may contain files that Spark shipped for the user."""
    return [os.path.abspath(folder) for folder in sys.path if folder]


def _gpu_name(device: str) -> str:
    """Return a file name for a GPU's trainer: its number, or a digest of its identifier."""
    address = device.removeprefix("gpu-")
    plain = address.isascii() and address.isdigit() and len(address) < 9
    return device if plain else "gpu-" + hashlib.sha256(address.encode()).hexdigest()[:12]


def _start_time(pid: int) -> float:
    import psutil

    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


def _trainer_at(pid_path: Path) -> "psutil.Process | None":
    """Return the trainer process of `pid_path`; None if it has ended."""
    import psutil

    with contextlib.suppress(OSError, ValueError, psutil.Error):
        process = psutil.Process(int(pid_path.read_text()))
        if str(pid_path.with_suffix(".sock")) in process.cmdline():
            return process
    return None


def _end_trainer(pid_path: Path) -> None:
    import psutil

    process = _trainer_at(pid_path)
    with contextlib.suppress(psutil.Error):
        if process is not None:
            process.kill()
            process.wait(5.0)

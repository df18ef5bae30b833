"""Finds a free trainer process of this machine, or starts one."""

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import hmac
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from sparkwright.errors import NetworkError, RunTimeoutError, WorkerError
from sparkwright.mesh.auth import SECRET_BYTES, TRAINER
from sparkwright.mesh.connection import Connection
from sparkwright.mesh.handshake import greet_server
from sparkwright.networks.backend import Backend

from ._wire import pack, unpack
from .failure import log_end, trainer_end
from .gpus import device_environment
from .requests import Answer, Evaluating, InferRequest, Request

if TYPE_CHECKING:
    import psutil

# TensorFlow starts within it, however many trainers of the machine start at once.
_START_TIMEOUT_S = 600.0
_MOST_TRAINERS = 256
_LOOK_AGAIN_S = 0.02
# Spark gives a GPU to one task at a time: only what a cancelled one still computes is in the way.
_GPU_TIMEOUT_S = 600.0
# Who holds one of a limited number of trainers gives it back after each block of 8 MB.
_TRAINER_TIMEOUT_S = 3600.0
# A block of 8 MB takes seconds. How long a run may take, its coordinator knows.
_INFERENCE_TIMEOUT_S = 3600.0
_ENDING_S = 5.0
# Handshakes of five seconds each.
_UNANSWERED = 2
_started: list[subprocess.Popen[bytes]] = []


@functools.cache
def driver_secret() -> bytes:
    """The secret of this driver process, which its tasks carry to their trainers.

    All runs of a Spark application have it in common, because trainers serve one after another.
    """
    return os.urandom(SECRET_BYTES)


class TrainerPool:
    """The trainers that belong to one owner process on this machine, and to one application.

    A trainer is a socket, a lock and a log in the owner's folder. Holding the lock is having the
    trainer: the kernel gives it back when the holder dies.
    """

    def __init__(self, *, owner: int, secret: bytes) -> None:
        """Use, or create, the folder of process `owner`.

        Args:
            owner: the process with which the trainers end.
            secret: the driver's, see `driver_secret`. Without it neither the folder's name nor an
                answer of a trainer is to be had.

        Raises:
            NetworkError: if the folder is a link, or open to others.
        """
        user = os.getuid() if hasattr(os, "getuid") else 0
        started = _start_time(owner)
        label = hmac.digest(secret, f"{owner} {started}".encode(), "sha256").hex()[:16]
        root = Path(tempfile.gettempdir())
        if len(str(root)) > 56:  # a Unix socket's path may have 107 characters
            root = Path("/tmp")
        self._owner, self._secret = owner, secret
        self.folder = root / f"sparkwright-{user}-{label}"
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
        found = self.folder.lstat()
        is_private = stat.S_IMODE(found.st_mode) & 0o077 == 0 and found.st_uid == user
        if not (stat.S_ISDIR(found.st_mode) and is_private):
            raise NetworkError(
                f"{self.folder} must be a folder that belongs to this user alone. Received: "
                f"owner {found.st_uid}, mode {stat.filemode(found.st_mode)}. Remove it."
            )

    @contextlib.contextmanager
    def borrow(
        self,
        *,
        device: str,
        cores: int,
        backend: Backend = "tensorflow",
        at_most: int | None = None,
    ) -> Generator["BorrowedTrainer"]:
        """A trainer for `device` that nobody else uses meanwhile.

        Who finds none free waits until a holder, another task of this machine, has finished.

        Args:
            device: "cpu" or "gpu-ADDRESS"; a GPU's trainer never serves another GPU.
            cores: threads that it may use; a GPU's trainer keeps those of its first task.
            backend: of its Keras; default "tensorflow". A trainer keeps the one it started with.
            at_most: trainers at work at a time among those who ask with this limit; default None:
                as many as there are tasks, on a GPU one.

        Raises:
            RunTimeoutError: if others hold the trainer of a GPU for ten minutes, or all that may be
                at work for an hour.
        """
        kind = "" if backend == "tensorflow" else f"{backend}-"
        if device.startswith("gpu"):
            name = kind + _gpu_name(device)
            handle, name = self._hold_one(
                [name, *(f"{name}-{number}" for number in range(1, at_most or 1))],
                timeout_s=_GPU_TIMEOUT_S,
                remedy="Give each task a GPU of its own: `spark.task.resource.gpu.amount` of 1.",
            )
        else:
            most = min(at_most or _MOST_TRAINERS, _MOST_TRAINERS)
            handle, name = self._hold_one(
                [f"{kind}{device}-{cores}-{number}" for number in range(most)],
                timeout_s=_TRAINER_TIMEOUT_S,
                remedy="Raise `eval_workers`, or leave it out.",
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
        """Lock the first that is free; the descriptor that holds the lock, and the name."""
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
        """A new path for a shard, in the first of Spark's local folders if there are any."""
        for variable in ("LOCAL_DIRS", "SPARK_LOCAL_DIRS", "_SPARKWRIGHT_LOCAL_DIR"):
            folder = os.environ.get(variable, "").split(",")[0]
            if folder and os.access(folder, os.W_OK):
                return Path(folder) / f"sparkwright-{uuid.uuid4().hex}"
        return self.folder / f"shard-{uuid.uuid4().hex}"

    def close(self) -> None:
        """End all trainers and remove the folder."""
        for file in self.folder.glob("*.pid"):
            _end_trainer(file)
        _started[:] = [process for process in _started if process.poll() is None]
        shutil.rmtree(self.folder, ignore_errors=True)


class BorrowedTrainer:
    """A trainer, for the time of one `borrow`."""

    def __init__(self, stem: Path, arguments: list[str], *, secret: bytes) -> None:
        """Reach the trainer named `stem`, starting it with `arguments` if it is not there."""
        self._socket_path = Path(f"{stem}.sock")
        self._log_path = Path(f"{stem}.log")
        self._pid_path = Path(f"{stem}.pid")
        self._arguments = arguments
        self._secret = secret
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._connection = self._reach()

    def ask(self, request: Request) -> Answer:
        """Send `request` and wait for its answer, for as long as training takes.

        Raises:
            WorkerError: if the trainer process ends, with how it ended.
            RunTimeoutError: if inference on the request's examples takes an hour.
        """
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
            raise WorkerError(worker=worker, host=socket.gethostname(), reason=self._end(worker))
        answer = unpack(message, own_code=False)
        assert isinstance(answer, Answer)
        if isinstance(request, InferRequest) and isinstance(request.what, Evaluating):
            found = request.what.with_code(answer.result or {})
            return dataclasses.replace(answer, result=found)
        return answer

    def close(self) -> None:
        """Hang up; the trainer stays."""
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
            # It listens, but does not answer. An abandoned request ends in seconds, so this
            # trainer hangs or is paused; nobody else uses it while this task holds its lock.
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
        """Start the process in this one's group, which Spark's daemon ends when it ends."""
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
        # The trainer outlives this object on purpose: kept, so that it is no forgotten child.
        _started[:] = [p for p in _started if p.poll() is None] + [self._process]

    def _pid(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            return int(self._pid_path.read_text())
        return -1

    def _end(self, worker: int) -> str:
        """Why the trainer hung up, in words."""
        if self._is_closed:
            return "the task hung up on its trainer process."
        pid, status = self._pid(), None
        child = next((p for p in [self._process, *_started] if p and p.pid == pid), None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = None if child is None else child.wait(_ENDING_S)
        return trainer_end(
            worker=worker, host=socket.gethostname(), status=status, log=self._log_path
        )


def _path() -> list[str]:
    """Where this process imports from: a trainer may need what Spark has sent for its user."""
    return [os.path.abspath(folder) for folder in sys.path if folder]


def _gpu_name(device: str) -> str:
    """A file's name for a GPU's trainer: its number, or a digest of what else it is called."""
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
    """The trainer whose number is in `pid_path`; None if it has ended."""
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

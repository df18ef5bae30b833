"""Finds a free trainer process of this machine, or starts one."""

import contextlib
import fcntl
import hashlib
import math
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator
from pathlib import Path

from sparkwright.errors import NetworkError, RunTimeoutError, WorkerError
from sparkwright.mesh._connection import Connection

from ._gpus import device_environment
from ._requests import Answer, Request

_START_TIMEOUT_S = 120.0
_MOST_TRAINERS = 256
_LOOK_AGAIN_S = 0.02
# Spark gives a GPU to one task at a time: only what a cancelled one still computes is in the way.
_GPU_TIMEOUT_S = 600.0
_started: list[subprocess.Popen[bytes]] = []


class TrainerPool:
    """The trainers that belong to one owner process on this machine.

    A trainer is a socket, a lock and a log in the owner's folder. Holding the lock is having the
    trainer: the kernel gives it back when the holder dies.
    """

    def __init__(self, *, owner: int) -> None:
        """Use, or create, the folder of process `owner`."""
        user = os.getuid() if hasattr(os, "getuid") else 0
        started = _start_time(owner)
        label = hashlib.sha256(f"{owner} {started}".encode()).hexdigest()[:12]
        root = Path(tempfile.gettempdir())
        if len(str(root)) > 60:  # a Unix socket's path may have 107 characters
            root = Path("/tmp")
        self._owner = owner
        self.folder = root / f"sparkwright-{user}-{label}"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        found = self.folder.stat()
        if found.st_uid != user or found.st_mode & 0o077:
            raise NetworkError(
                f"{self.folder} must belong to this user alone. Received: owner {found.st_uid}, "
                f"mode {found.st_mode & 0o777:o}. Remove it."
            )

    @contextlib.contextmanager
    def borrow(
        self, *, device: str, cores: int, at_most: int | None = None
    ) -> Generator["BorrowedTrainer"]:
        """A trainer for `device` that nobody else uses meanwhile.

        Who finds none free waits until a holder, another task of this machine, has finished.

        Args:
            device: "cpu" or "gpu-ADDRESS"; there is at most one trainer a GPU, and it never serves
                another.
            cores: threads that it may use; a GPU's trainer keeps those of its first task.
            at_most: trainers at work at a time among those who ask with this limit; default None:
                as many as there are tasks.

        Raises:
            RunTimeoutError: if the trainer of a GPU is held by another for ten minutes.
        """
        if device.startswith("gpu"):
            handle, name = self._hold_one([_gpu_name(device)], timeout_s=_GPU_TIMEOUT_S)
        else:
            most = min(at_most or _MOST_TRAINERS, _MOST_TRAINERS)
            handle, name = self._hold_one([f"{device}-{cores}-{number}" for number in range(most)])
        try:
            trainer = BorrowedTrainer(self.folder / name, self._owner, device, cores)
            try:
                yield trainer
            finally:
                trainer.close()
        finally:
            os.close(handle)

    def _hold_one(self, names: list[str], *, timeout_s: float = math.inf) -> tuple[int, str]:
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
                raise RunTimeoutError(
                    f"process {os.getpid()} on {socket.gethostname()} waited {timeout_s:g} s for "
                    f"the trainer of {names[0]}, which process "
                    f"{(self.folder / f'{names[0]}.lock').read_text() or '?'} holds. Give each "
                    "task a GPU of its own: `spark.task.resource.gpu.amount` of 1."
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

    def __init__(self, stem: Path, owner: int, device: str, cores: int) -> None:
        """Reach the trainer named `stem`, starting it if it is not there."""
        self._socket_path = Path(f"{stem}.sock")
        self._log_path = Path(f"{stem}.log")
        self._pid_path = Path(f"{stem}.pid")
        self._arguments = [str(owner), device, str(cores)]
        self._process: subprocess.Popen[bytes] | None = None
        self._connection = self._reach()

    def ask(self, request: Request) -> Answer:
        """Send `request` and wait for its answer, however long the work takes.

        Raises:
            WorkerError: if the trainer process ends, with the end of its log.
        """
        import cloudpickle

        try:
            self._connection.send("request", {"path": _path()}, (cloudpickle.dumps(request),))
            message = self._connection.receive()
        except (NetworkError, OSError):
            message = None
        if message is None:
            raise WorkerError(
                worker=-1,
                host=socket.gethostname(),
                reason=f"the trainer process ended. The end of its log:\n{self._log_end()}",
            )
        # From our own process, over a socket that only this user can reach; see `_requests`.
        answer = pickle.loads(message.payload)
        assert isinstance(answer, Answer)
        return answer

    def close(self) -> None:
        """Hang up; the trainer stays."""
        self._connection.close()

    def _reach(self) -> Connection:
        with contextlib.suppress(OSError):
            return self._connect()
        self._start()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                return self._connect()
            if self._process is not None and self._process.poll() is not None:
                raise WorkerError(
                    worker=-1,
                    host=socket.gethostname(),
                    reason=f"a trainer process could not start. Its log:\n{self._log_end()}",
                )
            time.sleep(0.02)
        raise RunTimeoutError(
            f"the task waited {_START_TIMEOUT_S:g} s for its trainer process to listen. Its log: "
            f"{self._log_path}"
        )

    def _connect(self) -> Connection:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(str(self._socket_path))
        except OSError:
            sock.close()
            raise
        return Connection(sock)

    def _start(self) -> None:
        """Start the process in this one's group, which Spark's daemon ends when it ends."""
        _end_trainer(self._pid_path)
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
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        self._pid_path.write_text(str(self._process.pid))
        # The trainer outlives this object on purpose: kept, so that it is no forgotten child.
        _started[:] = [p for p in _started if p.poll() is None] + [self._process]

    def _log_end(self, lines: int = 15) -> str:
        with contextlib.suppress(OSError):
            text = self._log_path.read_text(errors="replace").splitlines()
            return "\n".join(text[-lines:])
        return "(none)"


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


def _end_trainer(pid_path: Path) -> None:
    """End the trainer whose number is in `pid_path`, if it is still that process."""
    import psutil

    with contextlib.suppress(OSError, ValueError, psutil.Error):
        process = psutil.Process(int(pid_path.read_text()))
        if str(pid_path.with_suffix(".sock")) in process.cmdline():
            process.kill()
            process.wait(5.0)

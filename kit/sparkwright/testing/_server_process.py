"""One Java process of a cluster for tests, with its log, ended when its owner is no more."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sparkwright.errors import NetworkError, RunTimeoutError

# Of Java processes that live for minutes, not for months: one collector thread, one compiler.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_LOG_END_BYTES = 4000
_END_TIMEOUT_S = 30.0


class Keeper:
    """A process beside the owner that ends the servers and removes their folder after it.

    Unlike a signal at the parent's death, this needs no Linux, and a thread may start servers and
    end.
    """

    def __init__(self, folder: Path) -> None:
        """Start it.

        Args:
            folder: to be removed in the end.
        """
        script = Path(__file__).with_name("_keeper.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(script), str(folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def take(self, pid: int) -> None:
        """End the group of process `pid` with the owner."""
        self._say(f"+{pid}\n")

    def release(self, pid: int) -> None:
        """Process `pid` has ended, and another may get its number."""
        self._say(f"-{pid}\n")

    def close(self) -> None:
        """End all that are left, and remove the folder; returns when it is done.

        A child of this process may hold the other end of the pipe: then the keeper is told.
        """
        self._say("end\n")
        try:
            self._process.communicate(timeout=_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise RunTimeoutError(
                f"this process waited {_END_TIMEOUT_S:g} s for the keeper of its servers to end "
                "them."
            ) from None

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()


class ServerProcess:
    """One server.

    Attributes:
        name: for messages and the log's name.
        log: the file with all that it writes.
    """

    def __init__(self, name: str, logs: Path, keeper: Keeper) -> None:
        """Prepare it; `start` starts it.

        Args:
            name: such as "DataNode 0".
            logs: folder for the log.
            keeper: ends the process after its owner.
        """
        self.name, self.log = name, logs / f"{name.replace(' ', '-').lower()}.log"
        self._keeper = keeper
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it, unless it runs; the log goes on."""
        if self.is_running:
            return
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        self._keeper.take(self._process.pid)

    def kill(self) -> None:
        """End it at once with its group, as if its machine had lost power.

        Nothing if it does not run. What it started in groups of their own is left.
        """
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._keeper.release(self._process.pid)
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal: SIGSTOP makes it hang, SIGCONT go on."""
        if self._process is not None:
            self._process.send_signal(number)

    def written(self) -> str:
        """What it has written since it was started last."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def wait_until(self, reached: Callable[[], bool], *, what: str, timeout_s: float) -> None:
        """Wait for this server.

        Args:
            reached: whether it has got there.
            what: that for which is waited, for the message.
            timeout_s: how long, in seconds.

        Raises:
            NetworkError: if the server ends instead; with the end of its log.
            RunTimeoutError: if it takes longer; likewise.
        """
        deadline_s = time.monotonic() + timeout_s
        while not reached():
            if not self.is_running:
                raise NetworkError(
                    f"The {self.name} ended instead of {what}. The end of its log, {self.log}:\n"
                    f"{self._log_end()}"
                )
            if time.monotonic() > deadline_s:
                raise RunTimeoutError(
                    f"The cluster for tests waited {timeout_s:g} s for the {self.name}: {what}. "
                    f"The end of its log, {self.log}:\n{self._log_end()}"
                )
            time.sleep(0.05)

    def _log_end(self) -> str:
        with self.log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_END_BYTES))
            return log.read().decode(errors="replace")

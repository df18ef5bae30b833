"""Servers of tests: processes with logs in one folder, all ended when their owner ends."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from sparkwright.errors import ConfigurationError, NetworkError, RunTimeoutError

# Of Java processes that live for minutes, not for months: one collector thread, one compiler.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_LOG_END_BYTES = 4000
_END_TIMEOUT_S = 30.0
# No proxy of the environment has a part in it.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Keeper:
    """A process beside the owner that ends the servers and removes their folder after it.

    Unlike a signal at the parent's death, this needs no Linux, and a thread may start servers and
    end.
    """

    def __init__(self, folder):
        """Start it; `folder` is removed in the end."""
        script = Path(__file__).with_name("keeper.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(script), str(folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def take(self, pid):
        """End the group of process `pid` with the owner."""
        self._say(f"+{pid}\n")

    def release(self, pid):
        """Process `pid` has ended, and another may get its number."""
        self._say(f"-{pid}\n")

    def close(self):
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

    def _say(self, line):
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()


class ServerProcess:
    """One server."""

    def __init__(self, name, logs, keeper):
        """Prepare it; `start` starts it, and `keeper` ends it after its owner."""
        self.name, self.log = name, logs / f"{name.replace(' ', '-').lower()}.log"
        self._keeper = keeper
        self._process = None
        self._log_start = 0

    @property
    def pid(self):
        """Of the process, which must have been started."""
        return self._process.pid

    @property
    def is_running(self):
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, command, environment):
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

    def kill(self):
        """End it at once with its group, as if its machine had lost power.

        Nothing if it does not run. What it started in groups of their own is left.
        """
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._keeper.release(self._process.pid)
            self._process = None

    def signal(self, number):
        """Send a signal: SIGSTOP makes it hang, SIGCONT go on."""
        if self._process is not None:
            self._process.send_signal(number)

    def written(self):
        """What it has written since it was started last."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def wait_until(self, reached, *, what, timeout_s):
        """Wait until it has got there; a NetworkError if it ends instead, with its log's end."""
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

    def _log_end(self):
        with self.log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_END_BYTES))
            return log.read().decode(errors="replace")


class Sandbox:
    """Servers in one temporary folder, which end with this process, however it ends.

    A kind of sandbox says in `_start` what runs in it.
    """

    def __init__(self, name):
        self.folder = Path()
        self._name = name
        self._keeper = None
        self._servers = []

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def start(self):
        """Start it, unless it runs, and wait until it is ready; returns it.

        A ConfigurationError says what this machine lacks; a NetworkError or RunTimeoutError, with
        its log's end, which process ended or was not ready in time.
        """
        if self._keeper is not None:
            return self
        self._prepare()
        self.folder = Path(tempfile.mkdtemp(prefix=f"sparkwright-{self._name}-"))
        self._keeper = Keeper(self.folder)
        try:
            self._start(self._keeper)
        except BaseException:
            self.close()
            raise
        return self

    def close(self):
        """End all processes and remove the folder; nothing if it does not run."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        for server in self._servers:
            server.kill()
        self._servers = []
        self._end(keeper)
        # It ends what still runs in the folder as well, such as executors.
        keeper.close()

    def _prepare(self):
        """Find what is needed, before there is anything to clean up."""

    def _start(self, keeper):
        """Start the servers; if it raises, everything is ended."""
        raise NotImplementedError

    def _end(self, keeper):
        """End what is no server, and forget servers that have been ended."""

    def _started(self, part):
        """What is there once it has been started."""
        if part is None:
            raise ConfigurationError(
                f"{type(self).__name__} must have been started. Received: one that does not run. "
                "Use it with `with`, or call start()."
            )
        return part

    def _add_server(self, name, keeper, *, logs=None):
        """A server yet to be started; its log is in `logs`, by default in the folder."""
        server = ServerProcess(name, logs or self.folder, keeper)
        self._servers.append(server)
        return server


def free_port():
    """A port below those that systems give away by themselves, so that a restart finds it free."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RunTimeoutError("Found no free port between 20000 and 32000 for a server.")


def fetched(url, *, timeout_s, json_body=None):
    """What a server answers to GET, or to POST with a body of JSON."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json_body, headers=headers)
    with _DIRECT.open(request, timeout=timeout_s) as answer:
        return answer.read()


def finished(command, *, timeout_s, environment=None):
    """Run a command to its end: its exit status, and its words."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise RunTimeoutError(
            f"Waited {timeout_s:g} s for {command[0]} {' '.join(command[-3:])}."
        ) from None
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr

"""A process that others can identify later, to see whether it still runs."""

import os
import socket
from functools import cache
from pathlib import Path
from typing import NamedTuple

# A process on another machine counts as lost when it has not written for this time.
SILENT_S = 120.0
# Tolerance when comparing start times of processes, because clocks are adjusted.
_START_TOLERANCE_S = 60.0


class Process(NamedTuple):
    """A process, identifiable from other processes.

    Attributes:
        place: the scope of its pid: machine, boot and container namespace.
        pid: its process id.
        started: its start time in seconds since 1970, because pids are reused.
    """

    place: str
    pid: int
    started: float

    @classmethod
    def this(cls) -> "Process":
        """Return the calling process."""
        import psutil

        return cls(_place(), os.getpid(), psutil.Process().create_time())

    def is_alive(self, *, silent_s: float) -> bool:
        """Return whether it runs; on another machine, whether it wrote in the last 2 minutes."""
        import psutil

        if self.place == _place():
            try:
                found = psutil.Process(self.pid)
                is_same = abs(found.create_time() - self.started) < _START_TOLERANCE_S
                return is_same and found.status() != psutil.STATUS_ZOMBIE
            except psutil.NoSuchProcess:
                return False
            except psutil.AccessDenied:
                pass
        return silent_s < SILENT_S


@cache
def _place() -> str:
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    except OSError:  # not on Linux: only the host name
        pass
    return "/".join(parts)

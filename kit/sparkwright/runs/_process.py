"""Whether the process that wrote something is still there."""

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Of a process elsewhere nothing is known but when it last wrote, by its own clock.
SILENT_S = 120.0
# How far the start of one process may differ between two looks; clocks are adjusted.
_START_TOLERANCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Process:
    """A process, as another one can find it again.

    Attributes:
        host: its machine.
        place: where its number means something: machine, boot and namespace of containers.
        pid: its number there.
        started: when, in seconds since 1970: numbers are used again.
    """

    host: str
    place: str
    pid: int
    started: float

    @classmethod
    def this(cls) -> "Process":
        """Return the calling process."""
        import psutil

        pid = os.getpid()
        return cls(socket.gethostname(), _place(), pid, psutil.Process(pid).create_time())

    def lives(self, *, silent_s: float) -> bool:
        """Return whether it is there, or may be.

        Args:
            silent_s: seconds since it last wrote; counts where it cannot be looked for.
        """
        import psutil

        if self.place != _place():
            return silent_s < SILENT_S
        try:
            found = psutil.Process(self.pid)
            if found.status() == psutil.STATUS_ZOMBIE:
                return False
            return abs(found.create_time() - self.started) < _START_TOLERANCE_S
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return silent_s < SILENT_S


@cache
def _place() -> str:
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    except OSError:  # not on Linux: the name of the machine alone
        pass
    return "/".join(parts)

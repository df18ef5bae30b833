"""Open files and space for them on the driver: checked in time, or named in the error."""

import contextlib
import errno
import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator

from sparkwright.errors import ConfigurationError

# Free file descriptors that a run needs beside those of its workers: jobs, checkpoints, logs.
OPEN_FILES = 64
_LIMITS = (errno.EMFILE, errno.ENFILE)
ROOM_BYTES = 1 << 20
_REMEDY = "Raise it: `ulimit -n 4096` before Python or JupyterLab starts, or close files."


def ensure_open_files(needed: int) -> None:
    """Raise this process' limit if fewer than `needed` further files may be opened.

    Raises:
        ConfigurationError: if the system does not allow more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = open_files()
    if soft == resource.RLIM_INFINITY or soft - used >= needed:
        return
    wanted = used + needed
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return
    raise ConfigurationError(
        f"a run needs {needed} free file descriptors on the driver. Received: a limit of {soft}, "
        f"of which {used} are open. {_REMEDY}"
    )


def open_files() -> int:
    """Return the number of open files of this process."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except FileNotFoundError:
        return 0  # not Linux
    except OSError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def write_room() -> None:
    """Write a temporary file of `ROOM_BYTES`; OSError if there is no descriptor or space."""
    with tempfile.TemporaryFile() as file:
        file.write(bytes(ROOM_BYTES))
        file.flush()


class OutOfFiles(ConfigurationError):
    """No file descriptor was free on the driver."""


def out_of_files(error: BaseException | None) -> OutOfFiles | None:
    """Return the error to raise if `error` was caused by the limit, else None."""
    for each in _chain(error):
        if isinstance(each, OutOfFiles):
            return each
        if (number := _limit_in(each)) is not None:
            return OutOfFiles(
                "the driver needs a free file descriptor for each call to Spark. Received: "
                f"{os.strerror(number)}, {open_files()} are open. {_REMEDY}"
            )
    return None


def out_of_space(error: BaseException) -> ConfigurationError | None:
    """Return the error to raise if `error` was caused by a full disk of the driver, else None."""
    if not any(isinstance(e, OSError) and e.errno == errno.ENOSPC for e in _chain(error)):
        return None
    return ConfigurationError(
        "Spark writes what it sends to executors to files of the driver. Received: "
        f"{os.strerror(errno.ENOSPC)}; the temporary folder is {tempfile.gettempdir()}. Free space "
        "there, or set TMPDIR, or `spark.local.dir`, to a folder of another disk."
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _limit_in(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno in _LIMITS:
        return error.errno
    # PySpark keeps only the text of what its sockets raised.
    if type(error).__name__ == "PySparkRuntimeError" and "CANNOT_OPEN_SOCKET" in str(error):
        return next((number for number in _LIMITS if f"[Errno {number}]" in str(error)), None)
    return None


def await_free_file(timeout_s: float, stopping: threading.Event) -> bool:
    """Wait until this process can write a file again, or `stopping`; return whether it can."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s and not stopping.wait(0.2):
        with contextlib.suppress(OSError):
            write_room()
            return True
    return False

"""The limit of open files of this process: raised in time, or named in the error."""

import contextlib
import errno
import os
import resource

from sparkwright.errors import ConfigurationError

_LIMITS = (errno.EMFILE, errno.ENFILE)
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


def out_of_files(error: BaseException | None) -> ConfigurationError | None:
    """Return the error to raise if `error` was caused by the limit, else None."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _LIMITS:
            return ConfigurationError(
                "the driver needs a free file descriptor for each call to Spark. Received: "
                f"{os.strerror(error.errno)}, {open_files()} are open. {_REMEDY}"
            )
        error = error.__cause__ or error.__context__
    return None

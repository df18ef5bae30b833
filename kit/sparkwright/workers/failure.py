"""Describe failures: a worker's exception on its way to the driver, and the end of a trainer."""

import contextlib
import re
import signal
import traceback
from pathlib import Path

from sparkwright.errors import (
    ConfigurationError,
    DataError,
    NetworkError,
    NonFiniteLossError,
    WorkerError,
    advised,
)
from sparkwright.workers.protocol import Failure

_LINES = 15
# TensorFlow's and Abseil's information and warnings, of which a healthy trainer has some, too.
_NOISE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] |[IW]\d{4} \d\d:\d\d:\d\d\.\d+ |"
    r"WARNING: All log messages before absl::|To enable the following instructions: |"
    r"E\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ cuda_"
)
# What a process that ends by itself leaves behind: Python's, faulthandler's or TensorFlow's.
_LAST_WORDS = re.compile(r"Traceback \(most recent call last\)|Fatal Python error|F\d{4} .*Check f")
_MEMORY = (
    " Most often the machine or the container had no memory left: see `dmesg`. Use smaller "
    "batches or fewer workers on it, or give executors more `spark.executor.memoryOverhead`."
)


def failure_of(error: BaseException, *, worker: int, host: str) -> Failure:
    """Describe an exception that is being handled, for its way to the driver."""
    kinds = {
        NonFiniteLossError: "non_finite",
        DataError: "data",
        ConfigurationError: "configuration",
        NetworkError: "network",
    }
    kind = next((name for cls, name in kinds.items() if isinstance(error, cls)), "error")
    reason = str(getattr(error, "reason", "") or error)
    told = kind != "error" or isinstance(error, WorkerError)
    # Where a task noticed the end of its trainer, or that the disk is full, explains nothing.
    has_trace = type(error) is not WorkerError
    trace = "".join(traceback.format_exception(error)) if has_trace else ""
    return Failure(
        worker=worker,
        host=host,
        kind=kind,
        reason=reason if told else advised(f"{type(error).__name__}: {reason}"),
        traceback=getattr(error, "worker_traceback", "") or trace,
    )


def trainer_end(*, worker: int, host: str, status: int | None, log: Path) -> str:
    """One sentence on the end, a hint where the system may have ended it, and its last words.

    Args:
        worker: for which it worked; -1: for none.
        host: the machine's name.
        status: as `subprocess` gives it, a signal as a negative number; None: unknown, as of a
            process that another one started.
        log: what the process printed.
    """
    whose = f"the trainer process of worker {worker}" if worker >= 0 else "a trainer process"
    said = log_end(log, after=_LAST_WORDS)
    hint = ""
    if status is None:
        how, hint = "ended", "" if said else _MEMORY
    elif status < 0:
        how, hint = f"ended ({_signal(-status)})", _MEMORY if -status == signal.SIGKILL else ""
    else:
        how = f"ended (exit status {status})"
    if status in (-signal.SIGKILL, -signal.SIGTERM):
        said = ""  # ended by others: what it printed before is about something else
    return f"{whose} on {host} {how}.{hint}" + (f" The end of its log:\n{said}" if said else "")


def log_end(log: Path, *, after: re.Pattern[str] | None = None) -> str:
    """The last lines of a log without TensorFlow's noise.

    Args:
        log: the file.
        after: begin with the last line that this is found in; no such line: nothing.
    """
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = log.read_text(errors="replace").splitlines()
    lines = [line for line in lines if line.strip() and not _NOISE.match(line)]
    if after is not None:
        starts = [number for number, line in enumerate(lines) if after.search(line)]
        lines = lines[starts[-1] :] if starts else []
        if len(lines) > _LINES:
            lines = [lines[0], "…", *lines[2 - _LINES :]]
    elif not lines:
        return "(empty)"
    return "\n".join(lines[-_LINES:])


def _signal(number: int) -> str:
    with contextlib.suppress(ValueError):
        return f"signal {number}, {signal.Signals(number).name}"
    return f"signal {number}"

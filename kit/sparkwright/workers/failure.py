"""Descriptions of failures: a worker's exception, and the exit of a trainer process."""

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
    SparkSessionError,
    WorkerError,
    advised,
)
from sparkwright.workers.protocol import Failure

_LINES = 15
# TensorFlow's and Abseil's messages that a healthy trainer logs, too.
_NOISE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] |[IW]\d{4} \d\d:\d\d:\d\d\.\d+ |"
    r"WARNING: All log messages before absl::|To enable the following instructions: |"
    r"E\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ cuda_"
)
# First line of a fatal error of Python, faulthandler or TensorFlow.
_FATAL_ERROR = re.compile(
    r"Traceback \(most recent call last\)|Fatal Python error|F\d{4} .*Check f"
)
_MEMORY = (
    " The usual cause is that the machine or container ran out of memory: see `dmesg`. Use smaller "
    "batches or fewer workers on it, or increase `spark.executor.memoryOverhead`."
)


# Kind of a `Failure` -> class; all others are "error", a WorkerError.
_KINDS: dict[str, type[Exception]] = {
    "non_finite": NonFiniteLossError,
    "data": DataError,
    "configuration": ConfigurationError,
    "network": NetworkError,
    "session": SparkSessionError,
}


def failure_of(error: BaseException, *, worker: int, host: str) -> Failure:
    """Describe an exception for the driver; call it in an `except` block."""
    kind = next((name for name, cls in _KINDS.items() if isinstance(error, cls)), "error")
    reason = str(getattr(error, "reason", "") or error)
    told = kind != "error" or isinstance(error, WorkerError)
    # The traceback of a plain WorkerError (trainer exit, full disk) is not informative.
    has_trace = type(error) is not WorkerError
    trace = "".join(traceback.format_exception(error)) if has_trace else ""
    return Failure(
        worker=worker,
        host=host,
        kind=kind,
        reason=reason if told else advised(f"{type(error).__name__}: {reason}"),
        traceback=getattr(error, "worker_traceback", "") or trace,
        at=getattr(error, "at", None),
    )


def error_of(failure: Failure) -> Exception:
    """Return the exception for a worker's failure, or a task's (worker -1)."""
    kind, worker, host = _KINDS.get(failure.kind, WorkerError), failure.worker, failure.host
    if issubclass(kind, WorkerError):
        return kind(
            worker=worker, host=host, reason=failure.reason, worker_traceback=failure.traceback
        )
    named = failure.kind in ("data", "network") and worker >= 0
    return kind(f"worker {worker} on {host}: {failure.reason}" if named else failure.reason)


def trainer_end(*, worker: int, host: str, status: int | None, log: Path) -> str:
    """Describe the exit of a trainer, with a hint if memory ran out and the end of its log."""
    whose = f"the trainer process of worker {worker}" if worker >= 0 else "a trainer process"
    said = log_end(log, after=_FATAL_ERROR)
    hint = ""
    if status is None:
        how, hint = "ended", "" if said else _MEMORY
    elif status < 0:
        how, hint = f"ended ({_signal(-status)})", _MEMORY if -status == signal.SIGKILL else ""
    else:
        how = f"ended (exit status {status})"
    if status in (-signal.SIGKILL, -signal.SIGTERM):
        said = ""  # killed from outside: earlier errors in the log are unrelated
    return f"{whose} on {host} {how}.{hint}" + (f" The end of its log:\n{said}" if said else "")


def log_end(log: Path, *, after: re.Pattern[str] | None = None) -> str:
    """The last lines of a log, from the last match of `after`, without TensorFlow's own."""
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

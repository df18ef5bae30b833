"""How a worker's exception travels to the driver."""

import re
import traceback

from sparkwright.errors import (
    ConfigurationError,
    DataError,
    NetworkError,
    NonFiniteLossError,
    WorkerError,
)
from sparkwright.runs._protocol import Failure

_MISSING = re.compile(r"No module named '(\w+)")


def advised(reason: str) -> str:
    """An exception in words, and what to do about a module that is missing on an executor.

    Example:
        >>> advised("ValueError: no")
        'ValueError: no'
        >>> advised("ModuleNotFoundError: No module named 'layers'")[-36:]
        'send it: `sw.send_by_value(layers)`.'
    """
    found = _MISSING.search(reason)
    if found is None:
        return reason
    name = found[1]
    return (
        f"{reason}. Executors import modules with their own Python: install `{name}` there, or, if "
        f"it is a module of your own, send it: `sw.send_by_value({name})`."
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

"""How a worker's exception travels to the driver."""

import re
import traceback

from sparkwright.errors import DataError, NetworkError, NonFiniteLossError
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


def failure_of(error: Exception, *, worker: int, host: str) -> Failure:
    """Describe an exception that is being handled, for its way to the driver."""
    kinds = {NonFiniteLossError: "non_finite", DataError: "data", NetworkError: "network"}
    kind = next((name for cls, name in kinds.items() if isinstance(error, cls)), "error")
    reason = str(getattr(error, "reason", "") or error)
    return Failure(
        worker=worker,
        host=host,
        kind=kind,
        reason=reason if kind != "error" else advised(f"{type(error).__name__}: {reason}"),
        traceback=traceback.format_exc(),
    )

"""How a worker's exception travels to the driver."""

import traceback

from sparkwright.errors import DataError, NetworkError, NonFiniteLossError
from sparkwright.runs._protocol import Failure


def failure_of(error: Exception, *, worker: int, host: str) -> Failure:
    """Describe an exception that is being handled, for its way to the driver."""
    kinds = {NonFiniteLossError: "non_finite", DataError: "data", NetworkError: "network"}
    kind = next((name for cls, name in kinds.items() if isinstance(error, cls)), "error")
    reason = str(getattr(error, "reason", "") or error)
    return Failure(
        worker=worker,
        host=host,
        kind=kind,
        reason=reason if kind != "error" else f"{type(error).__name__}: {reason}",
        traceback=traceback.format_exc(),
    )

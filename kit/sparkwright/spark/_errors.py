"""What Spark throws, as what it means."""

import re
from typing import Any

from sparkwright import errors
from sparkwright.errors import SparkwrightError, WorkerError

_TRACE = re.compile(r"Traceback \(most recent call last\):\n.*?(?=\n\s*\tat |\n\n|\Z)", re.DOTALL)
_HOST = re.compile(r"\(TID \d+\) \(([^ )]+) executor (\S+?)\)")


def translated(error: BaseException) -> BaseException:
    """A failed task's own exception instead of py4j's; anything else unchanged."""
    if isinstance(error, SparkwrightError) or not _is_java(error):
        return error
    text = str(error)
    traces = _TRACE.findall(text)
    if not traces:
        return error
    trace = traces[-1].strip()
    last = trace.splitlines()[-1]
    name, _, message = last.partition(": ")
    known: Any = getattr(errors, name.rpartition(".")[2], None)
    if name.startswith("sparkwright.") and isinstance(known, type) and known is not WorkerError:
        try:
            return known(message)
        except TypeError:
            pass
    host = _HOST.search(text)
    return WorkerError(
        worker=-1, host=host[1] if host else "an executor", reason=last, worker_traceback=trace
    )


def _is_java(error: BaseException) -> bool:
    module = type(error).__module__
    return module.startswith(("py4j", "pyspark"))

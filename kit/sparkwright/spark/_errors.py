"""What Spark throws, as what it means."""

import re
from typing import Any

from sparkwright import errors
from sparkwright.errors import ConfigurationError, SparkwrightError, WorkerError
from sparkwright.workers._failure import advised

from ._memory_kill import memory_kill

_TRACE = re.compile(r"Traceback \(most recent call last\):\n.*?(?=\n\s*\tat |\n\n|\Z)", re.DOTALL)
_WORKER = re.compile(
    r"sparkwright\.errors\.WorkerError: (?:worker (\d+)|a task) on (\S+) failed: (.+)"
)
_HOST = re.compile(r"\(TID \d+\) \(([^ )]+) executor (\S+?)\)")


def translated(error: BaseException, *, because: str | None = None) -> BaseException:
    """A failed task's own exception instead of py4j's; anything else unchanged.

    Args:
        error: what was raised.
        because: why executors were ended, if the caller knows; told if no task had its say.
    """
    if isinstance(error, SparkwrightError) or not _is_java(error):
        return error
    text = str(error)
    traces = _TRACE.findall(text)
    if (told := memory_kill(text, {})) or (because and not traces):
        return WorkerError(worker=-1, host=_host(text), reason=because or told or "")
    if not traces:
        return error
    trace = traces[-1].strip()
    last = trace.splitlines()[-1]
    if ours := _WORKER.fullmatch(last):  # in words already; where it was raised is of no interest
        return WorkerError(worker=int(ours[1] or -1), host=ours[2], reason=ours[3])
    name, _, message = last.partition(": ")
    known: Any = getattr(errors, name.rpartition(".")[2], None)
    if name.startswith("sparkwright.") and isinstance(known, type) and known is not WorkerError:
        try:
            return known(message)
        except TypeError:
            pass
    host = _host(text)
    # Most are met when the engines are compared; an executor may join later, though.
    if last.startswith("ModuleNotFoundError: No module named 'sparkwright"):
        return ConfigurationError(
            f"executors must run the driver's sparkwright. Received: {last} on {host}. Start the "
            "session without `spark.sparkwright.ship=never`, so that the driver sends its own."
        )
    return WorkerError(worker=-1, host=host, reason=advised(last), worker_traceback=trace)


def _host(text: str) -> str:
    found = _HOST.search(text)
    return found[1] if found else "an executor"


def _is_java(error: BaseException) -> bool:
    module = type(error).__module__
    return module.startswith(("py4j", "pyspark"))

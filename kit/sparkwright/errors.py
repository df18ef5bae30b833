"""Exceptions raised by sparkwright.

* SparkwrightError
  - ConfigurationError (also a ValueError): an option that cannot be meant that way
  - DataError (also a ValueError): data that does not fit the network, or itself
  - SlotsError (also a RuntimeError): fewer task slots than workers
  - NetworkError (also a ConnectionError): a port or peer that cannot be reached or trusted
  - RunTimeoutError (also a TimeoutError): somebody waited too long for somebody
  - WorkerError (also a RuntimeError): a worker failed; carries its own traceback
    + NonFiniteLossError (also an ArithmeticError): the loss became NaN or infinite
* RunInterrupted (a KeyboardInterrupt): the user interrupted; what was learned is kept

Every exception here crosses process boundaries (worker -> driver -> notebook), so each one
pickles: those with fields define `__reduce__`, the others take only their message.
"""

import re
from functools import partial
from typing import Any

_MISSING = re.compile(r"No module named '(\w+)")


class SparkwrightError(Exception):
    """Base class of every error that sparkwright raises on purpose."""


class ConfigurationError(SparkwrightError, ValueError):
    """An option has a value that it cannot have; the message names the option."""


class DataError(SparkwrightError, ValueError):
    """Data that does not fit the network or itself; the message names what and where."""


class SlotsError(SparkwrightError, RuntimeError):
    """Spark offers fewer task slots than there are workers."""


class NetworkError(SparkwrightError, ConnectionError):
    """A port cannot be opened, a peer cannot be reached, or did not prove the run's secret."""


class RunTimeoutError(SparkwrightError, TimeoutError):
    """Somebody waited longer than the configured time; the message says who, for whom."""


class WorkerError(SparkwrightError, RuntimeError):
    """A worker failed.

    Attributes:
        worker: the worker's number, from 0; -1 when the failure belongs to no worker.
        host: the machine it ran on.
        reason: one sentence, the worker's exception.
        worker_traceback: the worker's own traceback, whole, as text.
    """

    def __init__(self, *, worker: int, host: str, reason: str, worker_traceback: str = "") -> None:
        self.worker, self.host = worker, host
        self.reason, self.worker_traceback = reason, worker_traceback
        who = f"worker {worker}" if worker >= 0 else "a task"
        super().__init__(f"{who} on {host} failed: {reason}{last_frames(worker_traceback)}")

    def __reduce__(self) -> tuple[partial[Any], tuple[()], dict[str, Any]]:
        """Rebuild from the fields; the default would pass only the message. Notes are kept."""
        fields = {
            "worker": self.worker,
            "host": self.host,
            "reason": self.reason,
            "worker_traceback": self.worker_traceback,
        }
        notes = {"__notes__": self.__notes__} if hasattr(self, "__notes__") else {}
        return partial(type(self), **fields), (), notes


class NonFiniteLossError(WorkerError, ArithmeticError):
    """The loss of a minibatch was NaN or infinite; the last good average is kept."""


class RunInterrupted(KeyboardInterrupt):
    """The cell was interrupted: the run has been stopped, its last average is kept.

    A subclass of KeyboardInterrupt, so that "Run all" does not go on with the next cell.
    """


def last_frames(traceback_text: str, *, frames: int = 2) -> str:
    """The last `frames` frames of a formatted traceback, indented; empty for no traceback."""
    lines = [line for line in traceback_text.splitlines() if line.strip()]
    starts = [i for i, line in enumerate(lines) if line.lstrip().startswith('File "')]
    if not starts:
        return ""
    first = starts[-frames] if len(starts) >= frames else starts[0]
    return "\nLast frames of the worker's traceback:\n" + "\n".join(lines[first:][:14])


def advised(reason: str) -> str:
    """An exception in words, and what to do about a module that is missing on an executor.

    Example:
        >>> advised("ValueError: no")
        'ValueError: no'
        >>> advised("ModuleNotFoundError: No module named 'layers'")[-42:]
        'send it: `sw.spark.send_by_value(layers)`.'
    """
    found = _MISSING.search(reason)
    if found is None:
        return reason
    name = found[1]
    return (
        f"{reason}. Executors import modules with their own Python: install `{name}` there, or, if "
        f"it is a module of your own, send it: `sw.spark.send_by_value({name})`."
    )

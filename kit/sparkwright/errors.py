"""Exceptions raised by sparkwright.

* SparkwrightError
  - ConfigurationError (also a ValueError): an invalid option
  - DataError (also a ValueError): data that is inconsistent or does not match the network
  - SlotsError (also a RuntimeError): fewer task slots than workers
  - SparkSessionError (also a RuntimeError): the Spark session ended
  - NetworkError (also a ConnectionError): a port or peer is unreachable or not authenticated
  - RunTimeoutError (also a TimeoutError): a wait exceeded the configured time
  - WorkerError (also a RuntimeError): a worker failed; carries its own traceback
    + NonFiniteLossError (also an ArithmeticError): the loss became NaN or infinite
* RunInterrupted (a KeyboardInterrupt): the user interrupted the run; the last average is kept

Exceptions cross process boundaries (worker -> driver -> notebook), so all of them can be pickled.
Those with fields define `__reduce__`; the others take only their message.
"""

import re
from functools import partial
from typing import Any

_MISSING = re.compile(r"No module named '(\w+)")


class SparkwrightError(Exception):
    """Base class of the errors that sparkwright raises."""


class ConfigurationError(SparkwrightError, ValueError):
    """An option has an invalid value; the message names the option."""


class DataError(SparkwrightError, ValueError):
    """Data is inconsistent or does not match the network; the message names the item and place."""


class SlotsError(SparkwrightError, RuntimeError):
    """Spark offers fewer task slots than there are workers."""


class SparkSessionError(SparkwrightError, RuntimeError):
    """The Spark session, its JVM or its server ended; the message says what the model holds."""


class NetworkError(SparkwrightError, ConnectionError):
    """A port cannot be opened, or a peer cannot be reached or authenticated."""


class RunTimeoutError(SparkwrightError, TimeoutError):
    """A wait exceeded the configured time; the message names the waiting and the awaited side."""


class WorkerError(SparkwrightError, RuntimeError):
    """A worker failed.

    Attributes:
        worker: the worker's number, from 0; -1 when the failure belongs to no worker.
        host: the worker's machine.
        reason: the worker's exception, as one sentence.
        worker_traceback: the worker's full traceback, as text.
    """

    # For the driver: what the worker was training, see `workers.protocol.Failure`.
    at: tuple[int, int, int, int] | None = None

    def __init__(self, *, worker: int, host: str, reason: str, worker_traceback: str = "") -> None:
        self.worker, self.host = worker, host
        self.reason, self.worker_traceback = reason, worker_traceback
        who = f"worker {worker}" if worker >= 0 else "a task"
        super().__init__(f"{who} on {host} failed: {reason}{last_frames(worker_traceback)}")

    def __reduce__(self) -> tuple[partial[Any], tuple[()], dict[str, Any]]:
        """Rebuild from the fields and keep notes; the default passes only the message."""
        fields = {
            "worker": self.worker,
            "host": self.host,
            "reason": self.reason,
            "worker_traceback": self.worker_traceback,
        }
        notes = {"__notes__": self.__notes__} if hasattr(self, "__notes__") else {}
        return partial(type(self), **fields), (), notes


class NonFiniteLossError(WorkerError, ArithmeticError):
    """The loss of a minibatch is NaN or infinite; the last finite average is kept."""


class RunInterrupted(KeyboardInterrupt):
    """The user interrupted the cell: the run is stopped and its last average kept.

    A subclass of KeyboardInterrupt, so that "Run all" does not continue with the next cell.
    """


def last_frames(traceback_text: str, *, frames: int = 2) -> str:
    """Return the last `frames` frames of a formatted traceback, indented; "" for no traceback."""
    lines = [line for line in traceback_text.splitlines() if line.strip()]
    starts = [i for i, line in enumerate(lines) if line.lstrip().startswith('File "')]
    if not starts:
        return ""
    first = starts[-frames] if len(starts) >= frames else starts[0]
    return "\nLast frames of the worker's traceback:\n" + "\n".join(lines[first:][:14])


def advised(reason: str) -> str:
    """Add a remedy to the text of an exception if a module is missing on an executor.

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

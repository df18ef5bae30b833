"""The engine of a run, and its outcome: what it has learned, and why it ended."""

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from sparkwright.errors import SparkwrightError, WorkerError
from sparkwright.workers.protocol import Progress

from ._events import RunState
from .record import RunRecord

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The outcome of a run."""

    # The last average, in the layout of `ModelState.read`; None without one.
    vector: NDArray[Any] | None
    counters: bytes | None  # worker 0's, packed; None without an average
    progress: Progress
    stopped: bool = False  # on request
    error: BaseException | None = None  # the cause of failure


class Engine(Protocol):
    """Trains a network; see `PeerEngine` and `SparkRoundsEngine`."""

    def run(self, record: RunRecord) -> Outcome:
        """Train to the end; blocks."""
        ...

    def stop(self) -> None:
        """End with the next averaging; non-blocking, from any thread."""

    def cancel(self) -> None:
        """End immediately; from any thread."""

    def request_histograms(self) -> bool:
        """Request histograms after the next averaging; False if no worker is training yet."""
        ...


def told(outcome: Outcome) -> Outcome:
    """Return the outcome with an Exception that says, at least in a note, what the model holds."""
    if outcome.error is None:
        return outcome
    error = as_exception(outcome.error, rule="a run must end with an Exception")
    if not any(words in str(error) for words in ("The model is unchanged", "The model holds")):
        error.add_note(held(outcome.progress if outcome.vector is not None else None))
    return replace(outcome, error=error)


def as_exception(error: BaseException, *, rule: str, remedy: str = "See its cause.") -> Exception:
    """Return an error in place of `SystemExit` and others, which would end a thread or a script."""
    if isinstance(error, Exception):
        return error
    place = traceback.extract_tb(error.__traceback__)[-1]
    found = SparkwrightError(
        f"{rule}. Received: {type(error).__name__}({error}) in {place.filename}, line "
        f"{place.lineno}. {remedy}"
    )
    found.__cause__ = error
    return found


def held(progress: Progress | None) -> str:
    """Return a sentence on the state that the model holds after a failed run."""
    if progress is None or not any(progress.steps):
        return "The model is unchanged: no averaging was completed."
    epoch = progress.epoch + int(progress.opened > progress.epoch)
    if not progress.averagings:  # within the first epoch of gradient sharing
        return (
            f"The model holds the state after {sum(progress.steps)} minibatches, in epoch {epoch}."
        )
    return f"The model holds the average after averaging {progress.averagings}, in epoch {epoch}."


def ending_of(
    outcome: Outcome, *, done: str, restored_epoch: int | None
) -> tuple[RunState, str, str | None]:
    """Return the last state of a run, its message, and the details of its error."""
    error = outcome.error
    if isinstance(error, WorkerError) and error.worker_traceback:
        return "failed", sentence(error), f"{error}\n\n{error.worker_traceback}"
    if error is not None:
        return "failed", sentence(error), f"{type(error).__name__}: {error}"
    if not outcome.stopped:
        return "done", done or "done", None
    average = (
        "the last average" if restored_epoch is None else f"the weights of epoch {restored_epoch}"
    )
    held = "what it held" if outcome.vector is None else average
    return "stopped", f"stopped; the model holds {held}", None


def tidy(*actions: Callable[[], object]) -> None:
    """Perform each clean-up action; errors are logged and never replace the outcome of a run."""
    for action in actions:
        try:
            action()
        except BaseException:  # such as SystemExit, which would end the run's thread
            _log.warning("a resource of the run could not be released", exc_info=True)


def sentence(error: BaseException) -> str:
    """Return the first line of an error, with the worker it is of."""
    text = error.reason if isinstance(error, WorkerError) else str(error)
    where = (
        f"worker {error.worker}: " if isinstance(error, WorkerError) and error.worker >= 0 else ""
    )
    return f"{where}{text}".strip().splitlines()[0] if text else type(error).__name__

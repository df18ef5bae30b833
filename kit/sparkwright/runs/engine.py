"""The engine protocol, the outcome of a run, and the state of the driver's model."""

import logging
import secrets
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import SparkwrightError, WorkerError
from sparkwright.masters import ParameterAveragingTrainingMaster, TrainingMaster
from sparkwright.networks import ModelState, unpack_arrays
from sparkwright.networks.steps import optimizers_of
from sparkwright.workers.protocol import Progress

from .record import RunRecord

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        vector: the last average, in the layout of `ModelState.read`; None without one.
        counters: worker 0's packed counters; None without an average.
        progress: the progress of training.
        stopped: whether the run was stopped on request.
        error: the cause of failure; None if the run did not fail.
    """

    vector: NDArray[Any] | None
    counters: bytes | None
    progress: Progress
    stopped: bool = False
    error: BaseException | None = None


class Engine(Protocol):
    """Trains a network; see `PeerEngine` and `SparkRoundsEngine`."""

    def run(self, record: RunRecord) -> Outcome:
        """Train to the end; blocks."""
        ...

    def stop(self) -> None:
        """End with the next averaging; non-blocking, from any thread."""
        ...

    def cancel(self) -> None:
        """End immediately; from any thread."""
        ...

    def request_histograms(self) -> bool:
        """Request histograms after the next averaging; False if no worker is training yet."""
        ...


class StartState:
    """The driver's model: the initial state of training, and the target of its result.

    Attributes:
        state: the model's variables.
        thresholds: initial thresholds of gradient sharing; empty: those of the master.
    """

    def __init__(self, model: Any, master: TrainingMaster | None = None) -> None:
        """Split the variables of `model` as `master` averages them; None: average moments too."""
        self.state, self._model, self._velocity, updater = ModelState.of(model), model, 0, "average"
        if isinstance(master, ParameterAveragingTrainingMaster):
            updater = master.updater
            self._velocity = master.velocity_size(self.state.trainable_size)
        self.thresholds: tuple[float, ...] = ()
        self._has_updater = updater == "average"
        self.state = replace(self.state, own_updater=updater == "local")

    @property
    def iterations(self) -> int:
        """The optimizer's count of minibatches."""
        return self.state.iterations

    def vector(self) -> NDArray[Any]:
        """Return a new flat vector of the averaged state, followed by the velocity (zeros)."""
        vector = np.zeros(self.size + self._velocity, self.state.dtype)
        self.state.read(updater=self._has_updater, out=vector[: self.size])
        return vector

    @property
    def size(self) -> int:
        """Number of elements of the averaged state."""
        return self.state.averaged_size + (self.state.updater_size if self._has_updater else 0)

    def extras(self) -> list[NDArray[Any]]:
        """The state of a worker that is not averaged."""
        return self.state.read_extras()

    @property
    def counter_bytes(self) -> int:
        """Bytes of the packed counters."""
        return sum(array.nbytes for array in self.state.read_counters())

    def restore(self, vector: NDArray[Any], extras: bytes) -> None:
        """Write a checkpoint's state to the model; see `RunMember.write_extras` for `extras`."""
        like = self.state.read_extras()
        size = sum(array.nbytes for array in like)
        self.state.write(vector[: self.size])
        self.state.write_extras(unpack_arrays(extras[:size], like))

    def take(self, outcome: Outcome) -> None:
        """Write the result to the model, as after Keras' `fit`.

        With `use_ema`, the weights become their moving averages; checkpoints contain both.
        """
        if outcome.vector is not None:
            self.state.write(outcome.vector[: self.size])
            self.state.set_iterations(outcome.progress.iterations)
        if outcome.counters is not None:
            self.state.write_extras(unpack_arrays(outcome.counters, self.state.read_counters()))
        if outcome.vector is not None and self.iterations:  # initial moving averages are 0
            for each in optimizers_of(self._model):
                each.finalize_variable_values(
                    each._trainable_variables or self._model.trainable_variables
                )


def seeded(master: TrainingMaster, *, otherwise: int | None = None) -> TrainingMaster:
    """Return `master` with a seed: its own, else `otherwise`, else a random one."""
    if master.seed is not None:
        return master
    return replace(master, seed=secrets.randbits(31) if otherwise is None else otherwise)


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

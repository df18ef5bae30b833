"""What an engine is: something that trains a network to the end of a run."""

import secrets
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparkwright.masters import ParameterAveragingTrainingMaster, TrainingMaster
from sparkwright.networks import ModelState, unpack_arrays
from sparkwright.networks.steps import optimizers_of
from sparkwright.workers.protocol import Progress

from .record import RunRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        vector: the last average, as `ModelState.read` gives it; None if there was none.
        counters: worker 0's own state, packed; None likewise.
        progress: what counts.
        stopped: whether it ended because somebody asked for it.
        error: what went wrong; None if nothing did.
    """

    vector: NDArray[Any] | None
    counters: bytes | None
    progress: Progress
    stopped: bool = False
    error: BaseException | None = None


class Engine(Protocol):
    """Trains; see `PeerEngine` and `SparkRoundsEngine`."""

    def run(self, record: RunRecord) -> Outcome:
        """Train, on the calling thread, to the end."""
        ...

    def stop(self) -> None:
        """End with the next averaging; returns at once, from any thread."""
        ...

    def cancel(self) -> None:
        """End at once; from any thread."""
        ...

    def request_histograms(self) -> bool:
        """Take histograms after the next averaging; False if no worker trains yet."""
        ...


class StartState:
    """The driver's model, from which training starts and into which its result goes.

    Attributes:
        state: the model's variables.
        thresholds: of gradient sharing, to begin with; none: they have not adapted.
    """

    def __init__(self, model: Any, master: TrainingMaster | None = None) -> None:
        """Sort the variables of `model` as `master` averages them; default None: moments too."""
        self.state, self._model, self._velocity, updater = ModelState.of(model), model, 0, "average"
        if isinstance(master, ParameterAveragingTrainingMaster):
            updater = master.updater
            self._velocity = master.velocity_size(self.state.trainable_size)
        self.thresholds: tuple[float, ...] = ()
        self._has_updater = updater == "average"
        self.state = replace(self.state, own_updater=updater == "local")

    @property
    def iterations(self) -> int:
        """Minibatches that the optimizer has counted."""
        return self.state.iterations

    def vector(self) -> NDArray[Any]:
        """A new flat vector of the state that is averaged, then the velocity, which is 0."""
        vector = np.zeros(self.size + self._velocity, self.state.dtype)
        self.state.read(updater=self._has_updater, out=vector[: self.size])
        return vector

    @property
    def size(self) -> int:
        """Elements of the state that is averaged."""
        return self.state.averaged_size + (self.state.updater_size if self._has_updater else 0)

    def extras(self) -> list[NDArray[Any]]:
        """A worker's own and fixed state."""
        return self.state.read_extras()

    @property
    def counter_bytes(self) -> int:
        """Bytes of the packed counters."""
        return sum(array.nbytes for array in self.state.read_counters())

    def restore(self, vector: NDArray[Any], extras: bytes) -> None:
        """Put a checkpoint's state into the model; see `RunMember.write_extras` for `extras`."""
        like = self.state.read_extras()
        size = sum(array.nbytes for array in like)
        self.state.write(vector[: self.size])
        self.state.write_extras(unpack_arrays(extras[:size], like))

    def take(self, outcome: Outcome) -> None:
        """Put what was learned into the model, as it is after `fit`.

        With `use_ema` these are moving averages of the weights; checkpoints hold both.
        """
        if outcome.vector is not None:
            self.state.write(outcome.vector[: self.size])
            self.state.set_iterations(outcome.progress.iterations)
        if outcome.counters is not None:
            self.state.write_extras(unpack_arrays(outcome.counters, self.state.read_counters()))
        if outcome.vector is not None and self.iterations:  # before the first the averages are 0
            for each in optimizers_of(self._model):
                each.finalize_variable_values(
                    each._trainable_variables or self._model.trainable_variables
                )


def seeded(master: TrainingMaster, *, otherwise: int | None = None) -> TrainingMaster:
    """`master` with a seed: its own, or `otherwise`, or one drawn for this run."""
    if master.seed is not None:
        return master
    return replace(master, seed=secrets.randbits(31) if otherwise is None else otherwise)

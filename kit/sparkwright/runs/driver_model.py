"""The driver's model: training starts from its state, and the result is delivered to it."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.masters import ParameterAveragingTrainingMaster, TrainingMaster
from sparkwright.networks import ModelState, unpack_arrays
from sparkwright.networks.steps import optimizers_of

from .outcome import Outcome


class DriverModel:
    """The driver's model: the initial state of training, and the target of its result."""

    def __init__(self, model: Any, master: TrainingMaster | None = None) -> None:
        """Split the variables of `model` as `master` averages them; None: average moments too."""
        self.state, self._model, self._velocity, updater = ModelState.of(model), model, 0, "average"
        if isinstance(master, ParameterAveragingTrainingMaster):
            updater = master.updater
            self._velocity = master.velocity_size(self.state.trainable_size)
        # Initial ones of gradient sharing; empty: those of the master.
        self.thresholds: tuple[float, ...] = ()
        self._has_updater = updater == "average"
        self.state = replace(self.state, own_updater=updater == "local")
        # Here, because TensorFlow's first operation of a thread ends the process (SIGSEGV) while
        # no file descriptor is free, and threads of connections use this.
        self.counter_bytes = sum(array.nbytes for array in self.state.read_counters())

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

    def restore(self, vector: NDArray[Any], extras: bytes) -> None:
        """Write a checkpoint's state to the model; see `KeptState.write_extras` for `extras`."""
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
    """Return `master` with a seed: its own, else `otherwise`, else a random one.

    As Keras' seeds, it is drawn so that `keras.utils.set_random_seed` makes runs repeatable.
    """
    if master.seed is not None:
        return master
    return replace(master, seed=random.getrandbits(31) if otherwise is None else otherwise)

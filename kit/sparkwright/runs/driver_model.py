"""The state of training on the driver: in its model, and the copies that workers sent.

Training starts from the state of the `DriverModel`, and the result is delivered to it.
"""

import secrets
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.masters import ParameterAveragingTrainingMaster, TrainingMaster
from sparkwright.mesh.framing import Message
from sparkwright.networks import ModelState, pack_arrays, unpack_arrays
from sparkwright.networks.steps import optimizers_of
from sparkwright.workers.protocol import Progress

from ._checkpoint import Checkpoint
from ._observations import order_of, vector_of
from .outcome import Outcome


class DriverModel:
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


class DriverState:
    """The state of training that the driver has.

    Attributes:
        start: the fields and the payload of the message from which workers start: the model's
            state, a checkpoint's, or the latest copy.
        copy: the latest state that workers sent, for the case that all are lost; None: none.
    """

    start: tuple[dict[str, Any], tuple[Any, ...]]

    def __init__(self, model: DriverModel) -> None:
        """Read nothing from the model before `begin`."""
        self._model = model
        self.copy: Outcome | None = None

    def begin(self, checkpoint: Checkpoint | None) -> None:
        """Start from a checkpoint, or from the model, which the user may change later."""
        if checkpoint is None:
            self._set_start(self._model.vector(), pack_arrays(self._model.extras()))
        else:
            self._set_start(checkpoint.vector, *checkpoint.extras)

    def keep(self, message: Message, progress: Progress) -> None:
        """Keep a received state, for the case that all workers are lost."""
        vector = vector_of(message)
        extras = bytes(memoryview(message.payload)[vector.nbytes :])
        self._set_start(vector, extras)
        counters = extras[: self._model.counter_bytes]
        self.copy = Outcome(vector=vector, counters=counters, progress=progress)

    def latest(self, result: Message | None) -> Outcome | None:
        """Return the later of the delivered state and the copy; None: there is neither."""
        copy = self.copy
        if result is None or (copy is not None and order_of(result) < copy.progress.order):
            return copy
        vector = vector_of(result)
        counters = bytes(memoryview(result.payload)[vector.nbytes :]) or None
        progress = Progress.from_dict(result.fields["progress"])
        return Outcome(vector=vector, counters=counters, progress=progress)

    def _set_start(self, vector: Any, *extras: bytes) -> None:
        self.start = {"size": int(vector.size)}, (vector, *extras)


def seeded(master: TrainingMaster, *, otherwise: int | None = None) -> TrainingMaster:
    """Return `master` with a seed: its own, else `otherwise`, else a random one."""
    if master.seed is not None:
        return master
    return replace(master, seed=secrets.randbits(31) if otherwise is None else otherwise)

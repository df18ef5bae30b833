"""The state of training on the driver: where workers start, and what a run can end with."""

from typing import Any

from sparkwright.mesh.framing import Message
from sparkwright.networks import pack_arrays
from sparkwright.workers.protocol import Progress

from ._checkpoint import Checkpoint
from ._messages import order_of, vector_of
from .driver_model import DriverModel
from .outcome import Outcome


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

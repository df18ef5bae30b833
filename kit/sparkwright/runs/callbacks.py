"""Keras' callbacks of one run: which can work on the driver, and what they are told.

They run on the thread of the run, at its beginning, between epochs, and at its end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, NonFiniteLossError
from sparkwright.networks.steps import learning_rate_of

from .record import RunRecord

# What to use instead of those of Keras' own that need more than the driver has.
_INSTEAD = {
    "BackupAndRestore": "`checkpoint=Checkpointing(url)` of the training master, and `resume=url`",
    "ProgbarLogger": "`display=True`, or `run.status`",
    "SwapEMAWeights": "`model.optimizer.finalize_variable_values(…)` after the run",
}
# Options of Keras' own with the only value that counts no minibatches.
_BY_EPOCH = {"save_freq": "epoch", "update_freq": "epoch", "_should_trace": False}


def checked_callbacks(given: Any) -> list[Any]:
    """The callbacks as a list; None: none.

    Raises:
        ConfigurationError: if one is none of Keras' callbacks, or cannot work on the driver.
    """
    if given is None:
        return []
    import keras

    callbacks: list[Any] = list(given) if isinstance(given, Sequence) else [given]
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise ConfigurationError(
                "each of `callbacks` must be a keras.callbacks.Callback. Received: "
                f"{type(callback).__name__}. `TrainingHook`s belong to the training master: "
                "`master.with_hooks(…)`."
            )
        if problem := _problem_of(callback, keras.callbacks.Callback):
            raise ConfigurationError(
                "`callbacks` run on the driver between epochs; minibatches are trained and "
                f"validated by the workers. Received: {type(callback).__name__} {problem}."
            )
    return callbacks


def _problem_of(callback: Any, base: type) -> str:
    """What a callback needs that it does not get, and what to use instead; empty: nothing."""
    own = next(kind.__name__ for kind in type(callback).__mro__ if _is_keras(kind))
    if own in _INSTEAD:
        return f"(of Keras). Use {_INSTEAD[own]}"
    for method in dir(base):
        uncalled = "batch" in method or method.startswith(("on_test", "on_predict"))
        if uncalled and not _is_keras(getattr(callback, method)):
            return (
                f"with `{method}`. Override `on_epoch_begin` and `on_epoch_end`, or give the "
                "training master a `TrainingHook`, which workers call around each minibatch"
            )
    for option, value in _BY_EPOCH.items():
        if own != base.__name__ and getattr(callback, option, value) != value:
            used = "`profile_batch=0`" if option == "_should_trace" else f'`{option}="epoch"`'
            return f"that counts minibatches. Use {used}"
    return ""


def _is_keras(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith("keras.")


class DriverCallbacks:
    """The callbacks of one run, and Keras' history of it.

    Attributes:
        error: what a callback raised; None: nothing.
        ends_on_nan: whether a NaN or infinite loss ends the run without an error.
    """

    def __init__(self, callbacks: Sequence[Any], model: Any, *, epochs: int) -> None:
        """Prepare; no callback is called before `begin`.

        Args:
            callbacks: as `checked_callbacks` returned them; may be none.
            model: the user's, which holds the latest average while a callback runs.
            epochs: the number of the last epoch.
        """
        import keras

        self.error: BaseException | None = None
        nan = keras.callbacks.TerminateOnNaN
        self.ends_on_nan = any(isinstance(callback, nan) for callback in callbacks)
        self._callbacks, self._model, self._epochs = callbacks, model, epochs
        self._list: Any = None

    def begin(self, *, epoch: int, steps: int, learning_rate: float | None) -> float | None:
        """Training begins with `epoch`, from 0; returns the learning rate, None if it has none.

        Args:
            epoch: the first one.
            steps: minibatches in an epoch, of all workers together; 0: unknown.
            learning_rate: the checkpoint's, which overrules the callbacks'; None: there is none.
        """
        import keras

        model = self._model
        model.stop_training = False
        params: dict[str, Any] = {"verbose": 0, "epochs": self._epochs, "steps": steps or None}
        self._list = keras.callbacks.CallbackList(
            self._callbacks, add_history=True, model=model, **params
        )
        self._list.on_train_begin()
        self._list.on_epoch_begin(epoch)
        if learning_rate is not None:
            model.optimizer.learning_rate = learning_rate
        return learning_rate_of(model)

    def epoch_ended(self, epoch: int, logs: Mapping[str, float]) -> tuple[bool, float | None]:
        """The model holds the average after `epoch`, from 1: whether to end, the learning rate."""
        try:
            self._list.on_epoch_end(epoch - 1, logs)
            ends = bool(self._model.stop_training)
            if not ends and epoch < self._epochs:
                self._list.on_epoch_begin(epoch)
        except Exception as error:
            self.error = error
            raise
        return ends, learning_rate_of(self._model)

    def ends_at(self, losses: NDArray[np.floating[Any]]) -> bool:
        """Whether training ends because of these losses of minibatches."""
        return self.ends_on_nan and not np.isfinite(losses).all()

    def explained(self, error: BaseException | None) -> BaseException | None:
        """Why the run failed, as far as callbacks say: what one of them raised comes first."""
        is_nan = self.ends_on_nan and isinstance(error, NonFiniteLossError)
        return self.error or (None if is_nan else error)

    def end(self) -> None:
        """The run is over, and the model holds its result."""
        if self._list is not None:
            history = self._model.history.history
            self._list.on_train_end({name: values[-1] for name, values in history.items()})

    def history(self, record: RunRecord, done: int) -> Any:
        """Keras' `History` of the first `done` epochs: the callbacks' own, else that of the log."""
        if self._list is not None:
            return self._model.history
        import keras

        found = keras.callbacks.History()
        found.set_model(self._model)
        found.set_params({"verbose": 0, "epochs": self._epochs, "steps": record.steps_per_epoch})
        found.on_train_begin()
        for epoch in sorted(set(record.log.rows()["epoch"].tolist())):
            if epoch <= done:
                found.on_epoch_end(epoch - 1, record.epoch_logs(epoch))
        return found

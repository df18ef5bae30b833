"""Keras' callbacks of one run: which can work on the driver, and what they are told.

They run on the thread of the run, at the beginning, between epochs, and at the end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, NonFiniteLossError
from sparkwright.networks.learning_rate import learning_rate_of

from .record import RunRecord

# Called by Keras' own `fit`, but not here: minibatches are trained, and validated, by workers.
_UNCALLED = (
    *(f"on_{kind}batch_{end}" for kind in ("", "train_", "test_") for end in ("begin", "end")),
    *(f"on_{kind}_{end}" for kind in ("test", "predict") for end in ("begin", "end")),
    *(f"on_predict_batch_{end}" for end in ("begin", "end")),
)
# Keras' own that need these methods, and what to use instead.
_INSTEAD = {
    "BackupAndRestore": "`checkpoint=Checkpointing(url)` of the training master, and `resume=url`",
    "ProgbarLogger": "`display=True`, or `run.status`",
    "SwapEMAWeights": "`optimizer.finalize_variable_values(model.trainable_variables)` after the "
    "run",
}


def checked_callbacks(callbacks: Any) -> list[Any]:
    """The callbacks, flat.

    Raises:
        ConfigurationError: if one is none of Keras' callbacks, or cannot work on the driver.
    """
    if callbacks is None:
        return []
    import keras

    found = (
        callbacks.callbacks if isinstance(callbacks, keras.callbacks.CallbackList) else callbacks
    )
    found = list(found) if isinstance(found, Sequence) else [found]
    for callback in found:
        if not isinstance(callback, keras.callbacks.Callback):
            raise ConfigurationError(
                "each of `callbacks` must be a keras.callbacks.Callback. Received: "
                f"{type(callback).__name__}. `TrainingHook`s belong to the training master: "
                "`master.with_hooks(…)`."
            )
        _check(callback)
    return found


def _check(callback: Any) -> None:
    """Refuse a callback that would be called less than it needs."""
    import keras

    name = type(callback).__name__
    own = [each.__name__ for each in type(callback).__mro__ if _is_keras(each)]
    if instead := next((_INSTEAD[each] for each in own if each in _INSTEAD), ""):
        raise ConfigurationError(
            f"`callbacks` run on the driver between epochs, where {own[0]} cannot work. Received: "
            f"a {name}. Use {instead}."
        )
    for method in _UNCALLED:
        function = getattr(callback, method, None)
        function = getattr(function, "__func__", function)
        is_own = function is getattr(keras.callbacks.Callback, method, None) or _is_keras(function)
        if not is_own:
            raise ConfigurationError(
                "`callbacks` run on the driver between epochs; minibatches are trained and "
                f"validated by the workers. Received: a {name} with `{method}`. Override "
                "`on_epoch_begin` and `on_epoch_end` instead, or give the training master a "
                "`TrainingHook`, which workers call around each minibatch."
            )
    for option, wanted in (("save_freq", "epoch"), ("update_freq", "epoch"), ("_should_trace", 0)):
        if (value := getattr(callback, option, wanted)) != wanted and own[0] != "Callback":
            option, wanted = ("profile_batch", 0) if option == "_should_trace" else (option, wanted)
            raise ConfigurationError(
                "`callbacks` run on the driver between epochs, so those of Keras cannot count "
                f"minibatches. Received: a {name} with {option}={value!r}. Use "
                f"`{option}={wanted!r}`."
            )


def _is_keras(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("keras.")


class DriverCallbacks:
    """The callbacks of one run.

    Attributes:
        error: what one of them raised; None: nothing.
        history: of Keras: what was logged in each epoch.
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
        self._callbacks, self._model, self._epochs = callbacks, model, epochs
        self._list: Any = None
        self.history: Any = None
        self.ends_on_nan = any(
            isinstance(each, keras.callbacks.TerminateOnNaN) for each in callbacks
        )

    def history_of(self, record: RunRecord, done: int) -> Any:
        """Keras' `History` of the epochs up to `done`: the callbacks' own, else made of the log.

        Args:
            record: of the run.
            done: complete epochs.
        """
        if self.history is not None:
            return self.history
        import keras

        found = keras.callbacks.History()
        found.set_model(self._model)
        found.set_params({"verbose": 0, "epochs": self._epochs, "steps": record.steps_per_epoch})
        found.on_train_begin()
        for epoch in sorted(
            {epoch for epoch in record.log.rows()["epoch"].tolist() if epoch <= done}
        ):
            found.on_epoch_end(epoch - 1, record.epoch_logs(epoch))
        return found

    def begin(self, *, epoch: int, steps: int | None, learning_rate: float | None) -> float | None:
        """Training begins with `epoch`, from 0; returns the learning rate, if it can be set.

        Args:
            epoch: the first one.
            steps: minibatches in an epoch, of all workers together; None: unknown.
            learning_rate: the checkpoint's, which overrules the callbacks'; None: there is none.

        Raises:
            What a callback raises.
        """
        import keras

        self._model.stop_training = False
        self._list = keras.callbacks.CallbackList(
            self._callbacks,
            add_history=True,
            model=self._model,
            verbose=0,
            epochs=self._epochs,
            steps=steps,
        )
        self.history = self._model.history
        self._list.on_train_begin()
        if learning_rate is not None:
            self._model.optimizer.learning_rate = learning_rate
        self._list.on_epoch_begin(epoch)
        if learning_rate is not None:
            self._model.optimizer.learning_rate = learning_rate
        return learning_rate_of(self._model)

    def epoch_ended(self, epoch: int, logs: Mapping[str, float]) -> tuple[bool, float | None]:
        """The model holds the average after `epoch`, from 1: whether to end, the learning rate.

        Args:
            epoch: complete epochs.
            logs: as Keras names them.

        Raises:
            What a callback raises.
        """
        self._list.on_epoch_end(epoch - 1, dict(logs))
        ends = bool(self._model.stop_training)
        if not ends and epoch < self._epochs:
            self._list.on_epoch_begin(epoch)
        return ends, learning_rate_of(self._model)

    def ends_at(self, losses: NDArray[np.floating[Any]]) -> bool:
        """Whether training ends because of these losses of minibatches."""
        return self.ends_on_nan and not np.isfinite(losses).all()

    def explained(self, error: BaseException | None) -> BaseException | None:
        """Why the run failed, as far as callbacks say: what one of them raised comes first."""
        if self.error is not None:
            return self.error
        return None if self.ends_on_nan and isinstance(error, NonFiniteLossError) else error

    def end(self) -> None:
        """The run is over, and the model holds its result.

        Raises:
            What a callback raises.
        """
        if self._list is not None:
            self._list.on_train_end(self._last_logs())

    def _last_logs(self) -> dict[str, float]:
        return {name: values[-1] for name, values in self.history.history.items()}

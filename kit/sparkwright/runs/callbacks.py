"""Keras' callbacks of one run: which can work on the driver, and what they are told.

They run on the thread of the run, at its beginning, between epochs, and at its end; if the user
wants it, between averagings, too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, NonFiniteLossError
from sparkwright.masters import ReduceOnPlateau
from sparkwright.networks.steps import learning_rate_of
from sparkwright.workers.protocol import Progress

from ._decisions import Moment
from .engine import Outcome, StartState
from .record import RunRecord

# What to use instead of those of Keras' own that need more than the driver has.
_INSTEAD = {
    "BackupAndRestore": "`checkpoint=Checkpointing(url)` of the training master, and `resume=url`",
    "ProgbarLogger": "`display=True`, or `run.status`",
    "SwapEMAWeights": "`model.optimizer.finalize_variable_values(…)` after the run",
}
# Options of Keras' own with the only value that counts no minibatches.
_BY_EPOCH = {"save_freq": "epoch", "update_freq": "epoch", "_should_trace": False}
_BY_AVERAGING = "`callback_frequency=n`, which calls it after every n-th averaging of an epoch"
# Other workers' rows are on their way when the state is there.
_ROWS_S = 0.5


def checked_callbacks(
    given: Any, *, by_averaging: bool = False, validates: bool = True
) -> list[Any]:
    """The callbacks as a list; None: none.

    With `by_averaging` their methods for minibatches are called at averagings.

    Raises:
        ConfigurationError: if one is none of Keras' callbacks, or cannot work on the driver.
    """
    if given is None:
        return []
    import keras

    callbacks: list[Any] = list(given) if isinstance(given, Sequence) else [given]
    for callback in callbacks:
        if isinstance(callback, ReduceOnPlateau):
            if validates:
                continue
            raise ConfigurationError(
                "`ReduceOnPlateau` judges by validation data. Received: none. Give `validation` or "
                "`validation_split`."
            )
        if not isinstance(callback, keras.callbacks.Callback):
            raise ConfigurationError(
                "each of `callbacks` must be a keras.callbacks.Callback. Received: "
                f"{type(callback).__name__}. `TrainingHook`s belong to the training master: "
                "`master.with_hooks(…)`."
            )
        if problem := _problem_of(callback, keras.callbacks.Callback, by_averaging):
            raise ConfigurationError(
                "`callbacks` run on the driver, between epochs or averagings; minibatches are "
                "trained and validated by the workers. Received: "
                f"{type(callback).__name__} {problem}."
            )
    return callbacks


def made_callbacks(callbacks: Sequence[Any], model: Any) -> list[Any]:
    """What `checked_callbacks` returned as Keras' callbacks alone, for one run of `model`.

    Raises:
        ConfigurationError: if a schedule sets the learning rate that a callback would.
    """
    import keras

    schedule = getattr(getattr(model, "optimizer", None), "_learning_rate", None)
    is_scheduled = isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule)
    if is_scheduled and any(isinstance(each, ReduceOnPlateau) for each in callbacks):
        raise ConfigurationError(
            "`ReduceOnPlateau` needs an optimizer with a constant learning rate. Received: "
            f"{type(schedule).__name__}. Leave out one of the two."
        )
    return [
        keras.callbacks.ReduceLROnPlateau(
            monitor=f"val_{each.monitor}",
            mode="max" if each.maximizes else "min",
            factor=each.factor,
            patience=each.patience,
            min_delta=each.min_improvement,
            cooldown=each.cooldown,
            min_lr=each.min_learning_rate,
        )
        if isinstance(each, ReduceOnPlateau)
        else each
        for each in callbacks
    ]


def _problem_of(callback: Any, base: type, by_averaging: bool) -> str:
    """What a callback needs that it does not get, and what to use instead; empty: nothing."""
    own = next(kind.__name__ for kind in type(callback).__mro__ if _is_keras(kind))
    if own in _INSTEAD:
        return f"(of Keras). Use {_INSTEAD[own]}"
    for method in dir(base):
        elsewhere = method.startswith(("on_test", "on_predict"))
        is_uncalled = elsewhere or ("batch" in method and not by_averaging)
        if is_uncalled and not _is_keras(getattr(callback, method)):
            instead = "" if elsewhere else f" pass {_BY_AVERAGING},"
            return (
                f"with `{method}`. Override `on_epoch_begin` and `on_epoch_end`,{instead} or give "
                "the training master a `TrainingHook`, which workers call around each minibatch"
            )
    for option, value in _BY_EPOCH.items():
        if own != base.__name__ and getattr(callback, option, value) != value:
            if option == "_should_trace":
                return "that profiles minibatches. Use `profile_batch=0`"
            if not by_averaging:
                return f'that counts minibatches. Use `{option}="epoch"`, or {_BY_AVERAGING}'
    return ""


def _is_keras(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith("keras.")


class DriverCallbacks:
    """The callbacks of one run, and Keras' history of it.

    Attributes:
        given: whether there are any; without, only `history` does something.
        frequency: averagings of an epoch from one call about minibatches to the next; 0: none.
        error: what a callback raised; None: nothing.
        ends_on_nan: whether a NaN or infinite loss ends the run without an error.
    """

    def __init__(
        self,
        callbacks: Sequence[Any],
        model: Any,
        start: StartState,
        *,
        epochs: int,
        frequency: int | None = None,
    ) -> None:
        """Prepare; no callback is called before `begin`."""
        import keras

        self.given, self.frequency = bool(callbacks), frequency or 0
        self.error: BaseException | None = None
        nan = keras.callbacks.TerminateOnNaN
        self.ends_on_nan = any(isinstance(callback, nan) for callback in callbacks)
        self._callbacks, self._model, self._epochs = callbacks, model, epochs
        self._start = start
        self._list: Any = None
        self._batch = 0  # the first minibatch that they have not been told the end of

    def begin(self, progress: Progress, *, steps: int) -> Progress:
        """Training begins at `progress`; returns it with the learning rate to train with.

        That of `progress`, a checkpoint's, overrules the callbacks'. `steps` are the minibatches of
        an epoch, of all workers together; 0: unknown.
        """
        if not self.given:
            return progress
        import keras

        model = self._model
        model.stop_training = False
        params: dict[str, Any] = {"verbose": 0, "epochs": self._epochs, "steps": steps or None}
        self._list = keras.callbacks.CallbackList(
            self._callbacks, add_history=True, model=model, **params
        )
        # With an epoch that has ended if they have not seen its end.
        epoch = progress.epoch - progress.awaits_callbacks(0)
        self._list.on_train_begin()
        self._list.on_epoch_begin(epoch)
        begun = progress.opened > progress.epoch
        self._begin_batch(_trained(progress, epoch, steps) if begun else 0)
        if progress.learning_rate is not None:
            model.optimizer.learning_rate = progress.learning_rate
        return replace(progress, learning_rate=learning_rate_of(model))

    def called(
        self, moment: Moment, state: Outcome | None, record: RunRecord
    ) -> tuple[bool, float | None]:
        """Run the callbacks of this moment: whether to end, and the learning rate.

        `state` is what has been learned until then; None: the model holds the last there is.
        """
        try:
            if state is not None:
                self._start.take(state)
                record.await_rows(state.progress.steps, _ROWS_S)
            epochs, round = moment
            self._call(epochs if round else epochs - 1, state, record, is_over=not round)
        except Exception as error:
            self.error = error
            raise
        return bool(self._model.stop_training), learning_rate_of(self._model)

    def _call(self, epoch: int, state: Outcome | None, record: RunRecord, *, is_over: bool) -> None:
        """At an averaging of `epoch`, from 0, or when it `is_over`."""
        logs = record.epoch_logs(epoch + 1)
        if self.frequency and state is not None:
            trained = _trained(state.progress, epoch, record.steps_per_epoch or 0)
            if trained > self._batch:
                of_training = {n: v for n, v in logs.items() if not n.startswith("val_")}
                self._list.on_train_batch_end(trained - 1, of_training)
                if not (is_over or self._model.stop_training):
                    self._begin_batch(trained)
        if is_over or self._model.stop_training:
            self._list.on_epoch_end(epoch, logs)
        if not self._model.stop_training and is_over and epoch + 1 < self._epochs:
            self._list.on_epoch_begin(epoch + 1)
            self._begin_batch(0)

    def _begin_batch(self, batch: int) -> None:
        self._batch = batch
        if self.frequency:
            self._list.on_train_batch_begin(batch)

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


def _trained(progress: Progress, epoch: int, steps: int) -> int:
    """How many of an epoch's `steps` minibatches are done; it has been opened."""
    return steps - sum(span.size for span in progress.todo if span.epoch == epoch)

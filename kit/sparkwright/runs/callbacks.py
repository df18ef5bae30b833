"""Keras callbacks of one run on the driver.

They run on the run's thread: at its beginning, between epochs and at its end, and optionally
between averagings.
"""

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, NonFiniteLossError
from sparkwright.networks.steps import learning_rate_of
from sparkwright.workers.metric_values import as_keras_logs
from sparkwright.workers.protocol import Progress

from ._callback_state import (
    CallbackState,
    Values,
    check_scores,
    described,
    prepare_scores,
    restore,
    restored_epoch,
    state_of,
    values_of,
)
from ._observations import Moment
from .driver_model import DriverModel
from .outcome import Outcome, as_exception
from .record import RunRecord

# Replacements of Keras callbacks that cannot work on the driver.
_INSTEAD = {
    "BackupAndRestore": "`checkpoint=Checkpointing(url)` of the training master, and `resume=url`",
    "ProgbarLogger": "`display=True`, or `run.status`",
    "SwapEMAWeights": "`model.optimizer.finalize_variable_values(…)` after the run",
}
# Options of Keras callbacks -> the only value that works without minibatches.
_BY_EPOCH = {"save_freq": "epoch", "update_freq": "epoch", "_should_trace": False}
_BY_AVERAGING = "`callback_frequency=n`, which calls it after every n-th averaging of an epoch"
# Rows of other workers may arrive later than the state.
_ROWS_S = 0.5


def checked_callbacks(
    given: Any, *, by_averaging: bool = False, validates: bool = True
) -> list[Any]:
    """Validate the callbacks and return them as a list; None becomes an empty list.

    With `by_averaging` their minibatch methods are called at averagings. `validates`: whether there
    is validation data.
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
        if problem := _problem_of(callback, keras.callbacks.Callback, by_averaging):
            raise ConfigurationError(
                "`callbacks` run on the driver, between epochs or averagings; minibatches are "
                "trained and validated by the workers. Received: "
                f"{type(callback).__name__} {problem}."
            )
    if not validates:
        check_scores(callbacks)
    return callbacks


def _problem_of(callback: Any, base: type, by_averaging: bool) -> str:
    """Why a callback cannot work on the driver, and what to use instead; empty: it can."""
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
    """The callbacks of one run, and its Keras `History`."""

    def __init__(
        self,
        callbacks: Sequence[Any],  # the result of `checked_callbacks`
        model: Any,
        start: DriverModel,  # takes the state of the workers into the model
        *,
        epochs: int,  # number of the last epoch
        frequency: int | None = None,
        resume: Sequence[CallbackState] = (),  # what those of a checkpointed run remember
    ) -> None:
        """Prepare without calling a callback; `begin` makes the first calls."""
        import keras

        prepare_scores(callbacks, model)
        self.given, self.frequency = bool(callbacks), frequency or 0
        self.error: BaseException | None = None  # that a callback raised
        nan = keras.callbacks.TerminateOnNaN
        # Whether a NaN or infinite loss ends the run without an error.
        self.ends_on_nan = any(isinstance(callback, nan) for callback in callbacks)
        self._callbacks, self._model, self._epochs = callbacks, model, epochs
        self._start = start
        self._list: Any = None
        self._batch = 0  # the first minibatch whose end has not been reported
        self._resume, self._before = resume, list[Values]()
        self._ended_in: int | None = None  # the epoch in which a callback ended training

    def begin(self, progress: Progress, *, steps: int) -> Progress:
        """Call `on_train_begin`; return `progress` with the initial learning rate.

        The learning rate of `progress`, from a checkpoint, takes precedence over the callbacks'.
        `steps` are the minibatches of an epoch, summed over the workers; 0: unknown.
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
        # The last complete epoch if its `on_epoch_end` has not been called.
        epoch = progress.epoch - progress.awaits_callbacks(0)
        begun = progress.opened > progress.epoch
        with _exceptions_only():
            self._list.on_train_begin()
            self._before = [values_of(callback) for callback in self._callbacks]
            for callback, state in zip(self._callbacks, self._resume, strict=False):
                restore(callback, state, like=model.get_weights())
            self._list.on_epoch_begin(epoch)
            self._begin_batch(_trained(progress, epoch, steps) if begun else 0)
        if progress.learning_rate is not None:
            model.optimizer.learning_rate = progress.learning_rate
        return replace(progress, learning_rate=learning_rate_of(model))

    def called(
        self, moment: Moment, state: Outcome | None, record: RunRecord
    ) -> tuple[bool, float | None]:
        """Call the callbacks of this moment; return whether to stop, and the learning rate.

        `state` is the training state at that moment; None: the model already holds it.
        """
        try:
            if state is not None:
                self._start.take(state)
                record.await_rows(state.progress.steps, _ROWS_S)
            epochs, round = moment
            with _exceptions_only():
                self._call(epochs if round else epochs - 1, state, record, is_over=not round)
        except Exception as error:
            self.error = error
            raise
        ends = bool(self._model.stop_training)
        self._ended_in = moment[0] + (moment[1] > 0) if ends else None
        return ends, learning_rate_of(self._model)

    def _call(self, epoch: int, state: Outcome | None, record: RunRecord, *, is_over: bool) -> None:
        """Call the callbacks at an averaging of `epoch` (from 0), or at its end if `is_over`."""
        logs = as_keras_logs(record.epoch_logs(epoch + 1))
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
        """Whether these losses of minibatches end training."""
        return self.ends_on_nan and not np.isfinite(losses).all()

    def explained(self, error: BaseException | None) -> BaseException | None:
        """Return the cause of the run's failure; an exception of a callback takes precedence."""
        is_nan = self.ends_on_nan and isinstance(error, NonFiniteLossError)
        return self.error or (None if is_nan else error)

    def end(self) -> None:
        """Call `on_train_end`; the run is over and the model holds its result."""
        if self._list is not None:
            history = self._model.history.history
            with _exceptions_only():
                self._list.on_train_end({name: values[-1] for name, values in history.items()})

    def described(self) -> list[str]:
        """Return the callbacks as Python code, for a run's configuration."""
        return [described(callback) for callback in self._callbacks]

    @property
    def restored_epoch(self) -> int | None:
        """See `restored_epoch`."""
        return restored_epoch(self._callbacks)

    def states(self) -> tuple[CallbackState, ...]:
        """Return what the callbacks remember, for a checkpoint."""
        pairs = zip(self._callbacks, self._before, strict=False)
        return tuple(state_of(callback, since=before) for callback, before in pairs)

    def ending(self) -> str:
        """Describe how callbacks ended training and what the model holds; empty: neither."""
        restored, parts = self.restored_epoch, list[str]()
        if self._ended_in is not None:
            parts.append(f"a callback ended training in epoch {self._ended_in}")
        if restored is not None:
            parts.append(f"the model holds the weights of epoch {restored}")
        return "; ".join(parts)

    def history(self, record: RunRecord, done: int) -> Any:
        """Keras `History` of the first `done` epochs, from the callbacks or else from the log."""
        if self._list is not None:
            return self._model.history
        import keras

        found = keras.callbacks.History()
        found.set_model(self._model)
        found.set_params({"verbose": 0, "epochs": self._epochs, "steps": record.steps_per_epoch})
        found.on_train_begin()
        for epoch in sorted(set(record.log.rows()["epoch"].tolist())):
            if epoch <= done:
                found.on_epoch_end(epoch - 1, as_keras_logs(record.epoch_logs(epoch)))
        return found


@contextlib.contextmanager
def _exceptions_only() -> Generator[None]:
    """Raise an error in place of `SystemExit` and others, which would end the thread."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        raise as_exception(
            error,
            rule="a callback must return or raise an Exception, which ends the run",
            remedy="To end training, set `self.model.stop_training = True`.",
        ) from error


def _trained(progress: Progress, epoch: int, steps: int) -> int:
    """The number of trained minibatches in an open epoch of `steps` minibatches."""
    return steps - sum(span.size for span in progress.todo if span.epoch == epoch)

"""When a run ends before its last epoch, and which of its states it leaves behind."""

import math
import re
import sys
from dataclasses import dataclass
from typing import Any, Literal

from sparkwright.errors import ConfigurationError

from ._options import check_choice, check_count, check_flag, check_seconds
from ._serialisation import Serialisable

Mode = Literal["auto", "min", "max"]

_CONDITIONS = ("max_epochs", "max_seconds", "target", "patience", "max_loss")
# Parts of the names that Keras gives its metrics, and that are usual beside them. A number at the
# end is Keras' own, for a second metric of the same kind.
_BETTER_IF_HIGHER = {
    *("acc", "accuracy", "auc", "ap", "map", "precision", "recall", "sensitivity", "specificity"),
    *("f1", "fbeta", "iou", "io", "dice", "jaccard", "r2", "kappa", "mcc", "matthews", "bleu"),
    *("similarity", "correlation", "true"),
}
_BETTER_IF_LOWER = {
    *("loss", "error", "err", "rmse", *(f"m{kind}" for kind in ("se", "ae", "ape", "sle"))),
    *("huber", "deviance", "nll"),
    *("crossentropy", "entropy", "hinge", "divergence", "kld", "poisson", "logcosh", "cosh"),
    *("brier", "perplexity", "distance", "false"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlyStopping(Serialisable):
    """When a run ends early, and which of its states the model holds afterwards.

    At least one of `max_epochs`, `max_seconds`, `target`, `patience` and `max_loss` must be given;
    the first that holds ends the run. A score is the loss, or a compiled metric, of the averaged
    network on the validation data, at the end of an epoch.

    Attributes:
        max_epochs: epochs at most; default None: those given to `fit`.
        max_seconds: training ends with the first averaging after so many seconds, counted from
            the moment at which all workers were there; default None: no limit.
        monitor: what the score is: "loss" (default) or the name of a compiled metric.
        mode: "min" or "max": which scores are better; default "auto": by the name of `monitor`.
        target: end when a score is this good; default None.
        patience: end after so many evaluations in a row without improvement; default None: never.
        min_improvement: a score has to be better by more than this to count as an improvement for
            `patience`; default 0.0.
        stop_on_invalid: end when a score or a training loss is NaN or infinite (default True).
        max_loss: end when the loss of a minibatch is greater; default None.
        evaluate_every: epochs from one evaluation to the next, default 1. The last is always
            evaluated.
        keep_best: what to do with the best state so far: "memory" (default): the model has it when
            the run is over; the URL of a file: that, and it is also saved there as the run goes
            on; None: nothing, and the model has the last state.
        save_last: URL of a file for the last state; default None.

    Example:
        >>> EarlyStopping(monitor="accuracy", patience=3).maximises
        True
        >>> EarlyStopping(max_epochs=50, target=0.1).target_is_reached(0.09)
        True
    """

    max_epochs: int | None = None
    max_seconds: float | None = None
    monitor: str = "loss"
    mode: Mode = "auto"
    target: float | None = None
    patience: int | None = None
    min_improvement: float = 0.0
    stop_on_invalid: bool = True
    max_loss: float | None = None
    evaluate_every: int = 1
    keep_best: str | None = "memory"
    save_last: str | None = None

    def __post_init__(self) -> None:
        """Check every option, and that there is a condition."""
        check_count("max_epochs", self.max_epochs, optional=True)
        check_count("patience", self.patience, optional=True)
        check_count("evaluate_every", self.evaluate_every)
        if self.max_seconds is not None:
            check_seconds("max_seconds", self.max_seconds)
        check_flag("stop_on_invalid", self.stop_on_invalid)
        check_choice("mode", self.mode, ("auto", "min", "max"))
        for name in ("target", "max_loss"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name))
        _check_number("min_improvement", self.min_improvement, least=0.0)
        for name in ("keep_best", "save_last"):
            _check_place(name, getattr(self, name))
        self._check_monitor()
        if all(getattr(self, name) is None for name in _CONDITIONS):
            raise ConfigurationError(
                "early stopping needs a condition. Received: none. Give at least one of "
                f"{', '.join(f'`{name}`' for name in _CONDITIONS)}, such as `patience=3`."
            )
        if self.min_improvement and self.patience is None:
            raise ConfigurationError(
                "`min_improvement` is used only with `patience`. Received: "
                f"min_improvement={self.min_improvement!r}, patience=None."
            )
        if self.save_last is not None and self.save_last == self.keep_best:
            raise ConfigurationError(
                "`keep_best` and `save_last` must be different files. Received: "
                f"{self.save_last!r} for both."
            )

    def _check_monitor(self) -> None:
        if not isinstance(self.monitor, str) or not self.monitor.strip():
            raise ConfigurationError(
                '`monitor` must be "loss" or the name of a compiled metric. Received: '
                f"monitor={self.monitor!r}."
            )
        if self.monitor.startswith("val_"):
            raise ConfigurationError(
                "`monitor` always means the validation data, so its name has no prefix. Received: "
                f"monitor={self.monitor!r}. Give {self.monitor.removeprefix('val_')!r}."
            )
        if self.mode == "auto" and _higher_is_better(self.monitor) is None:
            raise ConfigurationError(
                '`mode="auto"` does not know whether more or less of this metric is better. '
                f'Received: monitor={self.monitor!r}. Give `mode="max"` or `mode="min"`.'
            )

    @property
    def maximises(self) -> bool:
        """Whether higher scores are better."""
        if self.mode == "auto":
            return bool(_higher_is_better(self.monitor))
        return self.mode == "max"

    @property
    def needs_validation(self) -> bool:
        """Whether this makes no sense without validation data."""
        wants_scores = self.target is not None or self.patience is not None
        return wants_scores or self.monitor != "loss" or self.best_url is not None

    @property
    def saves_files(self) -> bool:
        """Whether models are saved to files."""
        return self.best_url is not None or self.save_last is not None

    @property
    def best_url(self) -> str | None:
        """Where the best model is saved; None: nowhere."""
        return None if self.keep_best == "memory" else self.keep_best

    def improvement(self, score: float, *, over: float) -> float:
        """By how much `score` is better than `over`; negative if it is worse."""
        return score - over if self.maximises else over - score

    def target_is_reached(self, score: float) -> bool:
        """Whether `score` is as good as `target`, if there is one."""
        return self.target is not None and self.improvement(score, over=self.target) >= 0

    def epochs_of(self, epochs: int | None) -> int:
        """How many epochs there are at most, if the call to train asks for `epochs`.

        Raises:
            ConfigurationError: if neither says it.

        Example:
            >>> EarlyStopping(max_epochs=20).epochs_of(None), EarlyStopping(patience=2).epochs_of(9)
            (20, 9)
        """
        given = [count for count in (epochs, self.max_epochs) if count is not None]
        if not given:
            raise ConfigurationError(
                "a run needs an upper bound of epochs. Received: neither `epochs` nor "
                "`max_epochs`. Give `epochs=…` or `EarlyStopping(max_epochs=…)`."
            )
        return min(given)


def _higher_is_better(name: str) -> bool | None:
    """What a metric's name says; None: nothing, or both."""
    parts = [re.sub(r"(?<=[a-z])\d+$", "", part) for part in name.lower().split("_")]
    parts += name.lower().split("_")  # "f1" and "r2" end in a number of their own
    lower, higher = (not known.isdisjoint(parts) for known in (_BETTER_IF_LOWER, _BETTER_IF_HIGHER))
    return None if lower == higher else higher


def _check_number(name: str, value: Any, *, least: float = -math.inf) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and abs(value) <= sys.float_info.max and value >= least):
        bound = "" if least == -math.inf else f" of at least {least:g}"
        raise ConfigurationError(
            f"`{name}` must be a finite number{bound}. Received: {name}={value!r}."
        )


def _check_place(name: str, value: Any) -> None:
    if value is None or (name == "keep_best" and value == "memory"):
        return
    if not isinstance(value, str) or not value.strip() or value == "memory":
        memory = '"memory", ' if name == "keep_best" else ""
        raise ConfigurationError(
            f"`{name}` must be {memory}the path or URL of a file, or None. "
            f"Received: {name}={value!r}."
        )
    if value.lower().endswith((".h5", ".hdf5")):
        raise ConfigurationError(
            f"`{name}` must be a file in Keras' own format. Received: {name}={value!r}. Give it "
            'the ending ".keras".'
        )

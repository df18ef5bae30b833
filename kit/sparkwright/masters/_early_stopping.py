"""Early stopping and learning-rate reduction by the score on validation data."""

import re
from typing import ClassVar, Literal

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

Mode = Literal["auto", "min", "max"]

KEEPING = "Saved states"
_CONDITIONS = ("max_epochs", "max_seconds", "target", "patience", "max_loss")
# Parts of the names of Keras' metrics and other common ones. Keras appends a number to the name of
# a second metric of the same kind.
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


@configuration
class MonitoredScore(Configuration):
    """A score on the validation data, and the condition of its improvement."""

    monitor: str = option(
        default="loss",
        label="Score",
        help='"loss" or the name of a compiled metric such as accuracy; always of the validation '
        "data.",
    )
    mode: Mode = option(
        default="auto",
        label="Better is",
        help='Whether lower ("min") or higher ("max") scores are better; "auto" infers it from '
        "the name.",
    )
    min_improvement: float = option(
        default=0.0,
        minimum=0,
        label="Smallest improvement",
        help="Changes up to this amount do not count as improvements. Only with `patience`.",
    )

    def _check(self) -> None:
        name = self.monitor
        if not name.strip():
            raise ConfigurationError(
                '`monitor` must be "loss" or the name of a compiled metric. Received: '
                f"monitor={name!r}."
            )
        if name.startswith("val_"):
            raise ConfigurationError(
                "`monitor` always refers to the validation data and takes no prefix. Received: "
                f"monitor={name!r}. Use {name.removeprefix('val_')!r}."
            )
        if self.mode == "auto" and _higher_is_better(name) is None:
            raise ConfigurationError(
                '`mode="auto"` cannot infer the direction of this metric. Received: '
                f'monitor={name!r}. Set `mode="max"` or `mode="min"`.'
            )

    @property
    def maximizes(self) -> bool:
        """Whether higher scores are better."""
        return self.mode == "max" or (self.mode == "auto" and bool(_higher_is_better(self.monitor)))


@configuration
class EarlyStopping(MonitoredScore):
    """Conditions that end a run early, and the state that the model has afterwards.

    At least one of `max_epochs`, `max_seconds`, `target`, `patience` and `max_loss` must be given;
    the first that holds ends the run. A score is the loss, or a compiled metric, of the averaged
    network on the validation data, at the end of an epoch.

    Example:
        >>> EarlyStopping(monitor="accuracy", patience=3).maximizes
        True
        >>> EarlyStopping(max_epochs=50, target=0.1).target_is_reached(0.09)
        True
    """

    _tagged: ClassVar[bool] = True

    patience: int | None = option(
        default=None,
        minimum=1,
        none_text="never",
        unit="evaluations",
        help="Stop after this many consecutive evaluations without improvement; 3 to 10 are "
        "usual. Needs validation data.",
    )
    max_epochs: int | None = option(
        default=None,
        minimum=1,
        none_text="`epochs` of `fit`",
        unit="epochs",
        label="Maximum epochs",
        help="Maximum number of epochs, even if the score still improves.",
    )
    max_seconds: float | None = option(
        default=None,
        above=0,
        none_text="no limit",
        unit="s",
        label="Maximum time",
        help="Stop at the first averaging after this many seconds, counted from when all workers "
        "have joined.",
    )
    target: float | None = option(
        default=None,
        none_text="none",
        label="Target score",
        help="Stop when the score reaches this value. Needs validation data.",
    )
    max_loss: float | None = option(
        default=None,
        none_text="no limit",
        label="Maximum loss",
        help="Stop when a minibatch's loss exceeds this value, such as several times the first "
        "loss.",
    )
    stop_on_invalid: bool = option(
        default=True,
        label="Stop at NaN or infinity",
        help="Stop when a score or a training loss is NaN or infinite. Such a network seldom "
        "recovers.",
    )
    evaluate_every: int = option(
        default=1,
        minimum=1,
        unit="epochs",
        help="Epochs between evaluations; the last epoch is always evaluated. Raise it if an "
        "evaluation takes long compared with an epoch.",
    )
    keep_best: str | None = option(
        default="memory",
        none_text="none: the model keeps the last state",
        group=KEEPING,
        label="Best state",
        help='"memory": after the run, the model has the best state. A path or URL ending in '
        ".keras also saves it during the run.",
    )
    save_last: str | None = option(
        default=None,
        none_text="not saved",
        group=KEEPING,
        label="File for the last state",
        help="A path or URL ending in .keras.",
    )

    def _check(self) -> None:
        for name in ("keep_best", "save_last"):
            _check_place(name, getattr(self, name))
        MonitoredScore._check(self)  # `slots=True` breaks `super()`
        if all(getattr(self, name) is None for name in _CONDITIONS):
            raise ConfigurationError(
                "early stopping needs at least one condition. Received: none. Set "
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

    @property
    def needs_validation(self) -> bool:
        """Whether validation data is required."""
        wants_scores = self.target is not None or self.patience is not None
        return wants_scores or self.monitor != "loss" or self.best_url is not None

    @property
    def saves_files(self) -> bool:
        """Whether models are saved to files."""
        return self.best_url is not None or self.save_last is not None

    @property
    def best_url(self) -> str | None:
        """URL of the best model; None: not saved."""
        return None if self.keep_best == "memory" else self.keep_best

    def improvement(self, score: float, *, over: float) -> float:
        """Return the improvement of `score` over `over`; negative if it is worse."""
        return score - over if self.maximizes else over - score

    def target_is_reached(self, score: float) -> bool:
        """Return whether `score` reaches `target`, if set."""
        return self.target is not None and self.improvement(score, over=self.target) >= 0

    def epochs_of(self, epochs: int | None) -> int:
        """Return the maximum number of epochs, given `epochs` of the call to train.

        Raises:
            ConfigurationError: if neither sets a maximum.

        Example:
            >>> EarlyStopping(max_epochs=20).epochs_of(None), EarlyStopping(patience=2).epochs_of(9)
            (20, 9)
        """
        given = [count for count in (epochs, self.max_epochs) if count is not None]
        if not given:
            raise ConfigurationError(
                "a run needs a maximum number of epochs. Received: neither `epochs` nor "
                "`max_epochs`. Set `epochs=…` or `EarlyStopping(max_epochs=…)`."
            )
        return min(given)


@configuration
class ReduceOnPlateau(MonitoredScore):
    """Lower the learning rate if the validation score no longer improves.

    Like Keras' `ReduceLROnPlateau`, but usable in forms and files. Pass it in `callbacks`. It
    needs validation data and an optimizer without a learning-rate schedule.

    Example:
        >>> ReduceOnPlateau(monitor="accuracy").maximizes
        True
    """

    _tagged: ClassVar[bool] = True

    min_improvement: float = option(
        default=1e-4,
        minimum=0,
        label="Smallest improvement",
        help="Changes up to this amount do not count as improvements.",
    )
    patience: int = option(
        default=5,
        minimum=1,
        unit="epochs",
        help="Reduce the learning rate after this many consecutive epochs without improvement: "
        "fewer than early stopping waits.",
    )
    factor: float = option(default=0.2, above=0, below=1, help="Multiplies the learning rate.")
    cooldown: int = option(
        default=0,
        minimum=0,
        unit="epochs",
        help="Epochs after a reduction before the patience is counted again.",
    )
    min_learning_rate: float = option(
        default=0.0, minimum=0, help="Lower bound of the learning rate."
    )


def _higher_is_better(name: str) -> bool | None:
    """Return the direction that a metric's name implies; None: unknown or contradictory."""
    parts = [re.sub(r"(?<=[a-z])\d+$", "", part) for part in name.lower().split("_")]
    parts += name.lower().split("_")  # the names "f1" and "r2" end in a digit
    lower, higher = (not known.isdisjoint(parts) for known in (_BETTER_IF_LOWER, _BETTER_IF_HIGHER))
    return None if lower == higher else higher


def _check_place(name: str, value: str | None) -> None:
    if value is None or (name == "keep_best" and value == "memory"):
        return
    if not value.strip() or value == "memory":
        memory = '"memory", ' if name == "keep_best" else ""
        raise ConfigurationError(
            f"`{name}` must be {memory}the path or URL of a file, or None. "
            f"Received: {name}={value!r}."
        )
    if value.lower().endswith((".h5", ".hdf5")):
        raise ConfigurationError(
            f"`{name}` must be a file in the Keras format. Received: {name}={value!r}. Use the "
            'extension ".keras".'
        )

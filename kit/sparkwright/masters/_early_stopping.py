"""Early stopping, and a lower learning rate when the validation score stops improving."""

import re
from typing import ClassVar, Literal

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

Mode = Literal["auto", "min", "max"]

KEEPING = "Which state is kept"
_CONDITIONS = ("max_epochs", "max_seconds", "target", "patience", "max_loss")
# Parts of the names of Keras metrics and other common metrics. Keras appends a number to the name
# of a second metric of the same kind.
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
    """A score on the validation data, and the definition of an improvement."""

    monitor: str = option(
        default="loss",
        label="Score",
        help='"loss", or the name of a compiled metric such as accuracy; always of the validation '
        "data.",
    )
    mode: Mode = option(
        default="auto",
        label="Better is",
        help='Which scores are better, "min" or "max"; "auto" goes by the name of the score.',
    )
    min_improvement: float = option(
        default=0.0,
        minimum=0,
        label="Smallest improvement",
        help="A score has to be better by more than this to count as an improvement; only with "
        "`patience`.",
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
                "`monitor` always means the validation data, so its name has no prefix. Received: "
                f"monitor={name!r}. Give {name.removeprefix('val_')!r}."
            )
        if self.mode == "auto" and _higher_is_better(name) is None:
            raise ConfigurationError(
                '`mode="auto"` does not know whether more or less of this metric is better. '
                f'Received: monitor={name!r}. Give `mode="max"` or `mode="min"`.'
            )

    @property
    def maximizes(self) -> bool:
        """Whether higher scores are better."""
        return self.mode == "max" or (self.mode == "auto" and bool(_higher_is_better(self.monitor)))


@configuration
class EarlyStopping(MonitoredScore):
    """Conditions that end a run early, and the state that the model has afterwards.

    At least one of `max_epochs`, `max_seconds`, `target`, `patience` and `max_loss` is required.
    The first condition that is met ends the run. The score is the loss or a compiled metric of the
    averaged network on the validation data, at the end of an epoch.

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
        label="Without improvement, end after",
        help="End after so many evaluations in a row without improvement. The usual condition: 3 "
        "to 10. Needs validation data.",
    )
    max_epochs: int | None = option(
        default=None,
        minimum=1,
        none_text="as given to the run",
        unit="epochs",
        label="Epochs at most",
        help="An upper bound, however well it goes.",
    )
    max_seconds: float | None = option(
        default=None,
        above=0,
        none_text="no limit",
        unit="s",
        label="Time at most",
        help="End with the first averaging after so many seconds, counted from the moment at which "
        "all workers are there.",
    )
    target: float | None = option(
        default=None,
        none_text="none",
        label="End at this score",
        help="End when a score is this good. Needs validation data.",
    )
    max_loss: float | None = option(
        default=None,
        none_text="no limit",
        label="End above this loss",
        help="End when the loss of a minibatch is greater, such as some times the first loss.",
    )
    stop_on_invalid: bool = option(
        default=True,
        label="End at NaN or infinity",
        help="End when a score or a training loss is NaN or infinite. Leave it on: such a network "
        "seldom recovers.",
    )
    evaluate_every: int = option(
        default=1,
        minimum=1,
        unit="epochs",
        help="Epochs from one evaluation to the next; the last is always evaluated. More than 1 if "
        "an evaluation takes long beside an epoch.",
    )
    keep_best: str | None = option(
        default="memory",
        none_text="nothing: the model has the last state",
        group=KEEPING,
        label="Best state",
        help='"memory": the model has it when the run is over. The path or URL of a file that ends '
        "in .keras: it is also saved there as the run goes on.",
    )
    save_last: str | None = option(
        default=None,
        none_text="not saved",
        group=KEEPING,
        label="File for the last state",
        help="A path or URL that ends in .keras.",
    )

    def _check(self) -> None:
        for name in ("keep_best", "save_last"):
            _check_place(name, getattr(self, name))
        MonitoredScore._check(self)  # `slots=True` breaks `super()`
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
        """URL at which the best model is saved; None: it is not saved."""
        return None if self.keep_best == "memory" else self.keep_best

    def improvement(self, score: float, *, over: float) -> float:
        """Return the improvement of `score` over `over`; negative if it is worse."""
        return score - over if self.maximizes else over - score

    def target_is_reached(self, score: float) -> bool:
        """Whether `score` reaches `target`, if a target is set."""
        return self.target is not None and self.improvement(score, over=self.target) >= 0

    def epochs_of(self, epochs: int | None) -> int:
        """Return the maximum number of epochs, given the `epochs` argument of the training call.

        Raises:
            ConfigurationError: if both `epochs` and `max_epochs` are None.

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


@configuration
class ReduceOnPlateau(MonitoredScore):
    """Lowers the learning rate when the validation score stops improving.

    Like Keras' `ReduceLROnPlateau`, but with options that forms show and files store. Pass it in
    `callbacks`. It requires validation data and an optimizer without a learning rate schedule.

    Example:
        >>> ReduceOnPlateau(monitor="accuracy").maximizes
        True
    """

    _tagged: ClassVar[bool] = True

    min_improvement: float = option(
        default=1e-4,
        minimum=0,
        label="Smallest improvement",
        help="A score has to be better by more than this to count as an improvement.",
    )
    patience: int = option(
        default=5,
        minimum=1,
        unit="epochs",
        label="Without improvement, lower after",
        help="Lower it after so many epochs in a row without improvement: fewer than early "
        "stopping waits.",
    )
    factor: float = option(
        default=0.2, above=0, below=1, label="By the factor", help="Multiplies the learning rate."
    )
    cooldown: int = option(
        default=0,
        minimum=0,
        unit="epochs",
        label="Wait after lowering",
        help="Epochs after a reduction before those without improvement are counted again.",
    )
    min_learning_rate: float = option(
        default=0.0, minimum=0, label="Never below", help="A lower bound of the learning rate."
    )


def _higher_is_better(name: str) -> bool | None:
    """Whether higher values are better, by a metric's name; None: unknown or ambiguous."""
    parts = [re.sub(r"(?<=[a-z])\d+$", "", part) for part in name.lower().split("_")]
    parts += name.lower().split("_")  # "f1" and "r2" end in a digit
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
            f"`{name}` must be a file in Keras' own format. Received: {name}={value!r}. Give it "
            'the ending ".keras".'
        )

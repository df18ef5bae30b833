"""Options of Keras callbacks that experiments and forms offer."""

from dataclasses import fields
from typing import Any, ClassVar, Literal

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError
from sparkwright.python_code import Expression, call_to_code

Mode = Literal["auto", "min", "max"]


@configuration
class MonitoredScore(Configuration):
    """Options of a Keras callback that acts by a score."""

    _callback: ClassVar[str]
    # Options whose defaults are not Keras'.
    _own: ClassVar[tuple[str, ...]]

    monitor: str = option(
        default="val_loss",
        label="Score",
        help='"val_loss", or "val_" and the name of a compiled metric, such as val_accuracy; '
        'without "val_" the score of the training data.',
    )
    mode: Mode = option(
        default="auto",
        label="Better is",
        help='Whether lower ("min") or higher ("max") scores are better; "auto": as Keras infers '
        "from the metric.",
    )
    min_delta: float = option(
        default=0.0,
        minimum=0,
        label="Smallest improvement",
        help="Changes up to this amount do not count as improvements.",
    )

    def _check(self) -> None:
        if not self.monitor.strip():
            raise ConfigurationError(
                '`monitor` must be "val_loss" or the name of another score. Received: '
                f"monitor={self.monitor!r}."
            )

    @property
    def needs_validation(self) -> bool:
        """Whether the score is that of validation data."""
        return self.monitor.startswith("val_")

    def to_keras(self) -> Any:
        """Return the `keras.callbacks.Callback` with these options."""
        import keras

        options = {each.name: getattr(self, each.name) for each in fields(self)}
        return getattr(keras.callbacks, self._callback)(**options)

    def to_call(self) -> Expression:
        """Return the Python code that makes the callback."""
        options = {**{name: getattr(self, name) for name in self._own}, **self.changed()}
        return Expression(call_to_code(f"keras.callbacks.{self._callback}", **options))


@configuration
class EarlyStoppingOptions(MonitoredScore):
    """Options of `keras.callbacks.EarlyStopping`.

    Example:
        >>> EarlyStoppingOptions(monitor="val_accuracy", patience=3).needs_validation
        True
    """

    _tagged: ClassVar[bool] = True
    _callback: ClassVar[str] = "EarlyStopping"
    _own: ClassVar[tuple[str, ...]] = ("patience", "restore_best_weights")

    patience: int = option(
        default=5,
        minimum=0,
        unit="epochs",
        help="Stop after this many consecutive epochs without improvement; 3 to 10 are usual.",
    )
    restore_best_weights: bool = option(
        default=True,
        label="Restore the best weights",
        help="After the run, the model has the weights of the best epoch instead of the last.",
    )
    start_from_epoch: int = option(
        default=0, minimum=0, unit="epochs", help="Epochs before the score is monitored."
    )


@configuration
class ReduceLROnPlateauOptions(MonitoredScore):
    """Options of `keras.callbacks.ReduceLROnPlateau`; not with a learning-rate schedule.

    Example:
        >>> ReduceLROnPlateauOptions(factor=0.5).patience
        3
    """

    _tagged: ClassVar[bool] = True
    _callback: ClassVar[str] = "ReduceLROnPlateau"
    _own: ClassVar[tuple[str, ...]] = ("patience", "factor")

    min_delta: float = option(
        default=1e-4,
        minimum=0,
        label="Smallest improvement",
        help="Changes up to this amount do not count as improvements.",
    )
    patience: int = option(
        default=3,
        minimum=1,
        unit="epochs",
        help="Lower the learning rate after this many consecutive epochs without improvement: "
        "fewer than early stopping waits.",
    )
    factor: float = option(default=0.2, above=0, below=1, help="Multiplies the learning rate.")
    cooldown: int = option(
        default=0,
        minimum=0,
        unit="epochs",
        help="Epochs after a reduction before the patience is counted again.",
    )
    min_lr: float = option(
        default=0.0,
        minimum=0,
        label="Lowest learning rate",
        help="Lower bound of the learning rate.",
    )

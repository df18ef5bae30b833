"""When a run lowers its learning rate because it no longer improves."""

from typing import ClassVar

from sparkwright.configuration import Configuration, configuration, option

from ._early_stopping import Mode, check_monitor, higher_is_better


@configuration
class ReduceOnPlateau(Configuration):
    """Lowers the learning rate where the validation score no longer improves.

    It is Keras' `ReduceLROnPlateau`, with options that forms and files can hold; pass it in
    `callbacks`. It needs validation data and an optimizer whose learning rate follows no schedule.

    Example:
        >>> ReduceOnPlateau(monitor="accuracy").maximises
        True
    """

    _tagged: ClassVar[bool] = True

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
        default=1e-4,
        minimum=0,
        label="Smallest improvement",
        help="A score has to be better by more than this to count as an improvement.",
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

    def _check(self) -> None:
        check_monitor(self.monitor, self.mode)

    @property
    def maximises(self) -> bool:
        """Whether higher scores are better."""
        return self.mode == "max" or (self.mode == "auto" and bool(higher_is_better(self.monitor)))

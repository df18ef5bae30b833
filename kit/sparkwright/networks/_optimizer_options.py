"""Which options of an optimizer a run cannot honor: they are refused, not ignored."""

from collections.abc import Iterator
from typing import Any

from sparkwright.errors import ConfigurationError


def check_optimizer(optimizer: Any) -> None:
    """Refuse an optimizer with which a run would fail, or train another model than Keras.

    Args:
        optimizer: of a compiled model; None for a model that is not compiled.

    Raises:
        ConfigurationError: naming the option.
    """
    while optimizer is not None:
        for option, received, remedy in _unsupported(optimizer):
            raise ConfigurationError(
                f"`{option}` of an optimizer is not supported by a run. Received: "
                f"{type(optimizer).__name__} with {option}={received}. {remedy}"
            )
        # A LossScaleOptimizer wraps another one.
        optimizer = getattr(optimizer, "inner_optimizer", None)


def _unsupported(optimizer: Any) -> Iterator[tuple[str, Any, str]]:
    steps = getattr(optimizer, "gradient_accumulation_steps", None)
    if steps is not None and steps > 1:
        yield (
            "gradient_accumulation_steps",
            steps,
            "Leave it out, and raise `batch_size_per_worker` of the training master.",
        )
    if getattr(optimizer, "use_ema", False):
        yield "use_ema", True, "Leave it out: the mean would not reach the trained model."
    excluded = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    if excluded is not None or getattr(optimizer, "_exclude_from_weight_decay", None):
        yield (
            "exclude_from_weight_decay",
            "variables" if excluded is None else excluded.pattern,
            "It is no part of the optimizer's configuration, so workers would not know it. Use "
            "`kernel_regularizer` of the layers instead of `weight_decay`.",
        )
    if isinstance(getattr(optimizer, "optimizers", None), list | tuple):
        yield "optimizers", type(optimizer).__name__, "Use one optimizer for all variables."

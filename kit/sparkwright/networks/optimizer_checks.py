"""Which options of an optimizer a run cannot honor: they are refused, not ignored."""

from collections.abc import Iterator
from typing import Any

from sparkwright.errors import ConfigurationError

from .steps import has_own_train_step, optimizers, optimizers_of


def check_optimizer(model: Any) -> None:
    """Refuse an optimizer with which a run would fail, or train another model than Keras.

    Raises:
        ConfigurationError: naming the option.
    """
    optimizer = getattr(model, "optimizer", None)
    if getattr(optimizer, "built", False) and not has_own_train_step(model):
        # Keras builds the optimizer of a model in HDF5 for no variable at all.
        known = len(getattr(optimizer, "_trainable_variables", None) or ())
        if known < len(model.trainable_variables):
            raise ConfigurationError(
                "an optimizer must have been built for all variables of its model. Received: "
                f"{type(optimizer).__name__}, built for {known} of "
                f"{len(model.trainable_variables)}, as Keras leaves it after reading HDF5. Its "
                "state is lost. Compile the model again, and keep it as `.keras`."
            )
    for each in (part for used in optimizers_of(model) for part in optimizers(used)):
        for option, received, remedy in _unsupported(each):
            raise ConfigurationError(
                f"`{option}` of an optimizer is not supported by a run. Received: "
                f"{type(each).__name__} with {option}={received}. {remedy}"
            )


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
    if type(optimizer).__name__ == "ScheduleFreeAdamW":
        # Keras trains other weights with it if XLA is off, as it is on a CPU in a run.
        yield "ScheduleFreeAdamW", "optimizer", "Use AdamW."
    if isinstance(getattr(optimizer, "optimizers", None), list | tuple):
        yield "optimizers", type(optimizer).__name__, "Use one optimizer for all variables."

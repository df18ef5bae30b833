"""Keras callbacks that act by a score: whether it exists, and whether higher is better."""

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.networks.signature import signature_of


def check_scores(callbacks: Sequence[Any]) -> None:
    """Raise if a callback needs a score of validation data; call it if there is none."""
    import keras

    for callback in callbacks:
        kinds = (keras.callbacks.EarlyStopping, keras.callbacks.ReduceLROnPlateau)
        acts = isinstance(callback, kinds) or getattr(callback, "save_best_only", False)
        if acts and str(callback.monitor).startswith("val_"):
            raise ConfigurationError(
                f"`{type(callback).__name__}` needs the score that it monitors. Received: "
                f"monitor={callback.monitor!r}, and no validation data. Give `validation` or "
                '`validation_split`, or monitor a score of training, such as "loss".'
            )


def prepare_scores(callbacks: Sequence[Any], model: Any) -> None:
    """Set whether higher scores are better, which Keras asks the metrics of a trained model.

    The workers train, so the driver's model has not created its compiled metrics.
    """
    import keras

    schedule = getattr(getattr(model, "optimizer", None), "_learning_rate", None)
    is_scheduled = isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule)
    if is_scheduled and any(isinstance(c, keras.callbacks.ReduceLROnPlateau) for c in callbacks):
        raise ConfigurationError(
            "`ReduceLROnPlateau` needs an optimizer with a constant learning rate. Received: "
            f"{type(schedule).__name__}. Leave out one of the two."
        )
    for callback in callbacks:
        if getattr(callback, "monitor_op", "set") is None and callback.mode == "auto":
            direction = _directions(model).get(callback.monitor.removeprefix("val_"))
            if direction is not None:
                callback.monitor_op = keras.ops.greater if direction == "up" else keras.ops.less


def restored_epoch(callbacks: Sequence[Any]) -> int | None:
    """The epoch (from 1) whose weights `EarlyStopping` restores at the end; None: none."""
    for callback in reversed(callbacks):
        if getattr(callback, "restore_best_weights", False) and callback.best_weights:
            return int(callback.best_epoch) + 1
    return None


def _directions(model: Any) -> Mapping[str, str]:
    """Return metric -> "up" or "down", of the compiled metrics that say so."""
    import keras

    compiled = getattr(model, "_compile_metrics", None)
    if compiled is None or compiled.built:
        return {}
    signature = signature_of(model)
    if not signature.outputs:  # `call` cannot be traced
        return {}
    outputs = {
        name: keras.KerasTensor((None, *shape), dtype=dtype)
        for name, (dtype, shape) in signature.outputs.items()
    }
    tensors: Any = outputs if signature.output_form == "dict" else list(outputs.values())
    tensors = tensors[0] if len(outputs) == 1 else tensors
    # A copy, because Keras chooses the kind of accuracy by the labels, which are unknown here.
    own, weighted = compiled._user_metrics, compiled._user_weighted_metrics
    found = type(compiled)(own, weighted, output_names=compiled.output_names)
    found.build(tensors, tensors)
    return {each.name: each._direction for each in found.metrics if hasattr(each, "_direction")}

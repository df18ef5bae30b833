"""Check a model's optimizer before training: built variables, and updates that can be summed."""

import json
from collections.abc import Iterator
from typing import Any

from sparkwright.errors import ConfigurationError

from .steps import has_own_train_step, optimizers, optimizers_of


def lost_state(optimizer: Any, remedy: str) -> str:
    """Return the warning to log after `rebuild_optimizer`."""
    return (
        "An optimizer must be built for all variables of its model. Received: "
        f"{type(optimizer).__name__}, built for no variables, as Keras returns it from HDF5. It is "
        f"rebuilt: iterations and learning rate are kept, moments are lost. {remedy}"
    )


def rebuild_optimizer(model: Any) -> bool:
    """Rebuild an optimizer that lacks variables of its model; return whether it was rebuilt."""
    # Keras loads such an optimizer from HDF5, and even `fit` cannot use it. Iterations and learning
    # rate are kept; all other state is initialized.
    if has_own_train_step(model):  # may use a different optimizer for each group of variables
        return False
    old: Any = getattr(model, "optimizer", None)
    known = getattr(old, "_trainable_variables", None) or ()
    if not getattr(old, "built", False) or len(known) >= len(model.trainable_variables):
        return False
    config = old.get_config()
    if "learning_rate" in config and callable(old._learning_rate):
        config["learning_rate"] = old._learning_rate  # a schedule, possibly a custom one
    kept = weight_decay_exclusions(model)
    model.optimizer = type(old).from_config(config)
    model.optimizer.build(model.trainable_variables)
    for before, after in zip(optimizers(old), optimizers(model.optimizer), strict=False):
        after._iterations.assign(before._iterations)
    exclude_from_weight_decay(model, kept)
    return True


def check_summed_updates(model: Any) -> None:
    """Reject optimizers whose updates must not be summed over workers."""
    for each in _parts(model):
        overwrites = getattr(each, "use_ema", False) and each.ema_overwrite_frequency
        if overwrites or type(each).__name__ == "ScheduleFreeAdamW":
            option = f"ema_overwrite_frequency={overwrites}" if overwrites else "averaged weights"
            raise ConfigurationError(
                "the updates of an optimizer that moves the weights to an average must be averaged "
                f"over workers, not summed. Received: {type(each).__name__} "
                f'with {option}. Use `SharedTrainingMaster(combine="mean")`.'
            )


def weight_decay_exclusions(model: Any) -> str:
    """Return as JSON the variables that are excluded from weight decay; "" if there are none."""
    # Keras does not store them in the optimizer's configuration.
    found: list[tuple[list[int], str | None]] = []
    for each in _parts(model):
        keys = getattr(each, "_exclude_from_weight_decay", None) or ()
        places = [i for i, v in enumerate(model.trainable_variables) if each._var_key(v) in keys]
        pattern = getattr(each, "_exclude_from_weight_decay_pattern", None)
        found.append((places, None if pattern is None else pattern.pattern))
    return json.dumps(found) if any(places or pattern for places, pattern in found) else ""


def exclude_from_weight_decay(model: Any, exclusions: str) -> None:
    """Apply the result of `weight_decay_exclusions` to a model with the same definition."""
    found = json.loads(exclusions or "[]")
    for each, (places, pattern) in zip(_parts(model), found, strict=False):
        variables = [model.trainable_variables[place] for place in places]
        each.exclude_from_weight_decay(variables, None if pattern is None else [pattern])


def _parts(model: Any) -> Iterator[Any]:
    return (part for used in optimizers_of(model) for part in optimizers(used))

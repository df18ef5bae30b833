"""What a run asks of a model's optimizer: variables for all weights, updates that add up."""

import json
from collections.abc import Iterator
from typing import Any

from sparkwright.errors import ConfigurationError

from .steps import has_own_train_step, optimizers, optimizers_of


def lost_state(optimizer: Any, remedy: str) -> str:
    """Return the warning after `rebuild_optimizer`."""
    return (
        "An optimizer must have been built for all variables of its model. Received: "
        f"{type(optimizer).__name__}, built for none, as Keras leaves it after reading HDF5. It is "
        f"rebuilt: iterations and learning rate stay, moments are lost. {remedy}"
    )


def rebuild_optimizer(model: Any) -> bool:
    """Build an optimizer for all variables if Keras has built it for none; return whether it had.

    That is how Keras loads a model from HDF5; it cannot be trained, not by `fit` either. Iterations
    and learning rate stay, all other state is initialized.
    """
    if has_own_train_step(model):  # which may train some of the variables with each optimizer
        return False
    old: Any = getattr(model, "optimizer", None)
    known = getattr(old, "_trainable_variables", None) or ()
    if not getattr(old, "built", False) or len(known) >= len(model.trainable_variables):
        return False
    config = old.get_config()
    if "learning_rate" in config and callable(old._learning_rate):
        config["learning_rate"] = old._learning_rate  # a schedule, which may be the user's own
    kept = weight_decay_exclusions(model)
    model.optimizer = type(old).from_config(config)
    model.optimizer.build(model.trainable_variables)
    for before, after in zip(optimizers(old), optimizers(model.optimizer), strict=False):
        after._iterations.assign(before._iterations)
    exclude_from_weight_decay(model, kept)
    return True


def check_summed_updates(model: Any) -> None:
    """Refuse optimizers whose updates must not count in full on several workers.

    Raises:
        ConfigurationError: naming the optimizer.
    """
    for each in _parts(model):
        overwrites = getattr(each, "use_ema", False) and each.ema_overwrite_frequency
        if overwrites or type(each).__name__ == "ScheduleFreeAdamW":
            option = f"ema_overwrite_frequency={overwrites}" if overwrites else "averaged weights"
            raise ConfigurationError(
                "an optimizer that moves the weights to an average needs updates that count 1 / n "
                f"each: n workers would move them n times as far. Received: {type(each).__name__} "
                f'with {option}. Use `SharedTrainingMaster(combine="mean")`.'
            )


def weight_decay_exclusions(model: Any) -> str:
    """Return which variables `exclude_from_weight_decay` names, as JSON; "" for none.

    An optimizer's own configuration does not hold them.
    """
    found: list[tuple[list[int], str | None]] = []
    for each in _parts(model):
        keys = getattr(each, "_exclude_from_weight_decay", None) or ()
        places = [i for i, v in enumerate(model.trainable_variables) if each._var_key(v) in keys]
        pattern = getattr(each, "_exclude_from_weight_decay_pattern", None)
        found.append((places, None if pattern is None else pattern.pattern))
    return json.dumps(found) if any(places or pattern for places, pattern in found) else ""


def exclude_from_weight_decay(model: Any, exclusions: str) -> None:
    """Apply what `weight_decay_exclusions` returned to a model of the same definition."""
    found = json.loads(exclusions or "[]")
    for each, (places, pattern) in zip(_parts(model), found, strict=False):
        variables = [model.trainable_variables[place] for place in places]
        each.exclude_from_weight_decay(variables, None if pattern is None else [pattern])


def _parts(model: Any) -> Iterator[Any]:
    return (part for used in optimizers_of(model) for part in optimizers(used))

"""What Keras callbacks remember of a run, for checkpoints, and the scores that they act by.

A callback remembers numbers and texts, such as the best score and the epochs since, and lists of
arrays such as the best weights. Only what has changed since the run began is kept, so that a
resumed run may have other options, such as another patience.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError
from sparkwright.networks import pack_arrays
from sparkwright.networks.signature import signature_of
from sparkwright.networks.state import unpack_arrays

_SCALARS = (bool, int, float, str, type(None))
Values = Mapping[str, bool | int | float | str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallbackState:
    """What one callback remembers."""

    kind: str  # the name of its class
    values: Values  # attribute -> number, text or None
    # Attribute -> packed arrays.
    weights: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


def values_of(callback: Any) -> Values:
    """Return the attributes of a callback that are numbers or texts, by name."""
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in vars(callback).items()
        if isinstance(value, (*_SCALARS, np.number, np.bool_))
    }


def described(callback: Any) -> str:
    """Return a callback's class and the options that differ from its defaults, as Python code."""
    known, kind = values_of(callback), type(callback)
    changed = [
        f"{name}={known[name]!r}"
        for name, parameter in inspect.signature(kind).parameters.items()
        if name in known and known[name] != parameter.default
    ]
    return f"{kind.__name__}({', '.join(changed)})"


def state_of(callback: Any, *, since: Values) -> CallbackState:
    """Return what a callback remembers; `since` are its values when the run began."""
    values = {
        name: value
        for name, value in values_of(callback).items()
        if name not in since or since[name] != value
    }
    arrays = {
        name: pack_arrays(value) for name, value in vars(callback).items() if _are_arrays(value)
    }
    return CallbackState(kind=type(callback).__name__, values=values, weights=arrays)


def restore(callback: Any, state: CallbackState, *, like: Sequence[NDArray[Any]]) -> None:
    """Let a callback of the same class remember `state`; `like` are the model's weights."""
    known = vars(callback)
    if state.kind != type(callback).__name__:
        return
    for name, value in state.values.items():
        if isinstance(known.get(name), (*_SCALARS, np.number, np.bool_)):
            setattr(callback, name, value)
    for name, content in state.weights.items():
        if name in known:
            setattr(callback, name, unpack_arrays(content, like))


def to_bytes(states: Sequence[CallbackState]) -> bytes:
    """Return kinds and values as JSON, which also has NaN and infinity."""
    return json.dumps(
        [[state.kind, dict(state.values), [*state.weights]] for state in states]
    ).encode()


def from_bytes(content: bytes, weights: Mapping[str, bytes]) -> tuple[CallbackState, ...]:
    """The inverse of `to_bytes`; `weights` are the packed arrays, see `weights_of`."""
    return tuple(
        CallbackState(
            kind=str(kind),
            values={str(n): v for n, v in values.items() if isinstance(v, _SCALARS)},
            weights={name: weights[f"{place}/{name}"] for name in names},
        )
        for place, (kind, values, names) in enumerate(json.loads(content))
    )


def weights_of(states: Sequence[CallbackState]) -> dict[str, bytes]:
    """Return the packed arrays of all callbacks, by place and attribute."""
    return {
        f"{place}/{name}": content
        for place, state in enumerate(states)
        for name, content in state.weights.items()
    }


def _are_arrays(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, np.ndarray) and each.dtype.kind in "biuf" for each in value)
    )


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

"""Results of metrics as named numbers, and back: an array `f1` is `f1/0`, `f1/1`, …."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError

_PLACE = re.compile(r"(?P<name>.+?)(?P<places>(?:/\d+)+)", re.DOTALL)


def numbers_of(results: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each number: arrays by place, dicts by key as Keras logs them.

    Example:
        >>> [name for name, _ in numbers_of({"f1": np.zeros(2), "range": {"low": 1.0}})]
        ['f1/0', 'f1/1', 'low']
    """
    for name, value in results.items():
        if isinstance(value, Mapping):
            yield from numbers_of(value)  # pyright: ignore[reportUnknownArgumentType]
            continue
        shape: Any = tuple(getattr(value, "shape", ()))
        if None in shape:
            raise ConfigurationError(
                f"the result of a metric must have a known shape. Received: {name!r} of shape "
                f"{shape}. Set it in `result`, such as by `keras.ops.reshape`."
            )
        for place in np.ndindex(*shape):
            yield "/".join((name, *map(str, place))), value[place] if shape else value


def as_keras_logs(numbers: Mapping[str, float]) -> dict[str, float | NDArray[np.float64]]:
    """Return what `numbers_of` yielded with its arrays, as Keras' callbacks and history have them.

    Example:
        >>> as_keras_logs({"loss": 0.5, "f1/0": 0.25, "f1/1": 0.75})
        {'loss': 0.5, 'f1': array([0.25, 0.75])}
    """
    found: dict[str, Any] = {}
    parts: dict[str, dict[tuple[int, ...], float]] = {}
    for name, value in numbers.items():
        if (match := _PLACE.fullmatch(name)) is None:
            found[name] = value
        else:
            place = tuple(map(int, match["places"].split("/")[1:]))
            parts.setdefault(match["name"], {})[place] = value
            found.setdefault(match["name"], None)  # in its order
    for name, values in parts.items():
        shape = tuple(1 + max(axis) for axis in zip(*values, strict=False))
        if sorted(values) == list(np.ndindex(*shape)):
            found[name] = np.reshape([values[place] for place in sorted(values)], shape)
        else:  # a number whose name looks like that of a part of an array
            del found[name]
            found |= {"/".join((name, *map(str, place))): values[place] for place in values}
    return found

"""Probabilities: where they must lie, and when one says yes."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

from ._rows import Where

Array = NDArray[Any]
_SLACK = 1e-3  # half precision sigmoids and averages may pass 0 and 1 a little


def check_threshold(name: str, value: Any) -> None:
    """Refuse anything but a number from 0 to 1.

    Raises:
        ConfigurationError: naming the option and what it received.
    """
    number = isinstance(value, int | float | np.integer | np.floating)
    if not number or isinstance(value, bool) or not 0 <= value <= 1:
        raise ConfigurationError(
            f"`{name}` must be a number from 0 to 1. Received: {name}={value!r}."
        )


def checked_costs(costs: Any) -> tuple[float, ...] | None:
    """The weight of each class as a tuple; None stays None.

    Raises:
        ConfigurationError: unless there are two or more, finite, at least 0, one above 0.
    """
    if costs is None:
        return None
    values = np.asarray(costs)
    if values.dtype.kind in "iuf" and values.shape in ((values.size,), (1, values.size)):
        found = tuple(map(float, values.reshape(-1)))
        if len(found) > 1 and all(math.isfinite(c) and c >= 0 for c in found) and any(found):
            return found
    raise ConfigurationError(
        "`costs` must be a number for each class, finite, at least 0 and one of them above 0. "
        f"Received: costs={costs!r}."
    )


def require_probabilities(values: Array, where: Where, what: str) -> None:
    """Raise DataError if one of (rows, C) `values` is not a probability, and say where.

    Args:
        values: of the rows that count; no NaN among them.
        where: names them.
        what: what must be a probability, for the message.
    """
    wrong = (values < -_SLACK) | (values > 1 + _SLACK)
    if not wrong.any():
        return
    first, place = where(np.asarray(wrong.any(axis=1)))
    value = values[first][wrong[first]][0]
    raise DataError(
        f"{what} must be a probability, from 0 to 1. Received: {float(value)} at {place}. "
        "Apply a sigmoid or softmax to logits."
    )


def require_finite(values: Array, where: Where, why: str) -> None:
    """Raise DataError if one of (rows, C) `values` is infinite, and say where and why not."""
    wrong = np.asarray(np.isinf(values).any(axis=1))
    if wrong.any():
        first, place = where(wrong)
        raise DataError(
            f"predictions must be finite {why}. Received: {values[first].tolist()} at {place}."
        )


def exceeds(values: Array, threshold: float | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether probabilities are greater than a threshold, in their own precision.

    A float32 that was written as 0.3 does not exceed 0.3, though its value is 0.30000001192….

    Args:
        values: (rows,) or (rows, C).
        threshold: one, or (C,).
    """
    kind = values.dtype if values.dtype.kind == "f" else np.float64
    return values > np.asarray(threshold, kind)

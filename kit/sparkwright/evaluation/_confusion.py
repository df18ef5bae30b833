"""The state of a classification, held against its options."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparkwright.errors import ConfigurationError, DataError

from ._binary_counts import Counts, checked_counts


def checked_confusion(
    confusion: ArrayLike, names: tuple[str, ...] | None, costs: tuple[float, ...] | None
) -> Counts:
    """A read-only copy of a matrix of counts; zeros for all named classes if it is empty.

    Raises:
        DataError: if it is not square, whole and non-negative.
        ConfigurationError: if there is not a name or cost for each class.
    """
    given = np.asarray(confusion)
    if given.shape == (0, 0):
        given = np.zeros((len(names or ()), len(names or ())), np.int64)
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise DataError(f"`confusion` must be square. Received: shape {given.shape}.")
    checked = checked_counts("confusion", given)
    if names is not None and len(names) != given.shape[0]:
        raise ConfigurationError(
            "`class_names` must name every class. "
            f"Received: {len(names)} names for {given.shape[0]} classes."
        )
    if costs is not None and given.shape[0] not in (0, len(costs)):
        raise ConfigurationError(
            "`costs` must have a number for each class. "
            f"Received: {len(costs)} costs for {given.shape[0]} classes."
        )
    return checked


def checked_top_n(found: Any, confusion: Counts, top_n: int, *, least_is_diagonal: bool) -> int:
    """How many rows have their class among the N most probable.

    Args:
        found: the count; None where the diagonal says it, for N = 1 and without rows.
        confusion: of the same rows.
        top_n: N.
        least_is_diagonal: whether the most probable class is the predicted one.

    Raises:
        DataError: if it cannot be.
    """
    right, rows = int(np.trace(confusion)), int(confusion.sum())
    if found is None and (top_n == 1 or rows == 0):
        return right
    least = right if least_is_diagonal else 0
    count = found if isinstance(found, int) and not isinstance(found, bool) else -1
    if not least <= count <= rows or (top_n == 1 and count != right):
        raise DataError(
            f"`top_n_correct` must be a count from {least} to {rows}, and for top_n=1 that of the "
            f"diagonal. Received: top_n_correct={found!r} with top_n={top_n}."
        )
    return count

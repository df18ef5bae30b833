"""Histograms of probabilities: equal bins from 0 to 1."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Bins = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Histogram:
    """How many of some numbers from 0 to 1 lie in each of equal bins.

    Attributes:
        counts: (bins,) int64; bin i is [i / bins, (i + 1) / bins), the last one ends with 1.
    """

    counts: NDArray[np.int64]

    @property
    def edges(self) -> NDArray[np.float64]:
        """(bins + 1,) where the bins begin, and 1."""
        return bin_edges(len(self.counts))


def bin_edges(bins: int) -> NDArray[np.float64]:
    """(bins + 1,) the float64 nearest to i / bins."""
    return np.arange(bins + 1) / bins


def bin_numbers(values: Array, bins: int) -> Bins:
    """The bin of each number: i if it lies in [i / bins, (i + 1) / bins), the last one with 1.

    Edges are rounded to the numbers' own precision first, so that what was written as 0.7 lies in
    [0.7, 0.8) in any precision, although the float32 of it is a little less than 0.7.

    Args:
        values: any shape, from 0 to 1, of a float type.
        bins: how many.

    Example:
        >>> bin_numbers(np.float32([0.0, 0.69, 0.7, 1.0]), 10)
        array([0, 6, 7, 9])
    """
    return np.searchsorted(_inner(values, bins), values, side="right").astype(np.int64)


def mirrored_bin_numbers(values: Array, bins: int) -> Bins:
    """The bin of 1 - value for each number, without rounding the difference.

    Example:
        >>> 1 - 0.9, mirrored_bin_numbers(np.array([0.0, 0.9, 1.0]), 10)
        (0.09999999999999998, array([9, 1, 0]))
    """
    return bins - 1 - np.searchsorted(_inner(values, bins), values, side="left").astype(np.int64)


def _inner(values: Array, bins: int) -> Array:
    return bin_edges(bins)[1:-1].astype(values.dtype)

"""Mergeable summaries of numbers that preprocessing layers are adapted to. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from ._moments import Moments
from .dataset import Array

# Numbers that stand for all: each for a 20,000th of them.
_POINTS = 20_000


def moments_over(array: Array, axis: Sequence[int], name: str) -> Moments:
    """Count, mean and squares of (n, ...) numbers, one for each place on the axes `axis`.

    Raises:
        DataError: for NaN and infinite numbers, and if an axis is that of the examples.
    """
    _check_finite(array, name)
    kept = sorted(each % array.ndim for each in axis)
    if 0 in kept:
        raise DataError(
            f"`axis` must not be that of the examples. Received: axis={tuple(axis)} for {name!r} "
            f"of shape {array.shape}."
        )
    columns = np.moveaxis(array, kept, range(-len(kept), 0)) if kept else array
    shape = tuple(array.shape[each] for each in kept)
    return Moments.of(columns.reshape(-1, int(np.prod(shape))), shape=shape)


@dataclass(frozen=True, eq=False, slots=True)
class Quantiles:
    """Sorted numbers that stand for all numbers, and for how many each of them stands.

    Up to 20,000 numbers are kept as they are.
    """

    values: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, array: Array, name: str) -> "Quantiles":
        """Those of an array.

        Raises:
            DataError: for NaN and infinite numbers.

        Example:
            >>> Quantiles.of(np.array([3, 1, 2]), "age").values.tolist()
            [1.0, 2.0, 3.0]
        """
        _check_finite(array, name)
        values = np.sort(array.astype(np.float64), axis=None)
        return cls(values, np.ones(len(values)))._compressed()

    def merge(self, other: "Quantiles") -> "Quantiles":
        """Those of both together."""
        values = np.concatenate([self.values, other.values])
        order = np.argsort(values, kind="stable")
        weights = np.concatenate([self.weights, other.weights])
        return Quantiles(values[order], weights[order])._compressed()

    def _compressed(self) -> "Quantiles":
        if len(self.values) <= _POINTS:
            return self
        total = self.weights.sum()
        middles = (np.arange(_POINTS) + 0.5) * (total / _POINTS)
        chosen = np.searchsorted(np.cumsum(self.weights), middles)
        return Quantiles(self.values[chosen], np.full(_POINTS, total / _POINTS))


def _check_finite(array: Any, name: str) -> None:
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise DataError(
            "a layer of numbers can be adapted only to finite numbers. Received: text, NaN or "
            f"infinite ones in {name!r}. Fill or drop them first."
        )

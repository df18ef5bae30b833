"""The columns of arrays, and their count, mean, deviation and range in float64: mergeable."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice

from .dataset import Array, DataSet

# What one column is: a position of the last axis, one element of an example, or every number.
Per = Literal["feature", "element", "value"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Moments:
    """Moments of some columns, all arrays of one shape.

    `squares` are sums of squared distances from the mean. Without numbers, `mean` is 0, `minimum`
    infinite and `maximum` minus infinite. `mean_rest` is what rounding left of the mean: without
    it, means far from 0 would cost the deviation its last digits.

    References:
        T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance",
        The American Statistician 37 (1983).
    """

    count: NDArray[np.int64]
    mean: Floats
    squares: Floats
    minimum: Floats
    maximum: Floats
    mean_rest: Floats

    @classmethod
    def of(
        cls,
        values: Array,
        valid: NDArray[np.bool_] | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> "Moments":
        """The moments of each column of (n, columns) numbers, all or the `valid` ones.

        Example:
            >>> found = Moments.of(np.array([[1.0], [2.0], [6.0]]))
            >>> found.mean.tolist(), found.std.round(3).tolist(), found.maximum.tolist()
            ([3.0], [2.16], [6.0])
        """
        # A column's numbers side by side: several times faster to add up where columns are few.
        wide = low = high = np.ascontiguousarray(values.T, np.float64)
        count = np.full(len(wide), wide.shape[1], np.int64)
        kept = None if valid is None else np.ascontiguousarray(valid.T)
        if kept is not None:
            count = np.count_nonzero(kept, axis=1).astype(np.int64)
            low, high = np.where(kept, wide, np.inf), np.where(kept, wide, -np.inf)
            wide = np.where(kept, wide, 0.0)
        divisor = np.maximum(count, 1)
        mean = wide.sum(axis=1) / divisor
        distance = wide - mean[:, None]
        if kept is not None:
            distance[~kept] = 0.0
        # The corrected two-pass algorithm: `rest` is what rounding left of the mean.
        rest = distance.sum(axis=1)
        squares = np.einsum("ij,ij->i", distance, distance) - rest * rest / divisor
        mean, mean_rest = _sum(mean, rest / divisor)
        found: tuple[Any, ...] = (
            count,
            mean,
            np.maximum(squares, 0.0),
            low.min(axis=1, initial=np.inf),
            high.max(axis=1, initial=-np.inf),
            mean_rest,
        )
        return cls(*(part.reshape(count.shape if shape is None else shape) for part in found))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each array."""
        return self.count.shape

    def merge(self, other: "Moments") -> "Moments":
        """The moments of both together."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        delta = (other.mean - self.mean) + (other.mean_rest - self.mean_rest)
        mean, mean_rest = _sum(self.mean, delta * share + self.mean_rest)
        return Moments(
            count,
            mean,
            self.squares + other.squares + delta * delta * self.count * share,
            np.minimum(self.minimum, other.minimum),
            np.maximum(self.maximum, other.maximum),
            mean_rest,
        )

    @property
    def std(self) -> Floats:
        """The deviation of the population, as `np.std`; exactly 0 of equal numbers."""
        deviation = np.sqrt(self.squares / np.maximum(self.count, 1))
        return np.where(self.minimum == self.maximum, 0.0, deviation)


def _sum(large: Floats, small: Floats) -> tuple[Floats, Floats]:
    """The sum and what rounding left of it (Knuth's two-sum)."""
    total = large + small
    part = total - large
    return total, (large - (total - part)) + (small - part)


def readings_of(dataset: DataSet, flat_name: str, wanted: str) -> tuple[Per, ...]:
    """What a column of an array may be, as far as these examples show; the best reading first.

    (n, time) numbers beside a (n, time, ...) input or output are a number for each step, with or
    without masks. But a vector may happen to be as long as the sequences here, so what holds of
    all the data is known only once each chunk was seen: see `merge_readings`. `wanted`, "feature"
    or "element", is what a column is if the array has an axis of features.
    """
    check_choice("per", wanted, ("feature", "element"))
    array, mask = dataset.columns()[flat_name], mask_of(dataset, flat_name)
    steps = 0 if mask is None or mask.ndim == 1 else mask.ndim
    if array.ndim in (1, steps):
        return ("value",)
    if wanted == "element":
        if steps:
            raise ConfigurationError(
                '`per="element"` needs examples of one shape, without masks of steps. Received: '
                f'an array of shape {array.shape} with a mask. Use `per="feature"`.'
            )
        return ("element",)
    others = (*dataset.features.values(), *dataset.labels.values())
    if array.ndim == 2 and any(o.ndim == 3 and o.shape[1] == array.shape[1] for o in others):
        return ("value", "feature")
    return ("feature",)


# A summary of columns, with `shape` and `merge`: `Moments` or an `ArraySummary`.
Found = TypeVar("Found", bound=Any)
# Flat name -> what a column may be, the best reading first -> summary of the array's columns.
Readings = Mapping[str, Mapping[Per, Found]]


def merge_readings(first: Readings[Found], second: Readings[Found]) -> dict[str, dict[Per, Found]]:
    """The readings that two pieces of the data share, merged."""
    if set(first) != set(second):
        raise DataError(
            "all chunks of the data must have the same arrays. Received: "
            f"{sorted(first)} and {sorted(second)}."
        )
    merged: dict[str, dict[Per, Found]] = {}
    for name, found in first.items():
        other = second[name]
        merged[name] = {
            per: summary.merge(other[per])
            for per, summary in found.items()
            if per in other and other[per].shape == summary.shape
        }
        if not merged[name]:
            # The last reading is the one with columns, if any is.
            counts = [math.prod(list(side.values())[-1].shape) for side in (found, other)]
            raise DataError(
                "all chunks of the data must have the same columns. Received: "
                f"{counts[0]} and {counts[1]} columns in {name!r}."
            )
    return merged


def column_values(dataset: DataSet, flat_name: str, per: Per) -> Array:
    """(numbers, columns) of one array: rows are examples, steps or pixels, masked ones left out."""
    array = dataset.columns()[flat_name]
    mask = mask_of(dataset, flat_name)
    if mask is not None:
        array = array[mask != 0]
    if per == "value":
        return array.reshape(-1, 1)
    if per == "element":
        return array.reshape(len(array), math.prod(array.shape[1:]))
    return array.reshape(-1, array.shape[-1])


def mask_of(dataset: DataSet, flat_name: str) -> Array | None:
    """The mask of an array, if it has one."""
    group, _, name = flat_name.partition("/")
    masks: dict[str, Any] = getattr(dataset, f"{group}_masks")
    return masks.get(name)

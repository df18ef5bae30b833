"""Mergeable count, mean, standard deviation and range of the columns of arrays, in float64."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice

Array = NDArray[Any]
# Flat name, such as "features/image" -> array of the examples; see `DataSet.columns`.
Arrays = Mapping[str, Array]
# A column is a position on the last axis, one element of an example, or the whole array.
Per = Literal["feature", "element", "value"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Moments:
    """Moments of columns; the rounding error `mean_rest` keeps means far from 0 exact.

    T. F. Chan, G. H. Golub, R. J. LeVeque, The American Statistician 37 (1983).
    """

    count: NDArray[np.int64]
    mean: Floats
    squares: Floats  # sums of squared distances from the mean
    minimum: Floats  # inf for empty columns, whose mean is 0
    maximum: Floats
    mean_rest: Floats

    @classmethod
    def of(
        cls,
        values: Array,
        valid: NDArray[np.bool_] | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> "Moments":
        """Compute the moments of each column of (n, columns) numbers, all or the `valid` ones.

        Example:
            >>> found = Moments.of(np.array([[1.0], [2.0], [6.0]]))
            >>> found.mean.tolist(), found.std.round(3).tolist(), found.maximum.tolist()
            ([3.0], [2.16], [6.0])
        """
        # Contiguous columns: summing is several times faster if there are few columns.
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
        # The corrected two-pass algorithm: `rest` is the rounding error of the mean.
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
        """The shape of each array."""
        return self.count.shape

    def __add__(self, other: "Moments") -> "Moments":
        """Return the moments of the union."""
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
        """Population standard deviation, as `np.std`; exactly 0 for equal numbers."""
        deviation = np.sqrt(self.squares / np.maximum(self.count, 1))
        return np.where(self.minimum == self.maximum, 0.0, deviation)


def _sum(large: Floats, small: Floats) -> tuple[Floats, Floats]:
    """Return the sum and its rounding error (Knuth's two-sum)."""
    total = large + small
    part = total - large
    return total, (large - (total - part)) + (small - part)


def numeric_names(chunk: Arrays) -> list[str]:
    """Return the flat names of features and labels, without text."""
    return [
        name
        for name, array in chunk.items()
        if name.startswith(("features/", "labels/")) and array.dtype != object
    ]


def readings_of(chunk: Arrays, flat_name: str, wanted: str) -> tuple[Per, ...]:
    """Return the possible column types of an array, judged by these examples; the best first.

    A (n, time) array next to (n, time, ...) has one number per step, or it is a vector by accident.
    """
    check_choice("per", wanted, ("feature", "element"))
    array, mask = chunk[flat_name], mask_of(chunk, flat_name)
    steps = 0 if mask is None or mask.ndim == 1 else mask.ndim
    if array.ndim in (1, steps):
        return ("value",)
    if wanted == "element":
        if steps:
            raise ConfigurationError(
                '`per="element"` needs examples of the same shape without step masks. Received: '
                f'an array of shape {array.shape} with a mask. Use `per="feature"`.'
            )
        return ("element",)
    others = [chunk[name] for name in numeric_names(chunk)]
    if array.ndim == 2 and any(o.ndim == 3 and o.shape[1] == array.shape[1] for o in others):
        return ("value", "feature")
    return ("feature",)


# A summary of columns, with `shape` and `+`: `Moments` or an `ArraySummary`.
Found = TypeVar("Found", bound=Any)
# Flat name -> possible column type, the best one first -> summary of the columns.
Readings = Mapping[str, Mapping[Per, Found]]


def merge_readings(first: Readings[Found], second: Readings[Found]) -> dict[str, dict[Per, Found]]:
    """Merge the column types that two pieces of the data have in common."""
    if set(first) != set(second):
        raise DataError(
            "all chunks of the data must have the same arrays. Received: "
            f"{sorted(first)} and {sorted(second)}."
        )
    merged: dict[str, dict[Per, Found]] = {}
    for name, found in first.items():
        other = second[name]
        merged[name] = {
            per: summary + other[per]
            for per, summary in found.items()
            if per in other and other[per].shape == summary.shape
        }
        if not merged[name]:
            # The last column type is the one with several columns, if any.
            counts = [math.prod(list(side.values())[-1].shape) for side in (found, other)]
            raise DataError(
                "all chunks of the data must have the same columns. Received: "
                f"{counts[0]} and {counts[1]} columns in {name!r}."
            )
    return merged


def column_values(chunk: Arrays, flat_name: str, per: Per) -> Array:
    """Return one array as (rows, columns); rows are unmasked examples, steps or pixels."""
    array, mask = chunk[flat_name], mask_of(chunk, flat_name)
    if mask is not None:
        array = array[mask != 0]
    if per == "value":
        return array.reshape(-1, 1)
    if per == "element":
        return array.reshape(len(array), math.prod(array.shape[1:]))
    return array.reshape(-1, array.shape[-1])


def mask_of(chunk: Arrays, flat_name: str) -> Array | None:
    """Return the mask of an array, or None."""
    return chunk.get(mask_name(flat_name))


def mask_name(flat_name: str) -> str:
    """Return the flat name of the mask of an array."""
    return flat_name.replace("/", "_masks/", 1)

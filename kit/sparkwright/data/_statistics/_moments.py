"""Count, mean, deviation and range of columns in float64: mergeable."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._dataset import Array, DataSet
from sparkwright.errors import ConfigurationError, DataError

# What one column is: a position of the last axis, one element of an example, or every number.
Per = Literal["feature", "element", "value"]
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False, slots=True)
class Moments:
    """What is known of some columns.

    Attributes:
        count: (columns,) int64 numbers.
        mean: (columns,) float64; 0 where there is none.
        squares: (columns,) float64 sum of squared distances from the mean.
        minimum: (columns,) float64; infinite where there is none.
        maximum: (columns,) float64; minus infinite where there is none.
        mean_rest: (columns,) float64, what rounding left of the mean: without it, means far from 0
            would cost the deviation its last digits.
    """

    count: NDArray[np.int64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]
    mean_rest: NDArray[np.float64]

    @classmethod
    def of(cls, values: Array, valid: NDArray[np.bool_] | None = None) -> "Moments":
        """The moments of each column.

        Args:
            values: (n, columns) numbers.
            valid: (n, columns) which of them count; default None: all.

        Example:
            >>> found = Moments.of(np.array([[1.0], [2.0], [6.0]]))
            >>> found.mean.tolist(), found.std.round(3).tolist(), found.maximum.tolist()
            ([3.0], [2.16], [6.0])
        """
        # A column's numbers side by side: several times faster to add up where columns are few.
        wide = np.ascontiguousarray(values.T, np.float64)
        columns, rows = wide.shape
        kept = None if valid is None else np.ascontiguousarray(valid.T)
        if kept is None:
            count = np.full(columns, rows, np.int64)
            low, high = wide, wide
        else:
            count = np.count_nonzero(kept, axis=1).astype(np.int64)
            low, high = np.where(kept, wide, np.inf), np.where(kept, wide, -np.inf)
            wide = np.where(kept, wide, 0.0)
        divisor = np.maximum(count, 1)
        mean = wide.sum(axis=1) / divisor
        distance = wide - mean[:, None]
        if kept is not None:
            distance[~kept] = 0.0
        # What rounding left of the mean, put right (the corrected two-pass algorithm of Chan,
        # Golub and LeVeque, The American Statistician 37, 1983).
        rest = distance.sum(axis=1)
        squares = np.einsum("ij,ij->i", distance, distance) - rest * rest / divisor
        mean, mean_rest = _sum(mean, rest / divisor)
        return cls(
            count,
            mean,
            np.maximum(squares, 0.0),
            low.min(axis=1, initial=np.inf),
            high.max(axis=1, initial=-np.inf),
            mean_rest,
        )

    def merge(self, other: "Moments") -> "Moments":
        """The moments of both together.

        References:
            T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for
            computing sample variances", COMPSTAT 1982.
        """
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
    def std(self) -> NDArray[np.float64]:
        """(columns,) deviation of the population, as `np.std`; exactly 0 of equal numbers."""
        deviation = np.sqrt(self.squares / np.maximum(self.count, 1))
        return np.where(self.minimum == self.maximum, 0.0, deviation)


def _sum(
    large: NDArray[np.float64], small: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The sum and what rounding left of it (Knuth's two-sum)."""
    total = large + small
    part = total - large
    return total, (large - (total - part)) + (small - part)


def per_of(array: Array, mask: Array | None, wanted: str) -> Per:
    """What a column of `array` is: "value" where it has no axis of features."""
    if wanted not in ("feature", "element"):
        raise ConfigurationError(f'`per` must be "feature" or "element". Received: per={wanted!r}.')
    steps = 0 if mask is None or mask.ndim == 1 else mask.ndim
    if array.ndim in (1, steps):
        return "value"
    if wanted == "element" and steps:
        raise ConfigurationError(
            '`per="element"` needs examples of one shape, without masks of steps. Received: '
            f'an array of shape {array.shape} with a mask. Use `per="feature"`.'
        )
    return "feature" if wanted == "feature" else "element"


def readings_of(dataset: DataSet, flat_name: str, wanted: str) -> tuple[Per, ...]:
    """What a column of an array may be, as far as these examples tell; the best reading first.

    (n, time) numbers beside a (n, time, ...) input or output are a number for each step, with or
    without masks. But a vector may happen to be as long as the sequences here, so what holds of
    all the data is known only once each chunk was seen: see `agreed`.

    Example:
        >>> steps = DataSet(np.zeros((2, 5, 3)), np.zeros((2, 5)))
        >>> readings_of(steps, "labels/labels", "feature")
        ('value', 'feature')
        >>> readings_of(steps.take(slice(0, 1)), "features/features", "feature")
        ('feature',)
    """
    array = dataset.columns()[flat_name]
    per = per_of(array, mask_of(dataset, flat_name), wanted)
    if per == "feature" and array.ndim == 2:
        others = (*dataset.features.values(), *dataset.labels.values())
        if any(other.ndim == 3 and other.shape[1] == array.shape[1] for other in others):
            return ("value", "feature")
    return (per,)


def agreed(
    first: Mapping[Per, Found],
    second: Mapping[Per, Found],
    *,
    fit: Callable[[Found, Found], bool],
    merge: Callable[[Found, Found], Found],
) -> dict[Per, Found]:
    """The readings of an array that two chunks share, merged; empty if they contradict each other.

    Args:
        first: reading -> what was found.
        second: likewise.
        fit: whether two findings can be merged.
        merge: both -> that of both together.
    """
    return {
        per: merge(found, second[per])
        for per, found in first.items()
        if per in second and fit(found, second[per])
    }


def column_values(dataset: DataSet, flat_name: str, per: Per) -> Array:
    """(numbers, columns) of one array: rows are examples, steps or pixels, masked ones left out."""
    array = dataset.columns()[flat_name]
    mask = mask_of(dataset, flat_name)
    if mask is not None:
        array = array[mask != 0]
    if per == "value":
        return array.reshape(-1, 1)
    if per == "element":
        return array.reshape(len(array), int(np.prod(array.shape[1:])))
    return array.reshape(-1, array.shape[-1])


def mask_of(dataset: DataSet, flat_name: str) -> Array | None:
    """The mask of an array, if it has one."""
    group, _, name = flat_name.partition("/")
    masks: dict[str, Any] = getattr(dataset, f"{group}_masks")
    return masks.get(name)


def refuse_not_finite(flat_name: str, values: Array, columns: NDArray[np.int64]) -> None:
    """Refuse NaN and infinite numbers.

    Args:
        flat_name: of the array, for the message.
        values: (numbers, columns).
        columns: which of them must be finite.

    Raises:
        DataError: naming the array and its first such column.
    """
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    for column in columns.tolist():
        found = values[:, column]
        missing, infinite = int(np.isnan(found).sum()), int(np.isinf(found).sum())
        if missing or infinite:
            group, _, name = flat_name.partition("/")
            raise DataError(
                f"a normalizer can be fitted only to finite numbers. Received: {missing} NaN and "
                f"{infinite} infinite of {len(found)} numbers in {group} {name!r}, column "
                f"{column}. "
                "Fill or drop them where the data is read, mask them, or leave the column out with "
                "`columns`."
            )

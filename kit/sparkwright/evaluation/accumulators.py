"""Mergeable float64 sums and moments, equal up to rounding for any grouping of the data.

Sums use Neumaier's compensated summation; moments are merged by Chan's formula. With
well-conditioned data, the results of any two groupings agree to a relative error of about 1e-15.

References:
    A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen",
    ZAMM 54 (1974).
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance",
    The American Statistician 37 (1983).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from .checks import Counts, Values, checked_counts, checked_floats, frozen, read_as

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# Numbers added without compensation: the relative error of the sum of that many non-negative
# numbers is below 4096 * 2**-53 < 1e-12.
_BLOCK = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Sums(Values):
    """Compensated sums: float64 arrays of any shape of the sums and their rounding errors."""

    high: Floats
    low: Floats

    @classmethod
    def of(cls, values: Floats) -> "Sums":
        """Return sums of one number each."""
        return cls(frozen(values), frozen(np.zeros_like(values)))

    @classmethod
    def by_group(cls, values: Floats, groups: NDArray[np.integer[Any]], shape: Any) -> "Sums":
        """Sum each group of (n,) values; (n,) `groups` are flat indices into `shape`."""
        total = cls.of(np.zeros(shape))
        size = total.high.size
        step = max(_BLOCK, size)  # with many groups, each has few numbers
        for start in range(0, values.size, step):
            block = slice(start, start + step)
            found: Any = np.bincount(groups[block], weights=values[block], minlength=size)
            total = total + cls.of(found.reshape(shape))
        return total

    def __add__(self, other: "Sums") -> "Sums":
        """Return the sums over both sets of numbers together."""
        total = self.high + other.high
        shift = total - self.high
        rest = (self.high - (total - shift)) + (other.high - shift)
        return Sums(frozen(total), frozen(self.low + other.low + rest))

    @property
    def values(self) -> Floats:
        """The sums."""
        return self.high + self.low

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sums."""
        return self.high.shape


def checked_sums(name: str, given: Any, least: float = -np.inf) -> Sums:
    """Read `Sums` from JSON; raise DataError unless all are finite and at least `least`."""
    high, low = (checked_floats(name, given[key]) for key in ("high", "low"))
    if high.shape != low.shape:
        raise DataError(f"`{name}` must be sums. Received: {given!r:.80}.")
    checked_floats(name, high + low, least)
    return Sums(high, low)


positive_sums = partial(checked_sums, least=0.0)


# The products of deviations in `Moments`: squares of label, prediction and error, and the product
# of label and prediction.
LABEL, PREDICTION, ERROR, SHARED = range(4)
_FIRST, _SECOND = [LABEL, PREDICTION, ERROR, LABEL], [LABEL, PREDICTION, ERROR, PREDICTION]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Moments(Values):
    """Means and products of deviations of label, prediction and error, of C outputs."""

    counts: Counts = field(metadata=read_as(checked_counts, "C"))  # int64 rows
    # Of label, prediction, and prediction - label.
    means: Sums = field(metadata=read_as(checked_sums, 3, "C"))
    # Sums of squared deviations from these means, and of deviations of label times prediction.
    products: Sums = field(metadata=read_as(checked_sums, 4, "C"))
    absolute: Sums = field(metadata=read_as(positive_sums, "C"))  # sums of |prediction - label|
    # Of |prediction - label|.
    largest: Floats = field(metadata=read_as(partial(checked_floats, least=0.0), "C"))

    @classmethod
    def of(cls, labels: Floats, predictions: Floats, counted: Bools) -> "Moments":
        """Return the moments of (rows, C) labels and predictions; `counted` is their mask."""
        width = labels.shape[1]
        total = cls._of_block(labels[:0], predictions[:0], counted[:0])
        step = max((1 << 18) // max(width, 1), 1)
        for start in range(0, len(labels), step):
            block = slice(start, start + step)
            total = total + cls._of_block(labels[block], predictions[block], counted[block])
        return total

    @classmethod
    def _of_block(cls, labels: Floats, predictions: Floats, counted: Bools) -> "Moments":
        # (3, C, rows): NumPy sums the last axis pairwise, with a small rounding error.
        values = np.stack([labels.T, predictions.T, (predictions - labels).T])
        within, counts = counted.T, counted.sum(axis=0)
        # Subtract the first row first, so that deviations of constants are exactly 0.
        origin = np.zeros(values.shape[:2])
        if len(labels):
            origin = values[:, np.arange(len(counts)), counted.argmax(axis=0)] * (counts > 0)
        deviations = np.where(within, values - origin[..., None], 0.0)
        shift = deviations.sum(axis=2) / np.maximum(counts, 1)
        deviations = np.where(within, deviations - shift[..., None], 0.0)
        absolute = np.where(within, np.abs(values[ERROR]), 0.0)
        return cls(
            counts=frozen(counts.astype(np.int64)),
            means=Sums.of(origin) + Sums.of(shift),
            products=Sums.of((deviations[_FIRST] * deviations[_SECOND]).sum(axis=2)),
            absolute=Sums.of(absolute.sum(axis=1)),
            largest=frozen(absolute.max(axis=1, initial=0.0)),
        )

    def __add__(self, other: "Moments") -> "Moments":
        """Merge the moments of two sets of rows, by Chan's formula."""
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1)
        high, low = other.means.high - self.means.high, other.means.low - self.means.low
        apart = high + low
        between = apart[_FIRST] * apart[_SECOND] * (self.counts * share)
        return Moments(
            counts=frozen(counts),
            # Two sums, so that means of one row keep their low parts.
            means=self.means + Sums.of(high * share) + Sums.of(low * share),
            products=self.products + other.products + Sums.of(between),
            absolute=self.absolute + other.absolute,
            largest=frozen(np.maximum(self.largest, other.largest)),
        )

    def squared_errors(self) -> Floats:
        """(C,) sums of (prediction - label)²."""
        return self.products.values[ERROR] + self.counts * self.means.values[ERROR] ** 2

    @classmethod
    def from_dict(cls, values: Any) -> "Moments":
        """Restore moments from `to_dict`; raise DataError if a sum of squares is negative."""
        moments = super(Moments, cls).from_dict(values)
        checked_floats("products", moments.products.values[:SHARED], 0.0)  # has square roots
        return moments


def _share(part: Floats, whole: Floats) -> Floats:
    """Divide elementwise; by convention, 0 / 0 is 0 and x / 0 is 1 for x > 0."""
    return np.divide(part, whole, out=np.asarray(part > 0, np.float64), where=whole > 0)


def _mean(total: Floats, moments: Moments) -> Floats:
    return total / np.maximum(moments.counts, 1)


def _relative_squared_error(moments: Moments) -> Floats:
    return _share(moments.squared_errors(), moments.products.values[LABEL])


def _correlation(moments: Moments) -> Floats:
    products = moments.products.values
    spread = np.sqrt(products[LABEL]) * np.sqrt(products[PREDICTION])
    shared = np.divide(products[SHARED], spread, out=np.zeros_like(spread), where=spread > 0)
    return np.clip(shared, -1.0, 1.0)  # rounding can yield 1 + 2e-16


# Metric of a regression -> its value for each output.
FORMULAS: dict[str, Callable[[Moments], Floats]] = {
    "mean_squared_error": lambda moments: _mean(moments.squared_errors(), moments),
    "root_mean_squared_error": lambda moments: np.sqrt(_mean(moments.squared_errors(), moments)),
    "mean_absolute_error": lambda moments: _mean(moments.absolute.values, moments),
    "max_error": lambda moments: moments.largest,
    "mean_error": lambda moments: moments.means.values[ERROR],
    "relative_squared_error": _relative_squared_error,
    "pearson_correlation": _correlation,
    "r2": lambda moments: 1 - _relative_squared_error(moments),
}

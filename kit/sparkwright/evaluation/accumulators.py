"""Sums and moments of float64 that can be merged, equal up to rounding for any grouping.

Sums carry the rounding error of each addition along (Neumaier's compensation), and moments are
merged by Chan's formula. With well-conditioned data the results of any grouping agree to about
1e-15 of their size, however many parts there are.

References:
    A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen",
    ZAMM 54 (1974).
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance",
    The American Statistician 37 (1983).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from .checks import Counts, Values, checked_counts, frozen

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# Numbers that are added one after another before compensation; that many non-negative numbers
# have a relative error below 4096 * 2**-53 < 1e-12.
_BLOCK = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Sums(Values):
    """Compensated sums, an array of any shape.

    Attributes:
        high: the sums as float64.
        low: what rounding took from them.
    """

    high: Floats
    low: Floats

    @classmethod
    def of(cls, values: Floats) -> "Sums":
        """Sums of one number each."""
        return cls(frozen(values), frozen(np.zeros_like(values)))

    @classmethod
    def by_group(cls, values: Floats, groups: NDArray[np.integer[Any]], shape: Any) -> "Sums":
        """The sum of each group.

        Args:
            values: (n,).
            groups: (n,) flat indices into `shape`.
            shape: of the result.
        """
        total = cls.of(np.zeros(shape))
        size = total.high.size
        step = max(_BLOCK, size)  # of many groups, each has few numbers
        for start in range(0, values.size, step):
            block = slice(start, start + step)
            found: Any = np.bincount(groups[block], weights=values[block], minlength=size)
            total = total + cls.of(found.reshape(shape))
        return total

    def __add__(self, other: "Sums") -> "Sums":
        """The sums over both sets of numbers together."""
        total = self.high + other.high
        shift = total - self.high
        rest = (self.high - (total - shift)) + (other.high - shift)
        return Sums(frozen(total), frozen(self.low + other.low + rest))

    @property
    def values(self) -> Floats:
        """The sums."""
        return self.high + self.low

    @classmethod
    def from_dict(cls, values: Any, shape: tuple[int, ...], *, least: float = -np.inf) -> "Sums":
        """The inverse of `to_dict`.

        Args:
            values: what `to_dict` returned; or the texts of exact sums that version 0 wrote.
            shape: of the sums.
            least: smallest valid sum; default: no bound.

        Raises:
            DataError: if `values` are not finite sums of that shape.
        """
        if isinstance(values, list):
            exact: list[Any] = values  # pyright: ignore[reportUnknownVariableType]
            values = {"high": [float(exact_sum(text)) for text in exact], "low": [0.0] * len(exact)}
        given: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
        parts = [np.asarray(given.get(key, ())) for key in ("high", "low")]
        if any(p.dtype.kind not in "fi" or p.size != np.prod(shape, dtype=int) for p in parts):
            raise DataError(f"sums must be numbers of shape {shape}. Received: {values!r:.80}.")
        sums = cls(*(frozen(part.astype(np.float64).reshape(shape)) for part in parts))
        if not np.isfinite(sums.values).all() or bool((sums.values < least).any()):
            raise DataError(f"sums must be finite and plausible. Received: {values!r:.80}.")
        return sums


# The products of deviations that `Moments` keeps: of label, prediction and error with themselves,
# and of label with prediction.
LABEL, PREDICTION, ERROR, SHARED = range(4)
_FIRST, _SECOND = [LABEL, PREDICTION, ERROR, LABEL], [LABEL, PREDICTION, ERROR, PREDICTION]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Moments(Values):
    """Means and products of deviations of label, prediction and error, for each of C outputs.

    Attributes:
        counts: (C,) int64 rows.
        means: (3, C) of label, prediction, and prediction - label.
        products: (4, C) sums of squared deviations from these means, and of the product of the
            deviations of label and prediction.
        absolute: (C,) sums of |prediction - label|.
        largest: (C,) largest |prediction - label|.
    """

    counts: Counts
    means: Sums
    products: Sums
    absolute: Sums
    largest: Floats

    @classmethod
    def of(cls, labels: Floats, predictions: Floats, counted: Bools) -> "Moments":
        """The moments of rows.

        Args:
            labels: (rows, C).
            predictions: (rows, C).
            counted: (rows, C) whether the entry counts.
        """
        width = labels.shape[1]
        total = cls._of_block(labels[:0], predictions[:0], counted[:0])
        step = max((1 << 18) // max(width, 1), 1)
        for start in range(0, len(labels), step):
            block = slice(start, start + step)
            total = total + cls._of_block(labels[block], predictions[block], counted[block])
        return total

    @classmethod
    def _of_block(cls, labels: Floats, predictions: Floats, counted: Bools) -> "Moments":
        # (3, C, rows): NumPy sums along the last axis in pairs, which rounds little.
        values = np.stack([labels.T, predictions.T, (predictions - labels).T])
        within, counts = counted.T, counted.sum(axis=0)
        # Deviations from the first row first: those of constants are then exactly 0.
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
        """The moments of both sets of rows together, by Chan's formula."""
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1)
        high, low = other.means.high - self.means.high, other.means.low - self.means.low
        apart = high + low
        between = apart[_FIRST] * apart[_SECOND] * (self.counts * share)
        return Moments(
            counts=frozen(counts),
            # Apart, so that means of one row each keep their low parts.
            means=self.means + Sums.of(high * share) + Sums.of(low * share),
            products=self.products + other.products + Sums.of(between),
            absolute=self.absolute + other.absolute,
            largest=frozen(np.maximum(self.largest, other.largest)),
        )

    def squared_errors(self) -> Floats:
        """(C,) sums of (prediction - label)²."""
        return self.products.values[ERROR] + self.counts * self.means.values[ERROR] ** 2

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Moments":
        """The inverse of `to_dict`.

        Raises:
            DataError: if these cannot be the moments of any data.
        """
        counts = checked_counts("counts", values["counts"], (None,))
        width = counts.size
        moments = cls(
            counts=counts,
            means=Sums.from_dict(values["means"], (3, width)),
            products=Sums.from_dict(values["products"], (4, width)),
            absolute=Sums.from_dict(values["absolute"], (width,), least=0),
            largest=Sums.from_dict(
                {"high": values["largest"], "low": [0.0] * width}, (width,), least=0
            ).high,
        )
        products = moments.products.values
        # Squares of tiny deviations are 0 where their products are not yet.
        roots = np.sqrt(np.maximum(products, 0)) + 1e-150
        bound = roots[LABEL] * roots[PREDICTION] * (1 + 1e-6)
        if (products[:SHARED] < 0).any() or (np.abs(products[SHARED]) > bound).any():
            raise DataError(
                "moments must be those of some labels and predictions. "
                f"Received: {values!r:.100}. Was the file changed?"
            )
        return moments

    @classmethod
    def from_exact(cls, outputs: list[Mapping[str, Any]]) -> "Moments":
        """The moments of the exact sums that version 0 wrote, one dict an output.

        Raises:
            DataError: if a sum is not one.
        """
        columns = [_from_exact(output) for output in outputs]
        return cls.from_dict(
            {
                "counts": [output["count"] for output in outputs],
                "means": _high([[column[row] for column in columns] for row in range(3)]),
                "products": _high([[column[row] for column in columns] for row in range(3, 7)]),
                "absolute": _high([float(exact_sum(o["absolute_errors"])) for o in outputs]),
                "largest": [output["largest_error"] for output in outputs],
            }
        )


def _high(values: list[Any]) -> dict[str, Any]:
    return {"high": values, "low": np.zeros_like(values, np.float64)}


def _from_exact(output: Mapping[str, Any]) -> list[float]:
    n = max(output["count"], 1)
    y, p = (exact_sum(output[key]) for key in ("labels", "predictions"))
    yy, pp = (exact_sum(output[key]) for key in ("label_squares", "prediction_squares"))
    yp = exact_sum(output["products"])
    squares = [yy - y**2 / n, pp - p**2 / n, yy - 2 * yp + pp - (p - y) ** 2 / n, yp - y * p / n]
    return list(map(float, [y / n, p / n, (p - y) / n, *squares]))


def exact_sum(text: Any) -> Fraction:
    """A sum as version 0 wrote it, `"<hexadecimal>p<power of two>"`.

    Raises:
        DataError: if it is not such a text.

    Example:
        >>> float(exact_sum("9p-1"))
        4.5
    """
    try:
        digits, _, power = text.partition("p")
        if len(digits) > 1000 or abs(int(power)) > 1 << 12:
            raise ValueError(text[:40])
        return int(digits, 16) * Fraction(2) ** int(power)
    except (AttributeError, ValueError):
        raise DataError(
            'an exact sum must be text like "9p-1", 9 * 2**-1, hexadecimal. '
            f"Received: {text!r:.60}."
        ) from None

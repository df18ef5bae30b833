"""All that a regression's metrics need to know of one output: a few exact sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from ._exact_sums import (
    LARGEST,
    SMALLEST,
    Floats,
    as_fraction,
    exact_product_sums,
    exact_sums,
    from_text,
    to_text,
)
from ._pair_sample import PairSample, points_per_output
from ._rows import OutputRows, Where

_ROWS = 1 << 18
_SUMS = (
    "labels",
    "predictions",
    "absolute_errors",
    "label_squares",
    "prediction_squares",
    "products",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputSums:
    """Sums over the rows in which an output counts, as integers in the units of `_exact_sums`.

    The metrics are calculated from them with fractions and rounded at the very end: neither large
    means nor cancellation cost digits.

    Attributes:
        count: rows.
        labels: sum of the labels.
        predictions: sum of the predictions.
        absolute_errors: sum of |prediction - label|.
        label_squares: sum of the labels' squares.
        prediction_squares: sum of the predictions' squares.
        products: sum of label times prediction.
        largest_error: largest |prediction - label|, float64.
        sample: some of the pairs, to draw.
    """

    count: int
    labels: int
    predictions: int
    absolute_errors: int
    label_squares: int
    prediction_squares: int
    products: int
    largest_error: float
    sample: PairSample

    @classmethod
    def of_rows(cls, rows: OutputRows) -> "tuple[OutputSums, ...]":
        """The sums of each output.

        Raises:
            DataError: if a number that counts is infinite or above `LARGEST`; naming the row.
        """
        width = rows.labels.shape[1]
        labels = _read(rows.labels, rows.where, "labels")
        predictions = _read(rows.predictions, rows.where, "predictions")
        counts, sums, largest = np.zeros(width, np.int64), _no_sums(width), np.zeros(width)
        step = max(_ROWS // width, 1)
        for start in range(0, len(labels), step):
            block = slice(start, start + step)
            counts += rows.counts[block].sum(axis=0)
            largest = np.maximum(
                largest, np.abs(predictions[block] - labels[block]).max(axis=0, initial=0.0)
            )
            _add_block(sums, labels[block], predictions[block])
        return tuple(
            cls(
                count=int(counts[k]),
                largest_error=float(largest[k]),
                sample=PairSample.of(
                    labels[rows.counts[:, k], k],
                    predictions[rows.counts[:, k], k],
                    size=points_per_output(width),
                ),
                **{name: sums[name][k] for name in _SUMS},
            )
            for k in range(width)
        )

    def __add__(self, other: "OutputSums") -> "OutputSums":
        """The sums over both sets of rows together."""
        return OutputSums(
            count=self.count + other.count,
            largest_error=max(self.largest_error, other.largest_error),
            sample=self.sample + other.sample,
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMS},
        )

    # What the metrics are made of; variations need a count above 0.

    def squared_errors(self) -> Fraction:
        """Sum of (prediction - label)², exactly."""
        return as_fraction(self.label_squares - 2 * self.products + self.prediction_squares)

    def errors(self) -> Fraction:
        """Sum of prediction - label, exactly."""
        return as_fraction(self.predictions - self.labels)

    def absolute_error_sum(self) -> Fraction:
        """Sum of |prediction - label|, exactly."""
        return as_fraction(self.absolute_errors)

    def label_variation(self) -> Fraction:
        """Sum of (label - mean label)², exactly."""
        return as_fraction(self.label_squares) - as_fraction(self.labels) ** 2 / self.count

    def prediction_variation(self) -> Fraction:
        """Sum of (prediction - mean prediction)², exactly."""
        mean = as_fraction(self.predictions) / self.count
        return as_fraction(self.prediction_squares) - mean * as_fraction(self.predictions)

    def error_variation(self) -> Fraction:
        """Sum of (error - mean error)², exactly."""
        return self.squared_errors() - self.errors() ** 2 / self.count

    def covariation(self) -> Fraction:
        """Sum of (label - mean label) (prediction - mean prediction), exactly."""
        mean = as_fraction(self.predictions) / self.count
        return as_fraction(self.products) - mean * as_fraction(self.labels)

    # JSON

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` is the inverse."""
        return {
            "count": self.count,
            **{name: to_text(getattr(self, name)) for name in _SUMS},
            "largest_error": self.largest_error,
            "sample": self.sample.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Any, *, outputs: int) -> "OutputSums":
        """The inverse of `to_dict`, for one of so many outputs.

        Raises:
            DataError: if these cannot be the sums of any data.
        """
        keys = {"count", "largest_error", "sample", *_SUMS}
        if not isinstance(values, Mapping) or not keys <= set(values):  # pyright: ignore[reportUnknownArgumentType]
            raise DataError(
                f"the sums of an output need {', '.join(sorted(keys))}. Received: {values!r:.100}."
            )
        found: Mapping[str, Any] = values  # pyright: ignore[reportUnknownVariableType]
        count, largest = found["count"], found["largest_error"]
        numbers = type(count) is int and 0 <= count < 1 << 62
        numbers = numbers and type(largest) in (int, float) and 0 <= largest <= 2 * LARGEST
        sums = cls(
            count=count if numbers else -1,
            largest_error=float(largest) if numbers else 0.0,
            sample=PairSample.from_dict(
                found["sample"], size=points_per_output(outputs), examples=count if numbers else 0
            ),
            **{name: from_text(found[name]) for name in _SUMS},
        )
        if not sums._can_be():
            raise DataError(
                "the sums of an output must be those of some labels and predictions. "
                f"Received: {values!r:.100}. Was the file changed?"
            )
        return sums

    def _can_be(self) -> bool:
        """Whether the sums keep the bounds that those of all data keep."""
        if self.count <= 0:
            return self.count == 0 and not any(
                (*(getattr(self, name) for name in _SUMS), self.largest_error)
            )
        # In this order: the rest is quick only for numbers of bounded size.
        bounded = max(self.label_squares, self.prediction_squares) <= self.count * _units(
            LARGEST**2
        ) and max(abs(self.labels), abs(self.predictions), abs(self.products)) <= (
            self.count * _units(LARGEST**2)
        )
        return (
            bounded
            and abs(self.predictions - self.labels) <= self.absolute_errors
            and self.absolute_errors <= self.count * _units(2 * LARGEST)
            and min(self.label_variation(), self.prediction_variation()) >= 0
            and self.covariation() ** 2 <= self.label_variation() * self.prediction_variation()
        )


def _units(value: float) -> int:
    return int(value * (1 + 1e-9)) << 1126  # both bounds are whole numbers


def _no_sums(width: int) -> dict[str, list[int]]:
    return {name: [0] * width for name in _SUMS}


def _add_block(sums: dict[str, list[int]], labels: Floats, predictions: Floats) -> None:
    """Count (rows, C) numbers in; what does not count is 0 in both."""
    width = labels.shape[1]
    column = np.tile(np.arange(width), len(labels))
    label, prediction = labels.reshape(-1), predictions.reshape(-1)
    # Errors as such would be rounded. Sums by sign give that of their sizes without any.
    sides = column * 2 + (label > prediction)
    by_side = [exact_sums(each, sides, 2 * width) for each in (label, prediction)]
    products = {
        "label_squares": exact_product_sums(label, label, column, width),
        "prediction_squares": exact_product_sums(prediction, prediction, column, width),
        "products": exact_product_sums(label, prediction, column, width),
    }
    for k in range(width):
        (label_low, label_high), (low, high) = (side[2 * k : 2 * k + 2] for side in by_side)
        sums["labels"][k] += label_low + label_high
        sums["predictions"][k] += low + high
        sums["absolute_errors"][k] += (low - label_low) + (label_high - high)
        for name, found in products.items():
            sums[name][k] += found[k]


def _read(values: NDArray[Any], where: Where, what: str) -> Floats:
    """(rows, C) float64 that squares can be summed of."""
    numbers = values.astype(np.float64)
    sizes = np.abs(numbers)
    wrong = ~(sizes <= LARGEST).all(axis=1)
    if wrong.any():
        first, place = where(np.asarray(wrong))
        raise DataError(
            f"{what} of a regression must be finite and at most {LARGEST:g} in size. "
            f"Received: {values[first].tolist()} at {place}."
        )
    numbers[sizes < SMALLEST] = 0.0
    return numbers

"""All that calibration's metrics and diagrams need to know: counts by bin, and exact sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from ._class_rows import ClassRows
from ._exact_sums import (
    SMALLEST,
    Floats,
    as_fraction,
    exact_product_sums,
    exact_sums,
    from_text,
    to_text,
)
from ._histogram import bin_numbers, mirrored_bin_numbers
from ._portable_log import natural_log
from ._probabilities import require_probabilities

Array = NDArray[Any]
Counts = NDArray[np.int64]
Sums = tuple[int, ...]
CLIP = 2.0**-52  # smallest probability that log loss reckons with
_ENTRIES = 1 << 18
_ARRAYS = ("in_bin", "positive", "predicted", "histograms")
_SUMS = ("in_bin_sums", "squares", "of_actual", "log_losses")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CalibrationCounts:
    """Counts and sums of rows with probabilities of C classes; B and H are numbers of bins.

    Reliability has C + 1 questions: is it class k, and, last, is the predicted class right?
    Sums are integers in the units of `_exact_sums`. Arrays are read-only.

    Attributes:
        in_bin: (C + 1, B) rows by the bin of the question's probability.
        positive: (C + 1, B) those of them for which the answer is yes.
        predicted: (C,) rows predicted as each class.
        histograms: (3, C, H) rows by the bin of: the class' probability in rows of other classes;
            the same in rows of the class; 1 - probability in rows of the class.
        in_bin_sums: (C + 1) B sums of the question's probability by bin.
        squares: C sums of the class' squared probability.
        of_actual: C sums of the class' probability in rows of the class.
        log_losses: C sums of -ln of that.
    """

    in_bin: Counts
    positive: Counts
    predicted: Counts
    histograms: Counts
    in_bin_sums: Sums
    squares: Sums
    of_actual: Sums
    log_losses: Sums

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for name in _ARRAYS:
            getattr(self, name).setflags(write=False)

    @classmethod
    def of_rows(
        cls, rows: ClassRows, *, reliability_bins: int, histogram_bins: int
    ) -> "CalibrationCounts":
        """Count rows.

        Raises:
            DataError: if a prediction is no probability; the message names the row.
        """
        require_probabilities(rows.scores, rows.where, "every prediction to calibrate")
        classes, bins = rows.classes, (reliability_bins, histogram_bins)
        # One block at least: without rows it says nothing, in arrays of the right shapes.
        step = max(_ENTRIES // classes, 1)
        parts = (
            _block(rows, slice(start, start + step), bins)
            for start in range(0, max(len(rows.actual), 1), step)
        )
        total = next(parts)
        for part in parts:
            total = total + part
        return total

    def __add__(self, other: "CalibrationCounts") -> "CalibrationCounts":
        """Counts of both sets of rows together; the shapes must be equal."""
        both: dict[str, Any] = {
            name: getattr(self, name) + getattr(other, name) for name in _ARRAYS
        }
        for name in _SUMS:
            pairs = zip(getattr(self, name), getattr(other, name), strict=True)
            both[name] = tuple(a + b for a, b in pairs)
        return CalibrationCounts(**both)

    def __eq__(self, other: object) -> bool:
        """Same counts, same sums."""
        return (
            isinstance(other, CalibrationCounts)
            and all(np.array_equal(getattr(self, n), getattr(other, n)) for n in _ARRAYS)
            and all(getattr(self, n) == getattr(other, n) for n in _SUMS)
        )

    @property
    def classes(self) -> int:
        """C, at least 2."""
        return len(self.predicted)

    @property
    def rows(self) -> int:
        """Rows counted."""
        return int(self.predicted.sum())

    @property
    def actual(self) -> Counts:
        """(C,) rows of each class."""
        return self.positive[:-1].sum(axis=1)

    def expected_error(self, question: int) -> float:
        """Mean over the rows of |mean probability - fraction of yes| of their bin; 0 without."""
        return float(sum(self._gaps(question)) / max(self.rows, 1))

    def maximum_error(self, question: int) -> float:
        """Largest |mean probability - fraction of yes| of a bin; 0 without rows."""
        rows: list[int] = self.in_bin[question].tolist()
        gaps = zip(self._gaps(question), rows, strict=True)
        return max((float(gap / count) for gap, count in gaps if count), default=0.0)

    def squared_errors(self, k: int) -> Fraction:
        """Sum of (probability of class k - whether it is k)², exactly."""
        both = as_fraction(self.squares[k]) - 2 * as_fraction(self.of_actual[k])
        return both + int(self.actual[k])

    def _gaps(self, question: int) -> list[Fraction]:
        """|sum of probabilities - yes answers| in each bin, exactly."""
        bins = self.in_bin.shape[1]
        sums = self.in_bin_sums[question * bins : (question + 1) * bins]
        yes: list[int] = self.positive[question].tolist()
        return [abs(as_fraction(total) - n) for total, n in zip(sums, yes, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` is the inverse."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return {**arrays, **{name: list(map(to_text, getattr(self, name))) for name in _SUMS}}

    @classmethod
    def from_dict(
        cls, values: Any, *, reliability_bins: int, histogram_bins: int
    ) -> "CalibrationCounts":
        """The inverse of `to_dict`, with as many bins as then.

        Raises:
            DataError: if these cannot be the counts of any data.
        """
        if not isinstance(values, Mapping) or not {*_ARRAYS, *_SUMS} <= set(values):  # pyright: ignore[reportUnknownArgumentType]
            raise DataError(
                f"the counts of a calibration need {', '.join(sorted({*_ARRAYS, *_SUMS}))}. "
                f"Received: {values!r:.100}."
            )
        found: Mapping[str, Any] = values  # pyright: ignore[reportUnknownVariableType]
        predicted = found["predicted"]
        classes = len(predicted) if isinstance(predicted, list) else 0  # pyright: ignore[reportUnknownArgumentType]
        questions = (classes + 1, reliability_bins)
        shapes = {
            "in_bin": questions,
            "positive": questions,
            "predicted": (classes,),
            "histograms": (3, classes, histogram_bins),
        }
        sizes = dict.fromkeys(_SUMS, classes) | {"in_bin_sums": questions[0] * questions[1]}
        read: dict[str, Any] = {
            **{name: _count_array(name, found[name], shape) for name, shape in shapes.items()},
            **{name: _sums(name, found[name], size) for name, size in sizes.items()},
        }
        counts = cls(**read)
        if classes < 2 or not counts._can_be():
            raise DataError(
                "the counts of a calibration must be those of some labels and probabilities. "
                f"Received: {values!r:.100}. Was the file changed?"
            )
        return counts

    def _can_be(self) -> bool:
        """Whether counts and sums agree with each other."""
        rows, actual = self.rows, self.actual
        bins = self.in_bin.shape[1]
        agree = (
            (self.positive <= self.in_bin).all()
            and (self.in_bin.sum(axis=1) == rows).all()
            and actual.sum() == rows
            and (self.histograms[0].sum(axis=1) == rows - actual).all()
            and (self.histograms[1:].sum(axis=2) == actual).all()
        )
        if not agree:
            return False
        width = Fraction(1, bins)
        slack = Fraction(1, 1000)  # edges are rounded to the predictions' precision
        for cell, total in enumerate(self.in_bin_sums):
            count = int(self.in_bin.reshape(-1)[cell])
            low = (cell % bins) * width
            mean = as_fraction(total) - count * low
            if not -count * slack <= mean <= count * (width + slack):
                return False
        own = actual.tolist()
        return (
            all(0 <= as_fraction(total) <= rows for total in self.squares)
            and all(
                0 <= as_fraction(total) <= n for total, n in zip(self.of_actual, own, strict=True)
            )
            and all(self.squared_errors(k) >= 0 for k in range(self.classes))
            and all(
                0 <= as_fraction(total) <= 37 * n
                for total, n in zip(self.log_losses, own, strict=True)
            )
        )


def _block(rows: ClassRows, block: slice, bins: tuple[int, int]) -> CalibrationCounts:
    """Count some of the rows."""
    actual, predicted, classes = rows.actual[block], rows.predicted[block], rows.classes
    scores = rows.scores[block]
    own = scores if scores.dtype.kind == "f" else scores.astype(np.float64)
    own = np.clip(own, 0, 1)
    binned, mirrored = ([f(own, n) for n in bins] for f in (bin_numbers, mirrored_bin_numbers))
    values = own.astype(np.float64)
    if values.shape[1] == 1:  # class 0 has what class 1 leaves, in value and in bins
        values = np.concatenate([1 - values, values], axis=1)
        binned, mirrored = (
            [np.concatenate(each, axis=1) for each in zip(mirrored, binned, strict=True)],
            [np.concatenate(each, axis=1) for each in zip(binned, mirrored, strict=True)],
        )
    # So small a probability counts as 0: its square would not fit float64.
    values = np.where(values < SMALLEST, 0.0, values)
    row = np.arange(len(actual))
    is_class = np.zeros(values.shape, np.bool_)
    is_class[row, actual] = True
    # The last question, whether the predicted class is right.
    asked = np.concatenate([values, values[row, predicted][:, None]], axis=1)
    places = np.concatenate([binned[0], binned[0][row, predicted][:, None]], axis=1)
    answers = np.concatenate([is_class, (actual == predicted)[:, None]], axis=1)
    cells = (np.arange(classes + 1) * bins[0] + places).reshape(-1)
    shape, count = (classes + 1, bins[0]), (classes + 1) * bins[0]
    columns = np.tile(np.arange(classes), len(actual))
    flat, actual_values = values.reshape(-1), values[row, actual]
    by_class = np.arange(classes) * bins[1] + binned[1]
    by_residual = actual * bins[1] + mirrored[1][row, actual]
    histograms = [by_class[~is_class], by_class[is_class], by_residual]
    return CalibrationCounts(
        in_bin=_counted(cells, shape),
        positive=_counted(cells[answers.reshape(-1)], shape),
        predicted=_counted(predicted, (classes,)),
        histograms=np.stack([_counted(each, (classes, bins[1])) for each in histograms]),
        in_bin_sums=tuple(exact_sums(asked.reshape(-1), cells, count)),
        squares=tuple(exact_product_sums(flat, flat, columns, classes)),
        of_actual=tuple(exact_sums(actual_values, actual, classes)),
        log_losses=tuple(exact_sums(_log_losses(actual_values), actual, classes)),
    )


def _counted(numbers: Array, shape: tuple[int, ...]) -> Counts:
    size = int(np.prod(shape))
    return np.bincount(numbers, minlength=size).astype(np.int64).reshape(shape)


def _log_losses(probabilities: Floats) -> Floats:
    return -natural_log(np.maximum(probabilities, CLIP))


def _count_array(name: str, values: Any, shape: tuple[int, ...]) -> Counts:
    """Nested lists of counts of a shape."""
    cells: list[Any] = [values]
    for size in shape:
        if not all(isinstance(each, list) and len(each) == size for each in cells):
            raise DataError(
                f"`{name}` of a calibration must be lists of shape {shape}. "
                f"Received: {values!r:.100}."
            )
        cells = [cell for each in cells for cell in each]
    # Bounded, so that sums of them fit int64.
    if not all(type(cell) is int and 0 <= cell < 1 << 48 for cell in cells):
        raise DataError(f"`{name}` of a calibration must hold counts. Received: {values!r:.100}.")
    return np.array(cells, np.int64).reshape(shape)


def _sums(name: str, values: Any, size: int) -> Sums:
    if not isinstance(values, list) or len(values) != size:  # pyright: ignore[reportUnknownArgumentType]
        raise DataError(
            f"`{name}` of a calibration must be a list of {size} sums. Received: {values!r:.100}."
        )
    texts: list[Any] = values  # pyright: ignore[reportUnknownVariableType]
    return tuple(from_text(text) for text in texts)

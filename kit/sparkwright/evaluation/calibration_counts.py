"""Counts and sums by probability bin: the state of `EvaluationCalibration`."""

import operator
from dataclasses import dataclass, field, fields
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .accumulators import Floats, Sums, positive_sums
from .checks import Counts, Values, checked_counts, frozen, read_as
from .rows import Classes, LabeledRows, require_probabilities, with_both_classes

Array = NDArray[Any]
CLIP = 2.0**-52  # the log loss clips smaller probabilities to this
_ENTRIES = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Histogram:
    """A histogram of numbers from 0 to 1 in bins of equal width.

    Attributes:
        counts: (bins,) int64; bin i is [i / bins, (i + 1) / bins), the last one includes 1.
    """

    counts: Counts

    @property
    def edges(self) -> Floats:
        """(bins + 1,) bin edges, from 0 to 1."""
        return bin_edges(len(self.counts))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ReliabilityDiagram:
    """A point for each bin of the predicted probability, in ascending order.

    Attributes:
        mean_predicted: (k,) float64, mean probability of the bin's rows; the bin's center if
            empty.
        fraction_positive: (k,) float64, fraction of positive rows; 0 if empty.
        counts: (k,) int64, rows.
        bins: (k,) int64, bin numbers.
    """

    mean_predicted: Floats
    fraction_positive: Floats
    counts: Counts
    bins: NDArray[np.int64]

    @classmethod
    def of(cls, counts: Counts, positive: Counts, sums: Floats) -> "ReliabilityDiagram":
        """Return the diagram of all bins, from (bins,) rows, positives and probability sums."""
        edges = bin_edges(len(counts))
        middles = (edges[1:] + edges[:-1]) / 2
        return cls(
            mean_predicted=np.divide(sums, counts, out=middles, where=counts > 0),
            fraction_positive=positive / np.maximum(counts, 1),
            counts=counts.copy(),
            bins=np.arange(len(counts)),
        )

    def without_empty_bins(self) -> "ReliabilityDiagram":
        """Return the diagram without bins that have no rows."""
        some = self.counts > 0
        return ReliabilityDiagram(**{f.name: getattr(self, f.name)[some] for f in fields(self)})


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CalibrationCounts(Values):
    """Counts and sums of rows with probabilities of C classes; B and H are numbers of bins."""

    # The C + 1 questions: each class against the rest, then the predicted class.

    # Rows by the bin of the question's probability.
    in_bin: Counts = field(metadata=read_as(checked_counts, "C + 1", "B"))
    # The positive ones of them.
    positive: Counts = field(metadata=read_as(checked_counts, "C + 1", "B"))
    predicted: Counts = field(metadata=read_as(checked_counts, "C"))  # rows predicted as each class
    # Of the probability of each class: in rows of other classes; in its rows; 1 - it in its rows.
    histograms: Counts = field(metadata=read_as(checked_counts, 3, "C", "H"))
    # Of the question's probability.
    in_bin_sums: Sums = field(metadata=read_as(positive_sums, "C + 1", "B"))
    # Of (probability - one-hot label)².
    squared_errors: Sums = field(metadata=read_as(positive_sums, "C"))
    log_losses: Sums = field(metadata=read_as(positive_sums, "C"))  # -ln(probability) in its rows

    @classmethod
    def of_rows(
        cls, rows: LabeledRows, *, reliability_bins: int, histogram_bins: int
    ) -> "CalibrationCounts":
        """Count rows; raise DataError if a prediction is not a probability."""
        require_probabilities(rows.scores, rows.where, "every prediction")
        bins, predicted = (reliability_bins, histogram_bins), rows.predicted()
        step = max(_ENTRIES // rows.classes, 1)
        starts = range(0, max(len(rows.actual), 1), step)  # at least one block
        blocks = (slice(start, start + step) for start in starts)
        return reduce(operator.add, (_block(rows, predicted, block, bins) for block in blocks))

    def __add__(self, other: "CalibrationCounts") -> "CalibrationCounts":
        """Add the counts of other rows; the shapes must be equal."""
        theirs = other._state()
        both = {name: value + theirs[name] for name, value in self._state().items()}
        for array in (each for each in both.values() if isinstance(each, np.ndarray)):
            frozen(array)
        return CalibrationCounts(**both)

    @property
    def classes(self) -> int:
        """C, at least 2."""
        return len(self.predicted)

    @property
    def bins(self) -> tuple[int, int]:
        """B and H."""
        return self.in_bin.shape[1], self.histograms.shape[2]

    @property
    def rows(self) -> int:
        """Rows counted."""
        return int(self.predicted.sum())

    @property
    def actual(self) -> Counts:
        """(C,) rows of each class."""
        return self.positive[:-1].sum(axis=1)

    def expected_error(self, question: int) -> float:
        """Mean over the rows of |mean probability - fraction of positives| of their bin."""
        return float(self._gaps(question).sum() / max(self.rows, 1))

    def maximum_error(self, question: int) -> float:
        """Largest |mean probability - fraction of positives| of a bin; 0 without rows."""
        return float((self._gaps(question) / np.maximum(self.in_bin[question], 1)).max())

    def _gaps(self, question: int) -> Floats:
        """(B,) |sum of probabilities - number of positives|."""
        return np.abs(self.in_bin_sums.values[question] - self.positive[question])


def bin_edges(bins: int) -> Floats:
    """(bins + 1,) float64 values nearest to i / bins."""
    return np.arange(bins + 1) / bins


def bin_numbers(values: Array, bins: int) -> NDArray[np.int64]:
    """Return the bin of each number from 0 to 1: [i / bins, (i + 1) / bins), the last includes 1.

    Edges are rounded to the precision of the numbers, so that 0.7 lies in [0.7, 0.8) in any
    precision, although its float32 value is slightly below 0.7.

    Example:
        >>> bin_numbers(np.float32([0.0, 0.69, 0.7, 1.0]), 10)
        array([0, 6, 7, 9])
    """
    inner = bin_edges(bins)[1:-1].astype(values.dtype)
    return np.searchsorted(inner, values, side="right").astype(np.int64)


def mirrored_bin_numbers(values: Array, bins: int) -> NDArray[np.int64]:
    """Return the bin of 1 - value for each number, without rounding the difference.

    Example:
        >>> 1 - 0.9, mirrored_bin_numbers(np.array([0.0, 0.9, 1.0]), 10)
        (0.09999999999999998, array([9, 1, 0]))
    """
    inner = bin_edges(bins)[1:-1].astype(values.dtype)
    return bins - 1 - np.searchsorted(inner, values, side="left").astype(np.int64)


def _block(
    rows: LabeledRows, predicted: Classes, block: slice, bins: tuple[int, int]
) -> CalibrationCounts:
    actual, predicted = rows.actual[block].astype(np.int64), predicted[block]
    classes, scores = rows.classes, rows.scores[block]
    own = np.clip(scores if scores.dtype.kind == "f" else scores.astype(np.float64), 0, 1)
    binned, mirrored = ([f(own, n) for n in bins] for f in (bin_numbers, mirrored_bin_numbers))
    if own.shape[1] == 1:  # class 0 is the complement of class 1, in values and bins
        binned, mirrored = (
            [np.concatenate(each, axis=1) for each in zip(mirrored, binned, strict=True)],
            [np.concatenate(each, axis=1) for each in zip(binned, mirrored, strict=True)],
        )
    values = with_both_classes(own.astype(np.float64))
    row = np.arange(len(actual))
    is_class = np.zeros(values.shape, np.bool_)
    is_class[row, actual] = True
    # The last question: is the predicted class correct?
    asked = np.concatenate([values, values[row, predicted][:, None]], axis=1)
    places = np.concatenate([binned[0], binned[0][row, predicted][:, None]], axis=1)
    answers = np.concatenate([is_class, (actual == predicted)[:, None]], axis=1)
    cells = (np.arange(classes + 1) * bins[0] + places).reshape(-1)
    shape = (classes + 1, bins[0])
    by_class = np.arange(classes) * bins[1] + binned[1]
    by_residual = actual * bins[1] + mirrored[1][row, actual]
    histograms = [by_class[~is_class], by_class[is_class], by_residual]
    losses = -np.log(np.maximum(values[row, actual], CLIP))
    columns = np.tile(np.arange(classes), len(actual))
    return CalibrationCounts(
        in_bin=_counted(cells, shape),
        positive=_counted(cells[answers.reshape(-1)], shape),
        predicted=_counted(predicted, (classes,)),
        histograms=frozen(np.stack([_counted(each, (classes, bins[1])) for each in histograms])),
        in_bin_sums=Sums.by_group(asked.reshape(-1), cells, shape),
        squared_errors=Sums.by_group(((values - is_class) ** 2).reshape(-1), columns, (classes,)),
        log_losses=Sums.by_group(losses, actual, (classes,)),
    )


def _counted(numbers: Array, shape: tuple[int, ...]) -> Counts:
    size = int(np.prod(shape))
    return frozen(np.bincount(numbers, minlength=size).astype(np.int64).reshape(shape))

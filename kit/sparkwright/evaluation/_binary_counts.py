"""Rates computed from true and false positives and negatives, for one or many questions.

A question is "is it class k?" (one per class) or one binary output. Each rate is NaN where it is
0/0, so that callers see which ones are undefined; nothing else here ever gives NaN.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import ConfigurationError, DataError

_LARGEST = 2**61  # two such totals fit int64 with room to spare

Counts = NDArray[np.int64]
Rates = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BinaryCounts:
    """(k,) int64 counts for k questions.

    Attributes:
        true_positives: yes, and predicted yes.
        false_positives: no, but predicted yes.
        true_negatives: no, and predicted no.
        false_negatives: yes, but predicted no.
    """

    true_positives: Counts
    false_positives: Counts
    true_negatives: Counts
    false_negatives: Counts

    @classmethod
    def from_confusion(cls, confusion: Counts) -> "BinaryCounts":
        """One question for each class of a (k, k) matrix, rows actual, columns predicted."""
        hits = np.diagonal(confusion)
        actual, predicted = confusion.sum(axis=1), confusion.sum(axis=0)
        return cls(
            true_positives=hits,
            false_positives=predicted - hits,
            true_negatives=confusion.sum() - actual - predicted + hits,
            false_negatives=actual - hits,
        )

    def pooled(self) -> "BinaryCounts":
        """All questions as one, (1,): rates of it are micro averages."""
        return BinaryCounts(
            true_positives=self.true_positives.sum(keepdims=True),
            false_positives=self.false_positives.sum(keepdims=True),
            true_negatives=self.true_negatives.sum(keepdims=True),
            false_negatives=self.false_negatives.sum(keepdims=True),
        )

    @property
    def positives(self) -> Counts:
        """Rows where the answer was yes."""
        return self.true_positives + self.false_negatives

    @property
    def negatives(self) -> Counts:
        """Rows where the answer was no."""
        return self.true_negatives + self.false_positives

    def accuracy(self) -> Rates:
        """(TP + TN) / all."""
        return _ratio(self.true_positives + self.true_negatives, self.positives + self.negatives)

    def precision(self) -> Rates:
        """TP / (TP + FP)."""
        return _ratio(self.true_positives, self.true_positives + self.false_positives)

    def recall(self) -> Rates:
        """TP / (TP + FN)."""
        return _ratio(self.true_positives, self.positives)

    def f_beta(self, beta: float) -> Rates:
        """(1 + b²) TP / ((1 + b²) TP + b² FN + FP): undefined only where nothing is or is said.

        Equal to the weighted harmonic mean of precision and recall wherever both are defined;
        where one of them is 0/0 and there were errors, it is 0.
        """
        weighted = (1 + beta**2) * self.true_positives
        return _ratio(weighted, weighted + beta**2 * self.false_negatives + self.false_positives)

    def false_positive_rate(self) -> Rates:
        """FP / (FP + TN)."""
        return _ratio(self.false_positives, self.negatives)

    def false_negative_rate(self) -> Rates:
        """FN / (FN + TP)."""
        return _ratio(self.false_negatives, self.positives)

    def false_alarm_rate(self) -> Rates:
        """Mean of false positive rate and false negative rate."""
        return (self.false_positive_rate() + self.false_negative_rate()) / 2

    def g_measure(self) -> Rates:
        """Geometric mean of precision and recall."""
        return np.sqrt(self.precision() * self.recall())

    def matthews_correlation(self) -> Rates:
        """(TP TN - FP FN) / √((TP + FP) (TP + FN) (TN + FP) (TN + FN)), from -1 to 1."""
        # float64: the products of four counts do not fit int64.
        tp, fp = self.true_positives.astype(np.float64), self.false_positives.astype(np.float64)
        tn, fn = self.true_negatives.astype(np.float64), self.false_negatives.astype(np.float64)
        scale = np.sqrt((tp + fp) * (tp + fn)) * np.sqrt((tn + fp) * (tn + fn))
        # Rounding of the root can give 1 + 2e-16.
        return np.clip(_ratio(tp * tn - fp * fn, scale), -1.0, 1.0)


def multiclass_correlation(confusion: Counts) -> float:
    """Gorodkin's coefficient of a (C, C) matrix, from -1 to 1; 0 where it is 0/0."""
    # Python's integers: the difference of two large squares can be small.
    actual, predicted = confusion.sum(axis=1).tolist(), confusion.sum(axis=0).tolist()
    rows, hits = sum(actual), sum(np.diagonal(confusion).tolist())
    varied = [rows**2 - sum(count**2 for count in counts) for counts in (actual, predicted)]
    if 0 in varied:
        return 0.0
    covariance = hits * rows - sum(a * p for a, p in zip(actual, predicted, strict=True))
    correlation = covariance / (math.sqrt(varied[0]) * math.sqrt(varied[1]))
    return min(max(correlation, -1.0), 1.0)  # rounding can give 1 + 2e-16


def check_number(option: str, value: Any, *, least: int) -> None:
    """Refuse anything but an integer of at least `least`.

    Raises:
        ConfigurationError: naming the option and what it received.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(
            f"`{option}` must be an integer of at least {least}. Received: {option}={value!r}."
        )


def checked_counts(name: str, given: ArrayLike) -> Counts:
    """A read-only int64 copy.

    Args:
        name: what they are called, for messages.
        given: any shape.

    Raises:
        DataError: unless all are integers of at least 0, less than 2**61 in all.
    """
    try:
        counts = np.asarray(given)
    except ValueError:
        raise DataError(
            f"`{name}` must be rows of the same length. Received: {given!r:.80}."
        ) from None
    if counts.dtype.kind not in "iu" or bool((counts < 0).any()):
        least = f", minimum {counts.min()}" if counts.dtype.kind in "iuf" and counts.size else ""
        raise DataError(
            f"`{name}` must hold counts: integers of at least 0. "
            f"Received: dtype {counts.dtype}{least}."
        )
    # Summed as float64, because a sum in int64 could come round to a small one.
    if counts.sum(dtype=np.float64) >= _LARGEST:
        raise DataError(
            f"`{name}` must hold less than 2**61 in all. Received: {counts.sum(dtype=float):.3g}."
        )
    checked = counts.astype(np.int64)  # a copy: the caller's array may change
    checked.setflags(write=False)
    return checked


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Rates:
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)

"""Rates computed from true and false positives and negatives, for one or many questions.

A question is "is it class k?" (one per class) or one binary output. Each rate is NaN where it is
0/0, so that callers see which ones are undefined; nothing else here ever gives NaN.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def precision(self) -> Rates:
        """TP / (TP + FP)."""
        return _ratio(self.true_positives, self.true_positives + self.false_positives)

    def recall(self) -> Rates:
        """TP / (TP + FN)."""
        return _ratio(self.true_positives, self.true_positives + self.false_negatives)

    def f_beta(self, beta: float) -> Rates:
        """(1 + b²) TP / ((1 + b²) TP + b² FN + FP): undefined only where nothing is or is said.

        Equal to the weighted harmonic mean of precision and recall wherever both are defined;
        where one of them is 0/0 and there were errors, it is 0.
        """
        weighted = (1 + beta**2) * self.true_positives
        return _ratio(weighted, weighted + beta**2 * self.false_negatives + self.false_positives)

    def false_positive_rate(self) -> Rates:
        """FP / (FP + TN)."""
        return _ratio(self.false_positives, self.false_positives + self.true_negatives)

    def false_negative_rate(self) -> Rates:
        """FN / (FN + TP)."""
        return _ratio(self.false_negatives, self.false_negatives + self.true_positives)

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


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Rates:
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)

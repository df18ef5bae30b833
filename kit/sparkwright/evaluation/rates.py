"""Rates of binary questions, from true and false positives and negatives.

A question is "class k or not" (one per class) or one binary output.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sparkwright.options import check_choice, check_number

from .abstract import AbstractEvaluation
from .checks import Counts, number_of

Rates = NDArray[np.float64]
Average = Literal["macro", "micro"]
Metric = Literal[
    "precision",
    "recall",
    "f1",
    "false_positive_rate",
    "false_negative_rate",
    "false_alarm_rate",
    "g_measure",
    "matthews_correlation",
]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BinaryCounts:
    """(k,) int64 counts for k questions. Rates are NaN exactly where they are 0/0.

    Attributes:
        true_positives: positive rows predicted positive.
        false_positives: negative rows predicted positive.
        true_negatives: negative rows predicted negative.
        false_negatives: positive rows predicted negative.
    """

    true_positives: Counts
    false_positives: Counts
    true_negatives: Counts
    false_negatives: Counts

    @classmethod
    def from_confusion(cls, confusion: Counts) -> "BinaryCounts":
        """Return one question for each class of a (k, k) matrix, rows actual, columns predicted."""
        hits = np.diagonal(confusion)
        actual, predicted = confusion.sum(axis=1), confusion.sum(axis=0)
        return cls(
            true_positives=hits,
            false_positives=predicted - hits,
            true_negatives=confusion.sum() - actual - predicted + hits,
            false_negatives=actual - hits,
        )

    def pooled(self) -> "BinaryCounts":
        """Return the sums over all questions, (1,); their rates are micro averages."""
        sums = {f.name: getattr(self, f.name).sum(keepdims=True) for f in fields(self)}
        return BinaryCounts(**sums)

    @property
    def positives(self) -> Counts:
        """Positive rows."""
        return self.true_positives + self.false_negatives

    @property
    def negatives(self) -> Counts:
        """Negative rows."""
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

    def f_beta(self, beta: float = 1.0) -> Rates:
        """(1 + b²) TP / ((1 + b²) TP + b² FN + FP).

        Equal to the weighted harmonic mean of precision and recall where both are defined. 0 where
        one of them is 0/0 and there are errors; 0/0 where no row is or is predicted positive.
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
        # float64: the product of four counts may overflow int64.
        tp, fp = self.true_positives.astype(np.float64), self.false_positives.astype(np.float64)
        tn, fn = self.true_negatives.astype(np.float64), self.false_negatives.astype(np.float64)
        scale = np.sqrt((tp + fp) * (tp + fn)) * np.sqrt((tn + fp) * (tn + fn))
        # Rounding can yield 1 + 2e-16.
        return np.clip(_ratio(tp * tn - fp * fn, scale), -1.0, 1.0)


def multiclass_correlation(confusion: Counts) -> float:
    """Return Gorodkin's coefficient of a (C, C) matrix, from -1 to 1; 0 for 0/0."""
    # Python integers: the difference of two large squares can be small.
    actual, predicted = confusion.sum(axis=1).tolist(), confusion.sum(axis=0).tolist()
    rows, hits = sum(actual), sum(np.diagonal(confusion).tolist())
    varied = [rows**2 - sum(count**2 for count in counts) for counts in (actual, predicted)]
    if 0 in varied:
        return 0.0
    covariance = hits * rows - sum(a * p for a, p in zip(actual, predicted, strict=True))
    correlation = covariance / (math.sqrt(varied[0]) * math.sqrt(varied[1]))
    return min(max(correlation, -1.0), 1.0)  # rounding can yield 1 + 2e-16


def averaged(name: str, rate: Callable[[Any], Any], help: str, like: str = "precision"):
    """Create a method that returns a rate of one column, or its average over the columns."""

    def method(self: Any, average: Average = "macro", *, of: int | str | None = None) -> float:
        return self._rate(rate, average, of)

    method.__name__, method.__doc__ = name, f"{help} Arguments as in `{like}`."
    return method


def _counted(key: str, help: str) -> Any:
    """Create a property that returns one of the counts."""

    def read(self: "BinaryRates") -> Counts:
        return getattr(self.counts, key)

    return property(read, doc=help)


class BinaryRates(AbstractEvaluation):
    """Base class of evaluations with binary counts for each class or output.

    Rates of 0/0 are 0. Macro averages omit classes or outputs whose rate is 0/0; `left_out` names
    them.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def counts(self) -> BinaryCounts:
        """True and false positives and negatives of each class or output, (C,) each."""

    true_positives = _counted("true_positives", "(C,) rows of the class, predicted as the class.")
    false_positives = _counted("false_positives", "(C,) other rows, predicted as the class.")
    true_negatives = _counted("true_negatives", "(C,) other rows, predicted as another class.")
    false_negatives = _counted("false_negatives", "(C,) rows of the class, predicted as another.")
    positives = _counted("positives", "(C,) rows of the class.")
    negatives = _counted("negatives", "(C,) rows of other classes.")

    def precision(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Fraction of the rows predicted as the class that belong to it.

        Args:
            average: "macro": mean over the classes or outputs, omitting those with 0/0;
                "micro": from the pooled counts of all of them.
            of: a class or output, by number or name, instead of an average.

        Returns:
            From 0 to 1; 0 for 0/0.

        Raises:
            ConfigurationError: if the class, output or average does not exist.
        """
        return self._rate(BinaryCounts.precision, average, of)

    recall = averaged(
        "recall", BinaryCounts.recall, "Fraction of the rows of the class predicted as the class."
    )
    f1 = averaged(
        "f1",
        BinaryCounts.f_beta,
        "Harmonic mean of precision and recall; macro: the mean of the classes' F1.",
    )
    false_positive_rate = averaged(
        "false_positive_rate",
        BinaryCounts.false_positive_rate,
        "Fraction of the rows of other classes predicted as the class.",
    )
    false_negative_rate = averaged(
        "false_negative_rate",
        BinaryCounts.false_negative_rate,
        "Fraction of the rows of the class predicted as another class.",
    )
    false_alarm_rate = averaged(
        "false_alarm_rate",
        BinaryCounts.false_alarm_rate,
        "Mean of false positive and false negative rate.",
    )
    g_measure = averaged(
        "g_measure", BinaryCounts.g_measure, "Geometric mean of precision and recall."
    )

    def f_beta(
        self, beta: float, average: Average = "macro", *, of: int | str | None = None
    ) -> float:
        """Weighted harmonic mean of precision and recall; recall has `beta` times the weight.

        Args:
            beta: greater than 0.
            average: as in `precision`.
            of: as in `precision`.

        Raises:
            ConfigurationError: if `beta` is not finite or not above 0.
        """
        check_number("beta", beta, above=0)
        return self._rate(lambda counts: counts.f_beta(beta), average, of)

    def left_out(self, metric: Metric) -> tuple[str, ...]:
        """Names of the classes or outputs whose metric is 0/0, omitted from macro averages.

        Raises:
            ConfigurationError: if the metric does not exist.
        """
        undefined = np.isnan(self._each(metric))
        return tuple(name for name, out in zip(self.output_names, undefined, strict=True) if out)

    def _left_out(self) -> dict[str, int]:
        """Headline metric -> number of classes or outputs it omits."""
        rates = {"precision": "precision", "recall": "recall", "F1": "f1"}
        rates["Matthews correlation"] = "matthews_correlation"
        return {f"{n} (macro)": int(np.isnan(self._each(r)).sum()) for n, r in rates.items()}

    def _per_column(self, metric: Metric | Literal["accuracy"]) -> Rates:
        """(C,) float64, the metric of each class or output; 0 where it is 0/0."""
        return np.nan_to_num(self._each(metric), nan=0.0)

    def _each(self, metric: str) -> Rates:
        """(C,) float64, the metric of each class or output; NaN where it is 0/0."""
        check_choice("metric", metric, (*get_args(Metric), "accuracy"))
        return getattr(BinaryCounts, "f_beta" if metric == "f1" else metric)(self.counts)

    def _rate(
        self, rate: Callable[[BinaryCounts], Rates], average: str, of: int | str | None
    ) -> float:
        check_choice("average", average, get_args(Average))
        if of is not None:
            values = rate(self.counts)[[number_of(of, self.output_names)]]
        else:
            values = rate(self.counts.pooled() if average == "micro" else self.counts)
        defined = values[~np.isnan(values)]
        return float(defined.mean()) if defined.size else 0.0


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Rates:
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)

"""Rates of binary questions, from true and false positives and negatives.

A question is "class k or not" (one per class) or one binary output.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

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


class BinaryCounts(NamedTuple):
    """(k,) int64 counts for k questions.

    Attributes:
        true_negatives: negative rows predicted negative.
        false_positives: negative rows predicted positive.
        false_negatives: positive rows predicted negative.
        true_positives: positive rows predicted positive.
    """

    true_negatives: Counts
    false_positives: Counts
    false_negatives: Counts
    true_positives: Counts

    @classmethod
    def from_confusion(cls, confusion: Counts) -> "BinaryCounts":
        """Return one question for each class of a (k, k) matrix, rows actual, columns predicted."""
        hits = np.diagonal(confusion)
        actual, predicted = confusion.sum(axis=1), confusion.sum(axis=0)
        others = confusion.sum() - actual - predicted + hits
        return cls(others, predicted - hits, actual - hits, hits)

    def pooled(self) -> "BinaryCounts":
        """Return the sums over all questions, (1,); their rates are micro averages."""
        return BinaryCounts(*(each.sum(keepdims=True) for each in self))

    @property
    def positives(self) -> Counts:
        """Positive rows."""
        return self.true_positives + self.false_negatives

    @property
    def negatives(self) -> Counts:
        """Negative rows."""
        return self.true_negatives + self.false_positives


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Rates:
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)


def _f_beta(counts: BinaryCounts, beta: float = 1.0) -> Rates:
    """(1 + b²) TP / ((1 + b²) TP + b² FN + FP); 0/0 where no row is or is predicted positive."""
    # The weighted harmonic mean of precision and recall where both are defined. 0 where one of them
    # is 0/0 and there are errors.
    weighted = (1 + beta**2) * counts.true_positives
    return _ratio(weighted, weighted + beta**2 * counts.false_negatives + counts.false_positives)


def _matthews_correlation(counts: BinaryCounts) -> Rates:
    """(TP TN - FP FN) / √((TP + FP) (TP + FN) (TN + FP) (TN + FN)), from -1 to 1."""
    # float64: the product of four counts may overflow int64.
    tn, fp, fn, tp = (each.astype(np.float64) for each in counts)
    scale = np.sqrt((tp + fp) * (tp + fn)) * np.sqrt((tn + fp) * (tn + fn))
    # Rounding can yield 1 + 2e-16.
    return np.clip(_ratio(tp * tn - fp * fn, scale), -1.0, 1.0)


# Metric -> its (k,) values, NaN exactly where they are 0/0.
RATES: dict[str, Callable[[BinaryCounts], Rates]] = {
    "accuracy": lambda c: _ratio(c.true_positives + c.true_negatives, c.positives + c.negatives),
    "precision": lambda c: _ratio(c.true_positives, c.true_positives + c.false_positives),
    "recall": lambda c: _ratio(c.true_positives, c.positives),
    "f1": _f_beta,
    "false_positive_rate": lambda c: _ratio(c.false_positives, c.negatives),
    "false_negative_rate": lambda c: _ratio(c.false_negatives, c.positives),
    "false_alarm_rate": lambda c: (
        (RATES["false_positive_rate"](c) + RATES["false_negative_rate"](c)) / 2
    ),
    "g_measure": lambda c: np.sqrt(RATES["precision"](c) * RATES["recall"](c)),
    "matthews_correlation": _matthews_correlation,
}


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


def averaged(metric: str, help: str):
    """Create a method that returns a rate of one column, or its average over the columns."""

    def method(self: Any, average: Average = "macro", *, of: int | str | None = None) -> float:
        return self._rate(RATES[metric], average, of)

    method.__name__, method.__doc__ = metric, f"{help} Arguments as in `precision`."
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
        return self._rate(RATES["precision"], average, of)

    recall = averaged("recall", "Fraction of the rows of the class predicted as the class.")
    f1 = averaged(
        "f1", "Harmonic mean of precision and recall; macro: the mean of the classes' F1."
    )
    false_positive_rate = averaged(
        "false_positive_rate", "Fraction of the rows of other classes predicted as the class."
    )
    false_negative_rate = averaged(
        "false_negative_rate", "Fraction of the rows of the class predicted as another class."
    )
    false_alarm_rate = averaged(
        "false_alarm_rate", "Mean of false positive and false negative rate."
    )
    g_measure = averaged("g_measure", "Geometric mean of precision and recall.")

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
        return self._rate(lambda counts: _f_beta(counts, beta), average, of)

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
        check_choice("metric", metric, tuple(RATES))
        return RATES[metric](self.counts)

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

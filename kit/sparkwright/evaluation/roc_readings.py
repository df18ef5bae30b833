"""Curves, areas, thresholds and reports of ROC evaluations."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice

from .abstract import AbstractEvaluation
from .checks import check_count, check_share
from .classification import Evaluation
from .numbers import number_text, short_number
from .rates import Rates
from .reports import Figure, Report
from .roc_counts import Areas, Criterion, Floats, ThresholdCounts
from .roc_figures import score_figure


class CurvePoint(NamedTuple):
    """A point of a curve: the rates if scores of at least a threshold are predicted positive.

    Attributes:
        threshold: infinity where no row is predicted positive.
        precision: TP / (TP + FP); 1 where no row is predicted positive.
        recall: TP / positives, the true positive rate; 0 without positives.
        false_positive_rate: FP / negatives; 0 without negatives.
    """

    threshold: float
    precision: float
    recall: float
    false_positive_rate: float


@dataclass(frozen=True, slots=True)
class _Curve:
    """Points in descending order of threshold, starting at infinity."""

    counts: ThresholdCounts

    def __len__(self) -> int:
        return len(self.counts)

    def point_at_threshold(self, threshold: float) -> CurvePoint:
        """The point of the lowest threshold >= `threshold`; raise ConfigurationError for NaN."""
        _check_no_nan(threshold)
        return self._point(self.counts.at_or_above(threshold) or 0)

    def point_at_precision(self, precision: float) -> CurvePoint:
        """The point of highest recall whose precision is at least `precision`, from 0 to 1.

        Raises:
            ConfigurationError: if `precision` is not from 0 to 1.
        """
        check_share("precision", precision)
        return self._point(int(np.flatnonzero(self.counts.precision() >= precision)[-1]))

    def point_at_recall(self, recall: float) -> CurvePoint:
        """The point of the highest threshold whose recall is at least `recall`, from 0 to 1.

        Raises:
            ConfigurationError: if `recall` is not from 0 to 1.
            DataError: if there are no positives, and `recall` is not 0.
        """
        check_share("recall", recall)
        reached = np.flatnonzero(self.counts.recall() >= recall)
        if not reached.size:
            raise DataError(
                f"recall is 0 at every threshold without positives. Received: recall={recall}."
            )
        return self._point(int(reached[0]))

    def _point(self, row: int) -> CurvePoint:
        at = self.counts.rows(np.array([row]))
        rates = (at.thresholds, at.precision(), at.recall(), at.false_positive_rate())
        return CurvePoint(*(float(rate[0]) for rate in rates))


@dataclass(frozen=True, slots=True)
class RocCurve(_Curve):
    """True positive rate over false positive rate, from (0, 0) to (1, 1)."""

    @property
    def thresholds(self) -> Floats:
        """(k,) float64, descending; the first is infinity."""
        return self.counts.thresholds

    @property
    def false_positive_rate(self) -> Rates:
        """(k,) float64, ascending; 0 without negatives."""
        return self.counts.false_positive_rate()

    @property
    def true_positive_rate(self) -> Rates:
        """(k,) float64, ascending; 0 without positives."""
        return self.counts.recall()


@dataclass(frozen=True, slots=True)
class PrecisionRecallCurve(_Curve):
    """Precision over recall; the last point has precision 1, recall 0 and threshold infinity."""

    @property
    def thresholds(self) -> Floats:
        """(k,) float64, ascending; the last is infinity."""
        return self.counts.thresholds[::-1]

    @property
    def precision(self) -> Rates:
        """(k,) float64; 1 at threshold infinity."""
        return self.counts.precision()[::-1]

    @property
    def recall(self) -> Rates:
        """(k,) float64, descending; 0 without positives."""
        return self.counts.recall()[::-1]


def _check_no_nan(threshold: float) -> None:
    """Raise ConfigurationError if a threshold is NaN."""
    if np.isnan(threshold):
        raise ConfigurationError(f"`threshold` must be a number. Received: threshold={threshold}.")


class RocReadings(AbstractEvaluation):
    """Base class of ROC evaluations: areas, curves, plots and reports.

    A metric of 0/0 has its chance level. Without positives or without negatives, the area under
    the ROC curve is 0.5; the areas under the precision-recall curve are the fraction of
    positives, 0 without any. Rates are 0, and precision is 1 where no row is predicted positive.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def positives(self) -> int:
        """Rows of class 1."""

    @property
    @abstractmethod
    def negatives(self) -> int:
        """Rows of class 0."""

    @abstractmethod
    def threshold_counts(self) -> ThresholdCounts:
        """Counts at all available thresholds, in descending order, without infinity."""

    @abstractmethod
    def _kind(self) -> str:
        """Short description of the mode, such as "exact"."""

    def _areas(self) -> Areas:
        return self.threshold_counts().areas()

    def _auc_numerator(self) -> int:
        return self.threshold_counts().auc_numerator()

    @property
    def auc(self) -> float:
        """Area under the ROC curve: the probability that a positive has a higher score.

        Equal scores count half. 0.5 without positives or without negatives.
        """
        pairs = self.positives * self.negatives
        return self._auc_numerator() / (2 * pairs) if pairs else 0.5

    @property
    def auprc(self) -> float:
        """Area under the linearly interpolated precision-recall curve; 0 without positives.

        The curve starts at precision 1 and recall 0.
        """
        return self._areas().trapezoids / max(self.positives, 1)

    @property
    def average_precision(self) -> float:
        """Area under the precision-recall curve as a step function; 0 without positives."""
        return self._areas().steps / max(self.positives, 1)

    @property
    def examples(self) -> int:
        """Number of rows counted: examples, or their time steps."""
        return self.positives + self.negatives

    # Curves

    def curve(self, max_points: int | None = None) -> RocCurve:
        """The ROC curve.

        Points in the middle of two equal steps are omitted, as in scikit-learn's `roc_curve`;
        they lie on a straight line.

        Args:
            max_points: most points to keep, at least 3, each an exact point of the curve;
                default None: all.

        Raises:
            ConfigurationError: if `max_points` is less than 3.
        """
        return RocCurve(_thinned(self.threshold_counts().corners(), max_points))

    def precision_recall_curve(self, max_points: int | None = None) -> PrecisionRecallCurve:
        """The precision-recall curve at every threshold; `max_points` as in `curve`."""
        return PrecisionRecallCurve(_thinned(self.threshold_counts(), max_points))

    def best_threshold(self, by: Criterion = "f1") -> float:
        """The best threshold: scores of at least it are predicted positive. Ties: the highest.

        Args:
            by: "f1": the largest F1; "youden": the largest Youden's index, the true positive
                rate minus the false positive rate.

        Raises:
            ConfigurationError: if `by` is invalid.
            DataError: if there are no positives or no negatives.

        References:
            W. J. Youden, "Index for rating diagnostic tests", Cancer 3 (1950).
        """
        check_choice("by", by, get_args(Criterion))
        if not (self.positives and self.negatives):
            raise DataError(
                "a best threshold needs both positives and negatives. "
                f"Received: {self.positives} positives and {self.negatives} negatives."
            )
        counts = self.threshold_counts()
        return float(counts.thresholds[counts.best(by)])

    def confusion_at(self, threshold: float) -> Evaluation:
        """The confusion matrix if scores of at least `threshold` are predicted positive.

        Args:
            threshold: any number if all scores are kept; else one of
                `threshold_counts().thresholds`, or a number outside of their range.

        Raises:
            ConfigurationError: if `threshold` is NaN, or no counts are available for it.
        """
        _check_no_nan(threshold)
        counts = self.threshold_counts()
        kept, row = counts.thresholds, counts.at_or_above(threshold)
        between = row is not None and kept[row] != threshold and row != len(kept) - 1
        if row is not None and between and self.scores_kept is None:
            raise ConfigurationError(
                f"`threshold` must be one of the {len(kept)} in "
                f"`threshold_counts().thresholds`. Received: threshold={threshold}, between "
                f"{kept[row + 1]} and {kept[row]}. An exact ROC that keeps all scores accepts any "
                "threshold."
            )
        reached = (counts.true_positives, counts.false_positives)
        yes, wrong = (0 if row is None else int(each[row]) for each in reached)
        rows = [[self.negatives - wrong, wrong], [self.positives - yes, yes]]
        return Evaluation(confusion=np.array(rows, np.int64))

    # Plots and reports

    def plot_roc(self, *, axes: Any | None = None) -> Any:
        """Draw the ROC curve with its area; see `AbstractEvaluation.plot`."""
        return score_figure(self, "roc").plot(axes)

    plot = plot_roc

    def plot_precision_recall(self, *, axes: Any | None = None) -> Any:
        """Draw the precision-recall curve with its area; see `AbstractEvaluation.plot`."""
        return score_figure(self, "precision_recall").plot(axes)

    def figures(self) -> list[Figure]:
        """Both curves; empty without positives or without negatives."""
        if not (self.positives and self.negatives):
            return []
        return [score_figure(self, "roc"), score_figure(self, "precision_recall")]

    def headline(self) -> dict[str, float]:
        """Areas under the curves."""
        trapezoids, steps = (area / max(self.positives, 1) for area in self._areas()[1:])
        return {"AUC": self.auc, "AUPRC": trapezoids, "average precision": steps}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.examples} examples, {self._kind()})"

    def _report(self, most: int) -> Report:
        lacking = "positives" if not self.positives else "" if self.negatives else "negatives"
        note = f"(0/0: there are no {lacking})" if lacking else ""
        found = [
            (name, number_text(value), note if name == "AUC" or lacking == "positives" else "")
            for name, value in self.headline().items()
        ]
        if self.positives and self.negatives:
            counts = self.threshold_counts()
            rates = {"best F1": counts.f1(), "best Youden index": counts.youden()}
            for name, values in rates.items():
                best = int(values.argmax())
                threshold = short_number(counts.thresholds[best], 6)
                found.append((name, number_text(values[best]), f"at threshold {threshold}"))
        return Report(
            title=f"ROC of {self.examples:,} examples, {self.positives:,} positive "
            f"({self._kind()})",
            headline=found,
        )


def _thinned(counts: ThresholdCounts, max_points: int | None) -> ThresholdCounts:
    if max_points is not None:
        check_count("max_points", max_points, minimum=3)
    return counts.thinned(None if max_points is None else max_points - 1).started()

"""What can be read off any evaluation of one binary score, however it was counted."""

from abc import abstractmethod
from typing import Any, get_args

from sparkwright.errors import ConfigurationError, DataError

from ._abstract import AbstractEvaluation
from ._evaluation import Evaluation
from ._roc_curves import PrecisionRecallCurve, RocCurve
from ._roc_plots import PLOT_POINTS, draw_precision_recall, draw_roc
from ._tables import html_report, html_row, html_table
from ._threshold_counts import Criterion, ThresholdCounts


class RocReadings(AbstractEvaluation):
    """Areas, curves, plots and reports of positives and negatives that have a score.

    What would be 0/0 has the value of guessing: without positives or without negatives the area
    under the ROC curve is 0.5; the areas under the precision-recall curve are the share of
    positives, 0 without any. Rates are 0, and precision is 1 where nothing is predicted positive.
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

    @property
    @abstractmethod
    def auc(self) -> float:
        """Area under the ROC curve: the chance that a positive scores more than a negative.

        Equal scores count half. 0.5 without positives or without negatives.
        """

    @property
    @abstractmethod
    def auprc(self) -> float:
        """Area under the lines between the points of the precision-recall curve.

        It starts at precision 1 and recall 0. 0 without positives.
        """

    @property
    @abstractmethod
    def average_precision(self) -> float:
        """Area under the steps of the precision-recall curve; 0 without positives."""

    @abstractmethod
    def threshold_counts(self) -> ThresholdCounts:
        """Counts at all thresholds that are known, without infinity."""

    @abstractmethod
    def confusion_at(self, threshold: float) -> Evaluation:
        """The confusion matrix if scores of at least `threshold` are predicted positive.

        Raises:
            ConfigurationError: if nothing was counted at that threshold.
        """

    @abstractmethod
    def _kind(self) -> str:
        """How it was counted, in few words."""

    @property
    def examples(self) -> int:
        """Rows counted: examples, or their time steps."""
        return self.positives + self.negatives

    # Curves

    def curve(self, max_points: int | None = None) -> RocCurve:
        """The ROC curve.

        Points in the middle of straight stretches of two equal steps are left out, as
        scikit-learn's `roc_curve` does; all thresholds in between then lie on a line.

        Args:
            max_points: keep at most that many, each an exact point of the curve, at least 3;
                default None: all.

        Raises:
            ConfigurationError: if `max_points` is less than 3.
        """
        return RocCurve(_thinned(self.threshold_counts().corners(), max_points))

    def precision_recall_curve(self, max_points: int | None = None) -> PrecisionRecallCurve:
        """The precision-recall curve, at every threshold.

        Args:
            max_points: as in `curve`.

        Raises:
            ConfigurationError: if `max_points` is less than 3.
        """
        return PrecisionRecallCurve(_thinned(self.threshold_counts(), max_points))

    def best_threshold(self, by: Criterion = "f1") -> float:
        """The threshold to predict positive from, of equally good ones the highest.

        Args:
            by: "f1": where F1 is largest; "youden": where Youden's index is, the true
                positive rate minus the false positive rate.

        Raises:
            ConfigurationError: if `by` is something else.
            DataError: if there are no positives or no negatives.

        References:
            W. J. Youden, "Index for rating diagnostic tests", Cancer 3 (1950).
        """
        if by not in get_args(Criterion):
            raise ConfigurationError(f"`by` must be 'f1' or 'youden'. Received: by={by!r}.")
        if not (self.positives and self.negatives):
            raise DataError(
                "a threshold separates positives from negatives; both are needed. "
                f"Received: {self.positives} positives and {self.negatives} negatives."
            )
        counts = self.threshold_counts()
        return float(counts.thresholds[counts.best(by)])

    # Plots and reports

    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw the ROC curve; see `AbstractEvaluation.plot`."""
        return self.plot_roc(axes=axes)

    def plot_roc(self, *, axes: Any | None = None) -> Any:
        """Draw the ROC curve with its area; see `AbstractEvaluation.plot`."""
        curves = [(f"AUC {self.auc:.4f}", self.curve(PLOT_POINTS))]
        return draw_roc(curves, title="ROC", axes=axes)

    def plot_precision_recall(self, *, axes: Any | None = None) -> Any:
        """Draw the precision-recall curve with its area; see `AbstractEvaluation.plot`."""
        return draw_precision_recall(
            [(f"AUPRC {self.auprc:.4f}", self.precision_recall_curve(PLOT_POINTS))],
            guessing=self.positives / max(self.examples, 1),
            title="Precision and recall",
            axes=axes,
        )

    def headline(self) -> dict[str, float]:
        """The areas."""
        return {
            "AUC": self.auc,
            "AUPRC": self.auprc,
            "average precision": self.average_precision,
        }

    def summary(self) -> str:
        """A report for a terminal."""
        lines = [f"{name:<20}{value:>8}{note}" for name, value, note in self._notes()]
        return "\n".join([self._title(), "", *lines])

    def _repr_html_(self) -> str:
        rows = [html_row(name, [value], note=note) for name, value, note in self._notes()]
        return html_report(self._title(), html_table([], rows))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.examples} examples, {self._kind()})"

    def _title(self) -> str:
        return f"ROC of {self.examples:,} examples, {self.positives:,} positive ({self._kind()})"

    def _notes(self) -> list[tuple[str, str, str]]:
        """Headlines and the best thresholds, with a note."""
        no_positives = "" if self.positives else "  (0/0: there are no positives)"
        no_negatives = "" if self.negatives else "  (0/0: there are no negatives)"
        found = [
            (name, f"{value:.4f}", no_positives or (no_negatives if name == "AUC" else ""))
            for name, value in self.headline().items()
        ]
        if self.positives and self.negatives:
            counts = self.threshold_counts()
            f1, youden = counts.best("f1"), counts.best("youden")
            gap = counts.recall()[youden] - counts.false_positive_rate()[youden]
            for name, value, best in (
                ("best F1", counts.f1()[f1], f1),
                ("best Youden index", gap, youden),
            ):
                threshold = f"{counts.thresholds[best]:.6g}"
                found.append((name, f"{value:.4f}", f"  from a score of {threshold} on"))
        return found


def _thinned(counts: ThresholdCounts, max_points: int | None) -> ThresholdCounts:
    if max_points is not None and (type(max_points) is not int or max_points < 3):
        raise ConfigurationError(
            "`max_points` must be an integer of at least 3 or None. "
            f"Received: max_points={max_points!r}."
        )
    return counts.thinned(None if max_points is None else max_points - 1).started()

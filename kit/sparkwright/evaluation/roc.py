"""Receiver operating characteristic (ROC) and precision-recall curve of one binary score."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice

from .abstract import AbstractEvaluation, Batch
from .checks import Counts, check_count, checked_counts, reading, state
from .classification import Evaluation
from .numbers import number_text, short_number
from .reports import Figure, Report
from .roc_counts import Areas, Criterion, Scores, SortedScores, ThresholdCounts, auc_numerator
from .roc_curves import PrecisionRecallCurve, RocCurve, check_no_nan
from .roc_figures import score_figure, score_figures
from .rows import Where, as_numbers, labeled_rows

_MOST_THRESHOLDS = 1_000_000
_SLACK = 1e-3  # averages of probabilities may slightly exceed [0, 1]


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
        return self._areas().auc_numerator

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
        check_no_nan(threshold)
        counts = self.threshold_counts()
        kept, row = counts.thresholds, counts.at_or_above(threshold)
        between = row is not None and kept[row] != threshold and row != len(kept) - 1
        if row is not None and between and not self.keeps_rows:
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

    def figures(self, *, band: bool = True) -> list[Figure]:
        """Both curves, optionally with a bootstrap `band` of 95 %; empty for 0/0."""
        return score_figures(self, band=band)

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
            gaps = counts.recall() - counts.false_positive_rate()
            for name, values in (("best F1", counts.f1()), ("best Youden index", gaps)):
                best = int(values.argmax())
                threshold = short_number(counts.thresholds[best], 6)
                found.append((name, number_text(values[best]), f"at threshold {threshold}"))
        return Report(
            title=f"ROC of {self.examples:,} examples, {self.positives:,} positive "
            f"({self._kind()})",
            headline=found,
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ROC(RocReadings):
    """Receiver operating characteristic and precision-recall curve of one binary score.

    Exact by default: it keeps every score, 4 bytes each if all are float32, else 8; rows with
    equal scores are one point of the curve. With `thresholds=n` it counts at the thresholds
    i / n, i = 0 ... n, in constant memory; scores between two thresholds count as equal.

    Labels are 0 or 1 of shape (n,) or (n, 1), or one-hot (n, 2) with class 1 in the second column;
    with time steps (n, T, 1) or (n, T, 2). Predictions are scores of class 1 in the same shapes; of
    two columns, the second is used. Scores are finite numbers, higher for class 1; from 0 to 1 if
    thresholded.

    Differences from Deeplearning4j: tied scores are one point, not a step each in input order;
    the result of `from_json` can be added to others; a thresholded curve starts at (0, 0).

    Attributes:
        thresholds: 0, the default: exact; or n steps, at most a million.
        positive_scores: scores of the rows of class 1, if exact.
        negative_scores: scores of the rows of class 0, if exact.
        counts: (2, thresholds + 1) int64 negatives and positives in [i / n, (i + 1) / n), if
            thresholded; read-only.

    Example:
        >>> roc = ROC.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
        >>> roc.auc
        0.75
        >>> roc.curve().true_positive_rate
        array([0. , 0.5, 0.5, 1. , 1. ])
        >>> (roc + ROC.from_predictions([1], [0.9])).auc
        0.8333333333333334
    """

    name: ClassVar[str] = "roc"

    thresholds: int = 0
    positive_scores: SortedScores = field(
        default_factory=SortedScores, kw_only=True, metadata=state()
    )
    negative_scores: SortedScores = field(
        default_factory=SortedScores, kw_only=True, metadata=state()
    )
    counts: Counts = field(
        default_factory=lambda: np.zeros((2, 0), np.int64), kw_only=True, metadata=state()
    )

    def __post_init__(self) -> None:
        """Check the options and the counts.

        Raises:
            ConfigurationError: if `thresholds` is not an integer from 0 to a million.
            DataError: if the shape of `counts` does not match `thresholds`.
        """
        check_count("thresholds", self.thresholds, minimum=0, maximum=_MOST_THRESHOLDS)
        width = self.thresholds + 1 if self.thresholds else 0
        counts = self.counts
        if width and np.shape(counts) == (2, 0):
            counts = np.zeros((2, width), np.int64)
        object.__setattr__(self, "counts", checked_counts("counts", counts, (2, width)))

    def _counted(self, batch: Batch) -> Self:
        given = as_numbers(batch.predictions, "predictions")
        columns = given[:, None] if given.ndim == 1 else given
        if columns.ndim < 2 or columns.shape[-1] not in (1, 2):
            raise DataError(
                "`predictions` must be one score per row, or two columns of which the second "
                "is used: (n,), (n, 1), (n, 2), (n, T, 1). Received: predictions of shape "
                f"{given.shape}. Use ROCMultiClass for more classes, ROCBinary for more outputs."
            )
        rows = labeled_rows(batch.labels, columns, mask=batch.mask)
        given = rows.scores[:, -1:]
        scores = float_scores(given, rows.where, probabilities=self.thresholds > 0)[:, 0]
        return type(self)(self.thresholds).including(scores[rows.actual], scores[~rows.actual])

    def including(self, positives: Scores, negatives: Scores) -> Self:
        """Return this evaluation with valid scores added.

        Args:
            positives: (p,) finite scores of rows of class 1; from 0 to 1 if thresholded.
            negatives: (n,) finite scores of rows of class 0; from 0 to 1 if thresholded.
        """
        if self.thresholds:
            bins = np.stack([self._binned(negatives), self._binned(positives)])
            return self + type(self)(self.thresholds, counts=bins)
        scores = [SortedScores.of(each) for each in (positives, negatives)]
        return self + type(self)(positive_scores=scores[0], negative_scores=scores[1])

    # Implementation of RocReadings

    @property
    def positives(self) -> int:
        """Rows of class 1."""
        return int(self.counts[1].sum()) if self.thresholds else self.positive_scores.size

    @property
    def negatives(self) -> int:
        """Rows of class 0."""
        return int(self.counts[0].sum()) if self.thresholds else self.negative_scores.size

    def _auc_numerator(self) -> int:
        if self.thresholds:
            return self._areas().auc_numerator
        return auc_numerator(self.positive_scores.values, self.negative_scores.values)

    @property
    def keeps_rows(self) -> bool:
        """Whether its size grows with the number of rows, that is, it is exact."""
        return self.thresholds == 0

    @property
    def scores_kept(self) -> int:
        """Number of scores kept."""
        return 0 if self.thresholds else self.examples

    def threshold_counts(self) -> ThresholdCounts:
        """Counts at every distinct score, or at every threshold, in descending order."""
        if not self.thresholds:
            return ThresholdCounts.of_scores(
                self.positive_scores.values, self.negative_scores.values
            )
        reached = self.counts[:, ::-1].cumsum(axis=1)
        return ThresholdCounts(
            thresholds=self._edges()[::-1],
            true_positives=reached[1],
            false_positives=reached[0],
            positives=self.positives,
            negatives=self.negatives,
        )

    def _kind(self) -> str:
        return f"{self.thresholds} thresholds" if self.thresholds else "exact"

    def _edges(self) -> NDArray[np.float64]:
        """(thresholds + 1,) i / n."""
        return np.arange(self.thresholds + 1) / self.thresholds

    def _binned(self, scores: Scores) -> Counts:
        """(thresholds + 1,) number of scores in each step."""
        # A probability slightly below 0 counts as 0.
        bins = np.maximum(np.searchsorted(self._edges(), scores, side="right") - 1, 0)
        return np.bincount(bins, minlength=self.thresholds + 1).astype(np.int64)

    # JSON

    def to_dict(self) -> dict[str, Any]:
        """Return all counts as plain JSON values; scores as base64."""
        exact = (self.negative_scores.to_dict(), self.positive_scores.to_dict())
        negatives, positives = self.counts.tolist() if self.thresholds else exact
        return {
            "name": self.name,
            "thresholds": self.thresholds,
            "negatives": negatives,
            "positives": positives,
        }

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Restore an evaluation from `to_dict`; the result can be added to others.

        Raises:
            DataError: if `values` do not describe such an evaluation.
        """
        cls._check_keys(values, "thresholds", "negatives", "positives")
        with reading(cls.__name__):
            steps = values["thresholds"]
            sides = [values["negatives"], values["positives"]]
            if steps != 0:
                return cls(steps, counts=checked_counts("counts", sides, (2, steps + 1)))
            negatives, positives = map(SortedScores.from_dict, sides)
            return cls(steps, positive_scores=positives, negative_scores=negatives)


def float_scores(scores: NDArray[Any], where: Where, *, probabilities: bool) -> Scores:
    """Return (rows, C) finite float32 if it represents the scores exactly, else float64.

    Raises:
        DataError: if a score is infinite, or not a probability if `probabilities`.
    """
    single = scores.dtype.kind == "f" and scores.dtype.itemsize <= 4
    found: Scores = scores.astype(np.float32 if single else np.float64, copy=False)
    where.require(
        np.isfinite(found),
        found,
        "scores must be finite",
        "Evaluate probabilities instead of their log-odds.",
    )
    if probabilities:
        where.require(
            (found >= -_SLACK) & (found <= 1 + _SLACK),
            found,
            "scores of a thresholded ROC must be from 0 to 1",
            "Apply a sigmoid to logits, or use an exact ROC: thresholds=0.",
        )
    return found


def _thinned(counts: ThresholdCounts, max_points: int | None) -> ThresholdCounts:
    if max_points is not None:
        check_count("max_points", max_points, minimum=3)
    return counts.thinned(None if max_points is None else max_points - 1).started()

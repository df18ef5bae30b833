"""ROC: how well scores separate two classes, whatever the threshold."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import ConfigurationError, DataError

from ._binary_counts import Counts
from ._evaluation import Evaluation
from ._roc_areas import (
    Groups,
    PrecisionSums,
    auc_numerator,
    auc_of,
    binned_auc_numerator,
    precision_sums,
    score_groups,
    share_of,
)
from ._roc_readings import RocReadings
from ._roc_rows import scored_rows
from ._sorted_scores import Scores, SortedScores
from ._threshold_counts import ThresholdCounts, at_least, whole_number

MOST_THRESHOLDS = 1_000_000


def _no_counts() -> Counts:
    return np.zeros((2, 0), np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ROC(RocReadings):
    """Receiver operating characteristic and precision-recall of one binary score.

    Exact by default: it keeps every score, 4 bytes each if all come as float32 and 8 otherwise,
    and rows of equal scores are one point of the curve. With `thresholds=n` it counts at the
    thresholds i / n, i = 0 ... n, in memory that does not grow; scores between two thresholds are
    then taken for equal.

    Departures from Deeplearning4j: tied scores are one point, not a step each in order of arrival;
    what is read from JSON can be added to others; a thresholded curve starts at (0, 0).

    Attributes:
        thresholds: 0, the default: exact; or n steps, at most a million.
        positive_scores: of the rows of class 1, if exact.
        negative_scores: of the rows of class 0, if exact.
        counts: (2, thresholds + 1) int64 negatives and positives at least i / n and less than
            (i + 1) / n, if thresholded; read-only.

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
    positive_scores: SortedScores = field(default_factory=SortedScores, kw_only=True)
    negative_scores: SortedScores = field(default_factory=SortedScores, kw_only=True)
    counts: Counts = field(default_factory=_no_counts, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ConfigurationError: if `thresholds` is not a whole number from 0 to a million.
            DataError: if `counts` are not of that many thresholds.
        """
        steps = self.thresholds
        if type(steps) is not int or not 0 <= steps <= MOST_THRESHOLDS:
            raise ConfigurationError(
                f"`thresholds` must be an integer from 0, which is exact, to {MOST_THRESHOLDS}. "
                f"Received: thresholds={steps!r}."
            )
        counts = np.asarray(self.counts)
        if steps and counts.shape == (2, 0):
            counts = np.zeros((2, steps + 1), np.int64)
        shape = (2, steps + 1 if steps else 0)
        if counts.shape != shape or counts.dtype.kind not in "iu" or bool((counts < 0).any()):
            raise DataError(
                f"`counts` at {steps} thresholds must be integers of at least 0, of shape {shape}. "
                f"Received: dtype {counts.dtype} of shape {counts.shape}."
            )
        counts = counts.astype(np.int64)
        counts.setflags(write=False)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def from_predictions(
        cls,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        thresholds: int = 0,
    ) -> Self:
        """Count predictions.

        Args:
            labels: 0 or 1 of shape (n,) or (n, 1), or (n, 2) one-hot, in which the second column
                is class 1; with time steps (n, T, 1) or (n, T, 2).
            predictions: scores of class 1, higher for surer, in the same shapes; of two columns
                the second counts. Any finite numbers; from 0 to 1 if `thresholds` are given.
            mask: (n,), or (n, T) per step; rows where it is 0 do not count.
            thresholds: 0, the default: exact; or the number of steps.

        Returns:
            The evaluation of these rows.

        Raises:
            DataError: if shapes do not fit, a score is NaN, infinite or, if thresholded, outside
                0 to 1, or a label is not 0 or 1; the message names the row.
        """
        return cls(thresholds).updated(labels, predictions, mask=mask)

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> Self:
        """This evaluation with a batch counted in; arguments as in `from_predictions`."""
        rows = scored_rows(labels, predictions, mask=mask, probabilities=self.thresholds > 0)
        return self.including(rows.scores[rows.positive], rows.scores[~rows.positive])

    def including(self, positives: Scores, negatives: Scores) -> Self:
        """This evaluation with scores counted in that are known to be right.

        Args:
            positives: (p,) finite scores of rows of class 1; from 0 to 1 if thresholded.
            negatives: (n,) likewise, of class 0.
        """
        if self.thresholds:
            bins = [self._binned(negatives), self._binned(positives)]
            added = type(self)(self.thresholds, counts=np.stack(bins))
        else:
            added = type(self)(
                positive_scores=SortedScores.of(positives),
                negative_scores=SortedScores.of(negatives),
            )
        return self + added

    def __add__(self, other: "ROC") -> Self:
        """The evaluation of both sets of rows together, exactly.

        Raises:
            DataError: if the two do not count at the same thresholds.
        """
        if type(other) is not type(self) or other.thresholds != self.thresholds:
            raise DataError(
                "only ROCs of the same thresholds can be added. Received: "
                f"thresholds={self.thresholds} and {getattr(other, 'thresholds', repr(other))}."
            )
        return type(self)(
            self.thresholds,
            positive_scores=self.positive_scores + other.positive_scores,
            negative_scores=self.negative_scores + other.negative_scores,
            counts=self.counts + other.counts,
        )

    def __eq__(self, other: object) -> bool:
        """The same thresholds, and the same scores or counts."""
        return (
            isinstance(other, ROC)
            and self.thresholds == other.thresholds
            and self.positive_scores == other.positive_scores
            and self.negative_scores == other.negative_scores
            and np.array_equal(self.counts, other.counts)
        )

    # Readings, see RocReadings

    @property
    def positives(self) -> int:
        """Rows of class 1."""
        return int(self.counts[1].sum()) if self.thresholds else self.positive_scores.size

    @property
    def negatives(self) -> int:
        """Rows of class 0."""
        return int(self.counts[0].sum()) if self.thresholds else self.negative_scores.size

    @property
    def auc(self) -> float:
        """Area under the ROC curve; 0.5 without positives or without negatives."""
        if self.thresholds:
            numerator = binned_auc_numerator(self.counts[1], self.counts[0])
        else:
            numerator = auc_numerator(self.positive_scores.values, self.negative_scores.values)
        return auc_of(numerator, self.positives, self.negatives)

    @property
    def auprc(self) -> float:
        """Area under the lines of the precision-recall curve; 0 without positives."""
        return share_of(self._precision_sums().trapezoids, self.positives)

    @property
    def average_precision(self) -> float:
        """Area under the steps of the precision-recall curve; 0 without positives."""
        return share_of(self._precision_sums().steps, self.positives)

    @property
    def keeps_rows(self) -> bool:
        """Whether its size grows with the rows counted: if it is exact."""
        return self.thresholds == 0

    def threshold_counts(self) -> ThresholdCounts:
        """Counts at every distinct score, or at every threshold; the highest first."""
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

    def confusion_at(self, threshold: float) -> Evaluation:
        """The confusion matrix if scores of at least `threshold` are predicted positive.

        Args:
            threshold: any number if exact; else one of i / n, or more than 1.

        Raises:
            ConfigurationError: if `threshold` is NaN, or lies between the thresholds.
        """
        if math.isnan(threshold):
            raise ConfigurationError(
                f"`threshold` must be a number. Received: threshold={threshold}."
            )
        if not self.thresholds:
            scores = (self.positive_scores.values, self.negative_scores.values)
            positive, negative = (int(at_least(s, np.array([threshold]))[0]) for s in scores)
            return confusion(positive, negative, self.positives, self.negatives)
        edges = self._edges()
        place = int(np.searchsorted(edges, threshold))
        if 0 < threshold <= 1 and edges[place] != threshold:
            raise ConfigurationError(
                f"`threshold` must be one that was counted at, i / {self.thresholds}. "
                f"Received: threshold={threshold}, between {edges[place - 1]} and {edges[place]}. "
                "An exact ROC, thresholds=0, answers for any."
            )
        negative, positive = self.counts[:, place:].sum(axis=1).tolist()
        return confusion(positive, negative, self.positives, self.negatives)

    def _kind(self) -> str:
        return f"{self.thresholds} thresholds" if self.thresholds else "exact"

    def _edges(self) -> NDArray[np.float64]:
        """(thresholds + 1,) i / n."""
        return np.arange(self.thresholds + 1) / self.thresholds

    def _binned(self, scores: Scores) -> Counts:
        """(thresholds + 1,) scores of each step."""
        # A probability a little below 0 counts as 0.
        bins = np.maximum(np.searchsorted(self._edges(), scores, side="right") - 1, 0)
        return np.bincount(bins, minlength=self.thresholds + 1).astype(np.int64)

    def _precision_sums(self) -> PrecisionSums:
        if not self.thresholds:
            return precision_sums(
                score_groups(self.positive_scores.values, self.negative_scores.values)
            )
        gained = self.counts[:, ::-1]
        reached = gained.cumsum(axis=1)
        return precision_sums(Groups(gained[1], reached[1], reached[0], reached[0] - gained[0]))

    # JSON

    def to_dict(self) -> dict[str, Any]:
        """Everything that was counted, as plain JSON values; scores as base 64."""
        if self.thresholds:
            return {
                "name": self.name,
                "thresholds": self.thresholds,
                "negatives": self.counts[0].tolist(),
                "positives": self.counts[1].tolist(),
            }
        return {
            "name": self.name,
            "thresholds": 0,
            "negatives": self.negative_scores.to_dict(),
            "positives": self.positive_scores.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; what it returns can be added to others as before.

        Raises:
            DataError: if `values` is no such evaluation.
        """
        cls._check_name(values, "thresholds", "negatives", "positives")
        thresholds = whole_number(values["thresholds"], "thresholds")
        if thresholds > MOST_THRESHOLDS:
            raise DataError(
                f"a ROC has at most {MOST_THRESHOLDS} thresholds. Received: {thresholds}."
            )
        if not thresholds:
            return cls(
                positive_scores=SortedScores.from_dict(values["positives"]),
                negative_scores=SortedScores.from_dict(values["negatives"]),
            )
        columns = (values["negatives"], values["positives"])
        if any(not isinstance(c, list) or len(c) != thresholds + 1 for c in columns):
            raise DataError(
                f"a ROC of {thresholds} thresholds must hold two lists of {thresholds + 1} counts. "
                "Received: others."
            )
        counts = [[whole_number(count, "counts") for count in column] for column in columns]
        whole_number(sum(map(sum, counts)), "all counts together")
        return cls(thresholds, counts=np.array(counts, np.int64))


def confusion(
    true_positives: int, false_positives: int, positives: int, negatives: int
) -> Evaluation:
    """The evaluation of two classes with these counts."""
    rows = [
        [negatives - false_positives, false_positives],
        [positives - true_positives, true_positives],
    ]
    return Evaluation(confusion=np.array(rows, np.int64))

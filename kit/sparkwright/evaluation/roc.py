"""Receiver operating characteristic (ROC) and precision-recall curve of one binary score."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from .abstract import Batch
from .checks import Counts, check_count, checked_counts, reading, state
from .roc_counts import Scores, SortedScores, ThresholdCounts, auc_numerator
from .roc_readings import RocReadings
from .rows import Where, as_numbers, labeled_rows

_MOST_THRESHOLDS = 1_000_000
_SLACK = 1e-3  # averages of probabilities may slightly exceed [0, 1]


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
            return self.threshold_counts().auc_numerator()
        return auc_numerator(self.positive_scores.values, self.negative_scores.values)

    @property
    def scores_kept(self) -> int | None:
        """Number of scores kept; None if thresholded."""
        return None if self.thresholds else self.examples

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
    """Return (rows, C) finite float32 if it represents the scores exactly, else float64."""
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

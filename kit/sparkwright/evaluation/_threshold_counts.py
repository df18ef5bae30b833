"""What is predicted positive, rightly and wrongly, at each of many thresholds."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from ._binary_counts import Counts, Rates
from ._roc_areas import distinct
from ._sorted_scores import Scores

Floats = NDArray[np.float64]
Criterion = Literal["f1", "youden"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ThresholdCounts:
    """Counts at thresholds: what scores at least that much is predicted positive.

    Attributes:
        thresholds: (k,) float64, descending, no two equal.
        true_positives: (k,) int64 positives of at least that score.
        false_positives: (k,) int64 negatives of at least that score.
        positives: positives in all.
        negatives: negatives in all.
    """

    thresholds: Floats
    true_positives: Counts
    false_positives: Counts
    positives: int
    negatives: int

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for values in (self.thresholds, self.true_positives, self.false_positives):
            values.setflags(write=False)

    @classmethod
    def of_scores(
        cls,
        positives: Scores,
        negatives: Scores,
        *,
        positives_above: int = 0,
        negatives_above: int = 0,
        totals: tuple[int, int] | None = None,
    ) -> "ThresholdCounts":
        """At every distinct score.

        Args:
            positives: (p,) scores, ascending.
            negatives: (n,) scores, ascending.
            positives_above: positives of a score above all of these.
            negatives_above: likewise.
            totals: positives and negatives in all; default: these.
        """
        scores = np.concatenate([positives, negatives])
        scores.sort()
        scores = scores[distinct(scores)][::-1]
        found = totals or (positives.size, negatives.size)
        return cls(
            thresholds=scores.astype(np.float64),
            true_positives=positives_above + at_least(positives, scores),
            false_positives=negatives_above + at_least(negatives, scores),
            positives=found[0],
            negatives=found[1],
        )

    def __len__(self) -> int:
        return self.thresholds.size

    def __eq__(self, other: object) -> bool:
        """The same counts at the same thresholds."""
        return isinstance(other, ThresholdCounts) and self.to_dict() == other.to_dict()

    def precision(self) -> Rates:
        """(k,) TP / (TP + FP); 1 where nothing is predicted positive."""
        predicted = self.true_positives + self.false_positives
        return np.divide(
            self.true_positives, predicted, out=np.ones(len(self)), where=predicted > 0
        )

    def recall(self) -> Rates:
        """(k,) TP / positives; 0 without positives."""
        return self.true_positives / max(self.positives, 1)

    def false_positive_rate(self) -> Rates:
        """(k,) FP / negatives; 0 without negatives."""
        return self.false_positives / max(self.negatives, 1)

    def best(self, by: Criterion) -> int:
        """Where F1 or Youden's index is largest; of equal ones the highest threshold."""
        if by == "youden":
            return int(np.argmax(self.recall() - self.false_positive_rate()))
        return int(np.argmax(self.f1()))

    def f1(self) -> Rates:
        """(k,) 2 TP / (TP + FP + positives); 0 without positives."""
        whole = self.true_positives + self.false_positives + self.positives
        return 2 * self.true_positives / np.maximum(whole, 1)

    def at_or_above(self, threshold: float) -> int | None:
        """The lowest threshold that is not below `threshold`, if there is one."""
        count = int(np.searchsorted(-self.thresholds, -threshold, side="right"))
        return count - 1 if count else None

    def rows(self, chosen: NDArray[np.integer[Any]]) -> "ThresholdCounts":
        """Some of the thresholds.

        Args:
            chosen: their numbers, ascending.
        """
        return ThresholdCounts(
            thresholds=self.thresholds[chosen],
            true_positives=self.true_positives[chosen],
            false_positives=self.false_positives[chosen],
            positives=self.positives,
            negatives=self.negatives,
        )

    def corners(self) -> "ThresholdCounts":
        """Without points in the middle of two equal steps, which a line through them meets too.

        These are the points that scikit-learn's `roc_curve` drops.
        """
        if len(self) <= 2:
            return self
        bends = (np.diff(self.true_positives, 2) != 0) | (np.diff(self.false_positives, 2) != 0)
        return self.rows(np.flatnonzero(np.concatenate([[True], bends, [True]])))

    def thinned(self, points: int | None) -> "ThresholdCounts":
        """At most that many thresholds, first and last among them.

        Half of them are even along the ROC curve, half even in the logarithm of the rows at or
        above: that is where the precision-recall curve bends, and the start of a ROC curve.

        Args:
            points: at least 2; None keeps all.
        """
        if points is None or len(self) <= points:
            return self
        along = self.recall() + self.false_positive_rate()
        ranks = np.log1p(self.true_positives + self.false_positives)
        half = points - points // 2
        chosen = [_evenly(along, half), _evenly(ranks, points - half), [len(self) - 1]]
        return self.rows(np.unique(np.concatenate(chosen)))

    def started(self) -> "ThresholdCounts":
        """With the threshold infinity in front, where nothing is predicted positive."""
        nothing = np.zeros(1, np.int64)
        return ThresholdCounts(
            thresholds=np.concatenate([[math.inf], self.thresholds]),
            true_positives=np.concatenate([nothing, self.true_positives]),
            false_positives=np.concatenate([nothing, self.false_positives]),
            positives=self.positives,
            negatives=self.negatives,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; the threshold infinity is left out."""
        finite = self.thresholds < math.inf
        return {
            "positives": self.positives,
            "negatives": self.negatives,
            "thresholds": self.thresholds[finite].tolist(),
            "true_positives": self.true_positives[finite].tolist(),
            "false_positives": self.false_positives[finite].tolist(),
        }

    @classmethod
    def from_dict(cls, values: Any) -> "ThresholdCounts":
        """The inverse of `to_dict`, without the threshold infinity.

        Raises:
            DataError: if `values` is anything else.
        """
        given: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
        totals = [whole_number(given.get(key), key) for key in ("positives", "negatives")]
        columns = [given.get(key) for key in ("thresholds", "true_positives", "false_positives")]
        sizes = {len(column) if isinstance(column, list) else -1 for column in columns}
        if len(sizes) != 1 or -1 in sizes:
            raise DataError(
                'points of a curve must be lists "thresholds", "true_positives" and '
                f'"false_positives" of equal length. Received: {sorted(given)}.'
            )
        thresholds = _numbers(columns[0], float)
        counts = [_numbers(column, int) for column in columns[1:]]
        wrong = not np.isfinite(thresholds).all() or bool((np.diff(thresholds) >= 0).any())
        for values_, total in zip(counts, totals, strict=True):
            steps = np.diff(values_, prepend=0, append=total)
            wrong |= bool((steps < 0).any())
        if wrong:
            raise DataError(
                "points of a curve must have finite thresholds that fall and counts that grow to "
                f"at most {totals[0]} positives and {totals[1]} negatives. Received: others."
            )
        return cls(
            thresholds=thresholds,
            true_positives=counts[0],
            false_positives=counts[1],
            positives=totals[0],
            negatives=totals[1],
        )


def at_least(scores: Scores, thresholds: Scores | Floats) -> Counts:
    """How many of (n,) ascending scores reach each threshold."""
    return scores.size - np.searchsorted(scores, thresholds, side="left").astype(np.int64)


def whole_number(value: Any, what: str) -> int:
    """A count from a file.

    Raises:
        DataError: if it is no integer from 0 to 2**62.
    """
    if type(value) is not int or not 0 <= value <= 1 << 62:
        raise DataError(f"`{what}` must be a count, from 0 to 2**62. Received: {value!r:.40}.")
    return value


def _evenly(values: Floats, points: int) -> NDArray[np.int64]:
    """Places of ascending values that are evenly spaced, from the first; to the last if points."""
    places = np.searchsorted(values, np.linspace(values[0], values[-1], points))
    if points > 1:
        places[-1] = values.size - 1  # rounding can make the last values equal
    return places.astype(np.int64)


def _numbers(column: Any, kind: Callable[..., Any]) -> Any:
    allowed = (int,) if kind is int else (int, float)
    if any(type(value) not in allowed for value in column):
        raise DataError(f"points of a curve must be numbers. Received: {column!r:.60}.")
    try:
        return np.asarray(column, np.int64 if kind is int else np.float64)
    except OverflowError:
        raise DataError(
            f"points of a curve must not be that large. Received: {column!r:.60}."
        ) from None

"""Scores of an exact ROC, and counts at each threshold."""

import base64
import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from .checks import (
    Counts,
    Values,
    checked_counts,
    checked_floats,
    frozen,
    read_as,
    read_count,
    reading,
)
from .rates import Rates

Floats = NDArray[np.float64]
Scores = NDArray[np.float32 | np.float64]
Criterion = Literal["f1", "youden"]
_COLUMNS = ("thresholds", "true_positives", "false_positives")
_BLOCK = 1 << 20  # scores per lookup: bounds memory, and sums fit int64
_DTYPES = {"float32": np.dtype("<f4"), "float64": np.dtype("<f8")}


@dataclass(frozen=True, slots=True, eq=False)
class SortedScores:
    """A multiset of finite scores; `values` is the canonical form."""

    # Each run is more than twice as long as the next, so that adding many small batches sorts each
    # score only a few times.

    runs: tuple[Scores, ...] = ()  # sorted, non-empty, read-only

    @classmethod
    def of(cls, values: Scores) -> "SortedScores":
        """Return the multiset of (n,) finite values; float32 stays float32."""
        return cls() if values.size == 0 else cls((frozen(np.sort(values + 0.0)),))  # no -0.0

    @property
    def size(self) -> int:
        """Number of scores."""
        return sum(run.size for run in self.runs)

    @property
    def values(self) -> Scores:
        """(size,) in ascending order; float32 if all scores are float32; read-only."""
        if len(self.runs) == 1:
            return self.runs[0]
        return frozen(np.sort(np.concatenate([np.empty(0, np.float32), *self.runs])))

    def __add__(self, other: "SortedScores") -> "SortedScores":
        """Return the union of both multisets."""
        # Longest first, so that short runs are merged with short ones before long ones.
        runs: list[Scores] = []
        for run in sorted((*self.runs, *other.runs), key=len, reverse=True):
            runs.append(run)
            while len(runs) > 1 and runs[-2].size < 2 * runs[-1].size:
                last = np.concatenate([runs.pop(), runs.pop()])
                last.sort()
                runs.append(frozen(last))
        return SortedScores(tuple(runs))

    def __eq__(self, other: object) -> bool:
        """Whether both have the same scores with the same counts."""
        return isinstance(other, SortedScores) and np.array_equal(self.values, other.values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values: the bytes of `values`, little-endian, in base64."""
        values = self.values
        little = values.astype(_DTYPES[values.dtype.name], copy=False)
        text = base64.b64encode(little.tobytes()).decode("ascii")
        return {"dtype": values.dtype.name, "count": values.size, "sorted": text}

    @classmethod
    def from_dict(cls, values: Any) -> "SortedScores":
        """Restore scores from `to_dict`."""
        with reading("scores"):
            found = np.frombuffer(
                base64.b64decode(values["sorted"], validate=True), _DTYPES[values["dtype"]]
            )
            if found.size != values["count"] or not np.isfinite(found).all():
                raise DataError(
                    f'"sorted" must hold "count" finite scores. Received: {found.size} scores.'
                )
            return cls.of(found.astype(values["dtype"]))


class Areas(NamedTuple):
    """Areas under curves, as sums that can be added over ranges of thresholds."""

    # The area under the ROC curve times 2 · positives · negatives: a pair counts 2, a tie 1.
    auc_numerator: int
    trapezoids: float  # area under the linear precision-recall curve times positives
    steps: float  # average precision, the area under the step function, times positives


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ThresholdCounts(Values):
    """Counts at thresholds: scores of at least the threshold are predicted positive.

    Attributes:
        thresholds: (k,) float64, strictly descending.
        true_positives: (k,) int64 positives with scores of at least the threshold.
        false_positives: (k,) int64 negatives with scores of at least the threshold.
        positives: total number of positives.
        negatives: total number of negatives.
    """

    thresholds: Floats = field(metadata=read_as(checked_floats, "k"))
    true_positives: Counts = field(metadata=read_as(checked_counts, "k"))
    false_positives: Counts = field(metadata=read_as(checked_counts, "k"))
    positives: int = field(metadata=read_as(read_count))
    negatives: int = field(metadata=read_as(read_count))

    def __post_init__(self) -> None:
        for values in (self.thresholds, self.true_positives, self.false_positives):
            frozen(values)

    @classmethod
    def of_scores(
        cls,
        positives: Scores,
        negatives: Scores,
        *,
        above: tuple[int, int] = (0, 0),
        totals: tuple[int, int] | None = None,
    ) -> "ThresholdCounts":
        """Count at every distinct one of (p,) and (n,) ascending scores.

        Args:
            positives: scores of the rows of class 1.
            negatives: scores of the rows of class 0.
            above: additional positives and negatives with scores above all of these.
            totals: total positives and negatives; default: the numbers of scores.
        """
        scores = np.concatenate([positives, negatives])
        order = np.argsort(scores, kind="stable")[::-1]  # merges two ascending runs: linear time
        scores = scores[order]
        ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], scores.size > 0))
        reached = np.cumsum(order < positives.size)[ends]
        found = totals or (positives.size, negatives.size)
        return cls(
            thresholds=scores[ends].astype(np.float64),
            true_positives=above[0] + reached,
            false_positives=above[1] + ends + 1 - reached,
            positives=found[0],
            negatives=found[1],
        )

    def __len__(self) -> int:
        return self.thresholds.size

    def precision(self) -> Rates:
        """(k,) TP / (TP + FP); 1 where no row is predicted positive."""
        predicted = self.true_positives + self.false_positives
        ones = np.ones(predicted.shape)
        return np.divide(self.true_positives, predicted, out=ones, where=predicted > 0)

    def recall(self) -> Rates:
        """(k,) TP / positives; 0 without positives."""
        return self.true_positives / max(self.positives, 1)

    def false_positive_rate(self) -> Rates:
        """(k,) FP / negatives; 0 without negatives."""
        return self.false_positives / max(self.negatives, 1)

    def f1(self) -> Rates:
        """(k,) 2 TP / (TP + FP + positives); 0 without positives."""
        whole = self.true_positives + self.false_positives + self.positives
        return 2 * self.true_positives / np.maximum(whole, 1)

    def youden(self) -> Rates:
        """(k,) recall - false positive rate."""
        return self.recall() - self.false_positive_rate()

    def best(self, by: Criterion) -> int:
        """Return the index of the largest F1 or Youden's index; ties: the highest threshold."""
        return int(np.argmax(self.f1() if by == "f1" else self.youden()))

    def auc_numerator(self, above: tuple[int, int] = (0, 0)) -> int:
        """`Areas.auc_numerator` from first to last threshold."""
        heights = 2 * self.true_positives - np.diff(self.true_positives, prepend=above[0])
        added = np.diff(self.false_positives, prepend=above[1])
        if 2 * self.positives * self.negatives >= 1 << 62:  # as Python integers
            added, heights = added.astype(object), heights.astype(object)
        return int(np.dot(added, heights))

    def areas(self, above: tuple[int, int] = (0, 0)) -> Areas:
        """Return the areas from first to last threshold, with `above` positives and negatives."""
        gained = np.diff(self.true_positives, prepend=above[0])
        precision = self.precision()
        start = above[0] / sum(above) if sum(above) else 1.0
        middle = (precision + np.concatenate([[start], precision[:-1]])) / 2
        trapezoids, steps = (float((gained * height).sum()) for height in (middle, precision))
        return Areas(self.auc_numerator(above), trapezoids, steps)

    def at_or_above(self, threshold: float) -> int | None:
        """Return the index of the lowest threshold >= `threshold`, or None."""
        count = int(np.searchsorted(-self.thresholds, -threshold, side="right"))
        return count - 1 if count else None

    def rows(self, chosen: NDArray[np.integer[Any]]) -> "ThresholdCounts":
        """Select thresholds by ascending index."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in _COLUMNS})

    def corners(self) -> "ThresholdCounts":
        """Drop points in the middle of two equal steps, as scikit-learn's `roc_curve` does."""
        if len(self) <= 2:
            return self
        bends = (np.diff(self.true_positives, 2) != 0) | (np.diff(self.false_positives, 2) != 0)
        return self.rows(np.flatnonzero(np.concatenate([[True], bends, [True]])))

    def thinned(self, points: int | None) -> "ThresholdCounts":
        """Keep at most `points` thresholds, including the first and the last.

        Half of them are evenly spaced along the ROC curve, half in the logarithm of the rows at or
        above. The latter resolve the start of the ROC curve and the precision-recall curve.

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

    def few(self, points: int) -> "ThresholdCounts":
        """Thin to at least 4 points, including the thresholds of the best F1 and Youden's index."""
        if len(self) <= points:
            return self
        thresholds = self.thinned(points - 2).thresholds
        kept = np.searchsorted(-self.thresholds, -thresholds)
        return self.rows(np.union1d(kept, [self.best("f1"), self.best("youden")]))

    def started(self) -> "ThresholdCounts":
        """Prepend the threshold infinity, where no row is predicted positive."""
        first = zip(_COLUMNS, (math.inf, 0, 0), strict=True)
        return replace(self, **{n: np.concatenate([[at], getattr(self, n)]) for n, at in first})

    @classmethod
    def from_dict(cls, values: Any) -> "ThresholdCounts":
        """Restore counts from `to_dict`.

        Raises:
            DataError: if `values` are invalid.
        """
        found = super(ThresholdCounts, cls).from_dict(values)
        columns = (found.true_positives, found.positives), (found.false_positives, found.negatives)
        if not (np.diff(found.thresholds) < 0).all() or any(
            (np.diff(reached, prepend=0, append=total) < 0).any() for reached, total in columns
        ):
            raise DataError(
                "points of a curve must have descending thresholds, and ascending counts of at "
                f"most all rows. Received: {values!r:.100}."
            )
        return found


def auc_numerator(positives: Scores, negatives: Scores) -> int:
    """Compute `Areas.auc_numerator` of (p,) and (n,) ascending scores, twice as fast as a curve.

    References:
        J. A. Hanley, B. J. McNeil, "The meaning and use of the area under a receiver operating
        characteristic (ROC) curve", Radiology 143 (1982).
    """
    if positives.size > negatives.size:
        return 2 * positives.size * negatives.size - auc_numerator(negatives, positives)
    total = 0
    for start in range(0, positives.size, _BLOCK):
        block = positives[start : start + _BLOCK]
        below = np.searchsorted(negatives, block, side="left")
        # Ties are usually rare, and only they need the second search.
        tied = negatives[np.minimum(below, negatives.size - 1)] == block
        upto = np.searchsorted(negatives, block[tied], side="right")
        total += 2 * int(below.sum()) + int(upto.sum()) - int(below[tied].sum())
    return total


def _evenly(values: Floats, points: int) -> NDArray[np.int64]:
    """Return indices of evenly spaced ascending values, including the first and the last."""
    places = np.searchsorted(values, np.linspace(values[0], values[-1], points))
    if points > 1:
        places[-1] = values.size - 1  # rounding can make the last values equal
    return places.astype(np.int64)

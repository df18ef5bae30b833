"""The exact ROC of more scores than fit on one machine, computed by ranges of scores.

Each part of the data is an exact `ROC`. `range_boundaries` divides a sample of the scores into
ranges with a bounded number of rows; equal scores are in one range. `cut` splits each part by
range. `summarize` computes the sums of one range, given the number of rows above it, and
`ROCDigest.from_ranges` adds them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sparkwright.errors import DataError

from .checks import Counts, read_as, read_number
from .roc import ROC
from .roc_counts import Areas, Floats, Scores, SortedScores, ThresholdCounts
from .roc_readings import RocReadings


class RangeSummary(NamedTuple):
    """A range's contribution to the areas, and some of its thresholds."""

    areas: Areas
    points: ThresholdCounts


def score_sample(roc: ROC, step: int) -> Floats:
    """Sample every `step`-th score of the positives, and of the negatives, of an exact ROC."""
    return np.concatenate([side[step - 1 :: step].astype(np.float64) for side in _sides(roc)])


def range_boundaries(samples: Sequence[Floats], rows_per_range: int, step: int) -> Floats:
    """Return boundaries of the score ranges: each range excludes its upper boundary."""
    # Between two sampled scores, each side of each part has fewer than `step` scores. With
    # step = rows_per_range / (8 · parts), a range has at most `rows_per_range` rows, plus ties.
    each = max(3 * rows_per_range // (4 * step), 1)
    return np.unique(np.sort(np.concatenate(samples))[each::each])


def cut(roc: ROC, boundaries: Floats) -> list[ROC]:
    """Split an exact ROC by range, lowest scores first."""
    runs = [
        [SortedScores((p,) if p.size else ()) for p in np.split(s, np.searchsorted(s, boundaries))]
        for s in _sides(roc)
    ]
    pairs = zip(*runs, strict=True)
    return [
        ROC(positive_scores=positives, negative_scores=negatives) for positives, negatives in pairs
    ]


def range_counts(pieces: Sequence[ROC]) -> Counts:
    """Count positives and negatives of each piece from `cut`, as (ranges, 2) int64."""
    return np.array([(piece.positives, piece.negatives) for piece in pieces], np.int64)


def summarize(roc: ROC, counts: Counts, number: int, *, points: int) -> RangeSummary:
    """Compute the sums of range `number`; `counts`: (ranges, 2), summed over all parts."""
    # Keeps at most `points` thresholds, at least 4: the first and the last, and those of the
    # largest F1 and the largest Youden's index.
    above: Any = tuple(counts[number + 1 :].sum(axis=0).tolist())
    totals: Any = tuple(counts.sum(axis=0).tolist())
    found = ThresholdCounts.of_scores(*_sides(roc), above=above, totals=totals)
    return RangeSummary(found.areas(above), found.few(points))


def _sides(roc: ROC) -> tuple[Scores, Scores]:
    return roc.positive_scores.values, roc.negative_scores.values


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ROCDigest(RocReadings):
    """An exact ROC without its scores; areas and best thresholds are those of all scores.

    Its curves have fewer points, each an exact point of the curve. Digests cannot be added.

    Attributes:
        counts: counts at the kept thresholds.
        auc_numerator: `auc` times 2 · positives · negatives.
        trapezoids: `auprc` times the positives.
        steps: `average_precision` times the positives.
    """

    name: ClassVar[str] = "roc_digest"

    counts: ThresholdCounts = field(metadata=read_as(ThresholdCounts))
    auc_numerator: int
    trapezoids: float = field(metadata=read_as(read_number))
    steps: float = field(metadata=read_as(read_number))

    def __post_init__(self) -> None:
        last = (self.counts.true_positives[-1:], self.counts.false_positives[-1:])
        areas = (self.trapezoids, self.steps)
        if (
            type(self.auc_numerator) is not int
            or not 0 <= self.auc_numerator <= 2 * self.positives * self.negatives
            or not all(0 <= area <= self.positives + 0.5 for area in areas)
            or [int(column.sum()) for column in last] != [self.positives, self.negatives]
        ):
            raise DataError(
                "areas must be from 0 to 1, and the last point of a curve must count all "
                f"rows. Received: auc_numerator={self.auc_numerator!r:.40} and {areas} for "
                f"{self.positives} positives and {self.negatives} negatives."
            )

    @classmethod
    def from_ranges(cls, summaries: Iterable[RangeSummary]) -> "ROCDigest":
        """Add the ranges of one division, in any order; ranges without rows may be omitted.

        Raises:
            DataError: if a range is missing.
        """
        ranges = sorted(
            (each for each in summaries if len(each.points)),
            key=lambda each: -float(each.points.thresholds[0]),
        )
        first = ranges[0].points
        columns = {
            key: np.concatenate([getattr(each.points, key) for each in ranges])
            for key in ("thresholds", "true_positives", "false_positives")
        }
        counts = ThresholdCounts(**columns, positives=first.positives, negatives=first.negatives)
        numerator, trapezoids, steps = (
            sum(part) for part in zip(*(e.areas for e in ranges), strict=True)
        )
        return cls(counts=counts, auc_numerator=numerator, trapezoids=trapezoids, steps=steps)

    def __add__(self, other: Any) -> "ROCDigest":
        """Raise DataError: digests do not keep scores, so they cannot be added."""
        raise DataError(
            f"a ROCDigest keeps no scores, so no rows can be added. Received: {self!r}. "
            "Evaluate the union of the data, or use ROC(thresholds=n), which can be added."
        )

    __radd__ = __add__

    def updated(self, *batch: Any, **options: Any) -> "ROCDigest":
        """Raise DataError, see `__add__`."""
        return self + self

    @property
    def positives(self) -> int:
        """Rows of class 1."""
        return self.counts.positives

    @property
    def negatives(self) -> int:
        """Rows of class 0."""
        return self.counts.negatives

    def _auc_numerator(self) -> int:
        return self.auc_numerator

    def _areas(self) -> Areas:
        return Areas(self.auc_numerator, self.trapezoids, self.steps)

    def threshold_counts(self) -> ThresholdCounts:
        """Counts at the kept thresholds, in descending order."""
        return self.counts

    def _kind(self) -> str:
        return f"exact, {len(self.counts)} points kept"

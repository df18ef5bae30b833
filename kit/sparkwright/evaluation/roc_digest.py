"""The exact ROC of more scores than one machine should hold, by ranges of scores.

Each part of the data is an exact `ROC`. `range_boundaries` of `score_sample`s divides the scores
into ranges with a bounded number of rows; equal scores are in one range. `cut` divides each part.
With the rows above a range known, `summarize` computes its integer and float sums, and
`ROCDigest.from_ranges` adds these.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from sparkwright.errors import DataError

from .accumulators import exact_sum
from .checks import check_count
from .roc import ROC, RocReadings, auc_of
from .roc_counts import Areas, Counts, Floats, SortedScores, ThresholdCounts


class RangeSummary(NamedTuple):
    """What a range of scores adds to the whole.

    Attributes:
        areas: its part of the areas.
        points: some of its thresholds, with counts over all scores.
        rows: its positives and negatives.
    """

    areas: Areas
    points: ThresholdCounts
    rows: tuple[int, int]


def score_sample(roc: ROC, step: int) -> Floats:
    """Every `step`-th score of the positives, and of the negatives, of an exact ROC."""
    sides = (roc.positive_scores.values, roc.negative_scores.values)
    return np.concatenate([side[step - 1 :: step].astype(np.float64) for side in sides])


def sampling_step(rows_per_range: int, parts: int) -> int:
    """The step of `score_sample`, so small that all parts together sample evenly enough.

    What lies between two sampled scores is less than a step for each side of each part, all
    together at most a quarter of a range.
    """
    check_count("rows_per_range", rows_per_range, minimum=1)
    return max(rows_per_range // (8 * max(parts, 1)), 1)


def range_boundaries(sample: Floats, *, rows_per_range: int, step: int) -> Floats:
    """Where to divide the scores: a range goes from one boundary to below the next.

    A range has at most `rows_per_range` rows, unless these are equal or a range is as small as
    the parts are many.

    Args:
        sample: `score_sample` of all parts.
        rows_per_range: at least 1.
        step: of the sample.
    """
    each = max(3 * rows_per_range // (4 * step), 1)
    return np.unique(np.sort(sample)[each::each])


def range_counts(roc: ROC, boundaries: Floats) -> Counts:
    """(2, ranges) int64 positives and negatives in each range, lowest scores first."""
    sides = (roc.positive_scores.values, roc.negative_scores.values)
    return np.stack(
        [np.diff(np.searchsorted(side, boundaries), prepend=0, append=side.size) for side in sides]
    ).astype(np.int64)


def cut(roc: ROC, boundaries: Floats) -> list[ROC]:
    """The scores of an exact ROC in each range, lowest scores first."""
    sides = (roc.positive_scores.values, roc.negative_scores.values)
    pieces = [np.split(side, np.searchsorted(side, boundaries)) for side in sides]
    runs = [[SortedScores((p,) if p.size else ()) for p in side] for side in pieces]
    return [
        ROC(positive_scores=positives, negative_scores=negatives)
        for positives, negatives in zip(*runs, strict=True)
    ]


def summarize(roc: ROC, counts: Counts, number: int, *, points: int) -> RangeSummary:
    """The sums of one range.

    Args:
        roc: all scores of the range, from all parts.
        counts: (2, ranges) sum of `range_counts` over the parts.
        number: of the range.
        points: keep at most that many thresholds, at least 4: first and last, those of the largest
            F1 and of the largest Youden index, and some in between.

    Raises:
        DataError: if these are not as many scores as were counted.
        ConfigurationError: if `points` is less than 4.
    """
    check_count("points", points, minimum=4)
    planned: Any = tuple(counts[:, number].tolist())
    if (roc.positives, roc.negatives) != planned:
        raise DataError(
            "a range must hold exactly the rows that were counted: "
            f"{planned[0]} positives and {planned[1]} negatives. Received: "
            f"{roc.positives} and {roc.negatives}. Evaluate data that does not change meanwhile."
        )
    above: Any = tuple(counts[:, number + 1 :].sum(axis=1).tolist())
    totals: Any = tuple(counts.sum(axis=1).tolist())
    sides = (roc.positive_scores.values, roc.negative_scores.values)
    found = ThresholdCounts.of_scores(*sides, above=above, totals=totals)
    return RangeSummary(found.areas(above), found.few(points), planned)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ROCDigest(RocReadings):
    """An exact ROC without its scores; its areas and best thresholds are those of all scores.

    Its curves have fewer points, each of which lies on the true curve. The scores are gone, so
    digests cannot be added.

    Attributes:
        counts: at the thresholds that were kept.
        auc_numerator: of the area under the ROC curve, over 2 · positives · negatives.
        trapezoids: `auprc` times the positives.
        steps: `average_precision` times the positives.
    """

    name: ClassVar[str] = "roc_digest"

    counts: ThresholdCounts
    auc_numerator: int
    trapezoids: float
    steps: float

    def __post_init__(self) -> None:
        """Check the sums.

        Raises:
            DataError: if an area is not from 0 to 1, or the last point is not that of all rows.
        """
        last = (self.counts.true_positives[-1:], self.counts.false_positives[-1:])
        reached = [int(column.sum()) for column in last]
        areas = (self.trapezoids, self.steps)
        if (
            type(self.auc_numerator) is not int
            or not 0 <= self.auc_numerator <= 2 * self.positives * self.negatives
            or not all(type(a) is float and 0 <= a <= self.positives + 0.5 for a in areas)
            or reached != [self.positives, self.negatives]
        ):
            raise DataError(
                "areas must be from 0 to 1, and the last point of a curve must be that of all "
                f"rows. Received: auc_numerator={self.auc_numerator!r:.40} and {areas} for "
                f"{self.positives} positives and {self.negatives} negatives."
            )

    @classmethod
    def from_ranges(cls, summaries: Iterable[RangeSummary]) -> "ROCDigest":
        """Add the ranges, in any order; those without rows may be left out.

        Raises:
            DataError: if a range is missing or given twice.
        """
        ranges = sorted(
            (summary for summary in summaries if len(summary.points)),
            key=lambda summary: -float(summary.points.thresholds[0]),
        )
        points = [summary.points for summary in ranges]
        columns: list[Any] = [
            np.concatenate([np.zeros(0, kind), *(getattr(each, key) for each in points)])
            for key, kind in (
                ("thresholds", np.float64),
                ("true_positives", np.int64),
                ("false_positives", np.int64),
            )
        ]
        totals = {(each.positives, each.negatives) for each in points} or {(0, 0)}
        covered = tuple(sum(each.rows[side] for each in ranges) for side in (0, 1))
        if totals != {covered} or any(
            (np.diff(each) < 0).any() for each in (-columns[0], *columns[1:])
        ):
            raise DataError(
                "a digest needs every range of one division once. "
                f"Received: {len(ranges)} ranges of {sorted(totals)} rows."
            )
        [(positives, negatives)] = totals
        return cls(
            counts=ThresholdCounts(
                thresholds=columns[0],
                true_positives=columns[1],
                false_positives=columns[2],
                positives=positives,
                negatives=negatives,
            ),
            auc_numerator=sum(summary.areas.auc_numerator for summary in ranges),
            trapezoids=float(sum(summary.areas.trapezoids for summary in ranges)),
            steps=float(sum(summary.areas.steps for summary in ranges)),
        )

    def __add__(self, other: Any) -> "ROCDigest":
        """Not possible: the scores are gone.

        Raises:
            DataError: always, with what to do instead.
        """
        self._refuse()

    __radd__ = __add__

    def _merged(self, other: Any) -> "ROCDigest":
        self._refuse()

    def _counted(self, batch: Any) -> "ROCDigest":
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise DataError(
            f"a ROCDigest cannot count more rows: its scores are gone. Received: {self!r}. "
            "Evaluate the union of the data, or use ROC(thresholds=n), which adds up."
        )

    @property
    def positives(self) -> int:
        """Rows of class 1."""
        return self.counts.positives

    @property
    def negatives(self) -> int:
        """Rows of class 0."""
        return self.counts.negatives

    @property
    def auc(self) -> float:
        """Area under the ROC curve, exact; 0.5 without positives or without negatives."""
        return auc_of(self.auc_numerator, self.positives, self.negatives)

    def _precision_areas(self) -> tuple[float, float]:
        return self.trapezoids, self.steps

    def threshold_counts(self) -> ThresholdCounts:
        """Counts at the thresholds that were kept, the highest first."""
        return self.counts

    def _kind(self) -> str:
        return f"exact, {len(self.counts)} points kept"

    @classmethod
    def _read(cls, key: str, value: Any) -> Any:
        if key == "counts":
            return ThresholdCounts.from_dict(value)
        # Version 0 wrote exact sums as text.
        return float(exact_sum(value)) if isinstance(value, str) else value

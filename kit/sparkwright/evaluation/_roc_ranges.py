"""The exact ROC of more scores than one machine should hold: by ranges of scores.

Each part of the data is an exact `ROC`. `score_histogram` of each, added up, plans ranges of
scores of a bounded number of rows. `cut_ranges` cuts each part into these, and what falls into one
range comes together in one place, where `summarize_range` computes exactly what it adds to the
areas. `ROCDigest` puts the summaries together.

    histogram = sum of score_histogram(part) over the parts
    while (edges := refined_edges(histogram, rows_per_range=n)) is not None:
        histogram = sum of score_histogram(part, edges)
    plan = plan_ranges(histogram, rows_per_range=n)
    range i = sum of cut_ranges(part, plan)[i]
    summary = summarize_range(range i, plan.ranges[i], points=p)
    digest = ROCDigest.from_ranges(summaries)
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

from ._binary_counts import Counts
from ._roc import ROC
from ._roc_areas import PrecisionSums, auc_numerator, precision_sums, score_groups
from ._sorted_scores import Scores, SortedScores
from ._threshold_counts import Floats, ThresholdCounts

_SPLIT = 256  # parts of a bucket that holds too many rows
_SIGN = np.int64(np.iinfo(np.int64).min)
LEAST_POINTS = 4  # first, last and the two best thresholds of a range


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScoreHistogram:
    """How many scores lie between edges; histograms of the same edges add up.

    Bucket b holds scores from edge b - 1 on and below edge b.

    Attributes:
        edges: (k,) float64, ascending.
        positives: (k + 1,) int64 rows of class 1.
        negatives: (k + 1,) int64 rows of class 0.
        lowest: (k + 1,) float64 lowest score in each bucket; infinity if empty.
        highest: (k + 1,) float64 highest; minus infinity if empty.
    """

    edges: Floats
    positives: Counts
    negatives: Counts
    lowest: Floats
    highest: Floats

    def __add__(self, other: "ScoreHistogram") -> "ScoreHistogram":
        """The histogram of both sets of scores.

        Raises:
            DataError: if the edges are not the same.
        """
        if not np.array_equal(self.edges, other.edges):
            raise DataError(
                "only histograms of the same edges can be added. "
                f"Received: {self.edges.size} edges and {other.edges.size} other ones."
            )
        return ScoreHistogram(
            edges=self.edges,
            positives=self.positives + other.positives,
            negatives=self.negatives + other.negatives,
            lowest=np.minimum(self.lowest, other.lowest),
            highest=np.maximum(self.highest, other.highest),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreRange:
    """The rows of one range of scores, and what lies around it.

    Attributes:
        positives: rows of class 1 in the range.
        negatives: rows of class 0 in the range.
        positives_above: rows of class 1 with higher scores.
        negatives_above: rows of class 0 with higher scores.
        all_positives: rows of class 1 in all.
        all_negatives: rows of class 0 in all.
    """

    positives: int
    negatives: int
    positives_above: int
    negatives_above: int
    all_positives: int
    all_negatives: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RangePlan:
    """Where to cut, and what is known of each range, lowest scores first.

    Attributes:
        boundaries: a range goes from one boundary to below the next; one fewer than ranges.
        ranges: at least one.
    """

    boundaries: tuple[float, ...]
    ranges: tuple[ScoreRange, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeSummary:
    """What a range adds to the whole: integers, exact sums and some points of the curve.

    Attributes:
        place: what is in the range and around it.
        auc_numerator: what it adds to that of the area under the ROC curve.
        precision_sums: what it adds to those of the areas under the precision-recall curve.
        points: counts at some of its thresholds, over all scores.
    """

    place: ScoreRange
    auc_numerator: int
    precision_sums: PrecisionSums
    points: ThresholdCounts


def score_histogram(roc: ROC, edges: Floats | None = None) -> ScoreHistogram:
    """Count the scores of an exact ROC between edges; takes no time to speak of.

    Args:
        roc: exact.
        edges: (k,) float64, ascending; default: about 1400, closest around 0 and 1.

    Raises:
        ConfigurationError: if `roc` is not exact.
    """
    _check_exact(roc)
    edges = _first_edges() if edges is None else edges
    sides = [roc.positive_scores.values, roc.negative_scores.values]
    cuts = [_cuts(scores, edges) for scores in sides]
    ends = [_ends(scores, cut) for scores, cut in zip(sides, cuts, strict=True)]
    return ScoreHistogram(
        edges=edges,
        positives=np.diff(cuts[0]),
        negatives=np.diff(cuts[1]),
        lowest=np.minimum(ends[0][0], ends[1][0]),
        highest=np.maximum(ends[0][1], ends[1][1]),
    )


def refined_edges(histogram: ScoreHistogram, *, rows_per_range: int) -> Floats | None:
    """Edges that split the buckets that alone are too large for a range.

    Needed where very many scores are close to each other, but not equal. Each round divides the
    distance by 256, so that eight are enough whatever the scores; mostly none is needed.

    Args:
        histogram: of all parts together.
        rows_per_range: as many rows a bucket may hold.

    Returns:
        (k,) float64 to count again with; None if no bucket can or need be split.
    """
    rows = histogram.positives + histogram.negatives
    heavy = np.flatnonzero((rows > rows_per_range) & (histogram.lowest < histogram.highest))
    if not heavy.size:
        return None
    added = [
        _between(histogram.lowest[bucket], histogram.highest[bucket]) for bucket in heavy.tolist()
    ]
    return np.unique(np.concatenate([histogram.edges, *added]))


def plan_ranges(histogram: ScoreHistogram, *, rows_per_range: int) -> RangePlan:
    """Ranges of whole buckets, of at most `rows_per_range` rows unless one bucket has more.

    Args:
        histogram: of all parts together.
        rows_per_range: at least 1.

    Raises:
        ConfigurationError: if `rows_per_range` is less than 1.
    """
    if type(rows_per_range) is not int or rows_per_range < 1:
        raise ConfigurationError(
            "`rows_per_range` must be an integer of at least 1. "
            f"Received: rows_per_range={rows_per_range!r}."
        )
    firsts, held = [0], 0
    for bucket, rows in enumerate((histogram.positives + histogram.negatives).tolist()):
        if held and held + rows > rows_per_range:
            firsts.append(bucket)
            held = 0
        held += rows
    positives = np.add.reduceat(histogram.positives, firsts).tolist()
    negatives = np.add.reduceat(histogram.negatives, firsts).tolist()
    return RangePlan(
        boundaries=tuple(histogram.edges[np.array(firsts[1:], np.int64) - 1].tolist()),
        ranges=tuple(
            ScoreRange(
                positives=positives[number],
                negatives=negatives[number],
                positives_above=sum(positives[number + 1 :]),
                negatives_above=sum(negatives[number + 1 :]),
                all_positives=sum(positives),
                all_negatives=sum(negatives),
            )
            for number in range(len(firsts))
        ),
    )


def cut_ranges(roc: ROC, plan: RangePlan) -> tuple[ROC, ...]:
    """The scores of an exact ROC in each range, lowest scores first.

    Raises:
        ConfigurationError: if `roc` is not exact.
    """
    _check_exact(roc)
    boundaries = np.array(plan.boundaries, np.float64)
    sides = [
        _pieces(scores.values, boundaries) for scores in (roc.positive_scores, roc.negative_scores)
    ]
    return tuple(
        ROC(positive_scores=positives, negative_scores=negatives)
        for positives, negatives in zip(*sides, strict=True)
    )


def summarize_range(roc: ROC, place: ScoreRange, *, points: int) -> RangeSummary:
    """What the scores of one range add to the whole.

    Args:
        roc: all scores of the range, from all parts.
        place: of the plan.
        points: keep at most that many thresholds, at least 4: first and last, those of the largest
            F1 and of the largest Youden index, and some in between.

    Raises:
        DataError: if these are not as many scores as were planned: a part came twice or not.
        ConfigurationError: if `points` is less than 4.
    """
    if (roc.positives, roc.negatives) != (place.positives, place.negatives):
        raise DataError(
            "a range must hold exactly the rows that were counted: "
            f"{place.positives} positives and {place.negatives} negatives. Received: "
            f"{roc.positives} and {roc.negatives}. Evaluate data that does not change meanwhile."
        )
    if type(points) is not int or points < LEAST_POINTS:
        raise ConfigurationError(
            f"`points` must be an integer of at least {LEAST_POINTS}. Received: points={points!r}."
        )
    positives, negatives = roc.positive_scores.values, roc.negative_scores.values
    above = {"positives_above": place.positives_above, "negatives_above": place.negatives_above}
    below = place.all_negatives - place.negatives_above - place.negatives
    counts = ThresholdCounts.of_scores(
        positives, negatives, totals=(place.all_positives, place.all_negatives), **above
    )
    return RangeSummary(
        place=place,
        auc_numerator=auc_numerator(positives, negatives) + 2 * place.positives * below,
        precision_sums=precision_sums(score_groups(positives, negatives, **above)),
        points=_few(counts, points),
    )


def _few(counts: ThresholdCounts, points: int) -> ThresholdCounts:
    if len(counts) <= points:
        return counts
    few = counts.thinned(points - 2)
    best = [counts.thresholds[counts.best("f1")], counts.thresholds[counts.best("youden")]]
    kept = np.union1d(few.thresholds, best)[::-1]
    return counts.rows(np.searchsorted(-counts.thresholds, -kept))


def _check_exact(roc: ROC) -> None:
    if roc.thresholds:
        raise ConfigurationError(
            "ranges are of exact ROCs. "
            f"Received: thresholds={roc.thresholds}. ROCs of the same thresholds simply add up."
        )


def _cuts(scores: Scores, edges: Floats) -> NDArray[np.int64]:
    """(k + 2,) from 0 to the number of scores: bucket b is what lies between two of them."""
    inner = np.searchsorted(scores, edges, side="left").astype(np.int64)
    return np.concatenate([[0], inner, [scores.size]])


def _ends(scores: Scores, cuts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Lowest and highest score of each bucket."""
    lowest, highest = np.full(cuts.size - 1, np.inf), np.full(cuts.size - 1, -np.inf)
    filled = cuts[1:] > cuts[:-1]
    lowest[filled] = scores[cuts[:-1][filled]]
    highest[filled] = scores[cuts[1:][filled] - 1]
    return lowest, highest


def _pieces(scores: Scores, boundaries: Floats) -> list[SortedScores]:
    return [SortedScores.of(piece) for piece in np.split(scores, _cuts(scores, boundaries)[1:-1])]


@cache
def _first_edges() -> Floats:
    """Eight edges for each halving of the distance to 0, and below 1 of that to 1."""
    eighths = 1 + np.arange(8) / 8
    near_zero = np.ldexp(eighths, np.arange(-40, 20)[:, None]).reshape(-1)
    near_one = 1 - np.ldexp(eighths, np.arange(-24, -1)[:, None]).reshape(-1)
    edges = np.unique(np.concatenate([near_zero, near_one, [0.0], -near_zero]))
    edges.setflags(write=False)
    return edges


def _between(lowest: float, highest: float) -> Floats:
    """Up to `_SPLIT` numbers above `lowest`, the last one `highest`.

    Even among the float64 there are, of which there are as many between 1 and 2 as between 2 and 4.
    """
    first, last = (int(_order(np.float64(end))) for end in (lowest, highest))
    places = {first + (last - first) * step // _SPLIT for step in range(1, _SPLIT + 1)} - {first}
    return _number(np.array(sorted(places), np.int64))


def _order(number: np.float64) -> np.int64:
    """The place of a float64 among all of them, 0 for 0."""
    bits = number.view(np.int64)
    return bits if bits >= 0 else _SIGN - bits


def _number(order: NDArray[np.int64]) -> Floats:
    """The inverse of `_order`, of each."""
    return np.where(order >= 0, order, _SIGN - order).view(np.float64)

"""Areas under curves, from integers and exact sums: what order scores came in cannot matter.

Everything here takes what lies above into account, so that the areas of ranges of scores add up to
those of all scores.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._binary_counts import Counts
from ._exact_sums import as_fraction, exact_sum
from ._sorted_scores import Scores

_BLOCK = 1 << 20  # searches this many scores at a time: bounds memory, and sums stay within int64


class PrecisionSums(NamedTuple):
    """Exact sums, in the units of `_exact_sums`; divided by the positives they are areas."""

    trapezoids: int  # under the lines between the points of the precision-recall curve
    steps: int  # under its steps: average precision

    def __add__(self, other: "PrecisionSums") -> "PrecisionSums":  # type: ignore[override]
        return PrecisionSums(self.trapezoids + other.trapezoids, self.steps + other.steps)


class Groups(NamedTuple):
    """Distinct scores, highest first, each with what is at or above it."""

    gained: Counts  # (k,) positives of exactly this score
    true_positives: Counts  # (k,) positives of this score or more
    false_positives: Counts  # (k,) negatives of this score or more
    false_positives_before: Counts  # (k,) negatives of more than this score


def auc_numerator(positives: Scores, negatives: Scores) -> int:
    """Twice the pairs in which the positive has more, and once those in which both are equal.

    Divided by 2 · positives · negatives, this is the area under the ROC curve.

    Args:
        positives: (p,) ascending.
        negatives: (n,) ascending.

    References:
        J. A. Hanley, B. J. McNeil, "The meaning and use of the area under a receiver operating
        characteristic (ROC) curve", Radiology 143 (1982).
    """
    if positives.size <= negatives.size:
        return _pairs(positives, negatives)
    return 2 * positives.size * negatives.size - _pairs(negatives, positives)


def _pairs(scores: Scores, others: Scores) -> int:
    """Twice the others below each score, and once those equal to it."""
    total = 0
    for start in range(0, scores.size if others.size else 0, _BLOCK):
        block = scores[start : start + _BLOCK]
        below = np.searchsorted(others, block, side="left")
        # Few scores are tied as a rule, and only these need the second search.
        tied = others[np.minimum(below, others.size - 1)] == block
        upto = np.searchsorted(others, block[tied], side="right")
        total += 2 * int(below.sum()) + int(upto.sum()) - int(below[tied].sum())
    return total


def binned_auc_numerator(positives: Counts, negatives: Counts) -> int:
    """The same from (k,) counts per bin, lowest bin first: all of a bin are tied."""
    # Objects are Python integers: products of counts may not fit int64.
    counts = negatives.astype(object)
    below = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return int((positives.astype(object) * (2 * below + counts)).sum())


def score_groups(
    positives: Scores, negatives: Scores, *, positives_above: int = 0, negatives_above: int = 0
) -> Groups:
    """The distinct scores of positives: the precision of no other one counts.

    Args:
        positives: (p,) ascending.
        negatives: (n,) ascending.
        positives_above: positives of a score above all of these.
        negatives_above: likewise.
    """
    firsts = distinct(positives)
    scores = positives[firsts]
    above = np.concatenate([firsts[1:], [positives.size]])
    negatives_before = negatives_above + negatives.size
    return Groups(
        (above - firsts)[::-1],
        (positives_above + positives.size - firsts)[::-1],
        (negatives_before - np.searchsorted(negatives, scores, side="left"))[::-1],
        (negatives_before - np.searchsorted(negatives, scores, side="right"))[::-1],
    )


def distinct(values: Scores) -> NDArray[np.int64]:
    """Where each value of an ascending array occurs first."""
    changed = np.ones(values.size, np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return np.flatnonzero(changed).astype(np.int64)


def precision_sums(groups: Groups) -> PrecisionSums:
    """Precision at each score, times the positives gained there; and the mean with that before.

    Before the first, where nothing is predicted positive, precision is 1.
    """
    gained = groups.gained.astype(np.float64)
    precision = _precision(groups.true_positives, groups.false_positives)
    before = _precision(groups.true_positives - groups.gained, groups.false_positives_before)
    return PrecisionSums(
        exact_sum(gained * ((precision + before) / 2)), exact_sum(gained * precision)
    )


def _precision(true_positives: Counts, false_positives: Counts) -> NDArray[np.float64]:
    predicted = true_positives + false_positives
    return np.divide(true_positives, predicted, out=np.ones(predicted.shape), where=predicted > 0)


def auc_of(numerator: int, positives: int, negatives: int) -> float:
    """The area, rounded once; 0.5 without positives or without negatives."""
    return numerator / (2 * positives * negatives) if positives and negatives else 0.5


def share_of(total: int, positives: int) -> float:
    """An exact sum divided by the positives, rounded once; 0 without positives."""
    return float(as_fraction(total) / Fraction(positives)) if positives else 0.0

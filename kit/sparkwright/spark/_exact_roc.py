"""Exact ROCs of more rows than the driver should hold: sorted and summarised on the cluster.

What each partition counted is an exact `ROC`. The driver only ever sees histograms of the scores
and summaries of ranges; which bytes go where is decided by `sparkwright.evaluation._roc_ranges`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkwright.errors import DataError
from sparkwright.evaluation import (
    ROC,
    AbstractEvaluation,
    RangeSummary,
    ROCBinary,
    ROCDigest,
    ROCMultiClass,
    cut_ranges,
    plan_ranges,
    refined_edges,
    score_histogram,
    summarize_range,
)

if TYPE_CHECKING:
    from pyspark import RDD

# Scores of an exact evaluation that the driver takes as they are: eight megabytes.
SCORES_ON_DRIVER = 1_000_000
# Rows of a range, which one task sorts and holds.
_ROWS_PER_RANGE = 4_000_000
_POINTS = 10_000


def digested(
    kind: AbstractEvaluation,
    parts: "RDD[Any]",
    *,
    examples: int,
    rows_per_range: int = _ROWS_PER_RANGE,
) -> AbstractEvaluation:
    """The exact evaluation of all parts, without their rows.

    Args:
        kind: the prototype: `ROC()`, `ROCBinary()` or `ROCMultiClass()`.
        parts: what the partitions counted; read several times, so it should be kept.
        examples: of all parts.
        rows_per_range: rows that one task holds; default four million.

    Raises:
        DataError: if such an evaluation cannot do without its rows.
    """
    if isinstance(kind, ROC):
        return _digest(parts, _itself, rows_per_range)
    if not isinstance(kind, ROCBinary | ROCMultiClass):
        raise DataError(
            f"{type(kind).__name__} with exact ROCs takes {SCORES_ON_DRIVER:,} scores at most. "
            f"Received: more, of {examples:,} examples. Give it thresholds, or evaluate "
            "`ROCBinary()` beside it."
        )
    columns = max(parts.map(lambda part: len(part.rocs)).collect())
    rocs = tuple(_digest(parts, _column(i), rows_per_range) for i in range(columns))
    return replace(kind, rocs=rocs, rows=examples)


def _digest(
    parts: "RDD[Any]", roc_of: Callable[[Any], ROC | None], rows_per_range: int
) -> ROC | ROCDigest:
    rocs: Any = parts.map(roc_of).filter(lambda roc: roc is not None and roc.examples > 0)
    if rocs.isEmpty():  # an output that is masked everywhere
        return ROC()
    histogram = rocs.map(score_histogram).treeReduce(_add)
    while (edges := refined_edges(histogram, rows_per_range=rows_per_range)) is not None:
        histogram = rocs.map(_counted_between(edges)).treeReduce(_add)
    plan = plan_ranges(histogram, rows_per_range=rows_per_range)
    points = max(4, _POINTS // len(plan.ranges))

    def pieces(roc: ROC) -> Iterator[tuple[int, ROC]]:
        for number, piece in enumerate(cut_ranges(roc, plan)):
            if piece.examples:
                yield number, piece

    def summaries(numbered: Iterable[tuple[int, ROC]]) -> Iterator[RangeSummary]:
        whole: dict[int, ROC] = {}
        for number, piece in numbered:
            whole[number] = whole[number] + piece if number in whole else piece
        for number, roc in whole.items():
            yield summarize_range(roc, plan.ranges[number], points=points)

    # One range a partition: a task holds one of them.
    ranges = rocs.flatMap(pieces).partitionBy(len(plan.ranges), int)
    return ROCDigest.from_ranges(ranges.mapPartitions(summaries).collect())


def scores_kept(evaluation: Any) -> int:
    """How many scores an exact evaluation holds."""
    if isinstance(evaluation, ROC):
        return evaluation.examples
    columns = evaluation if hasattr(evaluation, "rocs") else evaluation.roc
    return sum(roc.examples for roc in columns.rocs) if columns is not None else 0


def _itself(part: ROC) -> ROC:
    return part


def _column(number: int) -> Callable[[Any], ROC | None]:
    return lambda part: part.rocs[number] if part.rocs else None


def _counted_between(edges: Any) -> Callable[[ROC], Any]:
    return lambda roc: score_histogram(roc, edges)


def _add(one: Any, other: Any) -> Any:
    return one + other

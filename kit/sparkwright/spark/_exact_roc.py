"""Exact ROCs of more rows than the driver should hold, computed by ranges of scores.

Each partition has counted an exact `ROC`. The driver receives a sample of the scores, the counts
of each range and summaries of the ranges; `sparkwright.evaluation.roc_digest` computes these.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.errors import DataError
from sparkwright.evaluation import ROC, AbstractEvaluation, ROCBinary, ROCDigest, ROCMultiClass
from sparkwright.evaluation.roc_digest import (
    RangeSummary,
    cut,
    range_boundaries,
    range_counts,
    sampling_step,
    score_sample,
    summarize,
)

if TYPE_CHECKING:
    from pyspark import RDD

# Scores of an exact evaluation that are collected on the driver: eight megabytes.
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
        parts: results of the partitions; read four times, so it should be persisted.
        examples: of all parts.
        rows_per_range: rows that one task holds; default four million.

    Raises:
        DataError: if such an evaluation cannot do without its rows.
    """
    if isinstance(kind, ROC):
        [digest] = _digests(parts.map(lambda part: (part,)), rows_per_range) or [ROC()]
        return digest
    if not isinstance(kind, ROCBinary | ROCMultiClass):
        raise DataError(
            f"{type(kind).__name__} with exact ROCs takes {SCORES_ON_DRIVER:,} scores at most. "
            f"Received: more, of {examples:,} examples. Give it thresholds, or evaluate "
            "`ROCBinary()` beside it."
        )
    rocs = tuple(_digests(parts.map(lambda part: part.rocs), rows_per_range))
    return replace(kind, rocs=rocs, rows=examples)


def _digests(parts: "RDD[tuple[ROC, ...]]", rows_per_range: int) -> list[ROCDigest]:
    """A digest of each column; `parts` are the columns' ROCs in each part."""
    parts = parts.filter(lambda rocs: any(roc.examples for roc in rocs))
    step = sampling_step(rows_per_range, parts.count())
    samples = parts.map(lambda rocs: [score_sample(roc, step) for roc in rocs]).collect()
    limits = [
        range_boundaries(np.concatenate(column), rows_per_range=rows_per_range, step=step)
        for column in zip(*samples, strict=True)
    ]
    if not limits:
        return []
    width = len(limits)
    counts = parts.map(
        lambda rocs: [range_counts(roc, limit) for roc, limit in zip(rocs, limits, strict=True)]
    ).treeReduce(lambda one, other: [a + b for a, b in zip(one, other, strict=True)])
    # Number the ranges of all columns; a task holds as many as it may hold rows.
    places = [(column, i) for column in range(width) for i in range(len(limits[column]) + 1)]
    rows = np.array([int(counts[column][:, i].sum()) for column, i in places])
    task_of = (rows.cumsum() - rows) // rows_per_range
    starts = np.cumsum([0, *(len(limit) + 1 for limit in limits)])

    def pieces(rocs: tuple[ROC, ...]) -> Iterator[tuple[int, tuple[int, ROC]]]:
        for roc, limit, start in zip(rocs, limits, starts.tolist()[:-1], strict=True):
            for number, piece in enumerate(cut(roc, limit), start):
                if piece.examples:
                    yield int(task_of[number]), (number, piece)

    def summaries(
        numbered: Iterable[tuple[int, tuple[int, ROC]]],
    ) -> Iterator[tuple[int, RangeSummary]]:
        whole: dict[int, ROC] = {}
        for _, (number, piece) in numbered:
            whole[number] = whole[number] + piece if number in whole else piece
        for number, roc in whole.items():
            column, place = places[number]
            points = max(4, _POINTS // (len(limits[column]) + 1))
            yield column, summarize(roc, counts[column], place, points=points)

    ranges: Any = parts.flatMap(pieces).partitionBy(int(task_of[-1]) + 1, int)
    found = ranges.mapPartitions(summaries).collect()
    return [
        ROCDigest.from_ranges(summary for number, summary in found if number == column)
        for column in range(width)
    ]


def scores_kept(evaluation: Any) -> int:
    """How many scores an exact evaluation holds."""
    if isinstance(evaluation, ROC):
        return evaluation.examples
    columns = evaluation if hasattr(evaluation, "rocs") else evaluation.roc
    return sum(roc.examples for roc in columns.rocs) if columns is not None else 0

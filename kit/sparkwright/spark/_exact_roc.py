"""Exact ROCs of more rows than fit on the driver, computed by ranges of scores.

Each partition has an exact `ROC`. The driver receives a sample of the scores, and counts and
summaries of the ranges; `sparkwright.evaluation.roc_digest` computes these.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.errors import DataError
from sparkwright.evaluation import ROC, AbstractEvaluation, RocColumns, ROCDigest
from sparkwright.evaluation.roc_digest import (
    cut,
    range_boundaries,
    range_counts,
    score_sample,
    summarize,
)

if TYPE_CHECKING:
    from pyspark import RDD

# Maximum number of scores collected on the driver: eight megabytes.
SCORES_ON_DRIVER = 1_000_000
# Rows of a range; one task sorts and holds them.
_ROWS_PER_RANGE = 4_000_000
_POINTS = 10_000


def digested(
    kind: AbstractEvaluation,
    parts: "RDD[Any]",  # read three times, so persist it
    *,
    examples: int,
    rows_per_range: int = _ROWS_PER_RANGE,
) -> AbstractEvaluation:
    """Compute the exact evaluation of all parts without collecting their rows."""
    if isinstance(kind, ROC):
        return _digests(parts.map(lambda part: (part,)), rows_per_range)[0]
    if not isinstance(kind, RocColumns):
        raise DataError(
            f"{type(kind).__name__} with exact ROCs takes at most {SCORES_ON_DRIVER:,} scores. "
            f"Received: more, from {examples:,} examples. Set `thresholds`, or evaluate "
            "`ROCBinary()` as well."
        )
    columns = parts.map(lambda part: part.rocs).filter(bool)
    return replace(kind, rocs=tuple(_digests(columns, rows_per_range)), rows=examples)


def _digests(parts: "RDD[tuple[ROC, ...]]", rows_per_range: int) -> list[ROCDigest]:
    """Return a digest of each column; `parts` are the columns' ROCs in each part."""
    step = max(rows_per_range // (8 * parts.getNumPartitions()), 1)
    samples = parts.map(lambda rocs: [score_sample(roc, step) for roc in rocs]).collect()
    limits = [range_boundaries(c, rows_per_range, step) for c in zip(*samples, strict=True)]
    counts = parts.map(
        lambda rocs: [range_counts(cut(*each)) for each in zip(rocs, limits, strict=True)]
    ).treeReduce(lambda one, other: [a + b for a, b in zip(one, other, strict=True)])

    def pieces(rocs: tuple[ROC, ...]) -> Iterator[tuple[tuple[int, int], ROC]]:
        for column, (roc, limit) in enumerate(zip(rocs, limits, strict=True)):
            for number, piece in enumerate(cut(roc, limit)):
                if piece.examples:
                    yield (column, number), piece

    def summary(place: tuple[int, int], roc: ROC) -> Any:
        column, number = place
        points = max(4, _POINTS // len(counts[column]))
        return column, summarize(roc, counts[column], number, points=points)

    # Small ranges share a task, up to about `rows_per_range` rows.
    starts = np.cumsum([0, *map(len, counts)])
    rows = np.concatenate(counts).sum(axis=1)
    task_of = (rows.cumsum() - rows) // rows_per_range
    found = (
        parts.flatMap(pieces)
        .reduceByKey(
            lambda one, other: one + other,
            int(task_of[-1]) + 1,
            lambda place: int(task_of[starts[place[0]] + place[1]]),
        )
        .map(lambda each: summary(*each))
        .collect()
    )
    return [
        ROCDigest.from_ranges(each for number, each in found if number == column)
        for column in range(len(limits))
    ]

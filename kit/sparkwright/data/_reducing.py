"""Summarize distributed examples in one pass: summaries of chunks, merged in order."""

import operator
from collections.abc import Iterable, Iterator
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.jobs import accumulator, collect
from sparkwright.errors import DataError

from ._skipped import Skipped
from .chunks import from_bytes, row_count
from .dataset import Merge, Summarize, Summary, fold

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

# Maximum number of summaries that one task merges, and that reach the driver.
_FAN_IN = 32


def reduced(
    spark: "SparkSession",
    rdd: "RDD[bytes]",
    summarize: Summarize[Summary],
    merge: Merge[Summary],
    *,
    description: str,
    per_partition: bool = False,
) -> list[Summary | None]:
    """Summarize all partitions in order, or each; None stands for no examples."""

    def of_partition(index: int, chunks: Iterable[bytes]) -> Iterator[tuple[int, Summary | None]]:
        yield index, fold(map(from_bytes, chunks), summarize, merge, partition=index)

    pairs: Any = rdd.mapPartitionsWithIndex(of_partition)
    count = 0 if per_partition else rdd.getNumPartitions()
    merged = partial(_merged, merge=merge)
    # Executors merge in groups, so that few summaries reach the driver.
    if count > _FAN_IN:
        pairs = pairs.mapPartitionsWithIndex(merged)
    while count > _FAN_IN:
        count = -(-count // _FAN_IN)
        pairs = pairs.repartitionAndSortWithinPartitions(count, lambda index: index // _FAN_IN)
        pairs = pairs.mapPartitionsWithIndex(merged)
    found = sorted(collect(spark, pairs, description=description), key=operator.itemgetter(0))
    summaries = [_raised(summary) for _, summary in found]
    return summaries if per_partition else [merge_all(summaries, merge)]


def merge_all(summaries: Iterable[Summary | None], merge: Merge[Summary]) -> Summary | None:
    """Merge summaries in order; None stands for no examples."""
    found = [summary for summary in summaries if summary is not None]
    return reduce(merge, found) if found else None


def _merged(
    index: int, pairs: Iterable[tuple[int, Any]], *, merge: Merge[Any]
) -> Iterator[tuple[int, Any]]:
    """Merge the summaries of a group; yield a DataError, because Spark would retry its task."""
    try:
        yield index, merge_all((_raised(summary) for _, summary in pairs), merge)
    except DataError as error:
        yield index, error


def _raised(summary: Any) -> Any:
    if isinstance(summary, DataError):
        raise summary
    return summary


class SkipTracker:
    """Skipped items of each partition, sent by executors; later attempts replace earlier ones."""

    def __init__(self, context: Any) -> None:
        """Start without any counts."""
        self.done = accumulator(context, dict[int, Skipped], operator.or_)
        self.rdd: RDD[bytes] | None = None

    def so_far(self) -> Skipped:
        """The sum over all completely read partitions."""
        found: dict[int, Skipped] = self.done.value
        return sum((found[index] for index in sorted(found)), Skipped())

    def total(self, spark: "SparkSession") -> Skipped:
        """Return the sum over all partitions; runs a Spark job if some are not completely read."""
        rdd = self.rdd
        assert rdd is not None
        if len(self.done.value) < rdd.getNumPartitions():
            collect(spark, rdd.mapPartitions(_drain), description="count skipped items")
        return self.so_far()


def _drain(chunks: Iterable[bytes]) -> Iterator[None]:
    for chunk in chunks:
        row_count(chunk)  # raises the error stored in a chunk
    yield from ()

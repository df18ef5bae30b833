"""Summarize examples in one pass: summaries of chunks, merged in order."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from sparkwright.cluster.jobs import collect
from sparkwright.errors import DataError

from .chunks import cut, from_bytes
from .dataset import DataSet

if TYPE_CHECKING:
    from pyspark import RDD

    from ._distributed import DistributedDataSet

Summary = TypeVar("Summary")
# (chunk, partition, index of the chunk's first example in the partition) -> summary.
Summarize = Callable[[DataSet, int, int], Summary]
Merge = Callable[[Summary, Summary], Summary]

# Maximum number of summaries that one task merges, and that reach the driver.
_FAN_IN = 32


def fold(
    chunks: Iterable[DataSet],
    summarize: Summarize[Summary],
    merge: Merge[Summary],
    *,
    partition: int | None = None,
) -> Summary | None:
    """Summarize the chunks of a partition; large chunks are cut. Return None without examples.

    A DataError names the partition, unless `partition` is None (local data).
    """
    total: Summary | None = None
    start = 0
    try:
        for chunk in (piece for whole in chunks for piece in cut(whole)):
            found = summarize(chunk, partition or 0, start)
            total = found if total is None else merge(total, found)
            start += len(chunk)
    except DataError as error:
        where = "" if partition is None else f" The error is in partition {partition}."
        raise DataError(f"{error}{where}") from None
    return total


def merge_all(summaries: Iterable[Summary | None], merge: Merge[Summary]) -> Summary | None:
    """Merge summaries in order; None stands for no examples."""
    found = [summary for summary in summaries if summary is not None]
    return reduce(merge, found) if found else None


def reduce_partitions(
    data: "DistributedDataSet",
    summarize: Summarize[Summary],
    merge: Merge[Summary],
    *,
    description: str,
) -> list[Summary | None]:
    """Summarize each partition in one Spark job; None for empty partitions."""
    pairs = collect(data.spark, _summaries(data, summarize, merge), description=description)
    return [found for _, found in sorted(pairs, key=itemgetter(0))]


def reduce_all(
    data: "DistributedDataSet",
    summarize: Summarize[Summary],
    merge: Merge[Summary],
    *,
    description: str,
) -> Summary | None:
    """Summarize all partitions, merged in order; None without examples.

    The executors merge many partitions in groups, so that few summaries reach the driver.
    """
    pairs: Any = _summaries(data, summarize, merge)
    count = data.rdd.getNumPartitions()
    merged = partial(_merged, merge=merge)
    if count > _FAN_IN:
        pairs = pairs.mapPartitionsWithIndex(merged)
    while count > _FAN_IN:
        count = -(-count // _FAN_IN)
        pairs = pairs.repartitionAndSortWithinPartitions(count, lambda index: index // _FAN_IN)
        pairs = pairs.mapPartitionsWithIndex(merged)
    found = collect(data.spark, pairs, description=description)
    return merge_all((_raised(summary) for _, summary in sorted(found, key=itemgetter(0))), merge)


def _summaries(
    data: "DistributedDataSet", summarize: Summarize[Summary], merge: Merge[Summary]
) -> "RDD[tuple[int, Summary | None]]":
    def of_partition(index: int, chunks: Iterable[bytes]) -> Iterator[tuple[int, Summary | None]]:
        yield index, fold(map(from_bytes, chunks), summarize, merge, partition=index)

    return data.rdd.mapPartitionsWithIndex(of_partition)


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

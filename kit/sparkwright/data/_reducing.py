"""One pass over a distributed data set that ends in something small."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright.errors import DataError

from ._arrow import from_bytes
from ._folding import Merge, Summarise, Summary, fold, merge_all

if TYPE_CHECKING:
    from pyspark import RDD

    from ._distributed import DistributedDataSet

# As many summaries are merged by one task, and at most as many reach the driver.
_FAN_IN = 32


def reduce_partitions(
    data: "DistributedDataSet",
    summarise: Summarise[Summary],
    merge: Merge[Summary],
    *,
    description: str,
) -> list[Summary | None]:
    """The summary of each partition, in order; None where one is empty. One Spark job."""
    from sparkwright.spark._jobs import collect

    pairs = collect(data.spark, _summaries(data, summarise, merge), description=description)
    return [found for _, found in sorted(pairs, key=_index)]


def reduce_all(
    data: "DistributedDataSet",
    summarise: Summarise[Summary],
    merge: Merge[Summary],
    *,
    description: str,
) -> Summary | None:
    """The summary of everything, merged in the order of partitions; None where there is nothing.

    Many partitions are merged in groups on the executors, so the driver holds few summaries.
    """
    from sparkwright.spark._jobs import collect

    pairs: Any = _summaries(data, summarise, merge)
    count = data.rdd.getNumPartitions()
    if count > _FAN_IN:
        pairs = pairs.mapPartitionsWithIndex(_with_error_paired)
    while count > _FAN_IN:
        count = -(-count // _FAN_IN)
        grouped: Any = pairs.map(partial(_with_group, size=_FAN_IN)).groupByKey(count, int)
        pairs = grouped.map(partial(_merge_group, merge=merge))
    found = collect(data.spark, pairs, description=description)
    for _, summary in found:
        if isinstance(summary, DataError):
            raise summary
    return merge_all((summary for _, summary in sorted(found, key=_index)), merge)


def _summaries(
    data: "DistributedDataSet", summarise: Summarise[Summary], merge: Merge[Summary]
) -> "RDD[tuple[int, Summary | None]]":
    def of_partition(index: int, chunks: Iterable[bytes]) -> Iterator[tuple[int, Summary | None]]:
        yield index, fold(map(from_bytes, chunks), summarise, merge, partition=index)

    return data.rdd.mapPartitionsWithIndex(of_partition)


def _with_error_paired(index: int, pairs: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Send a DataError through the shuffle: Spark would run the task three times more."""
    try:
        yield from pairs
    except DataError as error:
        yield index, error


def _index(pair: tuple[int, Any]) -> int:
    return pair[0]


def _with_group(pair: tuple[int, Any], *, size: int) -> tuple[int, tuple[int, Any]]:
    return pair[0] // size, pair


def _merge_group(
    group: tuple[int, Iterable[tuple[int, Any]]], *, merge: Merge[Any]
) -> tuple[int, Any]:
    members = sorted(group[1], key=_index)
    error = next((summary for _, summary in members if isinstance(summary, DataError)), None)
    if error is None:
        try:
            return group[0], merge_all((summary for _, summary in members), merge)
        except DataError as met:
            error = met
    return group[0], error

"""Distributed data sets made of pieces that executors read: files, parts of files, batches.

All file formats use `from_pieces`: the driver lists pieces, and executors read them. Skipped items
are counted once, even if Spark repeats a task.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sparkwright.cluster.connect import context_of
from sparkwright.options import check_count

from ._distributed import DistributedDataSet
from ._reducing import SkipTracker
from ._skipped import OnError, SkipLog, check_on_error
from .chunks import errors_as_chunks, to_chunks
from .dataset import DataSet

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
_PARTITION_BYTES = 128 << 20


def check_partitions(partitions: Any) -> None:
    """Raise ConfigurationError unless `partitions` is a count or None."""
    check_count("partitions", partitions, optional=True)


def from_pieces(
    spark: "SparkSession",
    pieces: Sequence[Any],
    read: Callable[[Any, SkipLog], Iterable[DataSet]],
    *,
    sizes: Sequence[int],
    partitions: int | None = None,
    on_error: OnError = "raise",
    fingerprint: str | None = None,
    class_names: Mapping[str, Sequence[str]] | None = None,
) -> DistributedDataSet:
    """Create a data set by applying `read` to picklable `pieces`, in order; `sizes` in bytes."""
    check_on_error(on_error)
    return read_groups(
        spark,
        group_by_size(pieces, sizes, partition_count(spark, sizes, partitions)),
        partial(_each, read=read),
        on_error=on_error,
        fingerprint=fingerprint,
        class_names=class_names,
    )


def _each(
    pieces: Iterable[Any], log: SkipLog, *, read: Callable[[Any, SkipLog], Iterable[DataSet]]
) -> Iterator[DataSet]:
    for piece in pieces:
        yield from read(piece, log)


def read_groups(
    spark: "SparkSession",
    groups: "Sequence[list[Any]] | RDD[list[Any]]",
    read: Callable[[Iterable[Any], SkipLog], Iterable[Any]],
    *,
    on_error: OnError,
    gives_chunks: bool = False,
    **known: Any,
) -> DistributedDataSet:
    """Create a data set by applying `read` to the pieces of each partition."""
    check_on_error(on_error)
    context = context_of(spark)
    rdd: Any = groups
    if isinstance(groups, Sequence):
        rdd = context.parallelize(groups, len(groups))
    tracker = SkipTracker(context)

    @errors_as_chunks
    def read_partition(index: int, groups: Iterable[list[Any]]) -> Iterator[bytes]:
        log = SkipLog(on_error)
        found = read((piece for group in groups for piece in group), log)
        yield from found if gives_chunks else to_chunks(found)
        done.add({index: log.skipped})

    done = tracker.done
    rdd = tracker.rdd = rdd.mapPartitionsWithIndex(read_partition)
    return DistributedDataSet(spark, rdd, skip_tracker=tracker, **known)


def partition_count(spark: "SparkSession", sizes: Sequence[int], partitions: int | None) -> int:
    """Return the requested number of partitions, or a default by parallelism and bytes."""
    check_partitions(partitions)
    least = -(-sum(sizes) // _PARTITION_BYTES)
    return partitions or max(context_of(spark).defaultParallelism, least)


def group_by_size(items: Sequence[Item], sizes: Sequence[int], groups: int) -> list[list[Item]]:
    """Group consecutive items into at most `groups` non-empty groups of similar total size.

    If all sizes are 0, the groups have similar numbers of items.
    """
    found: list[list[Item]] = []
    if not any(sizes):
        sizes = [1] * len(sizes)
    left, total = len(sizes), sum(sizes)
    done = 0
    for item, size in zip(items, sizes, strict=True):
        # Start a new group where the running total passes the next equal fraction of the whole.
        opens = not found or (done + size / 2) * groups >= total * len(found)
        if (opens and len(found) < groups) or len(found) + left <= min(groups, len(sizes)):
            found.append([])
        found[-1].append(item)
        done += size
        left -= 1
    return found or [[]]

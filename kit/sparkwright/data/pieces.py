"""A distributed data set made of pieces that executors read: files, parts of files, batches.

Every file format goes through `from_pieces`: the driver lists pieces, executors read them, what
they skip is counted once however often Spark runs a task.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import accumulator, collect
from sparkwright.errors import DataError
from sparkwright.options import check_choice, check_count

from ._distributed import DistributedDataSet
from ._skipped import Skipped
from .chunks import errors_as_chunks, row_count, to_chunks
from .dataset import DataSet

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

OnError = Literal["raise", "skip"]
_PARTITION_BYTES = 128 << 20


class SkipLog:
    """Where a reader reports what it cannot use: an error, or counted and skipped.

    Attributes:
        raises: whether the first report ends the reading.
        skipped: what has been reported so far.
    """

    def __init__(self, on_error: OnError, told: Callable[[str, str], None] | None = None) -> None:
        """Raise at the first report, or go on; or call `told` with each reason and message."""
        self.raises, self._told = on_error == "raise", told
        self.skipped = Skipped()

    def skip(
        self,
        reason: str,
        message: str,
        *,
        count: int = 1,
        is_wanted: bool = False,
        column: str = "",
        received: str = "",
    ) -> None:
        """Report `count` items, as an `UnusableItem` has it; the caller goes on without them.

        Args:
            reason: a few words, the same for all items of a kind.
            message: rule, value received, remedy.
            count: how many items.
            is_wanted: whether they are left out on request, which is never an error.
            column: the column with the invalid values, for previews; default: none.
            received: the invalid text, for previews; default: not known.

        Raises:
            DataError: `message`, with `on_error="raise"`.
        """
        if is_wanted:
            self.skipped = self.skipped + Skipped.of(reason, message, count=count)
        elif self._told is not None:
            self._told(reason, message)
        elif self.raises:
            raise DataError(f'{message} Or leave such items out: `on_error="skip"`.')
        else:
            self.skipped = self.skipped + Skipped.of(reason, message, count=count)


def check_on_error(on_error: str) -> None:
    """Raise ConfigurationError unless `on_error` is "raise" or "skip"."""
    check_choice("on_error", on_error, ("raise", "skip"))


def check_partitions(partitions: Any) -> None:
    """Raise ConfigurationError unless `partitions` is a count, or None."""
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
    """Distribute what `read` makes of `pieces`, in their order.

    Args:
        spark: the session.
        pieces: picklable descriptions of what to read.
        read: piece, log -> DataSets; runs on executors, small ones are joined to chunks.
        sizes: about how many bytes each piece is: partitions get equal shares.
        partitions: how many, at most one a piece; default None: Spark's default parallelism, or
            more if a partition would hold more than 128 MiB.
        on_error: what `log.skip` does; "raise" (default) or "skip".
        fingerprint: changes when the pieces, their content or the way they are read change.
        class_names: output name -> names of its classes.
    """
    check_on_error(on_error)
    groups = group_by_size(sizes, partition_count(spark, sizes, partitions))
    return read_groups(
        spark,
        [[pieces[i] for i in group] for group in groups],
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
    """Distribute the examples that `read` makes of the pieces of each partition.

    Args:
        spark: the session.
        groups: the pieces of each partition; or an RDD of pieces in lists, which keeps its own.
        read: all pieces of a partition, log -> DataSets; runs on executors.
        on_error: what `log.skip` does.
        gives_chunks: `read` gives chunks instead of DataSets.
        known: what else is known of the data: arguments of `DistributedDataSet`.
    """
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
    """How many partitions to make: as asked for, or by Spark's parallelism and the bytes."""
    check_partitions(partitions)
    least = -(-sum(sizes) // _PARTITION_BYTES)
    return partitions or max(context_of(spark).defaultParallelism, least)


def group_by_size(sizes: Sequence[int], groups: int) -> list[list[int]]:
    """Consecutive indices in at most `groups` groups of about the same total size, none empty.

    Where no size is above 0, groups are of about the same number.

    Example:
        >>> group_by_size([4, 1, 1, 2], 2)
        [[0], [1, 2, 3]]
    """
    found: list[list[int]] = []
    if not any(sizes):
        sizes = [1] * len(sizes)
    left, total = len(sizes), sum(sizes)
    done = 0
    for index, size in enumerate(sizes):
        # A new group where the running total passes the next equal share of the whole.
        opens = not found or (done + size / 2) * groups >= total * len(found)
        if (opens and len(found) < groups) or len(found) + left <= min(groups, len(sizes)):
            found.append([])
        found[-1].append(index)
        done += size
        left -= 1
    return found or [[]]


class SkipTracker:
    """What each partition of a source skipped; told by executors, a later attempt replaces."""

    def __init__(self, context: Any) -> None:
        """Nothing known yet."""
        self.done = accumulator(context, dict[int, Skipped], operator.or_)
        self.rdd: RDD[bytes] | None = None

    def so_far(self) -> Skipped:
        """The sum over the partitions that have been read to their end."""
        found: dict[int, Skipped] = self.done.value
        return sum((found[index] for index in sorted(found)), Skipped())

    def total(self, spark: "SparkSession") -> Skipped:
        """The sum over all partitions; a Spark job if some have not been read to their end yet."""
        rdd = self.rdd
        assert rdd is not None
        if len(self.done.value) < rdd.getNumPartitions():
            collect(spark, rdd.mapPartitions(_drain), description="count what is skipped")
        return self.so_far()


def _drain(chunks: Iterable[bytes]) -> Iterator[None]:
    for chunk in chunks:
        row_count(chunk)  # raises the error that a chunk carries
    yield from ()

"""Shuffle the examples of an RDD of chunks, at random or to given partitions.

A chunk is `to_bytes(DataSet)`: Arrow bytes of one or more examples. Chunks are split and joined as
arrays, without a Python object per example.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparkwright.cluster.jobs import collect, run_job
from sparkwright.errors import DataError

from ._splitting import Data, assigned, balanced_sizes, draw_quotas
from .chunks import (
    CHUNK_BYTES,
    error_to_bytes,
    errors_as_chunks,
    from_bytes,
    joined_chunks,
    row_count,
    to_bytes,
    to_chunks,
)
from .dataset import DataSet, check_integer, cut

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

_BLOCK_BYTES = 8 << 20  # size of the blocks that a shuffle permutes in memory
# Smaller than a chunk: PySpark buffers about ten pieces per target before writing.
_PIECE_BYTES = CHUNK_BYTES // 4
_SORTED_BYTES = 32 * CHUNK_BYTES  # examples that a task sorts by target at a time

# (target, source partition, index of the piece's first example in it). Sorting by key restores the
# original order of the examples of a target.
Key = tuple[int, int, int]


class Destined(Protocol):
    """Maps examples to targets; see `Placement`."""

    def destinations(self, source: int, start: int, stop: int) -> NDArray[np.int32]:
        """Return the (stop - start,) int32 targets of examples `start` to `stop` of `source`."""
        ...


def count_examples(
    spark: "SparkSession", rdd: "RDD[bytes]", *, description: str = "count examples"
) -> list[int]:
    """Count the examples of each partition, in one Spark job that reads only chunk headers."""
    found = collect(spark, rdd.mapPartitionsWithIndex(_count_partition), description=description)
    return [count for _, count in sorted(found)]


def place(
    rdd: "RDD[bytes]",
    placement: Destined,
    *,
    source_counts: Sequence[int],
    partitions: int,
    partition_of: Callable[[int], int] = int,
    join: Callable[[Iterable[tuple[Key, bytes]]], Iterator[bytes]] | None = None,
) -> "RDD[bytes]":
    """Send every example to its target, in one shuffle; `join` joins pieces sorted by key."""
    # Any: PySpark's annotations of the sort below do not accept tuple keys.
    pieces: Any = rdd.mapPartitionsWithIndex(
        partial(
            _pieces_or_error,
            partitions=partitions,
            placement=placement,
            source_counts=tuple(source_counts),
        )
    )
    placed = pieces.repartitionAndSortWithinPartitions(
        partitions, partial(_target_of, partition_of=partition_of)
    )
    return placed.mapPartitions(errors_as_chunks(_joined if join is None else join))


def _count_partition(partition: int, chunks: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    # A generator, so that errors are raised during iteration, where `collect` handles them.
    yield partition, sum(map(row_count, chunks))


def _target_of(key: Key, *, partition_of: Callable[[int], int]) -> int:
    # The key of an error encodes the partition instead of a target.
    return -1 - key[0] if key[0] < 0 else partition_of(key[0])


def _pieces_or_error(
    source: int, chunks: Iterable[bytes], *, partitions: int, **options: Any
) -> Iterator[tuple[Key, bytes]]:
    """Yield `_pieces`; a DataError is sent to every partition, where it sorts first."""
    try:
        yield from _pieces(source, chunks, **options)
    except DataError as error:
        for partition in range(partitions):
            yield (-1 - partition, source, 0), error_to_bytes(error)


def _pieces(
    source: int, chunks: Iterable[bytes], *, placement: Destined, source_counts: tuple[int, ...]
) -> Iterator[tuple[Key, bytes]]:
    """Split one partition's chunks by target; runs on an executor."""
    expected, start = source_counts[source], 0
    for block in joined_chunks(map(from_bytes, chunks), _SORTED_BYTES):
        stop = start + len(block)
        if stop > expected:
            raise _changed_data(source, expected, f"at least {stop}")
        for target, rows in _runs(placement.destinations(source, start, stop)):
            first = 0
            for piece in cut(block.take(rows), _PIECE_BYTES):
                yield (target, source, start + int(rows[first])), to_bytes(piece)
                first += len(piece)
        start = stop
    if start != expected:
        raise _changed_data(source, expected, str(start))


def _runs(targets: NDArray[np.int32]) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.intp]]]]:
    """Yield each target and its rows, in increasing order."""
    order = np.argsort(targets, kind="stable")
    starts = np.flatnonzero(np.diff(targets[order])) + 1
    for rows in np.split(order, starts):
        yield int(targets[rows[0]]), rows


def _joined(placed: Iterable[tuple[Key, bytes]]) -> Iterator[bytes]:
    """Join sorted pieces to chunks; runs on an executor."""
    return to_chunks(from_bytes(piece) for _, piece in placed)


def _changed_data(source: int, expected: int, found: str) -> DataError:
    return DataError(
        f"the data must not change after it is counted: {expected} examples in partition "
        f"{source}. Received: {found}. Make the data deterministic (seed its random steps), or "
        "persist it before it is counted."
    )


# -- at random


def shuffle(data: Data, *, partitions: int | None, seed: int) -> Data:
    """See `DistributedDataSet.shuffle`."""
    check_integer("seed", seed, minimum=0)
    if partitions is not None:
        check_integer("partitions", partitions)
    counts = data.partition_counts()
    wanted = partitions or max(1, len(counts))
    total_bytes = sum(counts) * _example_bytes(data.spark, data.rdd) if sum(counts) else 0
    blocks = max(1, -(-total_bytes // (wanted * _BLOCK_BYTES)))
    placement = RandomBlocks(counts, partitions=wanted, blocks=blocks, seed=seed)
    placed = place(
        data.rdd,
        placement,
        source_counts=counts,
        partitions=wanted,
        partition_of=lambda block: block // blocks,
        join=partial(_permuted, seed=seed),
    )
    step = f"shuffle {wanted} {blocks} {seed}"
    return data.derive(placed, step=step, counts=placement.target_counts)


def _example_bytes(spark: "SparkSession", rdd: "RDD[bytes]") -> int:
    chunks = run_job(spark, lambda: rdd.take(1), description="look at one chunk")
    return max(1, len(chunks[0]) // max(1, row_count(chunks[0])))


def _permuted(
    placed: Iterable[tuple[tuple[int, int, int], bytes]], *, seed: int
) -> Iterator[bytes]:
    for block, pieces in groupby(placed, key=lambda element: element[0][0]):
        datasets = [from_bytes(piece) for _, piece in pieces]
        order = order_of(block, sum(map(len, datasets)), seed=seed)
        if all(dataset.layout == datasets[0].layout for dataset in datasets):
            datasets = [DataSet.concatenate(datasets).take(order)]
        else:
            singles = [one for dataset in datasets for one in dataset.batches(1)]
            datasets = [singles[number] for number in order]
        yield from to_chunks(datasets)


class RandomBlocks:
    """Placement of a shuffle: assigns each example to one of `partitions * blocks` blocks.

    With a random order within each block (`order_of`), all orders of a partition are as likely.
    """

    def __init__(
        self, source_counts: tuple[int, ...], *, partitions: int, blocks: int, seed: int
    ) -> None:
        """Draw the number of examples per source and target partition."""
        self.source_counts, self.partitions, self.blocks = source_counts, partitions, blocks
        self._seed = seed
        sizes = balanced_sizes(sum(source_counts), partitions)
        self.target_counts = tuple(sizes.tolist())
        self.quotas: NDArray[np.int32] = draw_quotas(source_counts, sizes, [seed, 1]).astype(
            np.int32
        )
        self._known: tuple[int, NDArray[np.int32]] | None = None

    def destinations(self, source: int, start: int, stop: int) -> NDArray[np.int32]:
        """Return the (stop - start,) int32 blocks of examples [start, stop) of `source`."""
        if self._known is None or self._known[0] != source:
            targets = assigned(self.quotas[source], [self._seed, 2, source])
            chance = np.random.default_rng([self._seed, 4, source])
            targets *= self.blocks
            targets += chance.integers(self.blocks, size=len(targets), dtype=np.int32)
            self._known = source, targets
        return self._known[1][start:stop]


def order_of(block: int, count: int, *, seed: int) -> NDArray[np.int64]:
    """Return the random order of the `count` examples of a block."""
    return np.random.default_rng([seed, 3, block]).permutation(count)

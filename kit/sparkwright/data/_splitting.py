"""Random splits and shuffles of distributed data; every example occurs exactly once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparkwright.cluster.jobs import run_job
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_number

from ._reducing import reduce_partitions
from ._splits import (
    Assignment,
    Counts,
    PartQuotas,
    RandomBlocks,
    apportion,
    check_weights,
    draw_quotas,
    equal_sizes,
    order_of,
    stratified_sizes,
)
from .chunks import errors_as_chunks, from_bytes, joined_chunks, row_count, to_bytes
from .classes import add_counts, class_of_each_example, class_output, count_classes
from .dataset import DataSet, check_integer
from .shuffling import place

if TYPE_CHECKING:
    from pyspark import Broadcast

    from ._distributed import DistributedDataSet

Data = TypeVar("Data", bound="DistributedDataSet")
_BLOCK_BYTES = 8 << 20  # size of the blocks that a shuffle permutes in memory


def split_randomly(data: Data, weights: Sequence[float], *, exact: bool, seed: int) -> list[Data]:
    """See `DistributedDataSet.random_split`."""
    check_integer("seed", seed, minimum=0)
    shares = check_weights(weights)
    if exact:
        return _split_to_sizes(data, apportion(data.count(), weights), seed=seed)
    edges = np.concatenate([[0.0], np.cumsum(shares)])
    edges[-1] = np.inf
    return [
        data.derive(
            data.rdd.mapPartitionsWithIndex(partial(_within, seed=seed, low=low, high=high)),
            step=f"random_split {low} {high} {seed}",
        )
        for low, high in pairwise(edges.tolist())
    ]


def split_to_equal_sizes(data: Data, examples_per_part: int, *, seed: int) -> list[Data]:
    """See `DistributedDataSet.balanced_split`."""
    check_integer("seed", seed, minimum=0)
    check_integer("examples_per_part", examples_per_part)
    return _split_to_sizes(data, equal_sizes(data.count(), examples_per_part), seed=seed)


def sample(data: Data, size: int | None, fraction: float | None, *, seed: int) -> Data:
    """See `DistributedDataSet.sample`."""
    check_integer("seed", seed, minimum=0)
    if (size is None) == (fraction is None):
        raise ConfigurationError(
            "exactly one of `size` and `fraction` must be set. Received: "
            f"size={size!r}, fraction={fraction!r}."
        )
    if size is not None:
        check_integer("size", size, minimum=0)
    check_number("fraction", fraction, minimum=0, maximum=1, optional=True)
    count = data.count()
    drawn = round(count * fraction) if fraction is not None else int(size or 0)
    if drawn > count:
        raise DataError(
            f"`size` must be at most the number of examples, {count}. Received: size={size}."
        )
    return _split_to_sizes(data, np.array([drawn, count - drawn]), seed=seed)[0]


def split_stratified(
    data: Data, weights: Sequence[float], *, label: str | None, seed: int
) -> list[Data]:
    """See `DistributedDataSet.stratified_split`."""
    check_integer("seed", seed, minimum=0)
    shares = check_weights(weights)

    def classes_of(chunk: DataSet) -> NDArray[np.int64]:
        return class_of_each_example(chunk, class_output(chunk, label))

    found = reduce_partitions(
        data,
        lambda chunk, *_: count_classes(classes_of(chunk)),
        add_counts,
        description="count classes",
    )
    counts = [known or {} for known in found]
    classes = sorted({number for known in counts for number in known})
    totals = [sum(known.get(number, 0) for known in counts) for number in classes]
    sizes = stratified_sizes(totals, weights)
    # Empty data has no class, but may have partitions.
    wanted = dict(zip(classes, sizes, strict=True)) or {0: np.zeros(len(weights), np.int64)}
    step = f"stratified_split {shares.tolist()} {label} {seed}"
    return _parts(
        data, counts, wanted, lambda chunk: classes_of(from_bytes(chunk)), seed=seed, step=step
    )


def shuffle(data: Data, *, partitions: int | None, seed: int) -> Data:
    """See `DistributedDataSet.shuffle`."""
    check_integer("seed", seed, minimum=0)
    if partitions is not None:
        check_integer("partitions", partitions)
    counts = data.partition_counts()
    wanted = partitions or max(1, len(counts))
    total_bytes = sum(counts) * _example_bytes(data) if sum(counts) else 0
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


def _split_to_sizes(data: Data, sizes: Counts, *, seed: int) -> list[Data]:
    counts = [{0: count} for count in data.partition_counts()]
    step = f"split to sizes {sizes.tolist()} {seed}"
    return _parts(
        data, counts, {0: sizes}, lambda c: np.zeros(row_count(c), np.int64), seed=seed, step=step
    )


def _parts(
    data: Data,
    counts: Sequence[Mapping[int, int]],
    sizes: Mapping[int, Counts],
    classes_of: Callable[[bytes], NDArray[np.int64]],
    *,
    seed: int,
    step: str,
) -> list[Data]:
    """Split into parts with `sizes` per class; `counts` holds class -> examples per partition."""
    drawn = {
        number: draw_quotas([known.get(number, 0) for known in counts], wanted, [seed, index])
        for index, (number, wanted) in enumerate(sizes.items())
    }
    quotas = PartQuotas.of(drawn)
    # A broadcast is deserialized once per worker process, not once per task.
    shared = data.rdd.context.broadcast(quotas)
    return [
        data.derive(
            data.rdd.mapPartitionsWithIndex(
                partial(_part, part=part, quotas=shared, classes_of=classes_of, seed=seed)
            ),
            step=f"{step} part {part}",
            counts=quotas.part_counts(part),
        )
        for part in range(quotas.counts.shape[1])
    ]


@errors_as_chunks
def _part(
    index: int,
    chunks: Iterable[bytes],
    *,
    part: int,
    quotas: "Broadcast[PartQuotas]",
    classes_of: Callable[[bytes], NDArray[np.int64]],
    seed: int,
) -> Iterator[bytes]:
    assignment = Assignment(quotas.value.of_partition(index), [seed, index], partition=index)
    for chunk in chunks:
        yield from _selected(chunk, assignment.take(classes_of(chunk)) == part)
    assignment.finish()


@errors_as_chunks
def _within(
    index: int, chunks: Iterable[bytes], *, seed: int, low: float, high: float
) -> Iterator[bytes]:
    random = np.random.default_rng([seed, index])
    for chunk in chunks:
        draws = random.random(row_count(chunk))
        yield from _selected(chunk, (draws >= low) & (draws < high))


def _selected(chunk: bytes, chosen: NDArray[np.bool_]) -> Iterator[bytes]:
    if chosen.all():
        yield chunk
    elif chosen.any():
        yield to_bytes(from_bytes(chunk).take(chosen))


def _example_bytes(data: "DistributedDataSet") -> int:
    chunks = run_job(data.spark, lambda: data.rdd.take(1), description="look at one chunk")
    return max(1, len(chunks[0]) // max(1, row_count(chunks[0])))


def _permuted(
    placed: Iterable[tuple[tuple[int, int, int], bytes]], *, seed: int
) -> Iterator[bytes]:
    for block, pieces in groupby(placed, key=lambda element: element[0][0]):
        datasets = [from_bytes(piece) for _, piece in pieces]
        order = order_of(block, sum(map(len, datasets)), seed=seed)
        if all(dataset.layout == datasets[0].layout for dataset in datasets):
            joined = DataSet.concatenate(datasets)
            # In pieces, to avoid a second copy of the whole block.
            row_bytes = max(1, joined.size_bytes // max(1, len(joined)))
            rows = max(1, (1 << 20) // row_bytes)
            for start in range(0, len(order), rows):
                yield to_bytes(joined.take(order[start : start + rows]))
        else:
            singles = [one for dataset in datasets for one in dataset.split()]
            yield from map(to_bytes, joined_chunks(singles[number] for number in order))

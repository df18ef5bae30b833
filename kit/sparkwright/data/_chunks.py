"""Cutting and joining DataSets: chunks of about a megabyte, minibatches of an exact size."""

from collections.abc import Iterable, Iterator

from ._dataset import DataSet

# Chunks are large enough that Spark's cost a record does not matter, small enough to stream.
CHUNK_BYTES = 1 << 20


def cut(dataset: DataSet, size_bytes: int = CHUNK_BYTES) -> Iterator[DataSet]:
    """`dataset` in consecutive pieces of about `size_bytes`, of one example at least."""
    if not len(dataset):
        return
    row_bytes = dataset.size_bytes / len(dataset)
    yield from dataset.batches(max(1, int(size_bytes / max(row_bytes, 1))))


def batched(datasets: Iterable[DataSet], batch_size: int) -> Iterator[DataSet]:
    """Cut and join into DataSets of exactly `batch_size` examples, the last one smaller.

    Order is kept; nothing is lost or doubled. Holds one minibatch and one of `datasets` at a time.

    Raises:
        DataError: if they differ in columns, dtypes or shapes.

    Example:
        >>> import numpy as np
        >>> parts = [DataSet(np.zeros((n, 2))) for n in (1, 5, 3)]
        >>> [len(minibatch) for minibatch in batched(parts, 4)]
        [4, 4, 1]
    """
    waiting: list[DataSet] = []
    rows = 0
    for dataset in datasets:
        if not len(dataset):
            continue
        waiting.append(dataset)
        rows += len(dataset)
        if rows >= batch_size:
            joined = DataSet.concatenate(waiting)
            full = rows - rows % batch_size
            yield from joined.take(slice(0, full)).batches(batch_size)
            waiting = [joined.take(slice(full, rows))] if full < rows else []
            rows -= full
    if rows:
        yield DataSet.concatenate(waiting)


def joined_chunks(datasets: Iterable[DataSet]) -> Iterator[DataSet]:
    """Small DataSets joined, large ones cut, to pieces of about a chunk; order is kept.

    Neighbours of different columns or shapes, as sequences of different length, stay apart.
    """
    waiting: list[DataSet] = []
    size_bytes = 0
    for dataset in datasets:
        if waiting and waiting[0].layout != dataset.layout:
            yield from cut(DataSet.concatenate(waiting))
            waiting, size_bytes = [], 0
        waiting.append(dataset)
        size_bytes += dataset.size_bytes
        if size_bytes >= CHUNK_BYTES:
            yield from cut(DataSet.concatenate(waiting))
            waiting, size_bytes = [], 0
    if waiting:
        yield from cut(DataSet.concatenate(waiting))

"""Chunks: DataSets of about 1 MiB, serialized as Arrow streams between Spark tasks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, wraps
from itertools import groupby
from operator import attrgetter
from typing import Any, ParamSpec

import numpy as np

from sparkwright.errors import DataError

from ._tensors import ROWS, columns_of, to_batch
from .dataset import CHUNK_BYTES, DataSet, cut

_ERROR = b"sparkwright.error\n"  # no Arrow stream starts with it

P = ParamSpec("P")


def to_bytes(dataset: DataSet) -> bytes:
    """Serialize to an Arrow IPC stream of one record batch; rows are fixed-shape tensors."""
    import pyarrow as pa

    batch = to_batch(dataset.columns(), len(dataset))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def error_to_bytes(error: DataError) -> bytes:
    """Serialize `error` as a chunk; `from_bytes` and `row_count` raise it."""
    return _ERROR + str(error).encode()


def errors_as_chunks(function: Callable[P, Iterable[bytes]]) -> Callable[P, Iterator[bytes]]:
    """Make a generator of chunks yield its DataError last: Spark would retry an exception."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Iterator[bytes]:
        try:
            yield from function(*args, **kwargs)
        except DataError as error:
            yield error_to_bytes(error)

    return guarded


def from_bytes(content: bytes) -> DataSet:
    """Deserialize a chunk; the arrays are read-only views of `content`.

    Raises:
        DataError: the error of a chunk made by `error_to_bytes`.
    """
    import pyarrow as pa

    _raise_error(content)
    # The stream starts with the schema message: a marker, the message length, the message.
    end = 8 + int.from_bytes(content[4:8], "little")
    schema = _schema(bytes(content[:end]))
    batch = pa.ipc.read_record_batch(pa.py_buffer(content)[end:], schema)
    return DataSet.from_columns(columns_of(batch))


@lru_cache(64)
def _schema(message: bytes) -> Any:
    """Cached: most chunks share a schema, and parsing it takes longer than reading the arrays."""
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(message))


def row_count(content: bytes) -> int:
    """Return the number of examples, read from the schema; raises as `from_bytes`."""
    import pyarrow as pa

    _raise_error(content)
    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return int((reader.schema.metadata or {})[ROWS])


def _raise_error(content: bytes) -> None:
    if content[: len(_ERROR)] == _ERROR:
        raise DataError(bytes(content[len(_ERROR) :]).decode())


def batched(datasets: Iterable[DataSet], batch_size: int) -> Iterator[DataSet]:
    """Regroup into DataSets of exactly `batch_size` examples; the last one may be smaller.

    The order is kept. Memory holds one minibatch and one of `datasets` at a time.

    Raises:
        DataError: if `datasets` differ in columns, dtypes or shapes.

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


def joined_chunks(datasets: Iterable[DataSet], size_bytes: int = CHUNK_BYTES) -> Iterator[DataSet]:
    """Join small DataSets of the same columns and shapes, cut large ones to about `size_bytes`."""
    for _, alike in groupby(datasets, key=attrgetter("layout")):
        waiting: list[DataSet] = []
        waiting_bytes = 0
        for dataset in alike:
            if waiting and waiting_bytes + dataset.size_bytes > size_bytes:
                yield from cut(DataSet.concatenate(waiting), size_bytes)
                waiting, waiting_bytes = [], 0
            waiting.append(dataset)
            waiting_bytes += dataset.size_bytes
        yield from cut(DataSet.concatenate(waiting), size_bytes)


def to_chunks(datasets: Iterable[DataSet]) -> Iterator[bytes]:
    """Regroup with `joined_chunks` and serialize."""
    return map(to_bytes, joined_chunks(datasets))


def datasets_of(data: Any) -> Iterator[DataSet]:
    """Convert the `data` argument of `to_minibatch_files` to DataSets of any size."""
    if isinstance(data, DataSet):
        yield from cut(data)
    elif isinstance(data, tuple) and data and all(isinstance(part, DataSet) for part in data):
        yield from data
    elif isinstance(data, (tuple, np.ndarray, Mapping)):
        yield from cut(_dataset(data, 0))
    else:
        for number, batch in enumerate(_batches(data)):
            yield _dataset(batch, number)


def _batches(data: Any) -> Iterable[Any]:
    if isinstance(data, list) and len(data) in (2, 3):  # pyright: ignore[reportUnknownArgumentType]
        parts: list[Any] = data  # pyright: ignore[reportUnknownVariableType]
        if not any(isinstance(part, (DataSet, tuple, Mapping)) for part in parts):
            raise DataError(
                "a list must hold batches, each a DataSet or a tuple. Received: a list of "
                f"{len(parts)} arrays. Pass a tuple, `(features, labels)`, for one batch, or "
                "an iterator, `iter([…])`, for batches of features only."
            )
    if hasattr(data, "__iter__"):
        return data
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        # Without `__iter__`, Python iterates until an IndexError, which a class with `__len__`
        # need not raise.
        return (data[number] for number in range(len(data)))
    raise DataError(
        "`data` must be a DataSet, a tuple of arrays, or an iterable of batches. "
        f"Received: {type(data).__name__}."
    )


def _dataset(batch: Any, number: int) -> DataSet:
    if isinstance(batch, DataSet):
        return batch
    parts: tuple[Any, ...] = batch if isinstance(batch, tuple) else (batch,)
    if not 1 <= len(parts) <= 3:
        raise DataError(
            "a batch must be (features,), (features, labels) or (features, labels, weights). "
            f"Received: {len(parts)} parts in batch {number}."
        )
    features, labels, weights = (*parts, None, None)[:3]
    try:
        return DataSet(features, labels, weights=weights)
    except DataError as error:
        raise DataError(f"batch {number}: {error}") from None

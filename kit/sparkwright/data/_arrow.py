"""DataSets as chunks: cut and joined to about a megabyte, and as Arrow between Spark tasks."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from typing import Any, ParamSpec

import numpy as np

from sparkwright.errors import DataError

from ._dataset import Array, DataSet

# Chunks are large enough that Spark's cost a record does not matter, small enough to stream.
CHUNK_BYTES = 1 << 20
_ROWS = b"sparkwright.rows"
_BOOLEAN = b"sparkwright.boolean"
_ERROR = b"sparkwright.error\n"  # no Arrow stream starts with it

P = ParamSpec("P")


def to_bytes(dataset: DataSet) -> bytes:
    """One Arrow IPC stream with one record batch; each row's array is a fixed-shape tensor."""
    import pyarrow as pa

    batch = _to_batch(dataset)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def error_to_bytes(error: DataError) -> bytes:
    """A chunk that carries `error`: `from_bytes` and `row_count` raise it."""
    return _ERROR + str(error).encode()


def errors_as_chunks(function: Callable[P, Iterable[bytes]]) -> Callable[P, Iterator[bytes]]:
    """Yield a DataError of a generator of chunks as its last chunk, for functions in Spark tasks.

    Spark runs a task three times more after any exception, although invalid data stays invalid.
    """

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Iterator[bytes]:
        try:
            yield from function(*args, **kwargs)
        except DataError as error:
            yield error_to_bytes(error)

    return guarded


def from_bytes(content: bytes) -> DataSet:
    """The inverse of `to_bytes`; the arrays are read-only views of `content`.

    Raises:
        DataError: the error that the chunk carries instead of examples.
    """
    import pyarrow as pa

    _raise_error(content)
    # The stream's first message is its schema: a marker, the length of what follows, that.
    end = 8 + int.from_bytes(content[4:8], "little")
    schema = _schema(bytes(content[:end]))
    return _from_batch(pa.ipc.read_record_batch(pa.py_buffer(content)[end:], schema))


@lru_cache(64)
def _schema(message: bytes) -> Any:
    """Chunks of one size begin alike, and parsing a schema takes longer than finding the arrays."""
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(message))


def row_count(content: bytes) -> int:
    """How many examples `content` holds, from its schema alone; raises as `from_bytes`."""
    import pyarrow as pa

    _raise_error(content)
    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return int((reader.schema.metadata or {})[_ROWS])


def _raise_error(content: bytes) -> None:
    if content[: len(_ERROR)] == _ERROR:
        raise DataError(bytes(content[len(_ERROR) :]).decode())


def to_table(dataset: DataSet) -> Any:
    """See `DataSet.to_arrow`."""
    import pyarrow as pa

    # The number of rows is for streams, whose schema comes first; a table's may be cut.
    return pa.Table.from_batches([_to_batch(dataset)]).replace_schema_metadata(None)


def from_table(table: Any) -> DataSet:
    """See `DataSet.from_arrow`."""
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise DataError(
            "`table` must be a pyarrow.Table or RecordBatch. "
            f"Received: {type(table).__name__}. See `DataSet.to_arrow`."
        )
    for field, column in zip(table.schema, table.columns, strict=True):
        _refuse(field, column)
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    if not batches:
        batches = table.schema.empty_table().to_batches() or [
            pa.RecordBatch.from_arrays(
                [pa.array([], f.type) for f in table.schema], schema=table.schema
            )
        ]
    return DataSet.concatenate([_from_batch(batch) for batch in batches])


def _to_batch(dataset: DataSet) -> Any:
    import pyarrow as pa

    fields: list[Any] = []
    arrays: list[Any] = []
    for name, array in dataset.columns().items():
        boolean = array.dtype == np.bool_
        arrow = _arrow_array(array.view(np.uint8) if boolean else array)
        fields.append(
            pa.field(name, arrow.type, nullable=False, metadata={_BOOLEAN: b"1"} if boolean else {})
        )
        arrays.append(arrow)
    schema = pa.schema(fields, metadata={_ROWS: str(len(dataset)).encode()})
    return pa.record_batch(arrays, schema=schema)


def _from_batch(batch: Any) -> DataSet:
    columns: dict[str, Array] = {}
    for field, arrow in zip(batch.schema, batch.columns, strict=True):
        array = _numpy_array(arrow)
        boolean = (field.metadata or {}).get(_BOOLEAN) == b"1"
        columns[field.name] = array.view(np.bool_) if boolean else array
    return DataSet.from_columns(columns)


def _numpy_array(arrow: Any) -> Array:
    import pyarrow as pa

    kind = arrow.type
    if isinstance(kind, pa.FixedShapeTensorType):
        return arrow.to_numpy_ndarray()
    if pa.types.is_fixed_size_list(kind):
        return arrow.flatten().to_numpy(zero_copy_only=False).reshape(len(arrow), kind.list_size)
    # Arrow packs its own booleans in bits.
    return arrow.to_numpy(zero_copy_only=not pa.types.is_boolean(kind))


def _refuse(field: Any, column: Any) -> None:
    import pyarrow as pa

    kind: Any = field.type
    nested = isinstance(kind, pa.FixedShapeTensorType) or pa.types.is_fixed_size_list(kind)
    if nested:
        kind = kind.value_type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not number:
        raise DataError(
            "columns of a table must be numbers, fixed-size lists of numbers or fixed-shape "
            f"tensors. Received: column {field.name!r} of type {field.type}."
        )
    missing = column.null_count
    if nested:
        missing += sum(chunk.flatten().null_count for chunk in _storage(column))
    if missing:
        raise DataError(
            f"column {field.name!r} must have no missing values. Received: {missing} of them in "
            f"{len(column)} rows. Drop or fill them first (`pyarrow.compute.fill_null`)."
        )


def _storage(column: Any) -> list[Any]:
    """The lists of a column, without the extension type around them."""
    return [getattr(chunk, "storage", chunk) for chunk in column.chunks]


def _arrow_array(array: Array) -> Any:
    import pyarrow as pa

    flat = pa.array(array.reshape(-1))
    if array.ndim == 1:
        return flat
    # `FixedShapeTensorArray.from_numpy_ndarray` refuses zero rows, and one row whose stride is 0.
    shape = array.shape[1:]
    kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(array.dtype), shape)
    return pa.ExtensionArray.from_storage(
        kind, pa.FixedSizeListArray.from_arrays(flat, int(np.prod(shape)))
    )


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

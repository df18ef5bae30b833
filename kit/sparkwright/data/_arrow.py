"""DataSets as Arrow IPC bytes: what travels between Spark tasks and lies in exported files."""

from typing import Any

import numpy as np

from ._dataset import Array, DataSet

_ROWS = b"sparkwright.rows"
_BOOLEAN = b"sparkwright.boolean"


def to_bytes(dataset: DataSet) -> bytes:
    """One Arrow IPC stream with one record batch; each row's array is a fixed-shape tensor."""
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
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return sink.getvalue().to_pybytes()


def from_bytes(content: bytes) -> DataSet:
    """The inverse of `to_bytes`; the arrays are read-only views of `content`."""
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        batch = reader.read_next_batch()
    columns: dict[str, Array] = {}
    for field, arrow in zip(batch.schema, batch.columns, strict=True):
        tensor = isinstance(field.type, pa.FixedShapeTensorType)
        array = arrow.to_numpy_ndarray() if tensor else arrow.to_numpy()
        boolean = (field.metadata or {}).get(_BOOLEAN) == b"1"
        columns[field.name] = array.view(np.bool_) if boolean else array
    return DataSet.from_columns(columns)


def row_count(content: bytes) -> int:
    """How many examples `content` holds, from its schema alone."""
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return int((reader.schema.metadata or {})[_ROWS])


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

"""NumPy arrays as columns of Arrow tables, each row's array a fixed-shape tensor, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

Array = NDArray[Any]
# Key of a schema's metadata: how many rows the batch that follows it in a stream has.
ROWS = b"sparkwright.rows"
_BOOLEAN = b"sparkwright.boolean"


def to_table(columns: Mapping[str, Array], rows: int) -> Any:
    """Return a pyarrow.Table of `rows` rows; see `DataSet.to_arrow`."""
    import pyarrow as pa

    # The number of rows is for streams, whose schema comes first; a table's may be cut.
    return pa.Table.from_batches([to_batch(columns, rows)]).replace_schema_metadata(None)


def columns_of_batches(table: Any) -> list[dict[str, Array]]:
    """Return the arrays of each record batch of a table; see `DataSet.from_arrow`."""
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
    return [columns_of(batch) for batch in batches]


def to_batch(columns: Mapping[str, Array], rows: int) -> Any:
    """Return a pyarrow.RecordBatch that shares the memory of arrays in row-major order."""
    import pyarrow as pa

    fields: list[Any] = []
    arrays: list[Any] = []
    for name, array in columns.items():
        boolean = array.dtype == np.bool_
        arrow = _arrow_array(array.view(np.uint8) if boolean else array)
        fields.append(
            pa.field(name, arrow.type, nullable=False, metadata={_BOOLEAN: b"1"} if boolean else {})
        )
        arrays.append(arrow)
    schema = pa.schema(fields, metadata={ROWS: str(rows).encode()})
    return pa.record_batch(arrays, schema=schema)


def columns_of(batch: Any) -> dict[str, Array]:
    """Return the arrays of a record batch; views where Arrow allows it."""
    columns: dict[str, Array] = {}
    for field, arrow in zip(batch.schema, batch.columns, strict=True):
        array = _numpy_array(arrow)
        boolean = (field.metadata or {}).get(_BOOLEAN) == b"1"
        columns[field.name] = array.view(np.bool_) if boolean else array
    return columns


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

"""Convert between NumPy arrays and Arrow tables, with a fixed-shape tensor per row.

Text becomes a column of strings, or of fixed-size lists of strings.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from .texts import is_string, is_text

Array = NDArray[Any]
# Metadata key of a schema: number of rows of the next batch in a stream.
ROWS = b"sparkwright.rows"
_BOOLEAN = b"sparkwright.boolean"


def to_table(columns: Mapping[str, Array], rows: int) -> Any:
    """Return a pyarrow.Table of `rows` rows; see `DataSet.to_arrow`."""
    import pyarrow as pa

    # Only streams need the number of rows; for a table, it would be wrong after slicing.
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
    shape = [len(arrow)]
    while pa.types.is_fixed_size_list(arrow.type):
        shape.append(arrow.type.list_size)
        arrow = arrow.flatten()
    # Arrow's own booleans are bits and its strings are concatenated, so both need a copy.
    copies = pa.types.is_boolean(arrow.type) or is_string(arrow.type)
    return arrow.to_numpy(zero_copy_only=not copies).reshape(shape)


def _refuse(field: Any, column: Any) -> None:
    import pyarrow as pa

    kind: Any = field.type
    if isinstance(kind, pa.FixedShapeTensorType):
        kind = kind.value_type
    while pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not (number or is_string(kind)):
        raise DataError(
            "columns of a table must be numbers, text, fixed-size lists of these, or fixed-shape "
            f"tensors. Received: column {field.name!r} of type {field.type}."
        )
    missing = column.null_count
    level = [getattr(chunk, "storage", chunk) for chunk in column.chunks]  # of extension types
    while level and pa.types.is_fixed_size_list(level[0].type):
        level = [chunk.flatten() for chunk in level]
        missing += sum(chunk.null_count for chunk in level)
    if missing:
        raise DataError(
            f"column {field.name!r} must have no missing values. Received: {missing} of them in "
            f"{len(column)} rows. Drop or fill them first (`pyarrow.compute.fill_null`)."
        )


def _arrow_array(array: Array) -> Any:
    import pyarrow as pa

    if is_text(array):
        return _string_array(array)
    flat = pa.array(array.reshape(-1))
    if array.ndim == 1:
        return flat
    # `FixedShapeTensorArray.from_numpy_ndarray` fails for zero rows, and for one row of stride 0.
    shape = array.shape[1:]
    kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(array.dtype), shape)
    return pa.ExtensionArray.from_storage(
        kind, pa.FixedSizeListArray.from_arrays(flat, int(np.prod(shape)))
    )


def _string_array(array: Array) -> Any:
    import pyarrow as pa

    try:
        found: Any = pa.array(array.reshape(-1), pa.large_string())
    except UnicodeEncodeError as error:
        raise DataError(f"texts must be valid Unicode. Received: {error}.") from None
    for size in reversed(array.shape[1:]):
        found = pa.FixedSizeListArray.from_arrays(found, size)
    return found

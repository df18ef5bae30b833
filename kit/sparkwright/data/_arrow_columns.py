"""Convert columns of Arrow tables to NumPy arrays: numbers, text, nested arrays. Pure."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data.dataset import Array
from sparkwright.data.wording import text_remedy
from sparkwright.errors import DataError

Mask = NDArray[np.bool_]


def column_of(table: Any, name: str) -> Any:
    """Return one column as one `pyarrow.Array`."""
    import pyarrow as pa

    column = table.column(name)
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def numbers(column: Any, name: str) -> tuple[Array, Mask | None]:
    """Return a column as NumPy numbers, and a mask of missing values, which are NaN, or None."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        column = column.cast(pa.uint8() if pa.types.is_boolean(kind) else pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError(
            f"column {name!r} must hold numbers. Received: the type {kind}. {_remedy(name, kind)}."
        )
    missing = None
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if not pa.types.is_floating(column.type):
            column = column.cast(pa.float64(), safe=False)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        empty = np.isnan(values)
        if empty.any():
            missing = empty
    return values, missing


def _remedy(name: str, kind: Any) -> str:
    """Return how to use a column that holds no numbers, by its type, without a full stop."""
    import pyarrow as pa

    types: Any = pa.types
    if types.is_temporal(kind):
        return (
            f"Count days, for example: `from_dataframe(spark.read.parquet(url).withColumn({name!r},"
            f" F.datediff({name!r}, F.lit('2000-01-01'))), …)` with `pyspark.sql.functions` as `F`"
        )
    if types.is_struct(kind) or types.is_map(kind):
        return (
            "Read it as a DataFrame, which has vectors of Spark ML, and fields of other columns by "
            f"`select`: `from_dataframe(spark.read.parquet(url), features={name!r}, …)`"
        )
    return text_remedy(name)


def texts(column: Any, name: str) -> Any:
    """Return a column of text, integers or booleans as a `pyarrow.DictionaryArray` of text."""
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if pa.types.is_dictionary(column.type) and is_text:
        return column
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        is_text = str(kind) == "string_view"
        if not (is_text or pa.types.is_null(kind)):
            raise DataError(
                f"column {name!r} must hold text, integers or booleans to be classes, "
                f"categories or text. Received: the type {kind}."
            )
    return column.cast(pa.string()).dictionary_encode()


def arrays(column: Any, shape: tuple[int, ...], name: str) -> tuple[Array, Mask, Mask, Mask]:
    """Convert a column of lists or tensors.

    (n, …) numbers, (n,) rows of another shape, (n,) rows with gaps, (n, …) gaps.
    """
    import pyarrow as pa

    rows = len(column)
    nothing = column.is_null().to_numpy(zero_copy_only=False)
    missing = nothing.copy()
    faulty = np.zeros(rows, np.bool_)
    levels = shape
    if isinstance(column.type, pa.FixedShapeTensorType):
        if column.type.permutation not in (None, list(range(len(column.type.shape)))):
            raise DataError(
                f"column {name!r} must hold tensors without an axis permutation. Received: "
                f"permutation={column.type.permutation}."
            )
        faulty[:] = tuple(column.type.shape) != shape
        column, levels = column.storage, (math.prod(shape),)
    level = column
    owners = np.arange(rows)
    for length in levels:
        if pa.types.is_fixed_size_list(level.type):
            level = level.cast(pa.list_(level.type.value_type))
        lengths = level.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
        faulty[owners[lengths != length]] = True
        owners = np.repeat(owners, np.maximum(lengths, 0))
        level = level.flatten()
    faulty &= ~nothing
    values, absent = numbers(level, name)
    if absent is not None:
        missing[owners[absent]] = True
    good = ~(faulty | nothing)
    gaps = np.zeros((rows, *shape), np.bool_)
    gaps[nothing] = True
    if absent is not None:
        gaps[good] = absent[good[owners]].reshape(int(good.sum()), *shape)
    if good.all():
        return values.reshape(gaps.shape), faulty, missing, gaps
    found = np.zeros(gaps.shape, values.dtype if values.dtype.kind == "f" else np.float32)
    found[good] = values[good[owners]].reshape(int(good.sum()), *shape)
    return found, faulty, missing, gaps


def distinct(table: Any, names: Iterable[str]) -> dict[str, set[str]]:
    """Return the distinct values of each column as text, without missing values."""
    found: dict[str, set[str]] = {}
    for name in names:
        encoded = texts(column_of(table, name), name)
        # A dictionary may hold unused values.
        used = encoded.dictionary.take(encoded.indices.unique().drop_null())
        found[name] = {value for value in used.to_pylist() if value is not None}
    return found

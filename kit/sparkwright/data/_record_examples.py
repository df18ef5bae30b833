"""Encode examples as values of records; the header of the file describes the columns.

    value = length of the rest, int32 | every axis of every column, VInt
            | the bytes of every column, little-endian

Each value stores its axes because sequences differ in length. An image of 28 x 28 bytes with a
label takes 794 bytes, including 788 bytes of data.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sparkwright._yaml import strict_json
from sparkwright.errors import DataError

from ._record_bytes import decode_bytes, decode_vint, encode_vint
from .dataset import Array, DataSet

NOTE = "sparkwright.examples"
DTYPES = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
}
# Column -> dtype, shape of an example; -1 for an axis that varies or is unknown.
Layout = Mapping[str, tuple[str, tuple[int, ...]]]
_FORMAT = 1
MAX_AXES = 32


def layout_of(dataset: DataSet) -> Layout:
    """Return the columns of `dataset`; DataError if a dtype is not in `DTYPES`."""
    columns = dataset.columns()
    for name, array in columns.items():
        if array.dtype.name not in DTYPES:
            raise DataError(
                f"the dtype of a column in a record file must be one of {sorted(DTYPES)}. "
                f"Received: {array.dtype.name} for {name!r}."
            )
    return {name: (array.dtype.name, array.shape[1:]) for name, array in columns.items()}


def merged_layout(one: Layout, other: Layout, *, varying: int = MAX_AXES) -> Layout:
    """Merge two layouts; axes that differ become -1, at most `varying` per column.

    Example:
        >>> merged_layout({"features/x": ("int8", (3, 2))}, {"features/x": ("int8", (5, 2))})
        {'features/x': ('int8', (-1, 2))}
    """
    if one == other:
        return one
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, (dtype, shape) in one.items():
        other_dtype, other_shape = other.get(name, ("", ()))
        merged = tuple(a if a == b else -1 for a, b in zip(shape, other_shape, strict=False))
        if dtype == other_dtype and len(shape) == len(other_shape):
            found[name] = dtype, merged
    most = max((shape.count(-1) for _, shape in found.values()), default=0)
    if found.keys() != one.keys() or found.keys() != other.keys() or most > varying:
        raise DataError(
            "all examples of record files must have the same columns, dtypes and numbers of axes. "
            "In TFRecord files, only one axis of a column may vary. "
            f"Received: {dict(other)} after {dict(one)}. Pad or resize the examples first."
        )
    return found


def columns_note(columns: Mapping[str, tuple[str, Any]], **more: Any) -> str:
    """Describe columns as JSON: name -> dtype, and shape or number of axes."""
    listed = [[name, *kind] for name, kind in columns.items()]
    return json.dumps({"format": _FORMAT, "columns": listed, **more}, separators=(",", ":"))


def read_columns_note(
    content: str | bytes, *, what: str, source: str
) -> tuple[Layout, dict[str, Any]]:
    """Parse the output of `columns_note`; return the columns and all fields.

    Args:
        content: the JSON text.
        what: description of the text, for error messages.
        source: name of the file, for error messages.

    Raises:
        DataError: if the text is invalid or has another format version.
    """
    try:
        noted: Any = strict_json(content)
        found: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name, dtype, axes in noted["columns"]:
            count = axes if isinstance(axes, int) else len(axes)
            if dtype not in DTYPES or not 0 <= count <= MAX_AXES:
                raise ValueError
            found[str(name)] = dtype, (-1,) * count if isinstance(axes, int) else tuple(axes)
        if noted["format"] != _FORMAT or not found or len(found) < len(noted["columns"]):
            raise ValueError
        # Validate the names: damage may have changed them.
        DataSet.from_columns(
            {n: np.zeros((0, *[1] * len(shape)), dtype) for n, (dtype, shape) in found.items()}
        )
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError, DataError):
        raise DataError(
            f"{what} must be a layout of format {_FORMAT}. "
            f"Received: {content[:200]!r} in {source}. "
            "It was written by a later version of Sparkwright, or is damaged."
        ) from None
    return found, noted


def encode_examples(dataset: DataSet) -> Iterator[bytes]:
    """Yield the value of each example of `dataset`."""
    columns, count = dataset.columns(), len(dataset)
    axes = b"".join(encode_vint(size) for a in columns.values() for size in a.shape[1:])
    numbers = sum(array.nbytes for array in columns.values()) // max(count, 1)
    prefix = (len(axes) + numbers).to_bytes(4, "big") + axes
    parts = [np.frombuffer(prefix, np.uint8)[None].repeat(count, axis=0)]
    for array in columns.values():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        parts.append(little.reshape(count, -1).view(np.uint8))
    rows = np.concatenate(parts, axis=1)
    width, content = rows.shape[1], rows.tobytes()
    for start in range(0, len(content), width):
        yield content[start : start + width]


def decode_examples(
    values: Iterable[bytes], layout: Layout, on_bad: Callable[[int, str], None]
) -> Iterator[DataSet]:
    """Yield the examples of `values` in order; consecutive values of the same shapes are joined.

    Args:
        values: values from `encode_examples`.
        layout: layout of the file.
        on_bad: called with the index of each invalid value and the reason; the value is skipped.
    """
    group: list[bytes] = []
    shapes: list[tuple[int, ...]] = []
    prefix = b""
    for index, value in enumerate(values):
        # Length and axes are at the start: if they are equal, the value needs no other check.
        if group and len(value) == len(group[0]) and value.startswith(prefix):
            group.append(value)
            continue
        try:
            found, start = _shapes(value, layout)
        except DataError as error:
            on_bad(index, str(error))
            continue
        if group:
            yield _joined(group, layout, shapes, len(prefix))
        group, shapes, prefix = [value], found, value[:start]
    if group:
        yield _joined(group, layout, shapes, len(prefix))


def _shapes(value: bytes, layout: Layout) -> tuple[list[tuple[int, ...]], int]:
    """Return the shape of each column, and the offset of the data."""
    decode_bytes(value)  # checks the length
    shapes: list[tuple[int, ...]] = []
    start = 4
    for _, known in layout.values():
        axes: list[int] = []
        for _ in known:
            size, start = decode_vint(value, start)
            axes.append(size)
        shapes.append(tuple(axes))
    if any(size < 1 for shape in shapes for size in shape):
        raise DataError(f"an example's axes must be at least 1. Received: {shapes}.")
    wanted = start + sum(_sizes(layout, shapes))
    if wanted != len(value):
        raise DataError(
            "the size of an example must match its axes. "
            f"Received: {len(value) - 4} bytes, not {wanted - 4}, for axes {shapes}."
        )
    return shapes, start


def _sizes(layout: Layout, shapes: list[tuple[int, ...]]) -> list[int]:
    kinds = zip(layout.values(), shapes, strict=True)
    return [math.prod(shape) * np.dtype(dtype).itemsize for (dtype, _), shape in kinds]


def _joined(
    group: list[bytes], layout: Layout, shapes: list[tuple[int, ...]], start: int
) -> DataSet:
    rows = np.frombuffer(b"".join(group), np.uint8).reshape(len(group), -1)
    columns: dict[str, Array] = {}
    kinds = zip(layout.items(), shapes, _sizes(layout, shapes), strict=True)
    for (name, (dtype, _)), shape, size in kinds:
        content = np.ascontiguousarray(rows[:, start : start + size])
        columns[name] = from_little(content, dtype).reshape(len(group), *shape)
        start += size
    return DataSet.from_columns(columns)


def from_little(content: Array, dtype: str) -> Array:
    """Convert an array of little-endian bytes (uint8) to `dtype`."""
    if dtype == "bool":
        return content != 0
    return content.view(np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False)

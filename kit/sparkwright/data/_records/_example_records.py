"""Examples as record values: a layout once in the file's header, then only numbers.

    value = length of what follows, int32 | every axis of every column, VInt
            | every column's bytes, low byte first

The length makes it a BytesWritable. Axes are in each value, because sequences differ in length;
columns, dtypes and the number of axes are the layout's. An image of 28 x 28 bytes with a label
takes 794 bytes, 788 of them data.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkwright._yaml import strict_json
from sparkwright.data._dataset import Array, DataSet
from sparkwright.errors import DataError

from ._hadoop_types import decode_bytes, decode_vint, encode_vint

NOTE = "sparkwright.examples"
_FORMAT = 1
_DTYPES = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
}
_MAX_AXES = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of every example.

    Attributes:
        name: flat name, as `DataSet.columns` gives it.
        dtype: NumPy's name of it.
        axes: how many, without that of the examples.
    """

    name: str
    dtype: str
    axes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordLayout:
    """What all examples of a file have in common."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, dataset: DataSet) -> "RecordLayout":
        """The layout of `dataset`.

        Raises:
            DataError: if a dtype cannot be written.
        """
        for name, array in dataset.columns().items():
            if array.dtype.name not in _DTYPES:
                raise DataError(
                    f"a column in a record file must have one of the dtypes {sorted(_DTYPES)}. "
                    f"Received: {name!r} with {array.dtype.name}."
                )
        return cls(
            columns=tuple(
                Column(name=name, dtype=array.dtype.name, axes=array.ndim - 1)
                for name, array in dataset.columns().items()
            )
        )

    def to_json(self) -> str:
        """As text for the header."""
        columns = [[c.name, c.dtype, c.axes] for c in self.columns]
        return json.dumps({"format": _FORMAT, "columns": columns}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, *, source: str) -> "RecordLayout":
        """The inverse of `to_json`; nothing in `text` is believed unchecked.

        Raises:
            DataError: if it is none of ours, or of a later format, naming `source`.
        """
        try:
            content: Any = strict_json(text)
        except (ValueError, RecursionError):
            content = None
        match content:
            case {"format": 1, "columns": [_, *_] as columns}:
                found = tuple(_column(entry) for entry in columns)
                columns = tuple(c for c in found if c)
                if len(columns) == len(found) and _make_a_dataset(columns):
                    return cls(columns=columns)
            case _:
                pass
        raise DataError(
            f"the note {NOTE!r} of a record file must hold a layout of format {_FORMAT}. "
            f"Received: {text[:200]!r} in {source}. "
            "It was written by a later version of Sparkwright, or is damaged."
        )

    @property
    def axes(self) -> int:
        """Axes of all columns together."""
        return sum(column.axes for column in self.columns)


def _make_a_dataset(columns: Sequence[Column]) -> bool:
    """Whether names differ and are those of a DataSet, which damage may have changed."""
    empty = {c.name: np.zeros((0, *[1] * c.axes), c.dtype) for c in columns}
    try:
        DataSet.from_columns(empty)
    except DataError:
        return False
    return len(empty) == len(columns)


def encode_examples(dataset: DataSet, layout: RecordLayout) -> Iterator[bytes]:
    """The value of each example of `dataset`.

    Raises:
        DataError: if it has another layout than `layout`, that of the file's first example.
    """
    if (found := RecordLayout.of(dataset)) != layout:
        raise DataError(
            "all examples of a record file must have the same columns, dtypes and numbers of axes. "
            f"Received: {found.to_json()} after {layout.to_json()}."
        )
    columns = dataset.columns()
    axes = b"".join(encode_vint(size) for a in columns.values() for size in a.shape[1:])
    numbers = sum(array.nbytes for array in columns.values()) // len(dataset) if len(dataset) else 0
    prefix = (len(axes) + numbers).to_bytes(4, "big") + axes
    parts = [np.frombuffer(prefix, np.uint8)[None].repeat(len(dataset), axis=0)]
    for array in columns.values():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        parts.append(little.reshape(len(dataset), -1).view(np.uint8))
    rows = np.concatenate(parts, axis=1)
    width, content = rows.shape[1], rows.tobytes()
    for start in range(0, len(content), width):
        yield content[start : start + width]


def decode_examples(
    values: Sequence[bytes], layout: RecordLayout, on_bad: Callable[[int, str], None]
) -> Iterator[DataSet]:
    """The examples of `values`, in order; neighbours of the same shapes together.

    Args:
        values: as `encode_examples` made them.
        layout: the file's.
        on_bad: gets the index of a value that is none, and why; then it is left out.
    """
    group: list[bytes] = []
    shapes: list[tuple[int, ...]] = []
    prefix = b""
    for index, value in enumerate(values):
        # Length and axes are at the start: where they are equal, the rest needs no second look.
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


def _shapes(value: bytes, layout: RecordLayout) -> tuple[list[tuple[int, ...]], int]:
    """Each column's shape, and where the numbers begin."""
    decode_bytes(value)  # as long as it says
    shapes: list[tuple[int, ...]] = []
    start = 4
    for column in layout.columns:
        axes: list[int] = []
        for _ in range(column.axes):
            size, start = decode_vint(value, start)
            axes.append(size)
        shapes.append(tuple(axes))
    if any(size < 1 for shape in shapes for size in shape):
        raise DataError(f"an example's axes must be at least 1. Received: {shapes}.")
    wanted = start + sum(_size_bytes(*pair) for pair in zip(layout.columns, shapes, strict=True))
    if wanted != len(value):
        raise DataError(
            "an example's value must be as long as its axes say. "
            f"Received: {len(value) - 4} bytes, not {wanted - 4}, for axes {shapes}."
        )
    return shapes, start


def _joined(
    group: list[bytes], layout: RecordLayout, shapes: list[tuple[int, ...]], start: int
) -> DataSet:
    rows = np.frombuffer(b"".join(group), np.uint8).reshape(len(group), -1)
    columns: dict[str, Array] = {}
    for column, shape in zip(layout.columns, shapes, strict=True):
        end = start + _size_bytes(column, shape)
        content = np.ascontiguousarray(rows[:, start:end])
        if column.dtype == "bool":
            array = content != 0
        else:
            little = np.dtype(column.dtype).newbyteorder("<")
            array = content.view(little).astype(column.dtype, copy=False)
        columns[column.name] = array.reshape(len(group), *shape)
        start = end
    return DataSet.from_columns(columns)


def _size_bytes(column: Column, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * np.dtype(column.dtype).itemsize


def _column(entry: Any) -> Column | None:
    match entry:
        case [str(name), str(dtype), int(axes)] if dtype in _DTYPES and 0 <= axes <= _MAX_AXES:
            return Column(name=name, dtype=dtype, axes=axes)
        case _:
            return None


def notes_of(layout: RecordLayout) -> Mapping[str, str]:
    """The notes of a file of `layout`."""
    return {NOTE: layout.to_json()}

"""The first rows of Parquet and Arrow files, read without Spark."""

import math
from collections.abc import Sequence
from typing import Any

from sparkwright.data._sources._data_source import DataSource
from sparkwright.data._tables._arrow_files import open_arrow
from sparkwright.data._tables._columnar import OpenTable, damage
from sparkwright.data._tables._parquet import open_parquet
from sparkwright.errors import DataError
from sparkwright.storage._listing import StoredFile

from ._column_look import ColumnLook
from ._table_beginning import Beginning, most_rows, name_of

_LONGEST_TEXT = 200


def columnar_beginning(files: Sequence[StoredFile], source: DataSource) -> Beginning:
    """The first rows of the first Parquet or Arrow file.

    Raises:
        DataError: if it cannot be read.
    """
    opener = open_parquet if source.format == "parquet" else open_arrow
    file = files[0]
    try:
        with opener(file.url) as table:
            return _columnar_rows(table, files)
    except Exception as error:
        if not isinstance(error, OSError | EOFError) and not type(error).__module__.startswith(
            "pyarrow"
        ):
            raise
        raise DataError(damage(file.url, error)) from None


def _columnar_rows(table: OpenTable, files: Sequence[StoredFile]) -> Beginning:
    names = table.names
    most = most_rows(len(names))
    values: dict[str, list[str | None]] = {name: [] for name in names}
    shapes: dict[str, tuple[int, ...]] = {}
    rows = 0
    for _, _, batch in table.tables(names, None):
        taken = batch.slice(0, most - rows)
        for name in names:
            for value in taken.column(name).to_pylist():
                if isinstance(value, list | tuple) and name not in shapes:
                    shapes[name] = _shape(value)
                values[name].append(_text(value))
        rows += taken.num_rows
        if rows >= most:
            break
    in_all = _known_rows(table)
    url = files[0].url
    found = Beginning(
        names=names,
        values=values,
        place=lambda row: f"{name_of(url)}, row {row + 1}",
        in_all=in_all if in_all is not None else rows,
    )
    for name, shape in shapes.items():
        missing = sum(value is None for value in values[name])
        found.looks[name] = ColumnLook(
            name=name, kind="array", count=rows - missing, missing=missing, shape=shape
        )
    if len(files) > 1 and files[0].size_bytes:
        total = sum(file.size_bytes for file in files)
        found.in_all = round((found.in_all or 0) * total / files[0].size_bytes)
        found.is_estimate = True
    elif in_all is None and rows >= most:
        found.in_all = None
    return found


def _known_rows(table: OpenTable) -> int | None:
    counts = [count for _, count in table.parts]
    return sum(counts) if counts and min(counts) > 0 else None


def _shape(value: Any) -> tuple[int, ...]:
    shape: list[int] = []
    while isinstance(value, list | tuple):
        shape.append(len(value))  # pyright: ignore[reportUnknownArgumentType]
        value = value[0] if value else None  # pyright: ignore[reportUnknownVariableType]
    return tuple(shape)


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    text = str(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"

"""The first rows of Parquet and Arrow files, read without Spark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkwright.data._sources._data_source import DataSource
from sparkwright.data._tables._arrow_files import open_arrow
from sparkwright.data._tables._columnar import OpenTable, damage, is_damage
from sparkwright.data._tables._parquet import open_parquet
from sparkwright.errors import DataError
from sparkwright.storage._listing import StoredFile

from ._column_look import ColumnLook
from ._table_beginning import Beginning, most_rows, name_of
from ._time_limit import still_wanted

_LONGEST_TEXT = 200
# Rows of large arrays: fewer of them say enough.
_MOST_BYTES = 256 << 20


def columnar_beginning(files: Sequence[StoredFile], source: DataSource, *, shown: int) -> Beginning:
    """The first rows of the first Parquet or Arrow file.

    Args:
        files: which.
        source: says the format.
        shown: rows of which arrays are needed as text.

    Raises:
        DataError: if it cannot be read.
    """
    opener = open_parquet if source.format == "parquet" else open_arrow
    file = files[0]
    try:
        with opener(file.url) as table:
            return _columnar_rows(table, files, shown)
    except Exception as error:
        if not is_damage(error):
            raise
        raise DataError(damage(file.url, error)) from None


@dataclass(kw_only=True, slots=True)
class _Arrays:
    """What was seen of a column of arrays, most of which stay as they are."""

    texts: list[str | None] = field(default_factory=list[str | None])
    shape: tuple[int, ...] | None = None
    missing: int = 0
    first_missing: int | None = None

    def see(self, column: Any, before: int, shown: int) -> None:
        """Some more rows.

        Args:
            column: of PyArrow.
            before: rows before them.
            shown: rows from the first on that are needed as text.
        """
        if column.null_count:
            self.missing += column.null_count
            if self.first_missing is None:
                self.first_missing = before + column.is_null().index(True).as_py()
        if self.shape is None and column.null_count < len(column):
            self.shape = _shape(column[column.is_valid().index(True).as_py()])
        wanted = max(0, shown - before)
        self.texts += [_text(value) for value in column.slice(0, wanted).to_pylist()]

    def look(self, name: str, rows: int) -> ColumnLook:
        return ColumnLook(
            name=name,
            kind="array" if self.missing < rows else "empty",
            count=rows - self.missing,
            missing=self.missing,
            first_missing=self.first_missing,
            shape=self.shape,
        )


def _columnar_rows(table: OpenTable, files: Sequence[StoredFile], shown: int) -> Beginning:
    names = table.names
    most = most_rows(len(names))
    values: dict[str, list[str | None]] = {name: [] for name in names}
    arrays = {
        name: _Arrays()
        for name, kind in zip(names, table.types, strict=True)
        if _holds_arrays(kind)
    }
    rows = seen_bytes = 0
    is_whole = True
    for _, _, batch in table.tables(names, None):
        taken = batch.slice(0, most - rows)
        for name in names:
            still_wanted()
            column = taken.column(name)
            if name in arrays:
                arrays[name].see(column, rows, shown)
            else:
                values[name] += [_text(value) for value in column.to_pylist()]
        rows += taken.num_rows
        seen_bytes += taken.nbytes
        if rows >= most or seen_bytes >= _MOST_BYTES:
            is_whole = False
            break
    in_all = _known_rows(table)
    url = files[0].url
    found = Beginning(
        names=names,
        values=values | {name: seen.texts for name, seen in arrays.items()},
        rows=rows,
        place=lambda row: f"{name_of(url)}, row {row + 1}",
        looks={name: seen.look(name, rows) for name, seen in arrays.items()},
        in_all=in_all if in_all is not None else rows,
    )
    if len(files) > 1 and files[0].size_bytes:
        total = sum(file.size_bytes for file in files)
        found.in_all = round((found.in_all or 0) * total / files[0].size_bytes)
        found.is_estimate = True
    elif in_all is None and not is_whole:
        found.in_all = None
    return found


def _known_rows(table: OpenTable) -> int | None:
    counts = [count for _, count in table.parts]
    return sum(counts) if counts and min(counts) > 0 else None


def _holds_arrays(kind: Any) -> bool:
    import pyarrow as pa

    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return lists or pa.types.is_fixed_size_list(kind) or isinstance(kind, pa.FixedShapeTensorType)


def _shape(array: Any) -> tuple[int, ...]:
    import pyarrow as pa

    if isinstance(array.type, pa.FixedShapeTensorType):
        return tuple(array.type.shape)
    shape: list[int] = []
    value: Any = array.as_py()
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

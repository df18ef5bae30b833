"""The first rows of CSV, Parquet and Arrow files: their readers, stopped early."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from sparkwright.data._columnar import (
    OpenTable,
    damage,
    is_damage,
    is_nested,
    open_arrow,
    open_parquet,
    shape_of,
)
from sparkwright.data._csv_blocks import EmptyFileError, Head, opened, read_head
from sparkwright.data._csv_format import CsvFormat, compression_of, line_count
from sparkwright.data._csv_parse import CsvColumns, inspect
from sparkwright.data._sources._data_source import DataSource
from sparkwright.errors import DataError
from sparkwright.storage._listing import StoredFile

from ._browsing import still_wanted
from ._data_preview import ColumnLook, DataProblem, look_at, number_of
from ._guessing import first_line_break

_MOST_ROWS, _MOST_CELLS = 10_000, 500_000
_HEADERS, _NAMED = 10, 3
_LONGEST_TEXT = 200
# Rows of large arrays: fewer of them say enough.
_MOST_BYTES = 256 << 20
_SENTENCES = {
    "wrong number of columns": (
        "{place} has {values} values, where there are {columns} columns.{more} Check the sign "
        "between values, or leave out what does not fit."
    ),
    "quote that is not closed": (
        "{place} has a quote that is not closed.{more} Close it, or leave out what does not fit."
    ),
    "not in the encoding": "{place} is no UTF-8.{more} Give its encoding, as latin-1.",
}


@dataclass(kw_only=True, slots=True)
class Beginning:
    """The first rows of a table.

    Attributes:
        names: of the columns.
        values: of each column, as texts; None where there is none. Of columns of arrays at least
            as many as are shown, of the others all.
        rows: how many.
        place: row -> file and line.
        looks: columns of which more is known than their texts say.
        in_all: rows of all files; None: unknown.
        is_estimate: whether that is estimated.
        left_out: rows that were looked at, but cannot be read.
        problems: what is wrong with the files.
    """

    names: tuple[str, ...]
    values: dict[str, list[str | None]]
    rows: int
    place: Callable[[int], str]
    looks: dict[str, ColumnLook] = field(default_factory=dict[str, ColumnLook])
    in_all: int | None = None
    is_estimate: bool = False
    left_out: int = 0
    problems: list[DataProblem] = field(default_factory=list[DataProblem])

    def columns(self) -> list[ColumnLook]:
        """What is to be seen of each column."""
        found: list[ColumnLook] = []
        for name in self.names:
            still_wanted()
            found.append(self.looks.get(name) or look_at(name, self.values[name]))
        return found


def csv_beginning(
    files: Sequence[StoredFile], form: CsvFormat, *, sample_bytes: int, can_break: bool = True
) -> Beginning:
    """The first rows of the first CSV file that is not empty.

    Args:
        files: which.
        form: how they are written.
        sample_bytes: of text to read at most.
        can_break: whether the reader has an option for line breaks in values.

    Raises:
        DataError: if there is none to begin with, in a sentence.
        OSError: whatever the store says, naming the file.
    """
    problems: list[DataProblem] = []
    for file in files:
        try:
            seen = _CsvBeginning.of(file.url, form, sample_bytes)
        except EmptyFileError:
            problems.append(DataProblem.warning(f"{name_of(file.url)} is empty."))
            continue
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name_of(file.url)} is no text in {form.encoding}: {error.reason} at byte "
                f"{error.start}. Give its encoding."
            ) from None
        found = seen.rows()
        if found.left_out and can_break and not form.newlines_in_values:
            seen, found = _with_line_breaks(seen, found, sample_bytes)
        found.problems = problems + found.problems + _other_headers(files, file, seen, found.names)
        if seen.is_all and len(files) == 1:
            return found
        known = compression_of(file.url) is None and form.is_utf8 and bool(seen.content)
        found.is_estimate = known
        total = sum(other.size_bytes for other in files) - seen.head.size_bytes
        share = max(1.0, total / max(1, len(seen.content)))
        found.in_all = round((found.in_all or 0) * share) if known else None
        return found
    raise DataError(f"there must be rows. Received: {len(files)} files, all empty.")


@dataclass(frozen=True, slots=True)
class _CsvBeginning:
    """The first records of a file, and whether these are all."""

    url: str
    form: CsvFormat
    head: Head
    content: bytes
    is_all: bool

    @classmethod
    def of(cls, url: str, form: CsvFormat, sample_bytes: int) -> "_CsvBeginning":
        is_all = False
        with opened(url, form) as (read, _):
            head, content = read_head(read, form)
            while len(content) < sample_bytes and not is_all:
                still_wanted()
                more = read(sample_bytes - len(content))
                is_all = not more
                content += more
        if len(content) > sample_bytes:
            content, is_all = content[:sample_bytes], False
        if not is_all:
            content = content[: form.complete_end(content)]
        return cls(url, form, head, content, is_all)

    def rows(self) -> Beginning:
        head, form, name = self.head, self.form, name_of(self.url)
        width = len(head.first if head.names is None else head.names)
        names = _different(head.names or [f"column_{index}" for index in range(width)])
        starts, _, _ = form.records(self.content)
        most = most_rows(width)
        content = self.content if len(starts) <= most else self.content[: starts[most]]
        still_wanted()
        columns = CsvColumns(names=names, used=names, texts=frozenset(names))
        found = inspect(content, form, columns)
        values: dict[str, list[str | None]] = {}
        for column in names:
            still_wanted()
            values[column] = found.table.column(column).to_pylist()

        @cache
        def place(record: int) -> str:
            before = line_count(content[: int(starts[record])])
            return f"{name}, line {head.lines + before + 1}"

        problems = header_problems(self.url, head.names, form)
        for fault in found.faults:
            first, count = int(fault.rows.min()), len(fault.rows)
            fields = form.fields(found.text(first).decode(errors="backslashreplace"))
            more = f" So do {count - 1:,} more lines." if count > 1 else ""
            problems.append(
                DataProblem.error(
                    _SENTENCES[fault.reason].format(
                        place=place(first), values=len(fields), columns=width, more=more
                    ),
                    can_skip=True,
                )
            )
        if not form.header and len(found.ids) and _looks_like_names(list(values.values())):
            problems.append(
                DataProblem.error(
                    f"The first line of {name} looks like names of columns. Switch on: the first "
                    "line names the columns."
                )
            )
        return Beginning(
            names=names,
            values=values,
            rows=len(found.ids),
            place=lambda row: place(int(found.ids[row])),
            in_all=len(starts),
            left_out=min(len(starts), most) - len(found.ids),
            problems=problems,
        )


def _with_line_breaks(
    seen: _CsvBeginning, found: Beginning, sample_bytes: int
) -> tuple[_CsvBeginning, Beginning]:
    """The same read with line breaks in quotes, if that explains most of what did not fit."""
    form = replace(seen.form, newlines_in_values=True)
    try:
        other = _CsvBeginning.of(seen.url, form, sample_bytes)
    except (DataError, UnicodeDecodeError, EmptyFileError):
        return seen, found
    rows = other.rows()
    if 2 * rows.left_out > found.left_out:
        return seen, found
    line = form.skip_lines + 1
    if not any("\n" in name or "\r" in name for name in rows.names):
        where = first_line_break(other.content, form)
        if where is None:
            return seen, found
        line = other.head.lines + line_count(other.content[:where]) + 1
    advice = DataProblem.error(
        f"{name_of(seen.url)}, line {line} holds a value in quotes that goes over several lines. "
        "Switch on: values in quotes may go over several lines (`newlines_in_values`).",
        can_skip=True,
    )
    rows.problems.insert(0, advice)
    return other, rows


def header_problems(url: str, names: tuple[str, ...] | None, form: CsvFormat) -> list[DataProblem]:
    """What is wrong with the names in the header, if there is one."""
    if names is None:
        return []
    if names and all(number_of(name) is not None for name in names):
        return [
            DataProblem.error(
                f"The first line of {name_of(url)} looks like data, not like names of columns. "
                "Switch off: the first line names the columns."
            )
        ]
    found = [
        DataProblem.error(f"The header of {name_of(url)} names {name!r} more than once.", name)
        for name in sorted(name for name, count in Counter(names).items() if count > 1)
    ]
    if len(names) == 1 and any(sign in names[0] for sign in ";,\t|"):
        found.append(
            DataProblem.warning(
                f"{name_of(url)} has one column, {names[0][:60]!r}. Is there another sign between "
                f"values than {form.delimiter!r}?"
            )
        )
    return found


def _different(names: Sequence[str]) -> tuple[str, ...]:
    """Names, the second of equal ones with a number; they are an error of their own."""
    found: dict[str, None] = {}
    following: dict[str, int] = {}
    for name in names:
        candidate, number = name, following.get(name, 2)
        while candidate in found:
            candidate, number = f"{name} ({number})", number + 1
        following[name] = number
        found[candidate] = None
    return tuple(found)


def _looks_like_names(columns: Sequence[Sequence[str | None]]) -> bool:
    return all(
        column[0] is not None and number_of(column[0]) is None for column in columns
    ) and any(
        len(column) > 1 and all(v is None or number_of(v) is not None for v in column[1:])
        for column in columns
    )


def _other_headers(
    files: Sequence[StoredFile], first: StoredFile, seen: _CsvBeginning, names: tuple[str, ...]
) -> list[DataProblem]:
    """Whether the next few files have the same columns."""
    for file in [other for other in files if other.url != first.url][:_HEADERS]:
        still_wanted()
        try:
            with opened(file.url, seen.form) as (read, _):
                head, _ = read_head(read, seen.form)
        except (EmptyFileError, DataError, OSError, UnicodeDecodeError):
            continue
        other = head.first if head.names is None else head.names
        if (len(other) != len(names)) if head.names is None else (other != names):
            what = f"{', '.join(other[:_NAMED])}{' …' if len(other) > _NAMED else ''}"
            return [
                DataProblem.error(
                    f"{name_of(file.url)} has other columns than {name_of(first.url)}: {what}."
                )
            ]
    return []


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


def _columnar_rows(table: OpenTable, files: Sequence[StoredFile], shown: int) -> Beginning:
    names = table.names
    most = most_rows(len(names))
    values: dict[str, list[str | None]] = {name: [] for name in names}
    types = zip(names, table.types, strict=True)
    looks = {n: ColumnLook(name=n, kind="empty") for n, kind in types if is_nested(kind)}
    rows = seen_bytes = 0
    is_whole = True
    for _, _, batch in table.tables(names, None):
        taken = batch.slice(0, most - rows)
        for name in names:
            still_wanted()
            column = taken.column(name)
            if name in looks:
                looks[name] = _with_arrays(looks[name], column, rows)
                # Most arrays stay as they are: as text they would be huge.
                column = column.slice(0, max(0, shown - rows))
            values[name] += [_text(value) for value in column.to_pylist()]
        rows += taken.num_rows
        seen_bytes += taken.nbytes
        if rows >= most or seen_bytes >= _MOST_BYTES:
            is_whole = False
            break
    counts = [count for _, count in table.parts]
    known = sum(counts) if counts and min(counts) > 0 else None
    in_all = rows if known is None else known
    total = sum(file.size_bytes for file in files)
    is_estimate = len(files) > 1 and files[0].size_bytes > 0
    if is_estimate:
        in_all = round(in_all * total / files[0].size_bytes)
    return Beginning(
        names=names,
        values=values,
        rows=rows,
        place=lambda row: f"{name_of(files[0].url)}, row {row + 1}",
        looks=looks,
        in_all=None if known is None and not is_whole and not is_estimate else in_all,
        is_estimate=is_estimate,
    )


def _with_arrays(look: ColumnLook, column: Any, before: int) -> ColumnLook:
    """`look` with some more rows of a column of arrays."""
    first = look.first_missing
    if first is None and column.null_count:
        first = before + column.is_null().index(True).as_py()
    shape, there = look.shape, len(column) - column.null_count
    if shape is None and there:
        shape = shape_of(column[column.is_valid().index(True).as_py()])
    return replace(
        look,
        kind="array" if look.count + there else "empty",
        count=look.count + there,
        missing=look.missing + column.null_count,
        first_missing=first,
        shape=shape,
    )


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    text = str(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def most_rows(columns: int) -> int:
    """How many rows are looked at, at most."""
    return max(100, min(_MOST_ROWS, _MOST_CELLS // max(1, columns)))


def name_of(url: str) -> str:
    """The name of a file without its folders."""
    return url.rstrip("/").rpartition("/")[2]

"""The first rows of a table; of CSV files, read without Spark."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from sparkwright.data._tables._csv_blocks import EmptyFileError, Head, opened, read_head
from sparkwright.data._tables._csv_format import CsvFormat, compression_of
from sparkwright.data._tables._csv_records import complete_end, line_count, records
from sparkwright.errors import DataError
from sparkwright.storage._listing import StoredFile

from ._column_look import ColumnLook, look_at, number_of
from ._data_preview import DataProblem
from ._guessing import first_line_break
from ._time_limit import still_wanted

_MOST_ROWS, _MOST_CELLS = 10_000, 500_000
_HEADERS = 10
_NAMED = 3


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
        left_out: rows that were looked at, but are none: they have too many values, or too few.
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


def most_rows(columns: int) -> int:
    """How many rows are looked at, at most."""
    return max(100, min(_MOST_ROWS, _MOST_CELLS // max(1, columns)))


def csv_beginning(
    files: Sequence[StoredFile],
    form: CsvFormat,
    *,
    sample_bytes: int,
    prefix: str = "column_",
    can_break: bool = True,
) -> Beginning:
    """The first rows of the first CSV file that is not empty.

    Args:
        files: which.
        form: how they are written.
        sample_bytes: of text to read at most.
        prefix: of the names of columns without a header.
        can_break: whether the reader has an option for line breaks in values.

    Raises:
        DataError: if there is none to begin with, in a sentence.
        OSError: whatever the store says, naming the file.
    """
    problems: list[DataProblem] = []
    for file in files:
        try:
            head, content, is_all = _csv_content(file.url, form, sample_bytes)
        except EmptyFileError:
            problems.append(DataProblem.warning(f"{name_of(file.url)} is empty."))
            continue
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name_of(file.url)} is no text in {form.encoding}: {error.reason} at byte "
                f"{error.start}. Give its encoding."
            ) from None
        found = _csv_rows(file.url, form, head, content, prefix)
        if found.left_out and can_break and not form.newlines_in_values:
            multiline = replace(form, newlines_in_values=True)
            other = _with_line_breaks(file.url, multiline, sample_bytes, prefix, found.left_out)
            if other is not None:
                form = multiline
                found, head, content, is_all = other
        found.problems = problems + found.problems + _other_headers(files, file, form, found.names)
        used = len(content) + head.size_bytes
        if is_all and len(files) == 1:
            found.is_estimate = False
        elif compression_of(file.url) is None and form.is_utf8 and used > head.size_bytes:
            seen = found.in_all or 0
            total = sum(other.size_bytes for other in files)
            found.in_all = round(seen * max(1.0, (total - head.size_bytes) / len(content)))
            found.is_estimate = True
        else:
            found.in_all = None
        return found
    raise DataError(f"there must be rows. Received: {len(files)} files, all empty.")


def _csv_content(url: str, form: CsvFormat, sample_bytes: int) -> tuple[Head, bytes, bool]:
    with opened(url, form) as (read, _):
        head, content = read_head(read, form)
        is_all = False
        while len(content) < sample_bytes and not is_all:
            still_wanted()
            more = read(sample_bytes - len(content))
            is_all = not more
            content += more
    if len(content) > sample_bytes:
        content, is_all = content[:sample_bytes], False
    if not is_all:
        end = complete_end(
            content,
            delimiter=form.delimiter_byte,
            quote=form.quote_byte,
            multiline=form.newlines_in_values,
        )
        content = content[:end]
    return head, content, is_all


def _with_line_breaks(
    url: str, form: CsvFormat, sample_bytes: int, prefix: str, left_out: int
) -> tuple[Beginning, Head, bytes, bool] | None:
    """The same read with line breaks in quotes, if that explains most of what did not fit.

    Args:
        url: of the file.
        form: with line breaks in values.
        sample_bytes: of text to read at most.
        prefix: of the names of columns without a header.
        left_out: rows that did not fit without.
    """
    try:
        head, content, is_all = _csv_content(url, form, sample_bytes)
    except (DataError, UnicodeDecodeError, EmptyFileError):
        return None
    found = _csv_rows(url, form, head, content, prefix)
    if 2 * found.left_out > left_out:
        return None
    names = head.names or head.first
    if not any("\n" in name or "\r" in name for name in names):
        where = first_line_break(content, form)
        if where is None:
            return None
        line = head.lines + line_count(content[:where]) + 1
    else:
        line = form.skip_lines + 1
    advice = DataProblem.error(
        f"{name_of(url)}, line {line} holds a value in quotes that goes over several lines. Switch "
        "on: values in quotes may go over several lines (`newlines_in_values`).",
        can_skip=True,
    )
    found.problems.insert(0, advice)
    return found, head, content, is_all


def _csv_rows(url: str, form: CsvFormat, head: Head, content: bytes, prefix: str) -> Beginning:
    starts, ends, fields = records(
        content,
        delimiter=form.delimiter_byte,
        quote=form.quote_byte,
        multiline=form.newlines_in_values,
    )
    width = len(head.first if head.names is None else head.names)
    names = head.names or tuple(f"{prefix}{index}" for index in range(width))
    problems = _header_problems(url, head, form)
    names = _different(names)

    @cache
    def place(record: int) -> str:
        before = line_count(content[: int(starts[record])])
        return f"{name_of(url)}, line {head.lines + before + 1}"

    most = most_rows(width)
    kept: list[int] = []
    columns: list[list[str | None]] = [[] for _ in names]
    missing = set(form.missing_values)
    ragged: list[int] = []
    for record in range(min(len(starts), most)):
        still_wanted()
        if fields[record] != width:
            ragged.append(record)
            continue
        text = content[starts[record] : ends[record]].decode(errors="backslashreplace")
        for column, value in zip(columns, form.fields(text), strict=False):
            column.append(None if value in missing else value)
        kept.append(record)
    problems += _ragged(ragged, fields, width, place)
    if not form.header and kept and _looks_like_names(columns):
        problems.append(
            DataProblem.error(
                f"The first line of {name_of(url)} looks like names of columns. Switch on: the "
                "first line names the columns."
            )
        )
    if (bad := _first_bad_byte(content[: int(ends[kept[-1]])] if kept else content)) is not None:
        line = head.lines + line_count(content[:bad]) + 1
        problems.append(
            DataProblem.error(
                f"{name_of(url)}, line {line} is no UTF-8. Give its encoding, as latin-1."
            )
        )
    return Beginning(
        names=names,
        values=dict(zip(names, columns, strict=True)),
        rows=len(kept),
        place=lambda row: place(kept[row]),
        in_all=len(starts),
        left_out=len(ragged),
        problems=problems,
    )


def _header_problems(url: str, head: Head, form: CsvFormat) -> list[DataProblem]:
    names = head.names
    if names is None:
        return []
    if names and all(number_of(name) is not None for name in names):
        return [
            DataProblem.error(
                f"The first line of {name_of(url)} looks like data, not like names of columns. "
                "Switch off: the first line names the columns."
            )
        ]
    double = sorted(name for name, count in Counter(names).items() if count > 1)
    found = [
        DataProblem.error(f"The header of {name_of(url)} names {name!r} more than once.", name)
        for name in double
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


def _ragged(
    rows: Sequence[int], fields: Any, width: int, place: Callable[[int], str]
) -> list[DataProblem]:
    if not rows:
        return []
    first = rows[0]
    count = int(fields[first])
    what = "has a quote that is not closed" if count == 0 else f"has {count} values"
    more = f" So do {len(rows) - 1:,} more lines." if len(rows) > 1 else ""
    return [
        DataProblem.error(
            f"{place(first)} {what}, where there are {width} columns.{more} Check the sign between "
            "values, or leave out what does not fit.",
            can_skip=True,
        )
    ]


def _looks_like_names(columns: Sequence[Sequence[str | None]]) -> bool:
    return all(
        column[0] is not None and number_of(column[0]) is None for column in columns
    ) and any(
        len(column) > 1 and all(v is None or number_of(v) is not None for v in column[1:])
        for column in columns
    )


def _first_bad_byte(content: bytes) -> int | None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _other_headers(
    files: Sequence[StoredFile], first: StoredFile, form: CsvFormat, names: tuple[str, ...]
) -> list[DataProblem]:
    """Whether the next few files have the same columns."""
    found: list[DataProblem] = []
    for file in [other for other in files if other.url != first.url][:_HEADERS]:
        still_wanted()
        try:
            with opened(file.url, form) as (read, _):
                head, _ = read_head(read, form)
        except (EmptyFileError, DataError, OSError, UnicodeDecodeError):
            continue
        other = head.names if head.names is not None else head.first
        if (other != names) if head.names is not None else (len(other) != len(names)):
            found.append(
                DataProblem.error(
                    f"{name_of(file.url)} has other columns than {name_of(first.url)}: "
                    f"{', '.join(other[:_NAMED])}{' …' if len(other) > _NAMED else ''}."
                )
            )
            break
    return found


def name_of(url: str) -> str:
    """The name of a file without its folders."""
    return url.rstrip("/").rpartition("/")[2]

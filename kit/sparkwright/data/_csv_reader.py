"""Read CSV files, whole or in pieces: blocks by PyArrow or, if that fails, record by record.

Record by record, faults are reported with their line, and valid records are kept.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._csv_blocks import (
    OPEN_QUOTE,
    blocks,
    count_lines,
    limit_bytes,
    line_begin,
    open_csv,
    read_head,
)
from sparkwright.data._csv_format import CsvFormat, beginning, line_count, number_of, readable
from sparkwright.data._skipped import Fault, SkipLog, UnusableItem, report, taken
from sparkwright.data._table_schema import TableSchema, check_columns
from sparkwright.data.tables import Convert, Piece, unreadable
from sparkwright.data.wording import listed, text_remedy
from sparkwright.errors import DataError
from sparkwright.storage.listing import StoredFile

_PACKED = ("", ".gz", ".bz2", ".zst")
ENDINGS = tuple(f"{kind}{packed}" for kind in ("csv", "tsv", "txt") for packed in _PACKED)
_SPACES = re.compile(rb"^[ \t]+$", re.MULTILINE)
# Larger blocks are halved until PyArrow can parse one part.
_BY_RECORD_BYTES = 64 << 10


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvReader:
    """Reader of CSV files; the parts of a `Piece` are byte ranges."""

    form: CsvFormat
    names: tuple[str, ...]  # all columns of the files
    used: tuple[str, ...]  # columns to read
    texts: frozenset[str]  # columns to read as text
    is_exact: bool = True  # every header must equal `names`, not only contain the used columns

    @classmethod
    def of(
        cls,
        files: Sequence[StoredFile],
        form: CsvFormat,
        schema: TableSchema | None = None,
        *,
        is_exact: bool = True,
    ) -> "CsvReader":
        """Create a reader of all columns as text; names come from the header or from `schema`."""
        trouble = ""
        for file in files:
            # Invalid files are reported when they are read, unless all files are invalid.
            try:
                with open_csv(file.url, form) as (read, _):
                    names = read_head(read, form, file.url)[0].fields
            except (UnusableItem, OSError) as error:
                trouble = trouble or _in_one_line(error)
            else:
                names = _usable_names(names, form, schema, file.url)
                used, texts = names, frozenset(names)
                return cls(form=form, names=names, used=used, texts=texts, is_exact=is_exact)
        raise DataError(trouble)

    def taking(self, used: Sequence[str], texts: Iterable[str]) -> "CsvReader":
        """Return a reader of the columns `used`; those in `texts` are read as text."""
        return replace(self, used=tuple(used), texts=frozenset(texts))

    def shapes(self, _files: object, _names: object) -> dict[str, tuple[int, ...]]:
        """Return an empty dict: CSV files have no array columns."""
        return {}

    def pieces(self, files: Sequence[StoredFile], piece_bytes: int) -> list[Piece]:
        """Split files that can be split into byte ranges; other files are one piece."""
        found: list[Piece] = []
        for file in files:
            size, url = file.size_bytes, file.url
            if not self.form.can_split(url):
                found.append(Piece(url=url, size_bytes=size))
                continue
            count = max(1, -(-size // piece_bytes))
            bounds = [size * index // count for index in range(count + 1)]
            found += [
                Piece(url=url, parts=(a, b), is_whole=count == 1, size_bytes=b - a)
                for a, b in pairwise(bounds)
            ]
        return found

    def read(self, piece: Piece, log: SkipLog, convert: Convert) -> Iterator[Any]:
        """Yield the converted blocks of a piece; DataErrors name the file and line."""
        trouble = None
        try:
            with open_csv(piece.url, self.form) as (read, file):
                head, carried = read_head(read, self.form, piece.url)
                reader = replace(self, names=self._names_in(head.fields, piece.url))
                lines_before: Callable[[], int] = partial(int, head.lines)
                if piece.parts is not None:
                    begin, end = (max(head.size_bytes, line_begin(file, at)) for at in piece.parts)
                    file.seek(begin)
                    carried, read = b"", limit_bytes(file.read, end - begin)
                    lines_before = cache(partial(count_lines, piece.url, begin))

                def place(line: int) -> str:
                    return f"{piece.url}, line {lines_before() + line + 1}"

                for block, before in blocks(read, carried, self.form, place, log):
                    yield from reader._converted(block, before, convert, place, log)
        except UnusableItem as error:
            # All parts of a file share its head, so only the first reports the error.
            if piece.is_first or log.raises:
                trouble = error.reason, error.message
        except OSError as error:
            trouble = unreadable(piece), _in_one_line(error)
        if trouble is not None:
            log.skip(*trouble)

    def _names_in(self, header: tuple[str, ...], url: str) -> tuple[str, ...]:
        """Return the columns of a file; UnusableItem if its header does not fit."""
        given = self.form.column_names
        if not self.form.header:
            return self.names
        if given is None:
            check_columns(self, header, url, reason="unusable header")
        elif len(given) != len(header):
            raise UnusableItem("unusable header", _wrong_width(given, len(header), url))
        return given or header

    def _converted(
        self, block: bytes, before: int, convert: Convert, place: Callable[[int], str], log: SkipLog
    ) -> Iterator[Any]:
        """Yield the converted valid records of a block, if there are any; report the others."""
        table, faults = self._parsed(block), list[Fault]()
        if table is None and len(block) > _BY_RECORD_BYTES:
            half = self.form.complete_end(block[: len(block) // 2])
            if half:
                for part in (block[:half], block[half:]):
                    yield from self._converted(part, before, convert, place, log)
                    before += line_count(part)
                return
        # Records are read for messages alone if PyArrow could parse the block.
        found = cache(partial(_Records, self, block))
        if table is None:
            table, ids, faults = found().checked()
            rows = len(found().records)
        else:
            rows = table.num_rows
            ids = np.arange(rows)
        made, others = convert(table, lambda name, row: found().value(name, int(ids[row])))
        # Row numbers of the table become record numbers of the block.
        faults += [
            replace(
                fault,
                rows=ids[fault.rows],
                message=lambda row, fault=fault: fault.message(int(np.searchsorted(ids, row))),
            )
            for fault in others
        ]
        good = report(faults, rows, lambda row: place(before + found().line(row)), log)
        made = taken(made, None if good is None else good[ids]) if len(ids) else None
        if made is not None:
            yield made

    def _parsed(self, block: bytes) -> Any | None:
        """Return an Arrow table of a block; None if PyArrow may misread a record."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        block = self.form.doubled(block)
        parsing, converting = _options(self)
        reading: Any = arrow_csv.ReadOptions(
            use_threads=False, column_names=list(self.names), block_size=len(block) + 1
        )
        try:
            table = arrow_csv.read_csv(
                pa.py_buffer(block),
                read_options=reading,
                parse_options=parsing,
                convert_options=converting,
            )
        except pa.ArrowInvalid:
            return None
        if len(self.names) == 1 and _SPACES.search(block):
            return None  # PyArrow reads a line of spaces as a value
        if not self.form.has_quotes(block):
            return table
        if self.form.well_formed_quotes(block) is None:
            return None  # PyArrow adds text after a closing quote to the value
        if self.form.newlines_in_values:
            return table
        # A value with an unclosed quote ends on another line, or with the block.
        lines = line_count(block) + (block[-1:] not in b"\r\n")
        last = block[block.rfind(b"\n", 0, -1) + 1 :].splitlines(keepends=True)
        is_closed = all(record.is_closed for record in self.form.records(last))
        return table if table.num_rows == lines and is_closed else None


class _Records:
    """A block that is read record by record."""

    def __init__(self, reader: CsvReader, block: bytes) -> None:
        self._reader, self._lines = reader, block.splitlines(keepends=True)
        self.records = list(reader.form.records(self._lines))

    def line(self, row: int) -> int:
        """Return the number of the line where a record begins, from 0."""
        return self.records[row].begin

    def value(self, name: str, row: int) -> str:
        return readable(self.records[row].fields[self._reader.names.index(name)])

    def checked(self) -> tuple[Any, NDArray[np.int64], list[Fault]]:
        """Return the valid records as an Arrow table, their numbers, and the faults of others."""
        import pyarrow as pa

        width = len(self._reader.names)
        opened, longer, uneven, whole = list[int](), list[int](), list[int](), list[int]()
        for row, record in enumerate(self.records):
            fits = whole if len(record.fields) == width else uneven
            closed = fits if record.ends_at_quotes else longer
            (closed if record.is_closed else opened).append(row)
        faults = [
            Fault(
                reason=OPEN_QUOTE,
                rows=np.array(opened, np.int64),
                message=lambda row: self._reader.form.open_quote(self._lines[self.line(row)]),
            ),
            Fault(
                reason="text after a quoted value",
                rows=np.array(longer, np.int64),
                message=lambda row: self._reader.form.text_after_quote(self._lines[self.line(row)]),
            ),
            Fault(
                reason="wrong number of columns",
                rows=np.array(uneven, np.int64),
                message=lambda row: (
                    f"each record must have {width} fields. Received: "
                    f"{len(self.records[row].fields)} in {beginning(self._lines[self.line(row)])}. "
                    "Check `delimiter` and `quote`."
                ),
            ),
        ]
        ids = np.array(whole, np.int64)
        good = np.ones(len(ids), np.bool_)
        missing, typed = frozenset(self._reader.form.missing_values), dict[str, Any]()
        for name in self._reader.used:
            column = self._reader.names.index(name)
            fields = [self.records[row].fields[column] for row in whole]
            kind, parse = pa.float64(), number_of
            if name in self._reader.texts:
                kind, parse = pa.dictionary(pa.int32(), pa.string()), _text_of
            values = [None if field in missing else parse(field) for field in fields]
            pairs = zip(values, fields, strict=True)
            bad = np.array([v is None and f not in missing for v, f in pairs], np.bool_)
            faults.append(self._value_fault(name, ids[bad]))
            good &= ~bad
            typed[name] = pa.array(values, kind)
        return pa.table(typed).filter(pa.array(good)), ids[good], faults

    def _value_fault(self, name: str, rows: NDArray[np.int64]) -> Fault:
        rule = "hold numbers"
        remedy = f"{text_remedy(name)}; if it means a missing value, set `missing_values`."
        is_text = name in self._reader.texts
        if is_text:
            rule = f"be {self._reader.form.encoding.upper()}"
            remedy = 'Set the file\'s `encoding`, such as "latin-1".'
        value = partial(self.value, name)
        return Fault(
            reason="not in the encoding" if is_text else "not a number",
            column=name,
            received=None if is_text else value,
            rows=rows,
            message=lambda row: (
                f"column {name!r} must {rule}. Received: {value(row)!r:.80}. {remedy}"
            ),
        )


@lru_cache(maxsize=64)
def _options(reader: CsvReader) -> tuple[Any, Any]:
    """Return Arrow's options; cached, because creating them takes as long as a small file."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    form, text, number = reader.form, pa.dictionary(pa.int32(), pa.string()), pa.float64()
    parsing: Any = arrow_csv.ParseOptions(
        delimiter=form.delimiter,
        quote_char=form.quote or False,
        newlines_in_values=form.newlines_in_values,
    )
    converting: Any = arrow_csv.ConvertOptions(
        include_columns=list(reader.used),
        column_types={name: text if name in reader.texts else number for name in reader.used},
        null_values=list(form.missing_values),
        strings_can_be_null=True,
    )
    return parsing, converting


def _text_of(field: str) -> str | None:
    return field if readable(field) == field else None


def _usable_names(
    header: tuple[str, ...], form: CsvFormat, schema: TableSchema | None, url: str
) -> tuple[str, ...]:
    """Return the columns of files whose first line is `header`; DataError if it is invalid."""
    count = len(header)
    if form.column_names is not None:
        if count != len(form.column_names):
            raise DataError(_wrong_width(form.column_names, count, url))
        return form.column_names
    if not form.header:
        if schema is not None and len(schema.columns) == count:
            return schema.columns
        return tuple(f"column_{index}" for index in range(count))
    if len(set(header)) < count:
        raise DataError(
            f"{url}: the names in the header must be unique. Received: {listed(header)}. Replace "
            "them with `column_names`."
        )
    # "nan" may be a name.
    if not any(number_of(name) is None or name.strip().isalpha() for name in header):
        raise DataError(
            f"{url}: the first line must hold the column names. Received: only numbers, "
            f"{listed(header)}. For a file without a header, set `header=False`; if these are "
            "names, pass them as `column_names`."
        )
    return header


def _wrong_width(given: tuple[str, ...], count: int, url: str) -> str:
    return (
        f"{url}: `column_names` must have one name per column. Received: {len(given)} names for "
        f"{count} columns."
    )


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())

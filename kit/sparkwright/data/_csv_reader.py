"""Read CSV files, whole or in pieces."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, BinaryIO

from sparkwright.data._csv_blocks import (
    EmptyFileError,
    Head,
    Read,
    blocks,
    count_lines,
    limit_bytes,
    line_begin,
    open_csv,
    read_head,
    wrong_bytes,
)
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._csv_parse import CsvColumns, convert_block
from sparkwright.data._table_schema import TableSchema, listed
from sparkwright.data.pieces import SkipLog
from sparkwright.data.tables import Convert, Piece, unreadable
from sparkwright.errors import DataError
from sparkwright.storage.listing import StoredFile

_PACKED = ("", ".gz", ".bz2", ".zst")
ENDINGS = tuple(f"{kind}{packed}" for kind in ("csv", "tsv", "txt") for packed in _PACKED)


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvReader:
    """Reader of CSV files; the parts of a `Piece` are byte ranges.

    Attributes:
        form: the CSV dialect.
        columns: the columns to read.
        is_exact: whether every header must equal `columns.names`; otherwise it must contain the
            used columns in any order.
    """

    form: CsvFormat
    columns: CsvColumns
    is_exact: bool = True

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
        names = columns_of(files, form, schema)
        columns = CsvColumns(names=names, used=names, texts=frozenset(names))
        return cls(form=form, columns=columns, is_exact=is_exact)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the files."""
        return self.columns.names

    def taking(self, used: Sequence[str], texts: Iterable[str]) -> "CsvReader":
        """Return a reader of the columns `used`; those in `texts` are read as text."""
        columns = replace(self.columns, used=tuple(used), texts=frozenset(texts))
        return replace(self, columns=columns)

    def shapes(
        self, files: Sequence[StoredFile], names: Sequence[str]
    ) -> dict[str, tuple[int, ...]]:
        """Return an empty dict: CSV files have no array columns."""
        del files, names
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
        for content, columns, place in self.blocks(piece, log):
            made = convert_block(content, self.form, columns, convert, place, log)
            if made is not None:
                yield made

    def blocks(
        self, piece: Piece, log: SkipLog
    ) -> Iterator[tuple[bytes, CsvColumns, Callable[[int], str]]]:
        """Yield blocks of whole records, their columns, and line (from 0) -> location."""
        trouble = None
        try:
            with open_csv(piece.url, self.form) as (read, file):
                yield from self._blocks(piece, log, read, file)
        except EmptyFileError:
            trouble = "empty file", f"{piece.url}: a file must not be empty. Write it again."
        except UnicodeDecodeError as error:
            trouble = (
                "not in the encoding",
                f"{piece.url}: the first line must be {self.form.encoding}. Received: "
                f"{wrong_bytes(error)}. Set `encoding`.",
            )
        except OSError as error:
            log.skip(unreadable(piece), " ".join(str(error).split()))
        # All parts of a file share its head, so only the first reports the error.
        if trouble is not None and piece.is_first:
            log.skip(*trouble)

    def _blocks(
        self, piece: Piece, log: SkipLog, read: Read, file: BinaryIO
    ) -> Iterator[tuple[bytes, CsvColumns, Callable[[int], str]]]:
        try:
            head, carried = read_head(read, self.form)
            columns = replace(self.columns, names=self._checked_names(head))
        except DataError as error:
            if piece.is_first or log.raises:
                log.skip("unusable header", f"{piece.url}: {error}")
            return
        lines_before: Callable[[], int] = partial(int, head.lines)
        if piece.parts is not None:
            begin, end = (max(head.size_bytes, line_begin(file, at)) for at in piece.parts)
            file.seek(begin)
            carried, read = b"", limit_bytes(file.read, end - begin)
            lines_before = cache(partial(count_lines, piece.url, begin))

        def place(line: int) -> str:
            return f"{piece.url}, line {lines_before() + line + 1}"

        for content, lines in blocks(read, carried, self.form, place, log):
            yield content, columns, lambda line, lines=lines: place(lines + line)

    def _checked_names(self, head: Head) -> tuple[str, ...]:
        expected, names = self.columns.names, head.fields
        if not self.form.header:
            return expected
        if self.form.column_names is not None:
            if len(names) != len(self.form.column_names):
                raise DataError(
                    f"the header must have as many columns as `column_names`, "
                    f"{len(self.form.column_names)}. Received: {len(names)}, {listed(names)}."
                )
            return self.form.column_names
        if self.is_exact and names != expected:
            raise DataError(
                f"all files must have the header of the first file, {listed(expected)}. "
                f"Received: {listed(names)}."
            )
        absent = [name for name in self.columns.used if name not in names]
        if absent or len(set(names)) < len(names):
            raise DataError(
                f"the header must have each of the columns {listed(self.columns.used)} once. "
                f"Received: {listed(names)}."
            )
        return names


def columns_of(
    files: Sequence[StoredFile], form: CsvFormat, schema: TableSchema | None = None
) -> tuple[str, ...]:
    """Return the columns of the first readable file; DataError if its header is invalid."""
    head, url = _first_head(files, form)
    names, count = head.fields, len(head.fields)
    if form.column_names is not None:
        if count != len(form.column_names):
            raise DataError(
                f"{url}: `column_names` must have one name per column. Received: "
                f"{len(form.column_names)} names for {count} columns."
            )
        return form.column_names
    if not form.header:
        if schema is not None and len(schema.columns) == count:
            return schema.columns
        return tuple(f"column_{index}" for index in range(count))
    if len(set(names)) < count:
        raise DataError(
            f"{url}: the names in the header must be unique. Received: {listed(names)}. Replace "
            "them with `column_names`."
        )
    if all(map(_is_number, names)):
        raise DataError(
            f"{url}: the first line must hold the column names. Received: only numbers, "
            f"{listed(names)}. For a file without a header, set `header=False`; if these are "
            "names, pass them as `column_names`."
        )
    return names


def _first_head(files: Sequence[StoredFile], form: CsvFormat) -> tuple[Head, str]:
    trouble = ""
    for file in files:
        # Invalid files are reported when they are read, unless all files are invalid.
        try:
            with open_csv(file.url, form) as (read, _):
                return read_head(read, form)[0], file.url
        except EmptyFileError:
            continue
        except UnicodeDecodeError as error:
            found = (
                f"{file.url}: the first line must be {form.encoding}. Received: {error.reason} at "
                f"byte {error.start}. Set `encoding`."
            )
        except DataError as error:
            found = f"{file.url}: {error}"
        except OSError as error:
            found = " ".join(str(error).split())
        trouble = trouble or found
    after = f" after the {form.skip_lines} skipped ones (`skip_lines`)" if form.skip_lines else ""
    raise DataError(
        trouble
        or f"at least one file must have a line{after}. Received: "
        f"{listed([file.url for file in files])} without one."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.strip().isalpha()  # "nan" may be a name

"""What an executor does with a piece of a CSV file: blocks in, DataSets (or anything else) out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, BinaryIO

import numpy as np

from sparkwright.data._pieces import SkipLog
from sparkwright.errors import DataError

from ._csv_blocks import (
    Block,
    CsvPiece,
    EmptyFileError,
    Head,
    Read,
    blocks,
    count_lines,
    line_begin,
    opened,
    read_head,
    wrong_bytes,
)
from ._csv_format import CsvFormat
from ._csv_parse import CsvColumns, inspect, parse
from ._table_schema import listed
from ._tables import Fault, Mask, report, unreadable

# A table, what messages show of it -> anything, and what is wrong with rows of the table.
Convert = Callable[[Any, Callable[[str, int], Any] | None], tuple[Any, list[Fault]]]
# The result of `Convert`, which of its rows are good.
Take = Callable[[Any, Mask], Any]
_NAMED = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvReader:
    """Reads pieces of CSV files.

    Attributes:
        form: how the files are written.
        columns: what to take from them.
        is_exact: whether every header must equal `columns.names`; otherwise the columns that are
            used must be in it, anywhere.
    """

    form: CsvFormat
    columns: CsvColumns
    is_exact: bool

    def read(self, piece: CsvPiece, log: SkipLog, convert: Convert, take: Take) -> Iterator[Any]:
        """What `convert` makes of the blocks of a piece.

        Raises:
            DataError: naming file and line, with `on_error="raise"`.
        """
        trouble = None
        try:
            with opened(piece.url, self.form) as (read, file):
                yield from self._read(piece, log, convert, take, read, file)
        except EmptyFileError:
            trouble = "empty file", f"{piece.url}: a file must not be empty. Look at what wrote it."
        except UnicodeDecodeError as error:
            trouble = (
                "not in the encoding",
                f"{piece.url}: the first line must be {self.form.encoding}. Received: "
                f"{wrong_bytes(error)}. Give its `encoding`.",
            )
        except OSError as error:
            log.skip(unreadable(is_whole=piece.is_whole), " ".join(str(error).split()))
        # All parts of a file begin with its head: the first speaks for the others.
        if trouble is not None and piece.begin == 0:
            log.skip(*trouble)

    def _read(
        self,
        piece: CsvPiece,
        log: SkipLog,
        convert: Convert,
        take: Take,
        read: Read,
        file: BinaryIO,
    ) -> Iterator[Any]:
        try:
            head, rest = read_head(read, self.form)
            names = self._names(head)
        except DataError as error:
            if piece.begin == 0 or log.raises:
                log.skip("unusable header", f"{piece.url}: {error}")
            return
        columns = replace(self.columns, names=names)
        if piece.end is None:
            carried, left = rest, None
            lines_before: Callable[[], int] = partial(int, head.lines)
        else:
            begin, end = (
                max(head.size_bytes, line_begin(file, at)) for at in (piece.begin, piece.end)
            )
            file.seek(begin)
            carried, left = b"", end - begin
            lines_before = cache(partial(count_lines, piece.url, begin))
        found = blocks(
            read, carried, left, self.form, lines_before=lines_before, url=piece.url, log=log
        )
        for block in found:
            made = self._made(block, columns, piece.url, log, convert, take)
            if made is not None:
                yield made

    def _names(self, head: Head) -> tuple[str, ...]:
        expected = self.columns.names
        if head.names is None:
            return expected
        names = head.names
        if self.form.column_names is not None:
            if len(names) != len(self.form.column_names):
                raise DataError(
                    f"the header must have as many columns as `column_names`, "
                    f"{len(self.form.column_names)}. Received: {len(names)}, {listed(names)}."
                )
            return self.form.column_names
        if self.is_exact and names != expected:
            raise DataError(
                f"all files must have the header of the first, {listed(expected)}. "
                f"Received: {listed(names)}."
            )
        absent = [name for name in self.columns.used if name not in names]
        if absent or len(set(names)) < len(names):
            raise DataError(
                f"the header must have each of the columns {listed(self.columns.used)} once. "
                f"Received: {listed(names)}."
            )
        return names

    def _made(
        self,
        block: Block,
        columns: CsvColumns,
        url: str,
        log: SkipLog,
        convert: Convert,
        take: Take,
    ) -> Any:
        """What is made of a block; None if it has no good record."""
        table = parse(block.content, self.form, columns)
        if table is not None:
            made, faults = convert(table, None)
            if not faults:
                return made if table.num_rows else None
            # Line numbers cost: they are found while there is room for messages.
            named_enough = len(log.skipped.first) >= _NAMED
            if named_enough and (not log.raises or all(fault.is_wanted for fault in faults)):
                good = report(faults, table.num_rows, lambda _row: url, log)
                return _taken(made, good, take)
        found = inspect(block.content, self.form, columns)
        made, faults = convert(found.table, found.shown)
        ids = found.ids
        faults = found.faults + [_of_records(fault, ids) for fault in faults]

        def place(record: int) -> str:
            return f"{url}, line {block.lines_before() + int(found.lines[record]) + 1}"

        good = report(faults, len(found.lines), place, log)
        if not len(ids):
            return None
        return made if good is None else _taken(made, good[ids], take)


def _of_records(fault: Fault, ids: Any) -> Fault:
    """A fault of rows of a table, as one of records of a block."""
    return replace(
        fault,
        rows=ids[fault.rows],
        message=lambda record: fault.message(int(np.searchsorted(ids, record))),
    )


def _taken(made: Any, good: Mask | None, take: Take) -> Any:
    if good is None or good.all():
        return made
    return take(made, good) if good.any() else None

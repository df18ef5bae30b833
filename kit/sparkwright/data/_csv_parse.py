"""Parse CSV text to columns: a whole block by PyArrow or, if that fails, record by record.

Record by record, faults are reported with their line, and valid records are kept.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._csv_blocks import LONGEST_RECORD_BYTES
from sparkwright.data._csv_format import CsvFormat, line_count
from sparkwright.data.pieces import SkipLog
from sparkwright.data.tables import NAMED, Convert, Fault, report, taken
from sparkwright.data.wording import text_remedy


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvColumns:
    """Columns of the records: all `names`, those `used`, and the used ones read as `texts`."""

    names: tuple[str, ...]
    used: tuple[str, ...]
    texts: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspected:
    """A block, parsed record by record.

    Attributes:
        table: the valid records.
        ids: (rows,) record number of each row of `table`.
        starts: (records,) start of each record in the block.
        faults: faults of the invalid records.
        shown: (column, row of `table`) -> the original text.
        text: record number -> the record's bytes.
    """

    table: Any
    ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    faults: list[Fault]
    shown: Callable[[str, int], Any]
    text: Callable[[int], bytes]


def parse(content: bytes, form: CsvFormat, columns: CsvColumns) -> Any | None:
    """Parse all records to an Arrow table; None if they need `inspect`."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    parsing, converting = _options(form, columns)
    reading: Any = arrow_csv.ReadOptions(
        use_threads=False, column_names=list(columns.names), block_size=len(content) + 1
    )
    try:
        table = arrow_csv.read_csv(
            pa.py_buffer(content),
            read_options=reading,
            parse_options=parsing,
            convert_options=converting,
        )
    except pa.ArrowInvalid:
        return None
    return table if form.is_plain(content, table.num_rows) else None


@lru_cache(maxsize=64)
def _options(form: CsvFormat, columns: CsvColumns) -> tuple[Any, Any]:
    """Return Arrow's options; cached, because creating them takes as long as a small file."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    text, number = pa.dictionary(pa.int32(), pa.string()), pa.float64()
    parsing: Any = arrow_csv.ParseOptions(
        delimiter=form.delimiter,
        quote_char=form.quote or False,
        newlines_in_values=form.newlines_in_values,
    )
    converting: Any = arrow_csv.ConvertOptions(
        include_columns=list(columns.used),
        column_types={name: text if name in columns.texts else number for name in columns.used},
        null_values=list(form.missing_values),
        strings_can_be_null=True,
    )
    return parsing, converting


def inspect(content: bytes, form: CsvFormat, columns: CsvColumns) -> Inspected:
    """Parse each record separately, collecting valid records in a table and faults of others."""
    import pyarrow as pa

    starts, ends, closed = form.records(content)
    whole = np.flatnonzero(closed)
    rows = _rows(b"\n".join([content[starts[i] : ends[i]] for i in whole]), form)
    width = len(columns.names)
    counts = {i: len(row) for i, row in zip(whole.tolist(), rows, strict=True) if len(row) != width}
    faults = _structural_faults(content, starts, closed, counts, form, columns)
    ids = np.array([i for i in whole.tolist() if i not in counts], np.int64)
    values_of = list(zip(*(row for row in rows if len(row) == width), strict=True))
    good = np.ones(len(ids), np.bool_)
    texts: dict[str, Any] = {}
    typed: dict[str, Any] = {}
    for name in columns.used:
        is_text = name in columns.texts
        found = values_of[columns.names.index(name)] if values_of else ()
        texts[name], not_utf8 = _texts(found, form)
        if is_text:
            typed[name], bad = texts[name].dictionary_encode(), not_utf8
        else:
            typed[name], bad = to_numbers(texts[name])
        if bad.any():
            faults.append(conversion_fault(name, texts[name], bad, ids=ids, is_text=is_text))
            good &= ~bad
    keep = np.flatnonzero(good)
    return Inspected(
        table=pa.table(typed).take(pa.array(keep)),
        ids=ids[keep],
        starts=starts,
        faults=faults,
        shown=lambda name, row: texts[name][keep[row]].as_py(),
        text=lambda record: content[starts[record] : ends[record]],
    )


def _rows(content: bytes, form: CsvFormat) -> list[list[str]]:
    """Return the fields of each record; invalid UTF-8 bytes become surrogates."""
    usual = csv.field_size_limit(LONGEST_RECORD_BYTES)
    try:
        return list(form.rows(content.decode(errors="surrogateescape")))
    finally:
        csv.field_size_limit(usual)


def _texts(values: Sequence[str], form: CsvFormat) -> tuple[Any, NDArray[np.bool_]]:
    """Return an Arrow column with nulls for missing values, and a mask of invalid UTF-8."""
    import pyarrow as pa
    import pyarrow.compute

    functions: Any = pyarrow.compute
    wrong = np.zeros(len(values), np.bool_)
    try:
        text = pa.array(values, pa.string())
    except UnicodeEncodeError:
        raw = [value.encode(errors="surrogateescape") for value in values]
        shown = [value.decode(errors="backslashreplace") for value in raw]
        wrong = np.array([a != b for a, b in zip(values, shown, strict=True)])
        text = pa.array(shown, pa.string())
    missing = functions.is_in(text, value_set=pa.array(form.missing_values, pa.string()))
    return functions.if_else(missing, pa.scalar(None, pa.string()), text), wrong


def _structural_faults(
    content: bytes,
    starts: NDArray[np.int64],
    closed: NDArray[np.bool_],
    counts: Mapping[int, int],
    form: CsvFormat,
    columns: CsvColumns,
) -> list[Fault]:
    def beginning(row: int) -> str:
        text = content[starts[row] : starts[row] + 60].splitlines()[0]
        return repr(text[:40].decode(errors="backslashreplace")) + (" …" if len(text) > 40 else "")

    where, remedy = " on its line", "Close it, or allow such values: `newlines_in_values=True`"
    if form.newlines_in_values:
        where, remedy = "", "Close it; otherwise the rest of the file is part of the value"
    found = [
        Fault(
            reason="quote that is not closed",
            rows=np.flatnonzero(~closed),
            message=lambda row: (
                f"a quoted value must end{where}. Received: {beginning(row)}. {remedy}."
            ),
        ),
        Fault(
            reason="wrong number of columns",
            rows=np.array(list(counts), np.int64),
            message=lambda row: (
                f"each record must have {len(columns.names)} fields. Received: {counts[row]} in "
                f"{beginning(row)}. Check `delimiter` and `quote`."
            ),
        ),
    ]
    return [fault for fault in found if fault.rows.size]


def conversion_fault(
    name: str,
    text: Any,
    bad: NDArray[np.bool_],
    *,
    ids: NDArray[np.int64],
    is_text: bool = False,
) -> Fault:
    """Return the fault of a column's `bad` values; `ids` are the record numbers."""

    def received(row: int) -> str:
        return text[int(np.searchsorted(ids, row))].as_py()

    def value(row: int) -> str:
        return repr(received(row))[:80]

    if is_text:
        return Fault(
            reason="not in the encoding",
            column=name,
            rows=ids[bad],
            message=lambda row: (
                f"column {name!r} must be UTF-8. Received: {value(row)}. Set the file's "
                '`encoding`, such as "latin-1".'
            ),
        )
    remedy = f"{text_remedy(name)}; if it means a missing value, set `missing_values`."
    return Fault(
        reason="not a number",
        column=name,
        received=received,
        rows=ids[bad],
        message=lambda row: f"column {name!r} must hold numbers. Received: {value(row)}. {remedy}",
    )


def to_numbers(text: Any) -> tuple[Any, NDArray[np.bool_]]:
    """Convert a text column to float64 as the CSV parser does; also return invalid values."""
    import pyarrow as pa
    import pyarrow.compute

    functions: Any = pyarrow.compute
    text = functions.utf8_trim(text, characters=" \t")
    bad = np.zeros(len(text), np.bool_)
    waiting = [(0, len(text))]
    while waiting:  # bisect to find all invalid values
        begin, end = waiting.pop()
        try:
            text.slice(begin, end - begin).cast(pa.float64())
        except pa.ArrowInvalid:
            if end - begin == 1:
                bad[begin] = True
            else:
                middle = (begin + end) // 2
                waiting += [(begin, middle), (middle, end)]
    if bad.any():
        text = functions.if_else(pa.array(bad), pa.scalar(None, pa.string()), text)
    return text.cast(pa.float64()), bad


def convert_block(
    content: bytes,
    form: CsvFormat,
    columns: CsvColumns,
    convert: Convert,
    place: Callable[[int], str],
    log: SkipLog,
) -> Any:
    """Convert a block of whole records; None if no record is valid.

    `place` maps a line of the block, from 0, to its location. Faults are logged to `log`.
    """
    table = parse(content, form, columns)
    if table is not None:
        made, faults = convert(table, None)
        if not faults:
            return made if table.num_rows else None
        # Finding line numbers is slow, so stop when no more messages are kept.
        named_enough = len(log.skipped.first) >= NAMED
        if named_enough and (not log.raises or all(fault.is_wanted for fault in faults)):
            return taken(made, report(faults, table.num_rows, lambda _row: "", log))
    found = inspect(content, form, columns)
    made, faults = convert(found.table, found.shown)
    ids, starts = found.ids, found.starts

    def of_records(fault: Fault) -> Fault:
        """Convert a fault's row numbers of the table to record numbers of the block."""
        message = fault.message
        return replace(
            fault,
            rows=ids[fault.rows],
            message=lambda record: message(int(np.searchsorted(ids, record))),
        )

    good = report(
        found.faults + [of_records(fault) for fault in faults],
        len(starts),
        lambda record: place(line_count(content[: starts[record]])),
        log,
    )
    return taken(made, None if good is None else good[ids]) if len(ids) else None

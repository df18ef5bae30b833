"""CSV text made columns: by PyArrow in one call a block, or, if that fails, record by record.

The second way knows for each record its line and what is wrong with it, and keeps the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._csv_format import CsvFormat, line_count
from sparkwright.data._pieces import SkipLog
from sparkwright.data.tables import Convert, Fault, report

_NAMED = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvColumns:
    """What to take from each record: of all `names` those `used`; `texts` of these are text."""

    names: tuple[str, ...]
    used: tuple[str, ...]
    texts: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspected:
    """What became of the records of a block.

    Attributes:
        table: the good ones.
        ids: (rows,) which record each row of it is.
        starts: (records,) where each begins.
        faults: what is wrong with the others.
        shown: column, row of the table -> the text as it stands there.
        text: record -> all of it.
    """

    table: Any
    ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    faults: list[Fault]
    shown: Callable[[str, int], Any]
    text: Callable[[int], bytes]


def parse(content: bytes, form: CsvFormat, columns: CsvColumns) -> Any | None:
    """All records as an Arrow table; None if that needs a closer look: see `inspect`."""
    import pyarrow as pa

    try:
        table = _read(content, columns, *_typed(form, columns))
    except pa.ArrowInvalid:
        return None
    return table if form.is_plain(content, table.num_rows) else None


@lru_cache(maxsize=64)
def _typed(form: CsvFormat, columns: CsvColumns) -> tuple[Any, Any]:
    """Options of Arrow for columns of their types; they cost as much as a small file."""
    import pyarrow as pa

    text, number = pa.dictionary(pa.int32(), pa.string()), pa.float64()
    kinds = {name: text if name in columns.texts else number for name in columns.used}
    return _options(form, columns, kinds)


def _options(
    form: CsvFormat,
    columns: CsvColumns,
    kinds: Mapping[str, Any],
    on_invalid: Callable[[Any], str] | None = None,
) -> tuple[Any, Any]:
    from pyarrow import csv

    parsing: Any = csv.ParseOptions(
        delimiter=form.delimiter,
        quote_char=form.quote or False,
        newlines_in_values=form.newlines_in_values,
        invalid_row_handler=on_invalid,
    )
    converting: Any = csv.ConvertOptions(
        include_columns=list(columns.used),
        column_types=kinds,
        null_values=list(form.missing_values),
        strings_can_be_null=True,
    )
    return parsing, converting


def _read(content: bytes, columns: CsvColumns, parsing: Any, converting: Any) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    options: Any = csv.ReadOptions(
        use_threads=False, column_names=list(columns.names), block_size=len(content) + 1
    )
    return csv.read_csv(
        pa.py_buffer(content),
        read_options=options,
        parse_options=parsing,
        convert_options=converting,
    )


def inspect(content: bytes, form: CsvFormat, columns: CsvColumns) -> Inspected:
    """Parse each record separately: valid ones become a table, the others faults."""
    import pyarrow as pa

    starts, ends, closed = form.records(content)
    whole = np.flatnonzero(closed)
    raw, other = _raw(b"\n".join([content[starts[i] : ends[i]] for i in whole]), form, columns)
    fields = {int(whole[number]): count for number, count in other.items()}
    faults = _structural_faults(content, starts, closed, fields, form, columns)
    ids = np.delete(whole, list(other))
    good = np.ones(len(ids), np.bool_)
    typed: dict[str, Any] = {}
    for name in columns.used:
        is_text = name in columns.texts
        typed[name], bad = converted(raw[name], to_text if is_text else to_number)
        if bad.any():
            faults.append(conversion_fault(name, raw[name], ids[bad], ids, is_text=is_text))
            good &= ~bad
    keep = np.flatnonzero(good)
    return Inspected(
        table=pa.table(typed).take(pa.array(keep)),
        ids=ids[keep],
        starts=starts,
        faults=faults,
        shown=lambda name, row: _text_of(raw[name][int(keep[row])].as_py()),
        text=lambda record: content[starts[record] : ends[record]],
    )


def _raw(
    content: bytes, form: CsvFormat, columns: CsvColumns
) -> tuple[Mapping[str, Any], Mapping[int, int]]:
    """Columns as bytes; number of a record with another number of fields -> that number."""
    import pyarrow as pa

    if not content:
        return {name: pa.array([], pa.binary()) for name in columns.used}, {}
    other: dict[int, int] = {}

    def note(row: Any) -> str:
        other[row.number - 1] = row.actual_columns
        return "skip"

    try:
        content.decode()
        is_utf8 = True
    except UnicodeDecodeError:
        # Arrow gives `note` the text of the record, which must be UTF-8.
        is_utf8, content = False, content.decode("latin-1").encode()
    kinds = dict.fromkeys(columns.used, pa.binary())
    table = _read(content + b"\n", columns, *_options(form, columns, kinds, note))
    found = {name: table.column(name).combine_chunks() for name in columns.used}
    if not is_utf8:
        found = {name: _bytes_of(column) for name, column in found.items()}
    return found, other


def _bytes_of(column: Any) -> Any:
    import pyarrow as pa

    values = [v if v is None else v.decode().encode("latin-1") for v in column.to_pylist()]
    return pa.array(values, pa.binary())


def _structural_faults(
    content: bytes,
    starts: NDArray[np.int64],
    closed: NDArray[np.bool_],
    fields: Mapping[int, int],
    form: CsvFormat,
    columns: CsvColumns,
) -> list[Fault]:
    def beginning(row: int) -> str:
        text = content[starts[row] : starts[row] + 60].splitlines()[0]
        return repr(_text_of(text[:40])) + (" …" if len(text) > 40 else "")

    where, remedy = " on its line", "Close it, or allow such values: `newlines_in_values=True`"
    if form.newlines_in_values:
        where, remedy = "", "Close it: all that follows is taken for its value"
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
            rows=np.array(list(fields), np.int64),
            message=lambda row: (
                f"each record must have {len(columns.names)} fields. Received: {fields[row]} in "
                f"{beginning(row)}. Check `delimiter` and `quote`."
            ),
        ),
    ]
    return [fault for fault in found if fault.rows.size]


_REMEDY = (
    "If it stands for a missing value, add it to `missing_values`; columns of text go into "
    "`categories`, or into labels with `classes`."
)


def conversion_fault(
    name: str,
    text: Any,
    rows: NDArray[np.int64],
    ids: NDArray[np.int64],
    *,
    is_text: bool = False,
    remedy: str = _REMEDY,
) -> Fault:
    """Values of a column that could not be converted.

    Args:
        name: of the column.
        text: its values, as bytes.
        rows: records with such values.
        ids: the record of each value.
        is_text: whether it is a column of text; default False: of numbers.
        remedy: what to do where it is one of numbers.
    """

    def value(row: int) -> str:
        return repr(_text_of(text[int(np.searchsorted(ids, row))].as_py()))[:80]

    if is_text:
        return Fault(
            reason="not in the encoding",
            rows=rows,
            message=lambda row: (
                f"column {name!r} must be UTF-8. Received: {value(row)}. Give the file's "
                '`encoding`, as "latin-1".'
            ),
        )
    return Fault(
        reason="not a number",
        rows=rows,
        message=lambda row: f"column {name!r} must hold numbers. Received: {value(row)}. {remedy}",
    )


def converted(text: Any, convert: Callable[[Any], Any]) -> tuple[Any, NDArray[np.bool_]]:
    """A column converted, and which values could not be; halves are tried until all are found."""
    import pyarrow as pa
    import pyarrow.compute

    functions: Any = pyarrow.compute
    bad = np.zeros(len(text), np.bool_)
    waiting = [(0, len(text))]
    while waiting:
        begin, end = waiting.pop()
        try:
            convert(text.slice(begin, end - begin))
        except pa.ArrowInvalid:
            if end - begin == 1:
                bad[begin] = True
            else:
                middle = (begin + end) // 2
                waiting += [(begin, middle), (middle, end)]
    if bad.any():
        text = functions.if_else(pa.array(bad), pa.scalar(None, text.type), text)
    return convert(text), bad


def to_text(text: Any) -> Any:
    """A column of bytes as a dictionary of text."""
    import pyarrow as pa

    return text.cast(pa.string()).dictionary_encode()


def to_number(text: Any) -> Any:
    """A column of text or bytes as float64, as the CSV parser does it."""
    import pyarrow as pa
    import pyarrow.compute

    functions: Any = pyarrow.compute
    return functions.utf8_trim(text.cast(pa.string()), characters=" \t").cast(pa.float64())


def _text_of(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")


def convert_block(
    content: bytes,
    form: CsvFormat,
    columns: CsvColumns,
    convert: Convert,
    place: Callable[[int], str],
    log: SkipLog,
) -> Any:
    """What `convert` makes of the records of a block; None if it has no good one.

    Args:
        content: whole records.
        form: how they are written.
        columns: what to take from them.
        convert: a table, what messages show of it -> anything, and what is wrong with its rows.
        place: line of the block, from 0 -> file and line.
        log: where faults are reported.
    """
    table = parse(content, form, columns)
    if table is not None:
        made, faults = convert(table, None)
        if not faults:
            return made if table.num_rows else None
        # Lines cost: they are looked for while there is room for messages.
        named_enough = len(log.skipped.first) >= _NAMED
        if named_enough and (not log.raises or all(fault.is_wanted for fault in faults)):
            good = report(faults, table.num_rows, lambda _row: "", log)
            return _taken(made, good)
    found = inspect(content, form, columns)
    made, faults = convert(found.table, found.shown)
    ids, starts = found.ids, found.starts

    def of_records(fault: Fault) -> Fault:
        """A fault of rows of a table, as one of records of a block."""
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
    return _taken(made, None if good is None else good[ids]) if len(ids) else None


def _taken(made: Any, good: NDArray[np.bool_] | None) -> Any:
    if good is None or good.all():
        return made
    return made.take(good) if good.any() else None

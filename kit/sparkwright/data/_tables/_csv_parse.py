"""One block of CSV text made columns: by PyArrow in one call, or, if that fails, record by record.

The second way knows for each record its line and what is wrong with it, and keeps the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._csv_format import CsvFormat
from ._csv_records import is_plain, line_count, records
from ._tables import Fault


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvColumns:
    """What to take from each record.

    Attributes:
        names: all columns of the file.
        used: those to take.
        texts: which of these are text; the others are numbers.
    """

    names: tuple[str, ...]
    used: tuple[str, ...]
    texts: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspected:
    """What became of the records of a block.

    Attributes:
        table: the good ones.
        ids: (rows,) which record each row of it is.
        lines: (records,) line of each record in the block, from 0.
        faults: what is wrong with the others.
        shown: column, row of the table -> the text as it stands there.
    """

    table: Any
    ids: NDArray[np.int64]
    lines: NDArray[np.int64]
    faults: list[Fault]
    shown: Callable[[str, int], Any]


def parse(content: bytes, form: CsvFormat, columns: CsvColumns) -> Any | None:
    """All records as an Arrow table; None if that needs a closer look: see `inspect`."""
    import pyarrow as pa

    kinds = {
        name: pa.dictionary(pa.int32(), pa.string()) if name in columns.texts else pa.float64()
        for name in columns.used
    }
    try:
        table = _read(content, form, columns, kinds)
    except pa.ArrowInvalid:
        return None
    plain = is_plain(
        content,
        table.num_rows,
        delimiter=form.delimiter_byte,
        quote=form.quote_byte,
        multiline=form.newlines_in_values,
    )
    return table if plain else None


def _read(content: bytes, form: CsvFormat, columns: CsvColumns, kinds: Any) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    return csv.read_csv(
        pa.py_buffer(content),
        read_options=csv.ReadOptions(
            use_threads=False, column_names=list(columns.names), block_size=len(content) + 1
        ),
        parse_options=csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char=form.quote or False,
            newlines_in_values=form.newlines_in_values,
        ),
        convert_options=csv.ConvertOptions(
            include_columns=list(columns.used),
            column_types=kinds,
            null_values=list(form.missing_values),
            strings_can_be_null=True,
        ),
    )


def inspect(content: bytes, form: CsvFormat, columns: CsvColumns) -> Inspected:
    """Each record by itself: the good ones as a table, the others as faults."""
    import pyarrow as pa

    starts, ends, fields = records(
        content,
        delimiter=form.delimiter_byte,
        quote=form.quote_byte,
        multiline=form.newlines_in_values,
    )
    faults = _structural_faults(content, fields, starts, form, columns)
    ids = np.flatnonzero(fields == len(columns.names))
    whole = b"\n".join([content[starts[index] : ends[index]] for index in ids.tolist()])
    raw = None
    if len(ids):
        raw = _read(whole + b"\n", form, columns, dict.fromkeys(columns.used, pa.binary()))
        assert raw.num_rows == len(ids), (raw.num_rows, len(ids))
    good = np.ones(len(ids), np.bool_)
    typed: dict[str, Any] = {}
    for name in columns.used:
        text = pa.array([], pa.binary()) if raw is None else raw.column(name).combine_chunks()
        is_text = name in columns.texts
        typed[name], bad = _converted(text, _to_text if is_text else _to_number)
        if bad.any():
            faults.append(_conversion_fault(name, text, ids[bad], ids, is_text=is_text))
            good &= ~bad
    keep = np.flatnonzero(good)

    def shown(name: str, row: int) -> Any:
        assert raw is not None
        return _text_of(raw.column(name)[int(keep[row])].as_py())

    return Inspected(
        table=pa.table(typed).take(pa.array(keep)),
        ids=ids[keep],
        lines=_lines(content, starts),
        faults=faults,
        shown=shown,
    )


def _structural_faults(
    content: bytes,
    fields: NDArray[np.int64],
    starts: NDArray[np.int64],
    form: CsvFormat,
    columns: CsvColumns,
) -> list[Fault]:
    expected = len(columns.names)
    open_rows = np.flatnonzero(fields == 0)
    other_rows = np.flatnonzero((fields != expected) & (fields > 0))

    def beginning(row: int) -> str:
        text = content[starts[row] : starts[row] + 60].splitlines()[0]
        return repr(_text_of(text[:40])) + (" …" if len(text) > 40 else "")

    faults: list[Fault] = []
    where, remedy = " on its line", "Close it, or allow such values: `newlines_in_values=True`"
    if form.newlines_in_values:
        where, remedy = "", "Close it: all that follows is taken for its value"
    if open_rows.size:
        faults.append(
            Fault(
                reason="quote that is not closed",
                rows=open_rows,
                message=lambda row: (
                    f"a quoted value must end{where}. Received: {beginning(row)}. {remedy}."
                ),
            )
        )
    if other_rows.size:
        faults.append(
            Fault(
                reason="wrong number of columns",
                rows=other_rows,
                message=lambda row: (
                    f"each record must have {expected} fields. Received: {fields[row]} in "
                    f"{beginning(row)}. Check `delimiter` and `quote`."
                ),
            )
        )
    return faults


def _conversion_fault(
    name: str,
    text: Any,
    rows: NDArray[np.int64],
    ids: NDArray[np.int64],
    *,
    is_text: bool,
) -> Fault:
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
        message=lambda row: (
            f"column {name!r} must hold numbers. Received: {value(row)}. If it stands for a "
            "missing value, add it to `missing_values`; columns of text go into `categories`, or "
            "into labels with `classes`."
        ),
    )


def _converted(text: Any, convert: Callable[[Any], Any]) -> tuple[Any, NDArray[np.bool_]]:
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


def _to_text(text: Any) -> Any:
    import pyarrow as pa

    return text.cast(pa.string()).dictionary_encode()


def _to_number(text: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute

    functions: Any = pyarrow.compute
    # As the CSV parser does it.
    return functions.utf8_trim(text.cast(pa.string()), characters=" \t").cast(pa.float64())


def _text_of(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")


def _lines(content: bytes, starts: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Lines before each start."""
    if b"\r" in content:
        counts, at, lines = [], 0, 0
        for start in np.asarray(starts).tolist():
            lines, at = lines + line_count(content[at:start]), start
            counts.append(lines)
        return np.array(counts, np.int64)
    ends = np.flatnonzero(np.frombuffer(content, np.uint8) == 10)
    return np.searchsorted(ends, starts).astype(np.int64)

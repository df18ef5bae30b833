"""CSV text made columns: by PyArrow in one call a block, or, if that fails, record by record.

The second way knows for each record its line and what is wrong with it, and keeps the others.
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
    """Options of Arrow; they cost as much as a small file."""
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
    """Parse each record separately: valid ones become a table, the others faults."""
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
    """The fields of each record; bytes that are no UTF-8 as surrogates."""
    usual = csv.field_size_limit(LONGEST_RECORD_BYTES)
    try:
        return list(form.rows(content.decode(errors="surrogateescape")))
    finally:
        csv.field_size_limit(usual)


def _texts(values: Sequence[str], form: CsvFormat) -> tuple[Any, NDArray[np.bool_]]:
    """Values as a column of Arrow, null where they are missing; which were no UTF-8."""
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
            rows=np.array(list(counts), np.int64),
            message=lambda row: (
                f"each record must have {len(columns.names)} fields. Received: {counts[row]} in "
                f"{beginning(row)}. Check `delimiter` and `quote`."
            ),
        ),
    ]
    return [fault for fault in found if fault.rows.size]


_REMEDY = (
    "If it stands for a missing value, add it to `missing_values`; columns of text go into "
    "`categories`, `text`, or labels with `classes`."
)


def conversion_fault(
    name: str,
    text: Any,
    bad: NDArray[np.bool_],
    *,
    ids: NDArray[np.int64],
    is_text: bool = False,
    remedy: str = _REMEDY,
) -> Fault:
    """The `bad` values of a column, which could not be converted; `ids` are their records."""

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
                f"column {name!r} must be UTF-8. Received: {value(row)}. Give the file's "
                '`encoding`, as "latin-1".'
            ),
        )
    return Fault(
        reason="not a number",
        column=name,
        received=received,
        rows=ids[bad],
        message=lambda row: f"column {name!r} must hold numbers. Received: {value(row)}. {remedy}",
    )


def to_numbers(text: Any) -> tuple[Any, NDArray[np.bool_]]:
    """A column of text as float64, as the CSV parser makes it; which values are no numbers."""
    import pyarrow as pa
    import pyarrow.compute

    functions: Any = pyarrow.compute
    text = functions.utf8_trim(text, characters=" \t")
    bad = np.zeros(len(text), np.bool_)
    waiting = [(0, len(text))]
    while waiting:  # halves, until all that are no numbers are found
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
    """What `convert` makes of whole records; None if no record is good.

    `place` says where a line of the block is, from 0; faults go to `log`.
    """
    table = parse(content, form, columns)
    if table is not None:
        made, faults = convert(table, None)
        if not faults:
            return made if table.num_rows else None
        # Lines cost: they are looked for while there is room for messages.
        named_enough = len(log.skipped.first) >= NAMED
        if named_enough and (not log.raises or all(fault.is_wanted for fault in faults)):
            return taken(made, report(faults, table.num_rows, lambda _row: "", log))
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
    return taken(made, None if good is None else good[ids]) if len(ids) else None

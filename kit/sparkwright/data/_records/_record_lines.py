"""Texts in record files that are lines of a table: parsed by Arrow, many together."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sparkwright.data._chunks import CHUNK_BYTES
from sparkwright.data._dataset import DataSet
from sparkwright.data._pieces import SkipLog
from sparkwright.data._tables._csv_format import CsvFormat
from sparkwright.data._tables._csv_parse import CsvColumns, inspect, parse
from sparkwright.data._tables._table_schema import TableSchema
from sparkwright.data._tables._tables import Fault, report, to_dataset

from ._record_conversion import RecordConversion
from ._sequence_file_reader import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class TextLines:
    """How the text of a record becomes an example.

    Attributes:
        schema: columns and what becomes of them.
        form: delimiter and quote.
    """

    schema: TableSchema
    form: CsvFormat

    def datasets(
        self, records: Iterable[Record], conversion: RecordConversion, log: SkipLog
    ) -> Iterator[DataSet]:
        """The examples of `records`, in order.

        Args:
            records: of one file.
            conversion: reads its keys and values.
            log: gets what cannot be used.
        """
        group: list[Record] = []
        lines: list[bytes] = []
        size_bytes = 0
        for record in records:
            line = self._line(record, conversion, log)
            if line is None:
                continue
            group.append(record)
            lines.append(line)
            size_bytes += len(line)
            if size_bytes >= CHUNK_BYTES:
                yield from self._together(group, lines, conversion, log)
                group, lines, size_bytes = [], [], 0
        if lines:
            yield from self._together(group, lines, conversion, log)

    def _line(self, record: Record, conversion: RecordConversion, log: SkipLog) -> bytes | None:
        try:
            value: Any = conversion.value(record[2])
        except Exception as error:  # whatever a decoder of the user's raises
            conversion.tell(log.skip, record, str(error))
            return None
        line = value.encode() if isinstance(value, str) else value
        if not isinstance(line, bytes):
            why = f"values must be texts where there is a `schema`. Received: {type(value)}."
        elif not line or b"\n" in line or b"\r" in line:
            why = f"a text must be one line of a table. Received: {line[:40]!r}."
        else:
            return line
        conversion.tell(log.skip, record, why)
        return None

    def _together(
        self, group: list[Record], lines: list[bytes], conversion: RecordConversion, log: SkipLog
    ) -> Iterator[DataSet]:
        content = b"\n".join(lines) + b"\n"
        schema = self.schema
        columns = CsvColumns(names=schema.columns, used=schema.used, texts=schema.texts)
        convert = partial(to_dataset, schema=schema)
        table = parse(content, self.form, columns)
        if table is not None:
            made, faults = convert(table)
            if not faults:
                yield made
                return
        found = inspect(content, self.form, columns)
        made, faults = convert(found.table, found.shown)
        faults = found.faults + [_of_records(fault, found.ids) for fault in faults]

        def where(row: int) -> str:
            return conversion.place(group[int(found.lines[row])])

        good = report(faults, len(found.lines), where, log)
        if len(found.ids):
            kept = made if good is None else made.take(good[found.ids])
            if len(kept):
                yield kept


def _of_records(fault: Fault, ids: Any) -> Fault:
    """A fault of rows of a table, as one of records."""
    return replace(
        fault,
        rows=ids[fault.rows],
        message=lambda record: fault.message(int(np.searchsorted(ids, record))),
    )

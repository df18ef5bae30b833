"""Preview tables: run the CSV, Parquet, Arrow and sequence readers and stop early."""

import contextlib
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sparkwright.data._arrow_columns import distinct
from sparkwright.data._column_choice import COLUMN_OPTIONS, schema_of
from sparkwright.data._columnar import is_nested, open_parquet
from sparkwright.data._csv_reader import CsvReader
from sparkwright.data._data_preview import ColumnPreview, DataPreview, DataProblem, summarize_column
from sparkwright.data._folder_columns import FolderColumns
from sparkwright.data._sequences import prepared
from sparkwright.data._skipped import Fault, SkipLog
from sparkwright.data._survey import Survey
from sparkwright.data._table_files import opened
from sparkwright.data._table_schema import TableSchema
from sparkwright.data._table_source import TableSource
from sparkwright.data.guessing import copies, feature_columns, label_problems, verdict
from sparkwright.data.sources import DataSource
from sparkwright.data.tables import to_dataset
from sparkwright.data.wording import clipped, listed
from sparkwright.errors import ConfigurationError, DataError

_MOST_ROWS, _MOST_CELLS = 10_000, 500_000
_MOST_BYTES = 256 << 20  # limit for rows of large arrays
_MOST_BLOCKS = 8  # limit of blocks without a valid row
_OTHER_FILES = 8  # number of files whose columns are compared
_WHOLE = 1 << 62  # piece size that never splits a file
_LONGEST_TEXT = 200
_error, _warning = DataProblem.error, DataProblem.warning


def table_preview(source: DataSource, rows: int, sample_bytes: int) -> DataPreview:
    """Preview tables, and sequences, where each file is a table."""
    problems: list[DataProblem] = []
    try:
        table = _opened(source)
    except DataError as error:
        if not source.all_options.get("header"):
            raise
        # Show the table without a header, so that the user can see the problem.
        problems.append(_error(str(error)))
        table = _opened(replace(source, options={**source.options, "header": False}))
    seen = _Beginning(table, rows, sample_bytes)
    columns = seen.columns(table)
    is_sequences, is_all = source.format == "csv_sequences", seen.in_all == seen.looked_at
    labels: tuple[tuple[str, int], ...] = ()
    if source.label in seen.values and source.task == "classification":
        counts = Counter(text for text in seen.values[source.label] if text is not None)
        labels = tuple(counts.most_common()) if len(counts) <= 1000 else ()
    schema: TableSchema | None = None
    if not seen.rows:
        problems += [*seen.log.problems, _error("The data has no rows.")]
    elif is_sequences:
        problems += _sequence_problems(source)
    elif not problems:
        verdicts = [each for column in columns if (each := verdict(source, column))]
        unfit = {each.column for each in verdicts if each.severity == "error"}
        found, schema = _read(source, table, seen, columns, unfit)
        problems = [*verdicts, *seen.log.problems, *found, *copies(source, columns, seen.values)]
        problems += _other_columns(source, table)
        problems += label_problems(labels, unit="row", is_all=is_all)
    shown = zip(*(seen.values[name][:rows] for name in table.reader.names), strict=True)
    found = DataPreview(
        source=source,
        looked_at=seen.looked_at,
        in_all=seen.in_all,
        is_estimate=seen.is_estimate,
        columns=tuple(columns),
        rows=tuple(tuple(clipped(text or "") for text in row) for row in shown),
        labels=labels,
        class_count=_class_count(source, labels),
        feature_shape=None if schema is None else _feature_shape(schema),
        files=len(table.files),
        size_bytes=sum(file.size_bytes for file in table.files),
        problems=tuple(dict.fromkeys(problems)),
    )
    if not is_sequences:
        return found
    # Each file is one example, so the numbers of rows of the files are unrelated.
    name = table.files[0].url.rpartition("/")[2]
    note = f"The rows are the steps of {name}, one of {len(table.files):,} files."
    return replace(found, unit="step", in_all=None, is_estimate=False, note=note)


def _feature_shape(schema: TableSchema) -> tuple[int, ...]:
    (names,) = schema.features.values()
    shape = schema.shapes.get(names[0]) if len(names) == 1 else None
    return shape or (sum(map(schema.width, names)),)


def _class_count(source: DataSource, labels: Sequence[Any]) -> int | None:
    if source.task != "classification":
        return None
    classes: Any = labels if source.classes == "infer" else source.classes
    return classes if isinstance(classes, int) else len(classes) or None


class Findings(SkipLog):
    """Collects the reports of a reader: one problem per kind, with its count."""

    def __init__(self) -> None:
        super().__init__("skip")
        self.counts: Counter[tuple[str, str]] = Counter()
        self._found: dict[tuple[str, str], DataProblem] = {}

    def skip(
        self,
        reason: str,
        message: str,
        *,
        count: int = 1,
        is_wanted: bool = False,
        column: str = "",
        received: str = "",
    ) -> None:
        """Record a report; only the first message per reason and column is kept."""
        self.counts[reason, column] += count
        if message != reason and (reason, column) not in self._found:
            kind, can_skip = (_warning, False) if is_wanted else (_error, True)
            self._found[reason, column] = kind(
                message, code=reason, column=column, received=received, can_skip=can_skip
            )

    @property
    def problems(self) -> list[DataProblem]:
        """The errors and warnings with their counts."""
        found: list[DataProblem] = []
        for key, problem in self._found.items():
            count = self.counts[key]
            unit = "rows" if problem.column else "times"
            more = f" {count:,} {unit} in all." if count > 1 else ""
            more += "" if problem.can_skip else " Such rows are skipped."
            found.append(replace(problem, sentence=problem.sentence + more, count=count))
        return found


def _opened(source: DataSource, url: str | None = None) -> TableSource:
    kind: Any = source.format
    form = source.csv_format()
    if kind == "csv_sequences":
        kind, form = "csv", replace(form, newlines_in_values=True)
    return opened(kind, source.url if url is None else url, form)


class _EnoughError(Exception):
    """Raised to stop the reader."""


class _Beginning:
    """The first rows of a table, from its first file with rows."""

    def __init__(self, table: TableSource, shown: int, sample_bytes: int) -> None:
        self.log = Findings()
        # None: missing. For columns of arrays, only the displayed rows.
        self.values: dict[str, list[str | None]] = {name: [] for name in table.reader.names}
        self.arrays: dict[str, ColumnPreview] = {}
        self.tables: list[Any] = []  # Arrow tables, without columns of arrays
        self._shown = shown
        self._most = max(100, min(_MOST_ROWS, _MOST_CELLS // max(1, len(table.reader.names))))
        # Rows kept, and rows read.
        self.rows = self.read = self._blocks = self._bytes = 0
        reader = table.reader.reader if isinstance(table.reader, FolderColumns) else table.reader
        is_csv, is_whole = isinstance(reader, CsvReader), True
        for self.piece in table.reader.pieces(table.files, sample_bytes if is_csv else _WHOLE):
            self._may_stop = not is_csv or self.piece.size_bytes > sample_bytes
            try:
                for _ in table.reader.read(self.piece, self.log, self._keep):
                    pass
            except _EnoughError:
                is_whole = False
            if self.read or not is_whole:
                break
        bad = self.log.counts.total() - self.log.counts["empty file", ""]
        self.looked_at = self.rows + bad
        found = self.read + bad if is_whole else _parquet_rows(reader, self.piece.url)
        share = sum(file.size_bytes for file in table.files) / max(1, self.piece.size_bytes)
        # Rows of all files; None: unknown.
        self.in_all = None if found is None else round(found * max(1.0, share))
        self.is_estimate = found is not None and share > 1

    def _keep(self, table: Any, _shown: Any) -> tuple[Any, list[Fault]]:
        self._blocks += 1
        self.read += table.num_rows
        taken = table.slice(0, self._most - self.rows)
        flat: list[str] = []
        for name, texts in self.values.items():
            column = taken.column(name)
            if is_nested(column.type):
                look = self.arrays.get(name, ColumnPreview(name=name, kind="array"))
                there = look.count + len(column) - column.null_count
                missing = look.missing + column.null_count
                self.arrays[name] = replace(look, count=there, missing=missing)
                # The text of all arrays would be huge.
                column = column.slice(0, max(0, self._shown - self.rows))
            else:
                flat.append(name)
            texts += map(_text, column.to_pylist())
        self.tables.append(table.select(flat))
        self.rows += taken.num_rows
        self._bytes += taken.nbytes
        is_enough = self.rows >= self._most or self._bytes >= _MOST_BYTES
        if (is_enough and self._may_stop) or self._blocks - self.rows >= _MOST_BLOCKS:
            raise _EnoughError
        return table, []

    def columns(self, table: TableSource) -> list[ColumnPreview]:
        shapes = table.reader.shapes(table.files, list(self.arrays)) if self.arrays else {}
        return [
            replace(self.arrays[name], shape=shapes.get(name))
            if name in self.arrays
            else summarize_column(name, texts)
            for name, texts in self.values.items()
        ]


def _parquet_rows(reader: Any, url: str) -> int | None:
    if getattr(reader, "open_table", None) is not open_parquet:
        return None
    with open_parquet(url) as opened:
        return sum(rows for _, rows in opened.parts)


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return clipped(str(value), limit=_LONGEST_TEXT)


def _read(
    source: DataSource,
    table: TableSource,
    seen: _Beginning,
    columns: Sequence[ColumnPreview],
    unfit: Collection[str],
) -> tuple[list[DataProblem], TableSchema | None]:
    """Run the reader without unfit columns; return the problems it reports and its schema."""
    if unfit:
        features = (column.name for column in feature_columns(source, columns))
        source = replace(
            source,
            features=tuple(name for name in features if name not in unfit),
            label=None if source.label in unfit else source.label,
            categories=tuple(name for name in source.categories if name not in unfit),
        )
        if not source.features:
            return [], None
    log, left = Findings(), seen.read

    def convert(rows: Any, shown: Any) -> tuple[Any, list[Fault]]:
        nonlocal left
        if not left:
            raise _EnoughError
        rows = rows.slice(0, left)  # later rows may have other classes
        left -= rows.num_rows
        _, faults = to_dataset(rows, shown, schema=schema)
        return Survey(), list(_one_row_each(faults))

    try:
        schema = schema_of(
            table.reader.names,
            lambda names: {
                name: set().union(*(distinct(each, [name])[name] for each in seen.tables))
                for name in names
            },
            partial(table.reader.shapes, table.files),
            **{n: value for n, value in source.arguments.items() if n in COLUMN_OPTIONS},
        )
        with contextlib.suppress(_EnoughError):
            reader = table.reader.taking(schema.used, schema.texts)
            for _ in reader.read(seen.piece, log, convert):
                pass
    except (ConfigurationError, DataError) as error:
        return [_error(str(error))], None
    return log.problems, schema


def _one_row_each(faults: Sequence[Fault]) -> Iterator[Fault]:
    """Reduce each fault to one row, if possible one that no previous fault has."""
    taken: set[int] = set()
    for fault in faults:
        rows: list[int] = fault.rows.tolist()
        row = next((row for row in rows if row not in taken), rows[0])
        taken.add(row)
        yield replace(fault, rows=np.array([row]), stands_for=len(rows))


def _sequence_problems(source: DataSource) -> list[DataProblem]:
    """Return the problems that the reader reports for the first sequences."""
    log = Findings()
    try:
        given = {n: value for n, value in source.arguments.items() if n != "partitions"}
        reader, pairs = prepared(source.url, **given)
        urls = [(one.url, None if other is None else other.url) for one, other in pairs]
        for _ in reader.sequences(urls[:_OTHER_FILES], log):
            pass
    except (ConfigurationError, DataError, OSError) as error:
        return [_error(str(error))]
    return log.problems


def _other_columns(source: DataSource, table: TableSource) -> list[DataProblem]:
    """Check that the next few files have the same columns."""
    for file in table.files[1 : 1 + _OTHER_FILES]:
        try:
            columns = _opened(source, file.url).reader.names
        except (DataError, OSError):
            continue
        if columns != table.reader.names:
            return [
                _error(
                    "all files must have the columns of the first file, "
                    f"{listed(table.reader.names)}. "
                    f"Received: {listed(columns)} in {file.url}."
                )
            ]
    return []

"""Create data sets from table files: infer classes, fix the schema, distribute the files."""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import collect
from sparkwright.data._arrow_columns import distinct
from sparkwright.data._column_choice import COLUMN_OPTIONS, schema_of
from sparkwright.data._columnar import ColumnarReader
from sparkwright.data._csv_reader import CsvReader
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._folder_columns import FolderColumns
from sparkwright.data._local_data import LocalData
from sparkwright.data._skipped import Fault, OnError, SkipLog, check_on_error
from sparkwright.data._survey import Survey
from sparkwright.data._table_schema import TableSchema
from sparkwright.data.dataset import DataSet
from sparkwright.data.pieces import check_partitions, from_pieces, group_by_size
from sparkwright.data.tables import Convert, Piece, to_dataset
from sparkwright.data.wording import listed
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage.files import is_folder
from sparkwright.storage.listing import StoredFile, list_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_VALUES = 10_000
_PIECE_BYTES = 32 << 20
_SMALLEST_PIECE_BYTES = 64 << 10
# A file, a folder, a pattern, or a sequence of these.
Urls = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
# Reader of files of one format, whole or in pieces; serialized for the executors.
TableReader = ColumnarReader | CsvReader | FolderColumns


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSource:
    """Files of one format and the use of their columns."""

    files: Sequence[StoredFile]
    reader: TableReader  # reads all columns
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # for the fingerprint
    choice: Mapping[str, Any] = field(default_factory=dict[str, Any])  # see `schema_of`
    schema: TableSchema | None = None  # of other data, instead of `choice`
    on_error: OnError = "raise"

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    def distribute(self, spark: "SparkSession", partitions: int | None) -> DistributedDataSet:
        """Create distributed data; a first pass infers classes and categories if needed."""
        check_partitions(partitions)
        parallelism = partitions or context_of(spark).defaultParallelism
        pieces = self.reader.pieces(self.files, piece_bytes(self.files, parallelism))

        def survey(names: tuple[str, ...]) -> Survey:
            shares = group_by_size(pieces, [p.size_bytes for p in pieces], parallelism)
            rdd = (
                context_of(spark)
                .parallelize(shares, len(shares))
                .map(partial(_survey, self.reader, names, self.on_error))
            )
            return sum(collect(spark, rdd, description="find classes and categories"), Survey())

        schema = self._fixed_schema(survey)
        options = {"exact": self.schema is None, "on_error": self.on_error}
        data = from_pieces(
            spark,
            pieces,
            partial(datasets_of, reader=self._reader_of(schema), schema=schema),
            sizes=[piece.size_bytes for piece in pieces],
            partitions=partitions,
            on_error=self.on_error,
            fingerprint=_fingerprint(
                self.files, {**self.options, "schema": schema.to_dict(), **options}
            ),
            class_names=schema.class_names,
        )
        data.schema = schema
        return data

    def gather(self) -> "LocalTable":
        """Read the examples in this process."""
        pieces = self.reader.pieces(self.files, _PIECE_BYTES)
        log = SkipLog(self.on_error)
        schema = self._fixed_schema(
            lambda names: _survey(self.reader, names, self.on_error, pieces)
        )
        reader = self._reader_of(schema)
        found = (made for piece in pieces for made in datasets_of(piece, log, reader, schema))
        names = schema.class_names
        return LocalTable.of(found, log, self._urls(), class_names=names, schema=schema)

    def _reader_of(self, schema: TableSchema) -> TableReader:
        absent = [name for name in schema.used if name not in self.reader.names]
        if absent:
            raise DataError(
                f"{self.files[0].url} must have the columns of the schema. Received: no "
                f"{listed(absent)} among {listed(self.reader.names)}. For data without labels, use "
                "`schema.without_labels()`."
            )
        return self.reader.taking(schema.used, schema.texts)

    def _fixed_schema(self, survey: Callable[[tuple[str, ...]], Survey]) -> TableSchema:
        if self.schema is not None:
            return self.schema

        def values(names: tuple[str, ...]) -> Mapping[str, Collection[str]]:
            found = survey(names).classes
            for name in names:
                check_inferred(name, found.get(name, ()), self._urls())
            return found

        try:
            shapes = partial(self.reader.shapes, self.files)
            return schema_of(self.reader.names, values, shapes, **self.choice)
        except (ConfigurationError, DataError) as error:
            # Name the file, because it may be damaged.
            if any(file.url in str(error) for file in self.files):
                raise
            raise type(error)(f"{error} The columns are those of {self.files[0].url}.") from None

    def _urls(self) -> str:
        return listed([file.url for file in self.files])


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalTable(LocalData):
    """The result of `read_csv`, `read_parquet` and `read_arrow`: a `LocalData` with a schema.

    Attributes:
        schema: the mapping of columns to arrays.
    """

    schema: TableSchema


def files_of(urls: Urls, extensions: Sequence[str]) -> list[StoredFile]:
    """List the files at URLs, in order; in folders, only those with one of the extensions."""
    given: Any = urls
    several: list[Any] = list(given) if isinstance(given, list | tuple) else [given]  # pyright: ignore[reportUnknownArgumentType]
    if not all(isinstance(url, str | os.PathLike) for url in several):
        raise ConfigurationError(
            f"`urls` must be a path or URL, or a list of them. Received: urls={urls!r}."
        )
    found: list[StoredFile] = []
    for url in map(os.fspath, several):
        files = list_files(url, extensions=extensions if is_folder(url) else None)
        if not files:
            raise DataError(
                f"a folder must have files with the extension {listed(extensions)}. "
                f"Received: {url}. For other extensions, pass a pattern such as `folder/*`."
            )
        found += files
    if not found:
        raise ConfigurationError("`urls` must name at least one file. Received: urls=[].")
    return found


def check_no_choice(choice: Mapping[str, Any], schema: TableSchema | None) -> None:
    """Raise if both a schema and options that it replaces are set."""
    if schema is None:
        return
    if not isinstance(schema, TableSchema):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"`schema` must be a TableSchema, such as `data.schema`. Received: schema={schema!r}."
        )
    # Identity instead of `==`, because comparing arrays of positions gives an array.
    given = [
        name
        for name, value in choice.items()
        for usual in [COLUMN_OPTIONS[name]]
        if not (value is usual or (isinstance(value, str) and value == usual))
    ]
    if given:
        raise ConfigurationError(
            f"`schema` replaces {', '.join(f'`{name}`' for name in given)}. Received: both. Omit "
            "one of them."
        )


def datasets_of(
    piece: Piece, log: SkipLog, reader: TableReader, schema: TableSchema
) -> Iterator[DataSet]:
    """Yield the examples of a piece."""
    return reader.read(piece, log, partial(to_dataset, schema=schema))


def check_inferred(name: str, values: Collection[str], source: str, *, least: int = 1) -> None:
    """Raise DataError if a column has too few or too many values for classes or categories."""
    if len(values) < least:
        wanted = "values" if least == 1 else f"at least {least} distinct values"
        raise DataError(
            f'a column with "infer" must have {wanted}. Received: {listed(values)} in {name!r} of '
            f"{source}."
        )
    if len(values) > MOST_VALUES:
        raise DataError(
            f'a column with "infer" must have at most {MOST_VALUES:,} distinct values. '
            f"Received: more in {name!r}. If the column has numbers to predict, omit `classes`; an "
            "identifier cannot be a label."
        )


def distinct_values(names: Sequence[str]) -> Convert:
    """Return a conversion that surveys the distinct values of columns."""

    def values(table: Any, _shown: Any) -> tuple[Survey, list[Fault]]:
        found = distinct(table, names)
        return Survey(classes={name: frozenset(several) for name, several in found.items()}), []

    return values


def _survey(
    reader: TableReader, names: Sequence[str], on_error: OnError, pieces: Iterable[Piece]
) -> Survey:
    reader, log, convert = reader.taking(names, names), SkipLog(on_error), distinct_values(names)
    return sum((s for piece in pieces for s in reader.read(piece, log, convert)), Survey())


def _fingerprint(files: Sequence[StoredFile], options: Mapping[str, Any]) -> str:
    """Return a hash of the files and options."""
    content = {"files": [[f.url, f.size_bytes, f.version] for f in files], "options": dict(options)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def piece_bytes(files: Sequence[StoredFile], parallelism: int) -> int:
    """Return the piece size for about one piece per task, from 64 KiB to 32 MiB."""
    total = sum(file.size_bytes for file in files)
    return min(_PIECE_BYTES, max(_SMALLEST_PIECE_BYTES, -(-total // parallelism)))

"""From files of tables to a data set: find classes, fix the schema, share out the work."""

import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from sparkwright.cluster.jobs import collect
from sparkwright.data._arrow_columns import distinct
from sparkwright.data._column_choice import ColumnChoice
from sparkwright.data._dataset import DataSet
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import (
    OnError,
    SkipLog,
    check_on_error,
    check_partitions,
    from_pieces,
    group_by_size,
)
from sparkwright.data._skipped import Skipped
from sparkwright.data._table_schema import TableSchema, listed
from sparkwright.data.tables import Convert, to_dataset
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import is_folder
from sparkwright.storage._listing import StoredFile, list_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_VALUES = 10_000
_PIECE_BYTES = 32 << 20
_SMALLEST_PIECE_BYTES = 64 << 10


# A file, a folder, a pattern, or several of these.
Urls = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class TableReader(Protocol):
    """Reads pieces of a source on executors."""

    def read(self, piece: Any, log: SkipLog, convert: Convert) -> Iterator[Any]:
        """What `convert` makes of the tables of a piece, without the rows that it finds bad."""
        ...


class TableSource(Protocol):
    """Files of one kind with `columns`, in order; `options` say how they are read, as JSON."""

    files: Sequence[StoredFile]
    columns: tuple[str, ...]
    options: Mapping[str, Any]

    def shapes(self, names: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
        """Which of some columns hold arrays, and the shape of one."""
        ...

    def pieces(self, piece_bytes: int) -> list[Any]:
        """What one task reads at a time, each with `size_bytes`; about of the size given."""
        ...

    def reader(self, used: Sequence[str], texts: Iterable[str], *, is_exact: bool) -> TableReader:
        """A reader of some columns."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalTable:
    """What `read_csv`, `read_parquet` and `read_arrow` read.

    Attributes:
        data: the examples.
        schema: which columns they come from.
        skipped: what was left out.
    """

    data: DataSet
    schema: TableSchema
    skipped: Skipped


def files_of(urls: Urls, extensions: Sequence[str]) -> list[StoredFile]:
    """The files at some URLs, in their order; in folders, those with the endings only.

    Raises:
        ConfigurationError: if `urls` is neither a path or URL nor several.
        FileNotFoundError: if there is nothing at one of them.
        DataError: if there is nothing of the kind.
    """
    given: Any = urls
    several: list[Any] = list(given) if isinstance(given, list | tuple) else [given]  # pyright: ignore[reportUnknownArgumentType]
    paths = [os.fspath(url) if isinstance(url, os.PathLike) else url for url in several]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if not all(isinstance(path, str) for path in paths):
        raise ConfigurationError(
            f"`urls` must be a path or URL, or a list of them. Received: urls={urls!r}."
        )
    found: list[StoredFile] = []
    for url in paths:
        endings = extensions if is_folder(url) else None
        files = list_files(url, extensions=endings)
        if not files:
            raise DataError(
                f"a folder must hold files that end in {listed(extensions)}. Received: {url}. "
                "For other endings give a pattern, as `folder/*`."
            )
        found += files
    if not found:
        raise ConfigurationError("`urls` must name at least one file. Received: urls=[].")
    return found


def distribute(
    spark: "SparkSession",
    source: TableSource,
    choice: ColumnChoice,
    schema: TableSchema | None,
    *,
    on_error: OnError,
    partitions: int | None,
) -> DistributedDataSet:
    """A source on Spark; one pass over it first if classes or categories are to be found."""
    check_on_error(on_error)
    check_partitions(partitions)
    parallelism = partitions or spark.sparkContext.defaultParallelism
    pieces = source.pieces(piece_bytes(source.files, parallelism))
    is_exact = schema is None
    fixed = schema or _fixed_schema(
        source,
        choice,
        lambda names: _values_on_spark(spark, source, pieces, names, on_error, parallelism),
    )
    _check_columns(source, fixed)
    reader = source.reader(fixed.used, fixed.texts, is_exact=is_exact)
    data = from_pieces(
        spark,
        pieces,
        partial(datasets_of, reader=reader, schema=fixed),
        sizes=[piece.size_bytes for piece in pieces],
        partitions=partitions,
        on_error=on_error,
        fingerprint=fingerprint(
            source.files,
            {**source.options, "schema": fixed.to_dict(), "exact": is_exact, "on_error": on_error},
        ),
        class_names=fixed.class_names,
    )
    data.schema = fixed
    return data


def gather(
    source: TableSource,
    choice: ColumnChoice,
    schema: TableSchema | None,
    *,
    on_error: OnError,
) -> LocalTable:
    """A source read in this process, whole."""
    check_on_error(on_error)
    pieces = source.pieces(_PIECE_BYTES)
    log = SkipLog(on_error)

    def values(names: tuple[str, ...]) -> dict[str, set[str]]:
        return _values(pieces, source.reader(names, names, is_exact=True), names, on_error)

    fixed = schema or _fixed_schema(source, choice, values)
    _check_columns(source, fixed)
    reader = source.reader(fixed.used, fixed.texts, is_exact=schema is None)
    found = [made for piece in pieces for made in datasets_of(piece, log, reader, fixed)]
    if not found:
        raise DataError(
            f"there must be at least one example. Received: none in {listed(_urls(source))}; "
            f"{str(log.skipped).splitlines()[0]}."
        )
    return LocalTable(data=DataSet.concatenate(found), schema=fixed, skipped=log.skipped)


def fingerprint(files: Sequence[StoredFile], options: Mapping[str, Any]) -> str:
    """Text that changes when a file or an option does."""
    content = {"files": [[f.url, f.size_bytes, f.version] for f in files], "options": dict(options)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_no_choice(choice: ColumnChoice, schema: TableSchema | None) -> None:
    """Refuse a schema together with options that it settles.

    Raises:
        ConfigurationError: naming them.
    """
    if schema is None:
        return
    if not isinstance(schema, TableSchema):
        raise ConfigurationError(
            f"`schema` must be a TableSchema, as `data.schema`. Received: schema={schema!r}."
        )
    default = ColumnChoice()
    names = [each.name for each in fields(choice)]
    given = [n for n in names if not _is_default(getattr(choice, n), getattr(default, n))]
    if given:
        raise ConfigurationError(
            f"`schema` settles {', '.join(f'`{name}`' for name in given)}. Received: both. Leave "
            "one out."
        )


def _is_default(value: Any, default: Any) -> bool:
    # Arrays of positions do not compare as one.
    return value is default or (isinstance(value, str) and value == default)


def _fixed_schema(
    source: TableSource,
    choice: ColumnChoice,
    values: Callable[[tuple[str, ...]], Mapping[str, set[str]]],
) -> TableSchema:
    with _naming(source):
        names = choice.to_infer(source.columns)
    found: Mapping[str, set[str]] = values(names) if names else {}
    _check_values(found)
    empty = sorted(name for name in names if not found.get(name))
    if empty:
        raise DataError(
            f'a column with "infer" must hold values. Received: none in {listed(empty)} of '
            f"{listed(_urls(source))}."
        )
    with _naming(source):
        return choice.schema(
            source.columns,
            values={name: sorted(several) for name, several in found.items()},
            shapes=source.shapes(choice.used(source.columns)),
        )


@contextmanager
def _naming(source: TableSource) -> Generator[None]:
    """Name the file whose columns do not fit the options: it may be damaged."""
    try:
        yield
    except (ConfigurationError, DataError) as error:
        url = source.files[0].url
        if url in str(error):
            raise
        raise type(error)(f"{error} The columns are those of {url}.") from None


def _check_columns(source: TableSource, schema: TableSchema) -> None:
    absent = [name for name in schema.used if name not in source.columns]
    if absent:
        raise DataError(
            f"{source.files[0].url} must have the columns of the schema. Received: no "
            f"{listed(absent)} among {listed(source.columns)}. For data without labels: "
            "`schema.without_labels()`."
        )


def datasets_of(
    piece: Any, log: SkipLog, reader: TableReader, schema: TableSchema
) -> Iterator[DataSet]:
    """The examples of a piece."""
    return reader.read(piece, log, partial(to_dataset, schema=schema))


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different values of some columns of a table."""

    values: dict[str, set[str]]

    def take(self, _good: Any) -> "Distinct":
        """Itself: it has no rows."""
        return self


def distinct_values(names: Sequence[str]) -> Convert:
    """For readers: the different values of some columns."""
    return lambda table, _shown: (Distinct(distinct(table, names)), [])


def _values(
    pieces: Iterable[Any], reader: TableReader, names: Sequence[str], on_error: OnError
) -> dict[str, set[str]]:
    log = SkipLog(on_error)
    found: dict[str, set[str]] = {name: set() for name in names}
    for piece in pieces:
        for made in reader.read(piece, log, distinct_values(names)):
            for name, values in made.values.items():
                found[name] |= values
            _check_values(found)
    return found


def _check_values(found: Mapping[str, set[str]]) -> None:
    for name, values in found.items():
        if len(values) > _MOST_VALUES:
            raise DataError(
                f'a column with "infer" must hold at most {_MOST_VALUES:,} different values. '
                f"Received: more in {name!r}. Is it a column of numbers to predict (no `classes`), "
                "or an identifier?"
            )


def _values_on_spark(
    spark: "SparkSession",
    source: TableSource,
    pieces: list[Any],
    names: tuple[str, ...],
    on_error: OnError,
    parallelism: int,
) -> dict[str, set[str]]:
    reader = source.reader(names, names, is_exact=True)
    groups = group_by_size([piece.size_bytes for piece in pieces], parallelism)
    shares = [[pieces[index] for index in group] for group in groups]
    rdd = spark.sparkContext.parallelize(shares, len(shares)).map(
        partial(_values, reader=reader, names=names, on_error=on_error)
    )
    merged: dict[str, set[str]] = {name: set() for name in names}
    for found in collect(spark, rdd, description="find classes and categories"):
        for name, values in found.items():
            merged[name] |= values
    return merged


def piece_bytes(files: Sequence[StoredFile], parallelism: int) -> int:
    """How much of some files one task should read at a time."""
    total = sum(file.size_bytes for file in files)
    return min(_PIECE_BYTES, max(_SMALLEST_PIECE_BYTES, -(-total // parallelism)))


def _urls(source: TableSource) -> list[str]:
    return [file.url for file in source.files]

"""Read examples from CSV, Parquet and Arrow files, with or without Spark."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from sparkwright.data._column_choice import COLUMN_OPTIONS, Classes, Columns, schema_of
from sparkwright.data._columnar import ColumnarReader, Open, open_arrow, open_parquet
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._csv_reader import ENDINGS, CsvReader
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._filling import fill_missing
from sparkwright.data._folder_columns import with_folders
from sparkwright.data._table_schema import Missing, Statistic, TableSchema
from sparkwright.data._table_source import LocalTable, TableSource, Urls, check_no_choice, files_of
from sparkwright.data.pieces import OnError
from sparkwright.data.wording import session_first, with_options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TableFormat = Literal["csv", "parquet", "arrow"]
# Format -> extensions of its files, and the function that opens a columnar file.
TABLE_FORMATS: Mapping[TableFormat, tuple[tuple[str, ...], Open | None]] = {
    "csv": (ENDINGS, None),
    "parquet": (("parquet", "pq"), open_parquet),
    "arrow": (("arrow", "arrows", "feather", "ipc"), open_arrow),
}


class ColumnOptions(TypedDict, total=False):
    """Options for the use of the columns; see `schema_of`."""

    features: Columns | Mapping[str, Columns] | None
    labels: Columns | Mapping[str, Columns] | None
    classes: Classes | Mapping[str, Classes]
    one_hot: bool
    categories: Mapping[str, Sequence[Any] | str] | None
    text: Columns
    weights: str | int | None
    missing: Missing


class CsvOptions(ColumnOptions, total=False):
    """Options for the use of the columns and the CSV dialect; see `CsvFormat`."""

    header: bool
    column_names: Sequence[str] | None
    delimiter: str
    quote: str | None
    escape: str | None
    skip_lines: int
    newlines_in_values: bool
    encoding: str
    missing_values: Sequence[str]


@session_first
@with_options_of(schema_of, CsvFormat)
def from_csv(
    spark: "SparkSession",
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
    **options: Unpack[CsvOptions],
) -> DistributedDataSet:
    """Read examples from CSV files, one per line; executors parse them with PyArrow.

    Large files are split into byte ranges, unless they are compressed (`.gz`, `.bz2`, `.zst`), have
    newlines in values, or are not UTF-8. Memory use does not depend on the file size.

    Args:
        spark: the session.
        urls: a file, a folder (files with the extension csv, tsv or txt, compressed or not), a
            pattern such as `s3://bucket/2024-*.csv`, or a list of these.
        features: columns by name or position (negative positions count from the end), or ranges:
            `slice("a", "f")` (includes "f") or `slice(0, 5)` (excludes 5). For several inputs, a
            dict of input -> columns. Default None: all columns except labels and weights.
        labels: columns, as for `features`; for several outputs, a dict of output -> columns.
            Default None: no labels.
        classes: None (default): labels are float32 numbers (regression). An integer: the number of
            classes; labels are integers from 0. A list: class names; labels become their indices.
            "infer": a first pass finds the class names. For several outputs, a dict.
        one_hot: whether class labels become (n, classes) float32 instead of (n,) int32; default
            False.
        categories: text column -> its values or "infer", one-hot encoded as features.
        text: text columns to keep as text, such as `["review"]`, for networks with a
            `TextVectorization` or `StringLookup` layer. They need separate inputs. Default: none.
        weights: column of example weights; default None.
        missing: "error" (default), "skip" (skip and count rows with missing values), a number that
            replaces missing numbers in features, or "mean" or "median" of the column over all
            rows. To use statistics of the training data only, call `fill_missing`.
        schema: schema of another data set (`schema=train.schema`), replaces all options above.
        header: whether the first line of each file has the column names; default True.
        column_names: column names that replace the header. Default None: the header, or
            `column_0`, `column_1` and so on without a header.
        delimiter: separator of values; default a comma.
        quote: quote character of values with delimiters; None for no quotes.
        escape: character before a quote in a quoted value, such as the backslash of files that
            Spark wrote; default None: quotes are doubled.
        skip_lines: number of lines to skip at the beginning of each file; default 0.
        newlines_in_values: whether quoted values may contain newlines; default False.
        encoding: default "utf-8".
        missing_values: texts of missing values. In numeric columns "nan", in any case, is also
            missing.
        on_error: "raise" (default) at the first invalid line, or "skip": skip invalid lines and
            count them in `data.skipped()`.
        partitions: number of partitions; default None: Spark's default parallelism, or more for
            large data.

    Returns:
        The examples in the order of files and lines, with `schema` and `class_names`.

    Raises:
        FileNotFoundError: if there is no file.
        ConfigurationError: if an option is invalid.
        DataError: if a file is invalid (names file and line); on executors, when the data is read.
    """
    source = _source("csv", urls, options, schema, on_error)
    return _filled(source, source.distribute(spark, partitions))


@with_options_of(schema_of, CsvFormat)
def read_csv(
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    **options: Unpack[CsvOptions],
) -> LocalTable:
    """Read the same examples as `from_csv`, with its options, without Spark.

    Returns:
        A table with `data`, `schema` and `skipped`.

    Raises:
        FileNotFoundError: if there is no file.
        ConfigurationError: if an option is invalid.
        DataError: if a file is invalid (names file and line), or there is no example.
    """
    source = _source("csv", urls, options, schema, on_error)
    return _filled(source, source.gather())


@session_first
@with_options_of(schema_of)
def from_parquet(
    spark: "SparkSession",
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
    **options: Unpack[ColumnOptions],
) -> DistributedDataSet:
    """Read examples from Parquet files, one per row; only the used columns are read.

    Large files are split by row groups. Columns of lists or tensors of one shape become arrays.
    A single such column of an input keeps its shape; next to other columns it is flattened.

    `features`, `labels`, `one_hot`, `categories`, `text`, `weights` and `missing` are those of
    `from_csv`; null and NaN are missing values.

    Args:
        spark: the session.
        urls: a file, a folder (files with the extension parquet or pq), a pattern, or a list of
            these.
        classes: as for `from_csv`; integer columns may have class names, too.
        schema: as for `from_csv`.
        on_error: "raise" (default) at the first invalid row, or "skip".
        partitions: number of partitions; default None: Spark's default parallelism, or more for
            large data.

    Returns:
        The examples in the order of files and rows, with `schema` and `class_names`.

    Raises:
        FileNotFoundError: if there is no file.
        ConfigurationError: if an option is invalid.
        DataError: if a file is invalid (names file and row); on executors, when the data is read.
    """
    source = _source("parquet", urls, options, schema, on_error)
    return _filled(source, source.distribute(spark, partitions))


@with_options_of(schema_of)
def read_parquet(
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    **options: Unpack[ColumnOptions],
) -> LocalTable:
    """Read the same examples as `from_parquet`, without Spark; see `read_csv`."""
    source = _source("parquet", urls, options, schema, on_error)
    return _filled(source, source.gather())


@session_first
@with_options_of(schema_of)
def from_arrow(
    spark: "SparkSession",
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
    **options: Unpack[ColumnOptions],
) -> DistributedDataSet:
    """Read examples from Arrow files, one per row: IPC files, IPC streams and Feather version 2.

    Large files are split by record batches; streams cannot be split. Options and results are those
    of `from_parquet`. In folders, files have the extension arrow, arrows, feather or ipc.
    """
    source = _source("arrow", urls, options, schema, on_error)
    return _filled(source, source.distribute(spark, partitions))


@with_options_of(schema_of)
def read_arrow(
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    **options: Unpack[ColumnOptions],
) -> LocalTable:
    """Read the same examples as `from_arrow`, without Spark; see `read_csv`."""
    source = _source("arrow", urls, options, schema, on_error)
    return _filled(source, source.gather())


def _filled(source: TableSource, data: Any) -> Any:
    by: Any = source.choice.get("missing")
    return fill_missing(data, by=by)[0] if by in get_args(Statistic) else data


def _source(
    kind: TableFormat,
    urls: Urls,
    options: Mapping[str, Any],
    schema: TableSchema | None,
    on_error: OnError,
) -> TableSource:
    """Validate files and options, and read the columns of the first file."""
    choice = {n: value for n, value in options.items() if n in COLUMN_OPTIONS}
    form = CsvFormat(**{n: value for n, value in options.items() if n not in COLUMN_OPTIONS})
    check_no_choice(choice, schema)
    found = opened(kind, urls, form, schema)
    how = {"kind": kind} | (form.to_dict() if kind == "csv" else {})
    return replace(found, options=how, choice=choice, schema=schema, on_error=on_error)


def opened(
    kind: TableFormat, urls: Urls, form: CsvFormat, schema: TableSchema | None = None
) -> TableSource:
    """Return files and their reader, with the columns of the first readable file."""
    endings, opener = TABLE_FORMATS[kind]
    files, is_exact = files_of(urls, endings), schema is None
    if opener is None:
        reader = CsvReader.of(files, form, schema, is_exact=is_exact)
    else:
        reader = ColumnarReader.of(files, opener, is_exact=is_exact)
    given: Any = [urls] if isinstance(urls, str | os.PathLike) else urls
    return TableSource(files=files, reader=with_folders(reader, files, [*map(os.fspath, given)]))

"""CSV, Parquet and Arrow files as examples, on Spark or in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from sparkwright.data._column_choice import Classes, ColumnChoice, Columns
from sparkwright.data._columnar import ColumnarReader, open_arrow, open_parquet
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._csv_reader import ENDINGS, CsvReader
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._filling import fill_missing
from sparkwright.data._table_schema import Missing, Statistic, TableSchema
from sparkwright.data._table_source import LocalTable, TableSource, Urls, check_no_choice, files_of
from sparkwright.data.pieces import OnError
from sparkwright.data.wording import session_first, with_options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENDINGS = {
    "csv": ENDINGS,
    "parquet": ("parquet", "pq"),
    "arrow": ("arrow", "arrows", "feather", "ipc"),
}


class ColumnOptions(TypedDict, total=False):
    """Which columns become what; see `ColumnChoice`."""

    features: Columns | Mapping[str, Columns] | None
    labels: Columns | Mapping[str, Columns] | None
    classes: Classes | Mapping[str, Classes]
    one_hot: bool
    categories: Mapping[str, Sequence[Any] | str] | None
    text: Columns
    weights: str | int | None
    missing: Missing


class CsvOptions(ColumnOptions, total=False):
    """How CSV files are written, too; see `CsvFormat`."""

    header: bool
    column_names: Sequence[str] | None
    delimiter: str
    quote: str | None
    skip_lines: int
    newlines_in_values: bool
    encoding: str
    missing_values: Sequence[str]


@session_first
@with_options_of(ColumnChoice, CsvFormat)
def from_csv(
    spark: "SparkSession",
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
    **options: Unpack[CsvOptions],
) -> DistributedDataSet:
    """Examples from CSV files, one a line, parsed by PyArrow on the executors.

    Large files are shared out by ranges of bytes, unless they are packed (`.gz`, `.bz2`, `.zst`),
    hold line ends in values, or are not UTF-8. Memory does not grow with the files.

    Args:
        spark: the session.
        urls: a file, a folder (its files ending in csv, tsv or txt, packed or not), a pattern such
            as `s3://bucket/2024-*.csv`, or a list of these.
        features: columns by name or position, from the end if negative, or ranges of them, as
            `slice("a", "f")` (with "f") or `slice(0, 5)` (without 5); several inputs as
            {input: columns}. Default None: all but labels and weights.
        labels: likewise; several outputs as {output: columns}. Default None: none.
        classes: None (default): labels are numbers to predict, float32. A number: labels are
            integers from 0. A list: labels are these texts, and become their indices. "infer": a
            pass over the data finds the texts. Several outputs: {output: one of these}.
        one_hot: class labels as (n, classes) float32 instead of (n,) int32; default False.
        categories: column of text -> its values or "infer": one feature of 0 or 1 for each value.
        text: columns of text that stay text, such as `["review"]`, for networks with a
            `TextVectorization` or `StringLookup`; in inputs of their own. Default none.
        weights: column of example weights; default None.
        missing: "error" (default), "skip" (leave such rows out and count them), a number that
            stands in for missing numbers among the features, or their "mean" or "median" over all
            rows, column by column; of the training data alone: `fill_missing`.
        schema: read as another data set was (`schema=train.schema`), in place of all options
            above.
        header: whether the first line of each file names the columns; default True.
        column_names: names in place of the header's, or without one; default None: `column_0`,
            `column_1` and so on where there is no header.
        delimiter: default a comma.
        quote: around values that hold delimiters; None for no quotes.
        skip_lines: lines to leave out at the beginning of each file; default 0.
        newlines_in_values: whether quoted values may go over several lines; default False.
        encoding: default "utf-8".
        missing_values: texts that stand for a missing value. "nan" in any case counts among
            numbers.
        on_error: "raise" (default) at the first line that does not fit, or "skip": leave such lines
            out and count them in `data.skipped()`.
        partitions: default None: Spark's default parallelism, or more for much data.

    Returns:
        The examples, in the order of files and lines, with `schema` and `class_names`.

    Raises:
        FileNotFoundError: if there is no file.
        ConfigurationError: if an option is invalid.
        DataError: if files do not fit, naming file and line; on executors when they are read.
    """
    source = _source("csv", urls, options, schema, on_error)
    return _filled(source, source.distribute(spark, partitions))


@with_options_of(ColumnChoice, CsvFormat)
def read_csv(
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    **options: Unpack[CsvOptions],
) -> LocalTable:
    """The same examples as `from_csv`, read in this process, without Spark.

    Options are those of `from_csv`.

    Returns:
        `data`, `schema` and `skipped`.

    Raises:
        FileNotFoundError: if there is no file.
        ConfigurationError: if an option is invalid.
        DataError: if files do not fit, naming file and line, or if there is no example.
    """
    source = _source("csv", urls, options, schema, on_error)
    return _filled(source, source.gather())


@session_first
@with_options_of(ColumnChoice)
def from_parquet(
    spark: "SparkSession",
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
    **options: Unpack[ColumnOptions],
) -> DistributedDataSet:
    """Examples from Parquet files, one a row; only the columns that are used are read.

    Large files are shared out by row groups. Columns of lists or tensors of one shape become
    arrays: alone in an input they keep their shape, beside other columns they are flattened.

    Args:
        spark: the session.
        urls: a file, a folder (its files ending in parquet or pq), a pattern, or a list of these.
        features: as for `from_csv`, as are `labels`, `one_hot`, `categories`, `text`,
            `weights` and `missing` (values that are null or NaN).
        classes: as for `from_csv`; a column of integers may have names, too.
        schema: as for `from_csv`.
        on_error: "raise" (default) at the first row that does not fit, or "skip".
        partitions: default None: Spark's default parallelism, or more for much data.

    Returns:
        The examples, in the order of files and rows, with `schema` and `class_names`.

    Raises:
        FileNotFoundError: if there is no file.
        ConfigurationError: if an option is invalid.
        DataError: if files do not fit, naming file and row; on executors when they are read.
    """
    source = _source("parquet", urls, options, schema, on_error)
    return _filled(source, source.distribute(spark, partitions))


@with_options_of(ColumnChoice)
def read_parquet(
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    **options: Unpack[ColumnOptions],
) -> LocalTable:
    """The same examples as `from_parquet`, read here, without Spark: as `read_csv`."""
    source = _source("parquet", urls, options, schema, on_error)
    return _filled(source, source.gather())


@session_first
@with_options_of(ColumnChoice)
def from_arrow(
    spark: "SparkSession",
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
    **options: Unpack[ColumnOptions],
) -> DistributedDataSet:
    """Examples from Arrow files, one a row: IPC files and streams, and Feather (version 2).

    Large files are shared out by record batches, streams are not. Everything else is as for
    `from_parquet`; folders are searched for files ending in arrow, arrows, feather or ipc.
    """
    source = _source("arrow", urls, options, schema, on_error)
    return _filled(source, source.distribute(spark, partitions))


@with_options_of(ColumnChoice)
def read_arrow(
    urls: Urls,
    *,
    schema: TableSchema | None = None,
    on_error: OnError = "raise",
    **options: Unpack[ColumnOptions],
) -> LocalTable:
    """The same examples as `from_arrow`, read here, without Spark: as `read_csv`."""
    source = _source("arrow", urls, options, schema, on_error)
    return _filled(source, source.gather())


def _filled(source: TableSource, data: Any) -> Any:
    by: Any = source.choice.missing
    return fill_missing(data, by=by)[0] if by in get_args(Statistic) else data


def _source(
    kind: Literal["csv", "parquet", "arrow"],
    urls: Urls,
    options: Mapping[str, Any],
    schema: TableSchema | None,
    on_error: OnError,
) -> TableSource:
    """Files and options, checked; the columns are read from the first file."""
    names = {each.name for each in fields(ColumnChoice)}
    choice = ColumnChoice(**{n: value for n, value in options.items() if n in names})
    form = CsvFormat(**{n: value for n, value in options.items() if n not in names})
    check_no_choice(choice, schema)
    files = files_of(urls, _ENDINGS[kind])
    how: dict[str, Any] = {"kind": kind}
    if kind == "csv":
        reader: Any = CsvReader.of(files, form, schema, is_exact=schema is None)
        how |= form.to_dict()
    else:
        opener = open_parquet if kind == "parquet" else open_arrow
        reader = ColumnarReader.of(files, opener, is_exact=schema is None)
    return TableSource(
        files=files, reader=reader, options=how, choice=choice, schema=schema, on_error=on_error
    )

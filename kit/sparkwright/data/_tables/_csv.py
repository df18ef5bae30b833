"""CSV files as examples, on Spark or in this process."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import OnError
from sparkwright.data._session_first import session_first
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._listing import StoredFile

from ._column_choice import Classes, ColumnChoice, Columns
from ._csv_blocks import CsvPiece, EmptyFileError, Head, opened, read_head
from ._csv_format import MISSING_VALUES, CsvFormat
from ._csv_parse import CsvColumns
from ._csv_read import CsvReader
from ._table_schema import Missing, TableSchema, listed
from ._table_source import LocalTable, Urls, check_no_choice, distribute, files_of, gather

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKED = ("", ".gz", ".bz2", ".zst")
_ENDINGS = tuple(f"{kind}{packed}" for kind in ("csv", "tsv", "txt") for packed in _PACKED)


@session_first
def from_csv(
    spark: "SparkSession",
    urls: Urls,
    *,
    features: Columns | Mapping[str, Columns] | None = None,
    labels: Columns | Mapping[str, Columns] | None = None,
    classes: Classes | Mapping[str, Classes] = None,
    one_hot: bool = False,
    categories: Mapping[str, Sequence[Any] | str] | None = None,
    weights: str | int | None = None,
    schema: TableSchema | None = None,
    header: bool = True,
    column_names: Sequence[str] | None = None,
    delimiter: str = ",",
    quote: str | None = '"',
    skip_lines: int = 0,
    newlines_in_values: bool = False,
    encoding: str = "utf-8",
    missing_values: Sequence[str] = MISSING_VALUES,
    missing: Missing = "error",
    on_error: OnError = "raise",
    partitions: int | None = None,
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
        weights: column of example weights; default None.
        schema: read as another data set was (`schema=train.schema`), in place of all options
            above and of `missing`.
        header: whether the first line of each file names the columns; default True.
        column_names: names in place of the header's, or without one; default None.
        delimiter: default a comma.
        quote: around values that hold delimiters; None for no quotes.
        skip_lines: lines to leave out at the beginning of each file; default 0.
        newlines_in_values: whether quoted values may go over several lines; default False.
        encoding: default "utf-8".
        missing_values: texts that stand for a missing value. "nan" in any case counts among
            numbers.
        missing: "error" (default), "skip" (leave such rows out and count them), or a number that
            stands in for missing numbers among the features.
        on_error: "raise" (default) at the first line that does not fit, or "skip": leave such lines
            out and count them in `data.skipped()`.
        partitions: default None: Spark's default parallelism, or more for much data.

    Returns:
        The examples, in the order of files and lines, with `schema` and `class_names`.

    Raises:
        FileNotFoundError: if there is no file.
        ConfigurationError: if an option cannot be meant that way.
        DataError: if files do not fit, naming file and line; on executors when they are read.
    """
    choice = ColumnChoice(
        features=features,
        labels=labels,
        classes=classes,
        one_hot=one_hot,
        categories=categories,
        weights=weights,
        missing=missing,
    )
    form = CsvFormat(
        header=header,
        column_names=_texts("column_names", column_names),
        delimiter=delimiter,
        quote=quote,
        skip_lines=skip_lines,
        newlines_in_values=newlines_in_values,
        encoding=encoding,
        missing_values=_texts("missing_values", missing_values) or (),
    )
    check_no_choice(choice, schema)
    source = CsvSource(urls, form, schema)
    return distribute(spark, source, choice, schema, on_error=on_error, partitions=partitions)


def read_csv(
    urls: Urls,
    *,
    features: Columns | Mapping[str, Columns] | None = None,
    labels: Columns | Mapping[str, Columns] | None = None,
    classes: Classes | Mapping[str, Classes] = None,
    one_hot: bool = False,
    categories: Mapping[str, Sequence[Any] | str] | None = None,
    weights: str | int | None = None,
    schema: TableSchema | None = None,
    header: bool = True,
    column_names: Sequence[str] | None = None,
    delimiter: str = ",",
    quote: str | None = '"',
    skip_lines: int = 0,
    newlines_in_values: bool = False,
    encoding: str = "utf-8",
    missing_values: Sequence[str] = MISSING_VALUES,
    missing: Missing = "error",
    on_error: OnError = "raise",
) -> LocalTable:
    """The same examples as `from_csv`, read in this process, without Spark.

    Options are those of `from_csv`.

    Returns:
        `data`, `schema` and `skipped`.

    Raises:
        FileNotFoundError: if there is no file.
        ConfigurationError: if an option cannot be meant that way.
        DataError: if files do not fit, naming file and line, or if there is no example.
    """
    choice = ColumnChoice(
        features=features,
        labels=labels,
        classes=classes,
        one_hot=one_hot,
        categories=categories,
        weights=weights,
        missing=missing,
    )
    form = CsvFormat(
        header=header,
        column_names=_texts("column_names", column_names),
        delimiter=delimiter,
        quote=quote,
        skip_lines=skip_lines,
        newlines_in_values=newlines_in_values,
        encoding=encoding,
        missing_values=_texts("missing_values", missing_values) or (),
    )
    check_no_choice(choice, schema)
    return gather(CsvSource(urls, form, schema), choice, schema, on_error=on_error)


class CsvSource:
    """CSV files; their columns are those of the first that is not empty."""

    def __init__(self, urls: Urls, form: CsvFormat, schema: TableSchema | None = None) -> None:
        """List the files and read a first line.

        Args:
            urls: as for `from_csv`.
            form: how they are written.
            schema: names the columns of files without a header; default None.

        Raises:
            DataError: if all files are empty, or the first line is of no use.
        """
        self.files: Sequence[StoredFile] = files_of(urls, _ENDINGS)
        self.options: Mapping[str, Any] = {"kind": "csv", **asdict(form)}
        self._form = form
        self.columns = self._found_columns(schema)

    def shapes(self, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """CSV files have no columns of arrays."""
        del names
        return {}

    def pieces(self, piece_bytes: int) -> list[CsvPiece]:
        """Whole files, or ranges of those that can be cut."""
        found: list[CsvPiece] = []
        for file in self.files:
            size = file.size_bytes
            if not self._form.can_split(file.url):
                found.append(CsvPiece(url=file.url, size_bytes=size))
                continue
            count = max(1, -(-size // piece_bytes))
            for index in range(count):
                begin, end = size * index // count, size * (index + 1) // count
                found.append(
                    CsvPiece(
                        url=file.url,
                        begin=begin,
                        end=end,
                        is_whole=count == 1,
                        size_bytes=end - begin,
                    )
                )
        return found

    def reader(self, used: Sequence[str], texts: Iterable[str], *, is_exact: bool) -> CsvReader:
        """A reader of some columns."""
        columns = CsvColumns(names=self.columns, used=tuple(used), texts=frozenset(texts))
        return CsvReader(form=self._form, columns=columns, is_exact=is_exact)

    def _found_columns(self, schema: TableSchema | None) -> tuple[str, ...]:
        form = self._form
        head, file = self._first_head()
        if form.column_names is not None:
            found = len(head.first if head.names is None else head.names)
            if found != len(form.column_names):
                raise DataError(
                    f"{file.url}: `column_names` must name each column. Received: "
                    f"{len(form.column_names)} names for {found} columns."
                )
            return form.column_names
        if head.names is not None:
            if len(set(head.names)) < len(head.names):
                raise DataError(
                    f"{file.url}: the names in the header must differ. Received: "
                    f"{listed(head.names)}. Give others: `column_names`."
                )
            if all(map(_is_number, head.names)):
                raise DataError(
                    f"{file.url}: the first line must name the columns. Received: numbers alone, "
                    f"{listed(head.names)}. For a file without a header: `header=False`; if these "
                    "are names, give them as `column_names`."
                )
            return head.names
        if schema is not None and len(schema.columns) == len(head.first):
            return schema.columns
        return tuple(f"column_{index}" for index in range(len(head.first)))

    def _first_head(self) -> tuple[Head, StoredFile]:
        trouble = ""
        for file in self.files:
            # What is wrong with a file is reported when it is read, unless there is no other.
            try:
                with opened(file.url, self._form) as (read, _):
                    return read_head(read, self._form)[0], file
            except EmptyFileError:
                continue
            except UnicodeDecodeError as error:
                trouble = trouble or (
                    f"{file.url}: the first line must be {self._form.encoding}. Received: "
                    f"{error.reason} at byte {error.start}. Give its `encoding`."
                )
            except DataError as error:
                trouble = trouble or f"{file.url}: {error}"
            except OSError as error:
                trouble = trouble or " ".join(str(error).split())
        raise DataError(
            trouble
            or f"at least one file must hold a line{_after(self._form.skip_lines)}. Received: "
            f"{listed([file.url for file in self.files])}, which hold none."
        )


def _after(skip_lines: int) -> str:
    return f" after the {skip_lines} to leave out (`skip_lines`)" if skip_lines else ""


def _texts(name: str, value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise ConfigurationError(f"`{name}` must be several texts. Received: {name}={value!r}.")
    return tuple(value)  # pyright: ignore[reportUnknownVariableType]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.strip().isalpha()  # "nan" may be a name

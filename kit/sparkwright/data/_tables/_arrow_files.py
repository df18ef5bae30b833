"""Arrow files (IPC files and streams, Feather) as examples, on Spark or in this process."""

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import OnError
from sparkwright.data._session_first import session_first
from sparkwright.storage._files import open_to_read

from ._column_choice import Classes, ColumnChoice, Columns
from ._columnar import ColumnarSource, OpenTable
from ._table_schema import Missing, TableSchema
from ._table_source import LocalTable, Urls, check_no_choice, distribute, files_of, gather

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENDINGS = ("arrow", "arrows", "feather", "ipc")
_FILE_MAGIC = b"ARROW1"


@session_first
def from_arrow(
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
    missing: Missing = "error",
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Examples from Arrow files, one a row: IPC files and streams, and Feather (version 2).

    Large files are shared out by record batches, streams are not. Columns of lists or tensors are
    treated as `from_parquet` does.

    Args:
        spark: the session.
        urls: a file, a folder (its files ending in arrow, arrows, feather or ipc), a pattern, or a
            list of these.
        features: as for `from_csv`, as are `labels`, `classes`, `one_hot`, `categories`, `weights`
            and `schema`.
        labels: as for `from_csv`.
        classes: as for `from_csv`; a column of integers may have names, too.
        one_hot: as for `from_csv`.
        categories: as for `from_csv`.
        weights: as for `from_csv`.
        schema: as for `from_csv`.
        missing: what becomes of rows with nulls or NaN: "error" (default), "skip", or a number that
            stands in for missing numbers among the features.
        on_error: "raise" (default) at the first row that does not fit, or "skip".
        partitions: default None: Spark's default parallelism, or more for much data.

    Returns:
        The examples, in the order of files and rows, with `schema` and `class_names`.

    Raises:
        FileNotFoundError: if there is no file.
        ConfigurationError: if an option cannot be meant that way.
        DataError: if files do not fit, naming file and row; on executors when they are read.
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
    check_no_choice(choice, schema)
    source = ColumnarSource("arrow", files_of(urls, _ENDINGS), open_arrow)
    return distribute(spark, source, choice, schema, on_error=on_error, partitions=partitions)


def read_arrow(
    urls: Urls,
    *,
    features: Columns | Mapping[str, Columns] | None = None,
    labels: Columns | Mapping[str, Columns] | None = None,
    classes: Classes | Mapping[str, Classes] = None,
    one_hot: bool = False,
    categories: Mapping[str, Sequence[Any] | str] | None = None,
    weights: str | int | None = None,
    schema: TableSchema | None = None,
    missing: Missing = "error",
    on_error: OnError = "raise",
) -> LocalTable:
    """The same examples as `from_arrow`, read in this process, without Spark.

    Options are those of `from_arrow`.

    Returns:
        `data`, `schema` and `skipped`.

    Raises:
        FileNotFoundError: if there is no file.
        ConfigurationError: if an option cannot be meant that way.
        DataError: if files do not fit, naming file and row, or if there is no example.
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
    check_no_choice(choice, schema)
    source = ColumnarSource("arrow", files_of(urls, _ENDINGS), open_arrow)
    return gather(source, choice, schema, on_error=on_error)


@contextlib.contextmanager
def open_arrow(url: str, /) -> Generator[OpenTable]:
    """Open an Arrow file; its parts are record batches.

    Raises:
        OSError: naming `url`; or an error of PyArrow.
    """
    import pyarrow as pa

    with open_to_read(url) as stream:
        magic = stream.read(len(_FILE_MAGIC))
        size = stream.seek(0, 2)
        stream.seek(0)
        source: Any = pa.PythonFile(stream, mode="r")
        if magic == _FILE_MAGIC:
            yield _file(source, size)
        else:
            yield _stream(source, size)


def _file(source: Any, size: int) -> OpenTable:
    import pyarrow as pa

    # The footer says which columns there are; a second reader then reads only some.
    schema = pa.ipc.open_file(source).schema
    count = int(pa.ipc.open_file(source).num_record_batches)

    def tables(
        used: Sequence[str], parts: tuple[int, int] | None
    ) -> Iterator[tuple[int, int, Any]]:
        included = [schema.get_field_index(name) for name in used]
        options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
        reader: Any = pa.ipc.open_file(source, options=options)
        before = 0
        for index in range(*(parts or (0, count))):
            batch = _checked(reader.get_batch(index))
            yield index, before if parts is None else 0, batch
            before += batch.num_rows

    return OpenTable(
        names=tuple(schema.names),
        types=tuple(schema.types),
        parts=[(size // max(1, count), -1)] * count,
        tables=tables,
    )


def _checked(batch: Any) -> Any:
    """Offsets in a damaged file may point anywhere."""
    batch.validate(full=True)
    return batch


def _stream(source: Any, size: int) -> OpenTable:
    import pyarrow as pa

    reader: Any = pa.ipc.open_stream(source)
    names = tuple(reader.schema.names)

    def tables(
        used: Sequence[str], parts: tuple[int, int] | None
    ) -> Iterator[tuple[int, int, Any]]:
        del parts  # a stream is one part
        before = 0
        for batch in reader:
            yield 0, before, _checked(batch.select(list(used)))
            before += batch.num_rows

    return OpenTable(
        names=names, types=tuple(reader.schema.types), parts=[(size, 0)], tables=tables
    )

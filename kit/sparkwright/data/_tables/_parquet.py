"""Parquet files as examples, on Spark or in this process."""

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import OnError
from sparkwright.data._session_first import session_first
from sparkwright.storage._files import is_on_this_machine, open_to_read

from ._column_choice import Classes, ColumnChoice, Columns
from ._columnar import ColumnarSource, OpenTable
from ._table_schema import Missing, TableSchema
from ._table_source import LocalTable, Urls, check_no_choice, distribute, files_of, gather

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENDINGS = ("parquet", "pq")
_BATCH_BYTES = 8 << 20
_BUFFER_BYTES = 64 << 10


@session_first
def from_parquet(
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
    """Examples from Parquet files, one a row; only the columns that are used are read.

    Large files are shared out by row groups. Columns of lists or tensors of one shape become
    arrays: alone in an input they keep their shape, beside other columns they are flattened.

    Args:
        spark: the session.
        urls: a file, a folder (its files ending in parquet or pq), a pattern, or a list of these.
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
    source = ColumnarSource("parquet", files_of(urls, _ENDINGS), open_parquet)
    return distribute(spark, source, choice, schema, on_error=on_error, partitions=partitions)


def read_parquet(
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
    """The same examples as `from_parquet`, read in this process, without Spark.

    Options are those of `from_parquet`.

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
    source = ColumnarSource("parquet", files_of(urls, _ENDINGS), open_parquet)
    return gather(source, choice, schema, on_error=on_error)


@contextlib.contextmanager
def open_parquet(url: str, /) -> Generator[OpenTable]:
    """Open a Parquet file; its parts are row groups.

    Raises:
        OSError: naming `url`; or an error of PyArrow.
    """
    import pyarrow.parquet as pq

    with open_to_read(url) as stream:
        # Without a buffer, all that a row group has of a column would be in memory. In stores each
        # small read would fetch some MiB ahead, so there it is.
        buffer_size = _BUFFER_BYTES if is_on_this_machine(url) else 0
        file: Any = pq.ParquetFile(
            stream,
            pre_buffer=False,
            buffer_size=buffer_size,
            page_checksum_verification=True,  # of pages that have a checksum
        )
        metadata = file.metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]

        def tables(
            used: Sequence[str], parts: tuple[int, int] | None
        ) -> Iterator[tuple[int, int, Any]]:
            chosen = range(*(parts or (0, len(groups))))
            before = 0
            for index in chosen:
                rows = max(1, groups[index].num_rows)
                count = max(1, int(_BATCH_BYTES / max(1.0, groups[index].total_byte_size / rows)))
                for batch in file.iter_batches(
                    batch_size=min(rows, count),
                    row_groups=[index],
                    columns=list(used),
                    use_threads=False,
                ):
                    yield index, before, batch
                    before += batch.num_rows

        yield OpenTable(
            names=tuple(file.schema_arrow.names),
            types=tuple(file.schema_arrow.types),
            parts=[(group.total_byte_size, group.num_rows) for group in groups],
            tables=tables,
        )

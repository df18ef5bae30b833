"""Readers of the user's RDDs and Spark DataFrames."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sparkwright.cluster.connect import chunks_of
from sparkwright.cluster.jobs import run_job
from sparkwright.errors import DataError

from ._columnar import is_nested
from ._distributed import DistributedDataSet
from ._image_decoding import (
    PATH,
    ImageOptions,
    image_inputs,
    image_options,
    images_of,
    rows_at_once,
)
from ._skipped import SkipLog, plain_error
from ._table_schema import TableSchema
from ._table_source import MOST_VALUES, check_inferred
from .chunks import cut, error_to_bytes, errors_as_chunks, to_bytes, to_chunks
from .dataset import DataSet
from .frames import (
    FrameColumns,
    examples_of,
    refuse_missing,
    refuse_unsuitable,
    schema_of_frame,
    text_inputs,
)
from .spark_columns import selected
from .texts import is_string
from .wording import session_first

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession


@session_first
def from_rdd(spark: "SparkSession", rdd: "RDD[Any]") -> DistributedDataSet:
    """Read an RDD of DataSets, or of (features, label) pairs of one example each.

    Args:
        spark: the session.
        rdd: RDD of `DataSet`, or of (array-like, array-like) pairs; its partitions are kept.
    """
    return DistributedDataSet(spark, rdd.mapPartitions(_chunks_of))


def from_dataframe(
    frame: "DataFrame",
    *,
    features: Sequence[str] | Mapping[str, Sequence[str]],
    labels: Sequence[str] | Mapping[str, Sequence[str]] = (),
    weights: str | None = None,
    size: tuple[int, int] | None = None,
    channels: int = 3,
    scale: bool = True,
    resize: str = "bilinear",
) -> DistributedDataSet:
    """Read columns of a Spark DataFrame, transferred as Arrow.

    Image columns are those of `spark.read.format("image")`, or hold the bytes of files, such as
    those of `spark.read.format("binaryFile")`. Each image column must be the only column of its
    input, which is (n, height, width, channels).

    Args:
        frame: the DataFrame; its partitions are kept.
        features: columns of one input, or input name -> columns. Several number columns become one
            (n, columns) array; a single column of arrays, or of Spark ML's vectors, becomes
            (n, length). Inputs of string columns only become (n, columns) text.
        labels: columns of one output, or output name -> columns; a single number column becomes
            an (n,) array.
        weights: column of example weights; default None.
        size: (height, width) in pixels to stretch every image to; required for images only.
        channels: channels of images: 3 (default, RGB) or 1 (gray).
        scale: True (default): images as float32 from 0 to 1. False: uint8.
        resize: resampling: "nearest", "box", "bilinear" (default), "hamming", "bicubic", "lanczos".

    Raises:
        ConfigurationError: if an image option is invalid, or `size` is missing.
        DataError: if a column is missing or not numeric, or an input mixes text with numbers or
            images with other columns. On executors: missing values, arrays of unequal length and
            damaged images.
    """
    groups = {
        "features": _column_groups(features, "features"),
        "labels": _column_groups(labels, "labels"),
    }
    wanted = [name for group in groups.values() for names in group.values() for name in names]
    rows = selected(frame, dict.fromkeys(wanted + ([weights] if weights else [])))
    kinds, shown = arrow_kinds(rows)
    of_texts = text_inputs(kinds, groups["features"])
    images = image_inputs(frame, groups["features"])
    pixels: dict[str, Any] = {"channels": channels, "scale": scale, "resize": resize}
    options = image_options(size, images, **pixels) if images else None
    used = [n for n in wanted if n not in of_texts | images] + ([weights] if weights else [])
    numbers = {name: kinds[name] for name in used}
    refuse_unsuitable(numbers, shown, library="Spark", decimals=False)
    path: list[str] = [PATH] if images and PATH in frame.columns else []
    names = dict.fromkeys(wanted + ([weights] if weights else []) + path)
    examples = partial(_dataset_of, groups=groups, weights=weights, images=images, options=options)
    most_rows = None if options is None else rows_at_once(options)
    return in_arrow(selected(frame, names), examples, most_rows)


def arrow_kinds(frame: "DataFrame") -> tuple[dict[str, Any], dict[str, str]]:
    """Return Arrow type (None: unknown; vectors as arrays) and Spark type name of each column."""
    import pyarrow as pa
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.pandas.types import to_arrow_type

    # Types that `to_arrow_type` does not convert as needed here.
    known: dict[str, Any] = {
        "timestamp": pa.timestamp("us"),
        VectorUDT().simpleString(): pa.list_(pa.float64()),
    }
    kinds: dict[str, Any] = {}
    for field in frame.schema.fields:
        try:
            kind: Any = known.get(field.dataType.simpleString()) or to_arrow_type(field.dataType)
        except Exception:  # of different kinds, by the version of PySpark
            kind = None
        kinds[field.name] = kind
    return kinds, {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def from_frame(
    frame: "DataFrame", chosen: FrameColumns, schema: TableSchema | None = None
) -> DistributedDataSet:
    """Read the chosen columns of a DataFrame, or those of a `schema` of earlier data."""
    if schema is not None and chosen.is_default and set(schema.used) <= set(frame.columns):
        return _by_schema(frame, schema)
    if chosen.is_default and "features" in frame.columns:
        labels = "label" if "label" in frame.columns else ()
        return from_dataframe(frame, features="features", labels=labels, weights=chosen.weights)
    if chosen.is_default and "label" not in frame.columns:
        raise DataError(
            "a DataFrame must have a column `features` (numbers, arrays or vectors), and a column "
            f"`label` if there are labels. Received: columns {frame.columns}. Or name the columns: "
            '`fit(frame, label="…")`, or `sparkwright.data.from_dataframe(frame, features=…, '
            "labels=…)`."
        )
    kinds, shown = arrow_kinds(frame)
    known = schema_of_frame(
        kinds, shown, chosen, library="Spark", values=lambda names: distinct_texts(frame, names)
    )
    if any(is_nested(kinds[name]) for name in known.used):
        return from_dataframe(
            frame, features=known.features, labels=known.labels, weights=known.weights
        )
    return _by_schema(frame, known)


def distinct_texts(frame: "DataFrame", names: Sequence[str]) -> dict[str, set[str]]:
    """Return the distinct values of each column; DataError if there are none or too many."""
    found: dict[str, set[str]] = {}
    for name in names:
        values = selected(frame, [name]).distinct().limit(MOST_VALUES + 1)
        what = f"values of column {name}"
        rows = run_job(frame.sparkSession, values.collect, description=what, needs_engine=False)
        found[name] = {str(row[0]) for row in rows if row[0] is not None}
        check_inferred(name, found[name], "the DataFrame")
    return found


def _by_schema(frame: "DataFrame", schema: TableSchema) -> DistributedDataSet:
    kinds, shown = arrow_kinds(frame)
    numbers = {name: kinds[name] for name in schema.used if name not in schema.texts}
    refuse_unsuitable(numbers, shown, library="Spark")

    def examples(batch: Any) -> DataSet | None:
        refuse_missing(batch, schema, library="Spark")
        log = SkipLog("raise", plain_error)
        return examples_of(batch, schema, lambda row: f"row {row + 1} of a batch", log)

    data = in_arrow(selected(frame, schema.used), examples)
    data.class_names, data.schema = schema.class_names, schema
    return data


def in_arrow(
    frame: "DataFrame", examples: Callable[[Any], DataSet | None], rows: int | None = None
) -> DistributedDataSet:
    """Apply `examples` on executors to each batch of at most `rows`; it may return None."""
    names = frame.columns

    def convert(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        def of(chunks: list[bytes]) -> Any:
            return pa.RecordBatch.from_pydict({"chunk": pa.array(chunks, pa.binary())})

        try:
            for batch in batches:
                whole = batch.rename_columns(names)
                for start in range(0, whole.num_rows, rows or max(whole.num_rows, 1)):
                    found = examples(whole.slice(start, rows))
                    if found is not None:
                        yield of([to_bytes(chunk) for chunk in cut(found)])
        except DataError as error:
            yield of([error_to_bytes(error)])

    numbered = frame.toDF(*(f"c{place}" for place in range(len(names))))  # PySpark selects them
    chunks = chunks_of(numbered.mapInArrow(convert, "chunk binary"))
    return DistributedDataSet(frame.sparkSession, chunks)


@errors_as_chunks
def _chunks_of(records: Iterable[Any]) -> Iterator[bytes]:
    return to_chunks(r if isinstance(r, DataSet) else _one_example(r) for r in records)


def _one_example(record: Any) -> DataSet:
    if not (isinstance(record, tuple) and len(record) == 2):
        raise DataError(
            "each element of the RDD must be a DataSet or a (features, label) pair. "
            f"Received: {type(record).__name__}."
        )
    features, label = (np.asarray(part)[None] for part in record)
    return DataSet(features, label)


def _column_groups(
    columns: Sequence[str] | Mapping[str, Sequence[str]], default: str
) -> dict[str, list[str]]:
    groups = columns if isinstance(columns, Mapping) else {default: columns} if columns else {}
    return {n: [names] if isinstance(names, str) else list(names) for n, names in groups.items()}


def _dataset_of(
    batch: Any,
    groups: dict[str, dict[str, list[str]]],
    weights: str | None,
    images: set[str],
    options: ImageOptions | None,
) -> DataSet:
    def group_array(names: list[str], *, squeeze: bool) -> Any:
        if options is not None and names[0] in images:
            return images_of(batch, names[0], options)
        arrays = [_column_array(batch, name) for name in names]
        if len(arrays) == 1:
            return arrays[0] if squeeze or arrays[0].ndim > 1 else arrays[0][:, None]
        return np.concatenate([a if a.ndim > 1 else a[:, None] for a in arrays], axis=1)

    return DataSet(
        {name: group_array(cols, squeeze=False) for name, cols in groups["features"].items()},
        {name: group_array(cols, squeeze=True) for name, cols in groups["labels"].items()},
        weights=None if weights is None else _column_array(batch, weights),
    )


def _column_array(batch: Any, name: str) -> Any:
    array = dense(batch.column(batch.schema.get_field_index(name)), f"column {name!r}")
    return array.astype(np.float32) if array.dtype == np.float64 else array


def dense(column: Any, called: str) -> Any:
    """Return an Arrow column of numbers, texts or (nested) arrays of one length as (rows, ...)."""
    if not is_nested(column.type):
        return numbers_of(column, called)
    lengths = lengths_of(column, called)
    if len(set(lengths.tolist())) > 1:
        raise DataError(
            f"arrays of {called} must have one length. Received: from {lengths.min()} to "
            f"{lengths.max()}."
        )
    if not len(column) or not lengths[0]:
        raise DataError(
            f"arrays of {called} must not be empty. Received: an empty one. Leave such rows out "
            "(`WHERE size(…) > 0`)."
        )
    inner = dense(column.flatten(), f"arrays of {called}")
    return inner.reshape(len(column), int(lengths[0]), *inner.shape[1:])


def lengths_of(column: Any, called: str) -> Any:
    """Return the (rows,) length of each row's array, 0 for numbers; raises like `dense`."""
    _refuse_missing(column, called)
    if not is_nested(column.type):
        return np.zeros(len(column), np.int64)
    return np.diff(column.offsets.to_numpy()).astype(np.int64)


def numbers_of(column: Any, called: str) -> Any:
    """Return a column of numbers or texts as (rows,); raises like `dense`."""
    import pyarrow as pa

    _refuse_missing(column, called)
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not (is_number or pa.types.is_boolean(kind) or is_string(kind)):
        raise DataError(f"{called} must hold numbers or text, or arrays. Received: type {kind}.")
    values = column.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind) and (count := int(np.isnan(values).sum())):
        _refuse(f"NaN in {count}", len(column), called)
    return values


def _refuse_missing(column: Any, called: str) -> None:
    if column.null_count:
        _refuse(str(column.null_count), len(column), called)


def _refuse(count: str, rows: int, called: str) -> NoReturn:
    raise DataError(
        f"{called} must have no missing values. Received: {count} of {rows}. Drop or fill them "
        "first (`DataFrame.na`, `coalesce`; in arrays, `pyspark.sql.functions.transform` with "
        "`coalesce` or `nanvl`); stages of Spark ML have `handleInvalid`."
    )

"""RDDs and DataFrames of the user's own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.errors import DataError

from ._distributed import DistributedDataSet
from .chunks import cut, error_to_bytes, errors_as_chunks, to_bytes, to_chunks
from .dataset import DataSet
from .texts import is_string
from .wording import session_first

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession


@session_first
def from_rdd(spark: "SparkSession", rdd: "RDD[Any]") -> DistributedDataSet:
    """Use an RDD of DataSets, or of (features, label) pairs of one example each.

    Args:
        spark: the session.
        rdd: RDD of `DataSet`, or of (array-like, array-like) pairs; partitions stay as they are.
    """
    return DistributedDataSet(spark, rdd.mapPartitions(_chunks_of))


def from_dataframe(
    frame: "DataFrame",
    *,
    features: Sequence[str] | Mapping[str, Sequence[str]],
    labels: Sequence[str] | Mapping[str, Sequence[str]] = (),
    weights: str | None = None,
) -> DistributedDataSet:
    """Use columns of a Spark DataFrame, carried as Arrow.

    Args:
        frame: the DataFrame; partitions stay as they are.
        features: columns of one input, or input name -> columns. Several number columns become one
            (n, columns) array; a single column of arrays, or of Spark ML's vectors, becomes
            (n, length). Columns of strings, in an input of their own, become (n, columns) text.
        labels: likewise per output; a single number column becomes an (n,) array.
        weights: column of example weights; default None.

    Raises:
        DataError: if there is no such column, or it holds no numbers, or an input mixes text and
            numbers; on the executor that meets them: missing values, arrays of unequal length.
    """
    groups = {
        "features": _column_groups(features, "features"),
        "labels": _column_groups(labels, "labels"),
    }
    wanted = [name for group in groups.values() for names in group.values() for name in names]
    missing = sorted({*wanted, *([weights] if weights else [])} - set(frame.columns))
    if missing:
        raise DataError(f"unknown columns {missing}. The DataFrame has {frame.columns}.")
    of_texts = _text_inputs(frame, groups["features"])
    _refuse_texts(frame, [n for n in wanted if n not in of_texts] + ([weights] if weights else []))
    selected = _arrays_for_vectors(
        frame.select(*dict.fromkeys(wanted + ([weights] if weights else [])))
    )

    def convert(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        def of(chunks: list[bytes]) -> Any:
            return pa.RecordBatch.from_pydict({"chunk": pa.array(chunks, pa.binary())})

        try:
            for batch in batches:
                if batch.num_rows:
                    yield of([to_bytes(c) for c in cut(_dataset_of(batch, groups, weights))])
        except DataError as error:
            yield of([error_to_bytes(error)])

    rdd = selected.mapInArrow(convert, "chunk binary").rdd.map(lambda row: bytes(row.chunk))
    return DistributedDataSet(frame.sparkSession, rdd)


def from_features_and_label(
    frame: "DataFrame", *, weights: str | None = None
) -> DistributedDataSet:
    """A DataFrame with Spark ML's column names: `features`, and `label` if it has labels."""
    if "features" not in frame.columns:
        raise DataError(
            "a DataFrame must have a column `features` (numbers, arrays or vectors), and a column "
            f"`label` if there are labels. Received: columns {frame.columns}. Or name the columns: "
            "`sparkwright.data.from_dataframe(frame, features=…, labels=…)`."
        )
    return from_dataframe(
        frame,
        features="features",
        labels="label" if "label" in frame.columns else (),
        weights=weights,
    )


def _refuse_texts(frame: "DataFrame", names: Sequence[str]) -> None:
    """At the call: executors would find it out much later."""
    from pyspark.sql import types

    texts = types.StringType, types.CharType, types.VarcharType
    others = types.DecimalType, types.DateType, types.TimestampType
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    for name in filter(kinds.__contains__, names):
        kind = kinds[name]
        inner = kind.elementType if isinstance(kind, types.ArrayType) else kind
        if not isinstance(inner, texts + others):
            continue
        remedy = f'Convert it first: `frame.withColumn({name!r}, frame[{name!r}].cast("double"))`.'
        if isinstance(inner, texts):
            remedy = (
                "Make numbers of it first: Spark ML's StringIndexer, or `pyspark.sql.functions`; "
                "from files, `from_csv` and `from_parquet` do so themselves (`classes`, "
                "`categories`). Features may be text, a string a row, in an input of their own."
            )
        raise DataError(
            f"columns for training must hold numbers. Received: {name!r} of type "
            f"{kind.simpleString()}. {remedy}"
        )


def _text_inputs(frame: "DataFrame", features: dict[str, list[str]]) -> set[str]:
    """The columns of the inputs that hold text alone."""
    from pyspark.sql import types

    texts = types.StringType, types.CharType, types.VarcharType
    strings = {f.name for f in frame.schema.fields if isinstance(f.dataType, texts)}
    inputs = [set(names) for names in features.values()]
    return {name for names in inputs if names <= strings for name in names}


def _arrays_for_vectors(frame: "DataFrame") -> "DataFrame":
    from pyspark.ml.functions import vector_to_array
    from pyspark.ml.linalg import VectorUDT

    vectors = [f.name for f in frame.schema.fields if isinstance(f.dataType, VectorUDT)]
    return frame.withColumns({name: vector_to_array(frame[name]) for name in vectors})


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
    if isinstance(columns, Mapping):
        return {name: _names(group) for name, group in columns.items()}
    names = _names(columns)
    return {default: names} if names else {}


def _names(columns: Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _dataset_of(
    batch: Any, groups: dict[str, dict[str, list[str]]], weights: str | None
) -> DataSet:
    def group_array(names: list[str], *, squeeze: bool) -> Any:
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
    """(rows, ...) of an Arrow column of numbers, texts or arrays, nested or not, of one length.

    Raises:
        DataError: naming it as `called`, for missing values, other types, unequal lengths.
    """
    if not _is_list(column):
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
    """(rows,) length of each row's array; 0 for numbers. Raises as `dense`."""
    _refuse_missing(column, called)
    if not _is_list(column):
        return np.zeros(len(column), np.int64)
    return np.diff(column.offsets.to_numpy()).astype(np.int64)


def numbers_of(column: Any, called: str) -> Any:
    """(rows,) of a column of numbers or texts. Raises as `dense`."""
    import pyarrow as pa

    _refuse_missing(column, called)
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not (is_number or pa.types.is_boolean(kind) or is_string(kind)):
        raise DataError(f"{called} must hold numbers or text, or arrays. Received: type {kind}.")
    return column.to_numpy(zero_copy_only=False)


def _refuse_missing(column: Any, called: str) -> None:
    if column.null_count:
        raise DataError(
            f"{called} must have no missing values. Received: {column.null_count} of "
            f"{len(column)}. Drop or fill them first (`DataFrame.na`, `coalesce`; in arrays, "
            "`pyspark.sql.functions.transform` with `coalesce`)."
        )


def _is_list(column: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_list(column.type) or pa.types.is_large_list(column.type)

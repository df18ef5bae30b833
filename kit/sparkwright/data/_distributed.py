"""Examples distributed over Spark: an RDD of Arrow chunks, and what can be asked of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from ._arrow import from_bytes, row_count, to_bytes
from ._dataset import DataSet

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

# Chunks are large enough that Spark's cost a record does not matter, small enough to stream.
_CHUNK_BYTES = 1 << 20


class DistributedDataSet:
    """A DataSet that lies in partitions on a Spark cluster.

    Lazy, as RDDs are. Each element of `rdd` is an Arrow IPC stream of one or more examples.

    Attributes:
        spark: the session.
        rdd: RDD of bytes.
    """

    def __init__(
        self, spark: "SparkSession", rdd: "RDD[bytes]", *, counts: tuple[int, ...] | None = None
    ) -> None:
        """Use `from_arrays`, `from_rdd` or `from_dataframe`.

        Args:
            spark: the session.
            rdd: RDD of Arrow IPC streams.
            counts: examples of each partition; default None: counted when asked for.
        """
        self.spark, self.rdd = spark, rdd
        self._counts = counts

    def __repr__(self) -> str:
        known = "" if self._counts is None else f", {sum(self._counts)} examples"
        return f"DistributedDataSet({self.rdd.getNumPartitions()} partitions{known})"

    def partition_counts(self) -> tuple[int, ...]:
        """Examples in each partition; counted by one Spark job the first time."""
        if self._counts is None:
            from sparkwright.partitions._execute import count_examples
            from sparkwright.spark._jobs import run_job

            counts = run_job(
                self.spark, lambda: count_examples(self.rdd), description="count examples"
            )
            self._counts = tuple(counts)
        return self._counts

    @property
    def is_counted(self) -> bool:
        """Whether `partition_counts` is known without a Spark job."""
        return self._counts is not None

    def count(self) -> int:
        """Examples in all."""
        return sum(self.partition_counts())

    def random_split(self, weights: Sequence[float], *, seed: int = 0) -> list[Self]:
        """Split by chance into parts of about the shares `weights` (they need not sum to 1).

        Each example falls into exactly one part; the same seed gives the same parts.

        Raises:
            ConfigurationError: if a weight is negative or all are 0.
        """
        shares = np.asarray(weights, np.float64)
        if shares.ndim != 1 or not shares.size or (shares < 0).any() or shares.sum() <= 0:
            raise ConfigurationError(
                "`weights` must be numbers of at least 0 with a sum above 0. "
                f"Received: weights={list(weights)}."
            )
        edges = np.concatenate([[0.0], np.cumsum(shares / shares.sum())])
        edges[-1] = np.inf
        return [
            type(self)(self.spark, self.rdd.mapPartitionsWithIndex(_part(seed, low, high)))
            for low, high in pairwise(edges.tolist())
        ]

    def collect(self) -> DataSet:
        """All examples on the driver, in order; for data that fits there.

        Raises:
            DataError: if there are none.
        """
        from sparkwright.spark._jobs import run_job

        chunks = run_job(self.spark, self.rdd.collect, description="collect examples")
        return DataSet.concatenate([from_bytes(chunk) for chunk in chunks])


def from_arrays(
    spark: "SparkSession",
    features: Mapping[str, Any] | Any,
    labels: Mapping[str, Any] | Any | None = None,
    *,
    features_masks: Mapping[str, Any] | Any | None = None,
    labels_masks: Mapping[str, Any] | Any | None = None,
    weights: Any | None = None,
    partitions: int | None = None,
) -> DistributedDataSet:
    """Distribute arrays of the driver.

    Args:
        spark: the session.
        features: (n, ...) array, or a dict input name -> array.
        labels: likewise per output; default None.
        features_masks: (n, time) arrays per input, 0 where a step is padding; default None.
        labels_masks: (n,) or (n, time) arrays per output, 0 where not to count; default None.
        weights: (n,) weight of each example in the loss; default None.
        partitions: how many; default None: Spark's default parallelism.

    Raises:
        DataError: if the arrays do not fit together.
    """
    dataset = DataSet(
        features,
        labels,
        features_masks=features_masks,
        labels_masks=labels_masks,
        weights=weights,
    )
    context = spark.sparkContext
    count = partitions or context.defaultParallelism
    edges = np.linspace(0, len(dataset), count + 1).astype(int)
    pieces = [dataset.take(slice(a, b)) for a, b in pairwise(edges)]
    chunks = [[to_bytes(chunk) for chunk in cut(piece)] for piece in pieces]
    rdd = context.parallelize(chunks, count).flatMap(lambda partition: partition)
    return DistributedDataSet(spark, rdd, counts=tuple(len(piece) for piece in pieces))


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
            (n, columns) array; a single array column becomes (n, length).
        labels: likewise per output; a single number column becomes an (n,) array.
        weights: column of example weights; default None.

    Raises:
        DataError: on the executor that meets them: missing values, arrays of unequal length.
    """
    groups = {
        "features": _column_groups(features, "features"),
        "labels": _column_groups(labels, "labels"),
    }
    wanted = [name for group in groups.values() for names in group.values() for name in names]
    missing = sorted(set(wanted) - set(frame.columns))
    if missing:
        raise DataError(f"unknown columns {missing}. The DataFrame has {frame.columns}.")
    selected = frame.select(*dict.fromkeys(wanted + ([weights] if weights else [])))

    def convert(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if batch.num_rows:
                chunks = [to_bytes(c) for c in cut(_dataset_of(batch, groups, weights))]
                yield pa.RecordBatch.from_pydict({"chunk": pa.array(chunks, pa.binary())})

    rdd = selected.mapInArrow(convert, "chunk binary").rdd.map(lambda row: bytes(row.chunk))
    return DistributedDataSet(frame.sparkSession, rdd)


def digits(spark: "SparkSession", *, partitions: int | None = None) -> DistributedDataSet:
    """1,797 real handwritten digits, (28, 28, 1) float32 from 0 to 1, with labels 0 to 9.

    scikit-learn's bundled set (UCI "Optical Recognition of Handwritten Digits", test part), whose
    8x8 images are enlarged by linear interpolation. The order is shuffled once, with a fixed seed.

    Args:
        spark: the session.
        partitions: default None: Spark's default parallelism.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ConfigurationError(
            "`digits` are part of scikit-learn, which is not installed. Install "
            "`sparkwright[notebook]`, or use `from_arrays` with data of your own."
        ) from None

    bunch: Any = load_digits()
    enlarge = _interpolation(8, 28)
    images = np.einsum("ij,njk,lk->nil", enlarge, bunch.images / 16.0, enlarge)
    order = np.random.default_rng(0).permutation(len(images))
    return from_arrays(
        spark,
        images[order, :, :, None].astype(np.float32),
        bunch.target[order].astype(np.int32),
        partitions=partitions,
    )


def cut(dataset: DataSet) -> Iterator[DataSet]:
    """`dataset` in pieces of about a megabyte."""
    if not len(dataset):
        return
    row_bytes = sum(array.nbytes for array in dataset.columns().values()) / len(dataset)
    yield from dataset.batches(max(1, int(_CHUNK_BYTES / max(row_bytes, 1))))


def _part(seed: int, low: float, high: float) -> Any:
    def select(index: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
        random = np.random.default_rng([seed, index])
        for chunk in chunks:
            draws = random.random(row_count(chunk))
            rows = np.flatnonzero((draws >= low) & (draws < high))
            if rows.size:
                yield to_bytes(from_bytes(chunk).take(rows))

    return select


def _chunks_of(records: Iterable[Any]) -> Iterator[bytes]:
    waiting: list[DataSet] = []
    size_bytes = 0
    for record in records:
        dataset = record if isinstance(record, DataSet) else _one_example(record)
        waiting.append(dataset)
        size_bytes += sum(array.nbytes for array in dataset.columns().values())
        if size_bytes >= _CHUNK_BYTES:
            yield from map(to_bytes, cut(DataSet.concatenate(waiting)))
            waiting, size_bytes = [], 0
    if waiting:
        yield from map(to_bytes, cut(DataSet.concatenate(waiting)))


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
    import pyarrow as pa

    column = batch.column(batch.schema.get_field_index(name))
    if column.null_count:
        raise DataError(
            f"column {name!r} must have no missing values. Received: {column.null_count} of them "
            f"in {len(column)} rows. Drop or fill them first (`DataFrame.na`)."
        )
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = np.diff(column.offsets.to_numpy())
        if len(set(lengths.tolist())) > 1:
            raise DataError(
                f"arrays of column {name!r} must have one length. Received: from {lengths.min()} "
                f"to {lengths.max()}."
            )
        values = column.flatten().to_numpy(zero_copy_only=False)
        array = values.reshape(len(column), -1)
    else:
        array = column.to_numpy(zero_copy_only=False)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _interpolation(source: int, target: int) -> Any:
    """(target, source) matrix of linear interpolation between pixel centres."""
    at = np.clip((np.arange(target) + 0.5) * source / target - 0.5, 0, source - 1)
    left = np.minimum(at.astype(int), source - 2)
    share = at - left
    matrix = np.zeros((target, source))
    matrix[np.arange(target), left] = 1 - share
    matrix[np.arange(target), left + 1] += share
    return matrix

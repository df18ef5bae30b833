"""Distributed examples: an RDD of Arrow chunks with its operations."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from sparkwright.cluster.engine_shipping import ship_engine
from sparkwright.cluster.jobs import collect, storage_level

from ._alignment import Alignment, padded
from ._exported import ExportedDataSet
from ._reducing import SkipTracker, reduced
from ._skipped import Skipped
from ._splitting import (
    apportion,
    equal_sizes,
    sample_sizes,
    split_randomly,
    split_stratified,
    split_to_sizes,
)
from ._statistics import DataStatistics, label_balance_of, statistics_of
from ._table_schema import TableSchema
from .chunks import errors_as_chunks, from_bytes, to_chunks
from .dataset import DataSet, Merge, Summarize, Summary, check_integer
from .export import export
from .shuffling import count_examples, shuffle

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession


class DistributedDataSet:
    """A lazy, partitioned DataSet on a Spark cluster.

    Each element of `rdd` is an Arrow IPC stream of one or more examples. If data is invalid, the
    partition ends with an element that holds the DataError, which `from_bytes` and `row_count`
    raise.

    Attributes:
        spark: the session.
        rdd: RDD of bytes.
        fingerprint: text that changes when the data changes; None if unknown.
        class_names: output name -> names of its classes; empty without named classes.
        schema: the table columns used for the examples; None for other sources.
        keys: of `join`: DataFrame with a row for each example, in their order; else None.
    """

    def __init__(
        self,
        spark: "SparkSession",
        rdd: "RDD[bytes]",
        *,
        counts: tuple[int, ...] | None = None,
        fingerprint: str | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
        skip_tracker: SkipTracker | None = None,
    ) -> None:
        """Create from an RDD of chunks; users call `from_csv`, `from_arrays` and similar instead.

        `counts` are the examples of each partition; default None: counted on demand.
        `skip_tracker` counts the items that the source skips; default None: it skips nothing.
        """
        ship_engine(spark)  # the user may run actions on the RDD
        self.spark, self.rdd = spark, rdd
        self.fingerprint, self._counts, self._skip_tracker = fingerprint, counts, skip_tracker
        self.class_names = {name: tuple(names) for name, names in (class_names or {}).items()}
        self.schema: TableSchema | None = None
        self.keys: DataFrame | None = None

    def __repr__(self) -> str:
        known = "" if self._counts is None else f", {sum(self._counts)} examples"
        return f"DistributedDataSet({self.rdd.getNumPartitions()} partitions{known})"

    def derive(
        self, rdd: "RDD[bytes]", *, step: str, counts: tuple[int, ...] | None = None
    ) -> Self:
        """Create a data set from transformed chunks, keeping the metadata of this one.

        Args:
            rdd: the transformed chunks.
            step: description of the transformation with all its options; part of the new
                fingerprint.
            counts: examples of each partition, if known.
        """
        known = self.fingerprint
        made = known and hashlib.sha256(f"{known}\n{step}".encode()).hexdigest()
        derived = type(self)(
            self.spark,
            rdd,
            counts=counts,
            fingerprint=made,
            class_names=self.class_names,
            skip_tracker=self._skip_tracker,
        )
        derived.schema = self.schema
        return derived

    def map_chunks(
        self, function: Callable[[DataSet], DataSet], *, step: str, keeps_counts: bool = True
    ) -> Self:
        """Apply `function` to chunks of about 1 MiB, on the executors.

        Args:
            function: DataSet -> DataSet with as many examples, unless `keeps_counts=False`. Chunks
                have any size, so it must process each example independently.
            step: as for `derive`.
            keeps_counts: whether the number of examples stays the same; default True.
        """

        @errors_as_chunks
        def mapped(chunks: Iterable[bytes]) -> Iterator[bytes]:
            return to_chunks(map(function, map(from_bytes, chunks)))

        counts = self._counts if keeps_counts else None
        return self.derive(self.rdd.mapPartitions(mapped), step=step, counts=counts)

    def reduce_chunks(
        self,
        summarize: Summarize[Summary],
        merge: Merge[Summary],
        *,
        description: str = "summarize the data",
    ) -> Summary | None:
        """Reduce all examples to a small summary, in one Spark job without a shuffle.

        Args:
            summarize: (chunk of about 1 MiB, partition number, index of its first example in the
                partition) -> summary; runs on executors.
            merge: (earlier summary, later summary) -> summary of both.
            description: job description in the Spark UI.

        Returns:
            The summary, merged in the order of the examples; None without examples.
        """
        return reduced(self.spark, self.rdd, summarize, merge, description=description)[0]

    def export(
        self, url: str, *, batch_size: int, overwrite: bool = False, reuse: bool = True
    ) -> ExportedDataSet:
        """Write the examples as files of exactly `batch_size` examples, published atomically.

        One file of the export may be smaller. The examples of a partition keep their order; the
        leftovers of all partitions are joined in files at the end.

        Args:
            url: an empty or new folder in any store that all executors can reach.
            batch_size: examples per file.
            overwrite: replace an existing export; default False.
            reuse: keep an existing export of the same data (same fingerprint) and batch size, with
                `reused=True` in the result; default True.

        Raises:
            ConfigurationError: if `url` holds anything else, or executors cannot reach it.
            DataError: if there are no examples, or they differ in shape.
            OSError: if the store fails, naming the URL.
        """
        return export(self, url, batch_size=batch_size, overwrite=overwrite, reuse=reuse)

    def skipped(self) -> Skipped:
        """Return what the source skipped with `on_error="skip"`.

        Runs a Spark job unless a full pass over the data has been made.
        """
        return Skipped() if self._skip_tracker is None else self._skip_tracker.total(self.spark)

    def skipped_so_far(self) -> Skipped:
        """Return what is known to be skipped without running a Spark job."""
        return Skipped() if self._skip_tracker is None else self._skip_tracker.so_far()

    def partition_counts(self) -> tuple[int, ...]:
        """Return the number of examples in each partition; the first call runs a Spark job."""
        self._counts = self._counts or tuple(count_examples(self.spark, self.rdd))
        return self._counts

    @property
    def is_counted(self) -> bool:
        """Whether `partition_counts` is known without a Spark job."""
        return self._counts is not None

    def count(self) -> int:
        """Return the total number of examples."""
        return sum(self.partition_counts())

    def statistics(self, *, bins: int = 30, seed: int = 0) -> DataStatistics:
        """Compute count, missing values, range, mean, std, quantiles and histogram of each column.

        A column is a position on the last axis of a feature or label array: a column of a table, a
        feature of a sequence, a channel of an image. Masked steps, masked labels and text are
        excluded. Makes two passes over the data; one without histograms.

        Args:
            bins: number of histogram bins between minimum and maximum; default 30; 0: no histogram.
            seed: seed of the sample used for quantiles of more than 10,000 numbers; default 0.

        Raises:
            ConfigurationError: if `bins` is negative.
            DataError: if there are no examples.
        """
        return statistics_of(self, bins=bins, seed=seed)

    def label_balance(self, label: str | None = None) -> dict[Any, int]:
        """Count the labels of each class, in one pass; masked labels are excluded.

        Args:
            label: an output with class numbers or one-hot labels; default None: the only output.

        Returns:
            Class -> count. Classes are numbers, or names if `class_names` are known.

        Raises:
            DataError: if the labels are not classes, or if `label` is needed to choose an output.
        """
        return label_balance_of(self, label)

    def random_split(
        self, weights: Sequence[float], *, seed: int = 0, exact: bool = False
    ) -> list[Self]:
        """Split randomly into disjoint parts whose sizes are proportional to `weights`.

        The order of the examples is kept; the same seed gives the same parts.

        Args:
            weights: relative size of each part; they need not sum to 1.
            seed: default 0.
            exact: make the sizes exact up to rounding; needs `partition_counts`. Default False:
                sizes are random, and no counting job runs.

        Raises:
            ConfigurationError: if a weight is negative or all are 0.
        """
        if exact:
            return split_to_sizes(self, apportion(self.count(), weights), seed=seed)
        return split_randomly(self, weights, seed=seed)

    def stratified_split(
        self, weights: Sequence[float], *, label: str | None = None, seed: int = 0
    ) -> list[Self]:
        """Split randomly so that each part has its share of every class, within one example.

        One Spark job counts the classes.

        Args:
            weights: relative size of each part; they need not sum to 1.
            label: the output to stratify by, with one class number or one-hot label per example;
                default None: the only output.
            seed: default 0.

        Raises:
            ConfigurationError: if a weight is negative or all are 0.
            DataError: if the labels are not classes, or if `label` is needed to choose an output.
        """
        return split_stratified(self, weights, label=label, seed=seed)

    def balanced_split(self, examples_per_part: int, *, seed: int = 0) -> list[Self]:
        """Split randomly into the fewest parts of at most `examples_per_part` examples.

        Part sizes differ by at most one example. Needs `partition_counts`.

        Raises:
            ConfigurationError: if `examples_per_part` is below 1.
        """
        check_integer("examples_per_part", examples_per_part)
        return split_to_sizes(self, equal_sizes(self.count(), examples_per_part), seed=seed)

    def sample(
        self, size: int | None = None, *, fraction: float | None = None, seed: int = 0
    ) -> Self:
        """Sample examples randomly without replacement; the order is kept.

        Args:
            size: number of examples; or
            fraction: share of all examples, from 0 to 1, rounded to whole examples.
            seed: default 0.

        Raises:
            ConfigurationError: unless exactly one of `size` and `fraction` is given and valid.
            DataError: if `size` exceeds the number of examples.
        """
        return split_to_sizes(self, sample_sizes(self.count(), size, fraction), seed=seed)[0]

    def shuffle(self, *, seed: int, partitions: int | None = None) -> Self:
        """Shuffle all examples uniformly, across partitions.

        Uses one Spark shuffle. It is lazy, so persist or export the result before reading it more
        than once. A partition may be larger than memory.

        Args:
            seed: the same seed gives the same order.
            partitions: number of new partitions, of equal size; default None: unchanged.

        Raises:
            ConfigurationError: if `partitions` is below 1.
        """
        return shuffle(self, partitions=partitions, seed=seed)

    def padded(
        self,
        length: int | None = None,
        *,
        names: Sequence[str] | None = None,
        align: Alignment = "start",
    ) -> Self:
        """Pad sequences to one length, with masks that are 0 at padding.

        One pass over the data finds the lengths. Arrays of a single length are unchanged.

        Args:
            length: steps of each padded sequence; default None: the longest length.
            names: inputs and outputs that are sequences, (time, ...) per example; default None:
                those of different lengths and those with a mask per step.
            align: "start" (default) pads at the end, "end" pads at the start.

        Raises:
            ConfigurationError: if `names` is invalid, or is needed but not given.
            DataError: if a sequence is longer than `length`.
        """
        return padded(self, length, names, align)

    def persist(self, level: str = "MEMORY_AND_DISK") -> Self:
        """Persist the RDD at its first computation, as `RDD.persist`; returns this data set.

        Call it before deriving other data sets from this one, and call `unpersist` at the end.

        Args:
            level: a storage level such as "DISK_ONLY"; default "MEMORY_AND_DISK". Python data is
                always serialized, so "_SER" has no effect.

        Raises:
            ConfigurationError: if the level is unknown.
        """
        wanted = storage_level(level)
        if self.rdd.is_cached and self.rdd.getStorageLevel() != wanted:
            self.rdd.unpersist()
        self.rdd.persist(wanted)
        return self

    def unpersist(self, *, blocking: bool = False) -> Self:
        """Unpersist the RDD, waiting for completion if `blocking`; returns this data set."""
        self.rdd.unpersist(blocking)
        return self

    def collect(self) -> DataSet:
        """Return all examples in order, in the driver's memory.

        Raises:
            DataError: if there are no examples.
        """
        chunks = collect(self.spark, self.rdd, description="collect examples")
        return DataSet.concatenate([from_bytes(chunk) for chunk in chunks])

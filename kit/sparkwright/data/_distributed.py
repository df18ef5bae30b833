"""Examples distributed over Spark: an RDD of Arrow chunks, and what can be asked of it."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from sparkwright.cluster.engine_shipping import ship_engine
from sparkwright.cluster.jobs import collect, storage_level

from ._exported import ExportedDataSet
from ._padding import padded
from ._reducing import Merge, Summarize, Summary, reduce_all
from ._skipped import Skipped
from ._splitting import (
    sample,
    shuffle,
    split_randomly,
    split_stratified,
    split_to_equal_sizes,
)
from ._statistics import DataStatistics, label_balance_of, statistics_of
from .chunks import errors_as_chunks, from_bytes, to_chunks
from .dataset import DataSet
from .export import export
from .shuffling import counts_in_order, indexed_counts

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    from ._alignment import Alignment
    from ._table_schema import TableSchema
    from .pieces import SkipTracker


class DistributedDataSet:
    """A DataSet that lies in partitions on a Spark cluster.

    Lazy, as RDDs are. Each element of `rdd` is an Arrow IPC stream of one or more examples. Where
    data is invalid, a partition ends with an element that carries the DataError: `from_bytes` and
    `row_count` raise it.

    Attributes:
        spark: the session.
        rdd: RDD of bytes.
        fingerprint: text that changes when the data does; None where nobody can tell.
        class_names: output name -> names of its classes; empty where there are none.
        schema: which columns of a table the examples come from; None for other sources.
    """

    def __init__(
        self,
        spark: "SparkSession",
        rdd: "RDD[bytes]",
        *,
        counts: tuple[int, ...] | None = None,
        fingerprint: str | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
        skip_tracker: "SkipTracker | None" = None,
    ) -> None:
        """Use a source, such as `from_csv` or `from_arrays`.

        Args:
            spark: as the attribute, and so are `rdd`, `fingerprint` and `class_names`.
            rdd: RDD of Arrow IPC streams.
            counts: examples of each partition; default None: counted when asked for.
            fingerprint: default None: nobody can tell.
            class_names: default none.
            skip_tracker: counts what the source skips; default None: it skips nothing.
        """
        ship_engine(spark)  # the RDD may be read by an action of the user's own
        self.spark, self.rdd = spark, rdd
        self.fingerprint = fingerprint
        self.class_names = {name: tuple(names) for name, names in (class_names or {}).items()}
        self._counts = counts
        self._skip_tracker = skip_tracker
        self.schema: TableSchema | None = None

    def __repr__(self) -> str:
        known = "" if self._counts is None else f", {sum(self._counts)} examples"
        return f"DistributedDataSet({self.rdd.getNumPartitions()} partitions{known})"

    def derive(
        self, rdd: "RDD[bytes]", *, step: str, counts: tuple[int, ...] | None = None
    ) -> Self:
        """A data set made from this one: what is known of the source stays known.

        Args:
            rdd: its chunks.
            step: what was done, with every option that matters; part of the new fingerprint.
            counts: examples of each partition, if known.
        """
        made = None
        if self.fingerprint is not None:
            made = hashlib.sha256(f"{self.fingerprint}\n{step}".encode()).hexdigest()
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
        """Apply `function` to pieces of about a megabyte, on the executors.

        Args:
            function: DataSet -> DataSet, of as many examples unless `keeps_counts=False`. It sees
                pieces of any size, so each example must be treated by itself.
            step: as for `derive`.
            keeps_counts: whether the number of examples stays; default True.
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
        """Something small that is known of all examples; one Spark job, nothing is moved.

        Args:
            summarize: chunk of about a megabyte, number of its partition, number of its first
                example there -> summary; runs on executors.
            merge: two summaries -> that of both together, the earlier one first.
            description: shown in Spark's pages.

        Returns:
            The summary, merged in the order of the examples; None if there are none.
        """
        return reduce_all(self, summarize, merge, description=description)

    def export(
        self,
        url: str,
        *,
        batch_size: int,
        overwrite: bool = False,
        reuse: bool = True,
        files_per_folder: int = 1000,
    ) -> ExportedDataSet:
        """Write the examples as files of exactly `batch_size`, seen only once all are there.

        One file of the whole export may be smaller. The examples of a partition keep their order;
        what is left of the partitions is joined in files at the end.

        Args:
            url: a folder of its own that all executors see, in any store.
            batch_size: examples a file.
            overwrite: replace an export that is there; default False.
            reuse: write nothing if the export that is there is of the same data (the same
                fingerprint) and batch size; default True. The result says so: `reused`.
            files_per_folder: at most so many files in a sub-folder; default 1000.

        Raises:
            ConfigurationError: if something else is at `url`, or executors do not see it.
            DataError: if there are no examples, or not all of one shape.
            OSError: whatever the store says, naming the URL.
        """
        return export(
            self,
            url,
            batch_size=batch_size,
            overwrite=overwrite,
            reuse=reuse,
            files_per_folder=files_per_folder,
        )

    def skipped(self) -> Skipped:
        """What the source left out because `on_error="skip"` allowed it.

        Known after any full pass over the data; otherwise one Spark job finds out.
        """
        return Skipped() if self._skip_tracker is None else self._skip_tracker.total(self.spark)

    def skipped_so_far(self) -> Skipped:
        """As `skipped`, as far as is known without a Spark job."""
        return Skipped() if self._skip_tracker is None else self._skip_tracker.so_far()

    def partition_counts(self) -> tuple[int, ...]:
        """Examples in each partition; counted by one Spark job the first time."""
        if self._counts is None:
            found = collect(self.spark, indexed_counts(self.rdd), description="count examples")
            self._counts = tuple(counts_in_order(found))
        return self._counts

    @property
    def is_counted(self) -> bool:
        """Whether `partition_counts` is known without a Spark job."""
        return self._counts is not None

    def count(self) -> int:
        """Examples in all."""
        return sum(self.partition_counts())

    def statistics(
        self, *, bins: int = 30, per_partition: bool = False, seed: int = 0
    ) -> DataStatistics:
        """Counts, missing values, range, mean, deviation, quantiles and histogram of each column.

        A column is a position on the last axis of a feature or label array: a column of a table, a
        feature of a sequence, a channel of an image. Masked steps and labels do not count, text is
        left out. Two passes over the data; one without histograms.

        Args:
            bins: of the histograms, from the smallest to the largest number; default 30; 0: none.
            per_partition: of each partition too. Default False.
            seed: of the sample that quantiles come from beyond 10,000 numbers a column; default 0.

        Raises:
            ConfigurationError: if `bins` is negative.
            DataError: if there are no examples.
        """
        return statistics_of(self, bins=bins, per_partition=per_partition, seed=seed)

    def label_balance(
        self, label: str | None = None, *, per_partition: bool = False
    ) -> dict[Any, int] | list[dict[Any, int]]:
        """How many labels there are of each class, in one pass; masked ones do not count.

        Args:
            label: the output, with class numbers or one-hot; default None: the only one.
            per_partition: one dict for each partition. Default False: one for all.

        Returns:
            Class -> count. Classes are numbers, or names where `class_names` are known.

        Raises:
            DataError: if the labels are no classes, or there are several outputs and no `label`.
        """
        return label_balance_of(self, label=label, per_partition=per_partition)

    def random_split(
        self, weights: Sequence[float], *, seed: int = 0, exact: bool = False
    ) -> list[Self]:
        """Split by chance into parts of the shares `weights` (they need not sum to 1).

        Each example falls into exactly one part, in its order of before; the same seed gives the
        same parts.

        Args:
            weights: of each part.
            seed: default 0.
            exact: sizes are the shares, rounded to whole examples; needs `partition_counts`. False
                (default): sizes come out by chance, and nothing is counted.

        Raises:
            ConfigurationError: if a weight is negative or all are 0.
        """
        return split_randomly(self, weights, exact=exact, seed=seed)

    def stratified_split(
        self, weights: Sequence[float], *, label: str | None = None, seed: int = 0
    ) -> list[Self]:
        """Split by chance so that each part has its share of every class, within one example.

        One Spark job counts the classes.

        Args:
            weights: of each part; they need not sum to 1.
            label: the output whose classes count, class numbers or one-hot, one an example;
                default None: the only one.
            seed: default 0.

        Raises:
            ConfigurationError: if a weight is negative or all are 0.
            DataError: if the labels are no classes, or there are several outputs and no `label`.
        """
        return split_stratified(self, weights, label=label, seed=seed)

    def balanced_split(self, examples_per_part: int, *, seed: int = 0) -> list[Self]:
        """Split by chance into as few parts as possible of at most `examples_per_part`.

        Their sizes differ by one example at most. Needs `partition_counts`.

        Raises:
            ConfigurationError: if `examples_per_part` is below 1.
        """
        return split_to_equal_sizes(self, examples_per_part, seed=seed)

    def sample(
        self, size: int | None = None, *, fraction: float | None = None, seed: int = 0
    ) -> Self:
        """Examples drawn by chance, none twice, in their order of before.

        Args:
            size: how many; or
            fraction: what share of all, from 0 to 1, rounded to whole examples.
            seed: default 0.

        Raises:
            ConfigurationError: unless one of both is given and makes sense.
            DataError: if there are fewer examples.
        """
        return sample(self, size, fraction, seed=seed)

    def shuffle(self, *, seed: int, partitions: int | None = None) -> Self:
        """All examples in an order in which every other was as likely, across partitions.

        One Spark shuffle; lazy, so persist or export what is read more than once. A partition may
        be larger than memory.

        Args:
            seed: the same seed gives the same order.
            partitions: how many to make, of equal size; default None: as many as there are.

        Raises:
            ConfigurationError: if `partitions` is below 1.
        """
        return shuffle(self, partitions=partitions, seed=seed)

    def padded(
        self,
        length: int | None = None,
        *,
        names: Sequence[str] | None = None,
        align: "Alignment" = "start",
    ) -> "DistributedDataSet":
        """Sequences of different length as examples of one, with masks that are 0 at padding.

        One pass over the data finds the lengths. What has one length already stays as it is.

        Args:
            length: steps of each sequence; default None: as many as the longest has.
            names: inputs and outputs that are sequences, (time, ...) an example; default None:
                those of different lengths, and those with a mask for each step.
            align: "start" (default) puts the padding behind a sequence, "end" before it.

        Raises:
            ConfigurationError: if `names` are none of the data's, or are needed.
            DataError: if a sequence is longer than `length`.
        """
        return padded(self, length, names=names, align=align)

    def persist(self, level: str = "MEMORY_AND_DISK") -> Self:
        """Have Spark keep the examples once they are computed; returns this data set.

        Call it before anything is derived from this data set, and `unpersist` in the end.

        Args:
            level: one of Spark's storage levels, such as "MEMORY_ONLY" or "DISK_ONLY"; default
                "MEMORY_AND_DISK". Python's data is always serialized: "_SER" changes nothing.

        Raises:
            ConfigurationError: if there is no such level.
        """
        wanted = storage_level(level)
        if self.rdd.is_cached and self.rdd.getStorageLevel() != wanted:
            self.rdd.unpersist()
        self.rdd.persist(wanted)
        return self

    def unpersist(self, *, blocking: bool = False) -> Self:
        """Have Spark drop what `persist` keeps, waiting for it if `blocking`; returns this."""
        self.rdd.unpersist(blocking)
        return self

    def collect(self) -> DataSet:
        """All examples on the driver, in order; for data that fits there.

        Raises:
            DataError: if there are none.
        """
        chunks = collect(self.spark, self.rdd, description="collect examples")
        return DataSet.concatenate([from_bytes(chunk) for chunk in chunks])

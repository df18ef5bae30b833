"""Layout of training data over the workers: count, repartition, export, join validation data."""

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import run_job, storage_level
from sparkwright.data import DistributedDataSet, from_bytes
from sparkwright.data.export import write_partitions
from sparkwright.data.paths import check_reached
from sparkwright.errors import DataError
from sparkwright.masters import TrainingMaster
from sparkwright.partitions import RepartitionPlan, plan_repartition
from sparkwright.partitions.execute import repartition
from sparkwright.storage.files import absolute, join, read_bytes, remove_tree
from sparkwright.timeline import PhaseCode
from sparkwright.workers.folders import own_folder, release

from ._tasks import Element, Kind

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
Run = Callable[[Callable[[], Any], str], Any]


class DataLayout:
    """The data of a run, laid out for the training master."""

    def __init__(
        self,
        *,
        data: DistributedDataSet,
        validation: DistributedDataSet | None,  # for the loss after each epoch
        master: TrainingMaster,
        workers: int,
        # Writes minibatches and returns their paths; None: train directly.
        export: Callable[["RDD[bytes]"], "RDD[str]"] | None,
        enter: Callable[[PhaseCode], None],  # with each phase as it starts
    ) -> None:
        """Count the examples (a Spark job unless known) and define the rest lazily."""
        self._persisted: list[RDD[Any]] = []
        # Persist only data that is read twice: for counting and for training.
        level = None if data.is_counted else master.storage_level
        source = self._persist(data.rdd, level)
        counts = _counted(data, enter)
        _check_examples(data, counts)
        # The examples of each partition before and after.
        self.plan: RepartitionPlan = plan_repartition(
            list(counts),
            workers=workers,
            mode=master.repartition,
            strategy=master.repartition_strategy,
            seed=master.seed or 0,
        )
        placed = repartition(source, self.plan)
        if export is not None:
            enter(PhaseCode.EXPORT)
            paths = self._persist(export(placed), master.storage_level_paths)
            placed = paths.map(read_bytes)
            enter(PhaseCode.LAYOUT)
        # RDD of `Element`s with one partition per worker
        self.elements: RDD[Element] = (
            placed.mapPartitionsWithIndex(_tagged("train"))
            if validation is None
            else _joined(placed, _spread(validation, workers, enter), workers)
        )

    def release(self) -> None:
        """Unpersist what this layout persisted."""
        for rdd in self._persisted:
            rdd.unpersist()

    def _persist(self, rdd: "RDD[Any]", level: str | None) -> "RDD[Any]":
        if level is None or rdd.is_cached:
            return rdd
        rdd.persist(storage_level(level))
        self._persisted.append(rdd)
        return rdd


def without_training_data(
    spark: "SparkSession",
    validation: DistributedDataSet | None,
    workers: int,
    enter: Callable[[PhaseCode], None],
) -> "RDD[Element]":
    """Return elements with only validation data, for workers that load their own examples."""
    if validation is None:
        return context_of(spark).parallelize(list[Any](), workers)
    return _spread(validation, workers, enter).mapPartitionsWithIndex(_tagged("validation"))


def _counted(data: DistributedDataSet, enter: Callable[[PhaseCode], None]) -> tuple[int, ...]:
    """Return the number of examples in each partition; leaves the phase at LAYOUT."""
    if not data.is_counted:
        enter(PhaseCode.COUNT)
    counts = data.partition_counts()
    enter(PhaseCode.LAYOUT)
    return counts


def _spread(
    validation: DistributedDataSet, workers: int, enter: Callable[[PhaseCode], None]
) -> "RDD[bytes]":
    counts = list(_counted(validation, enter))
    return repartition(validation.rdd, plan_repartition(counts, workers=workers))


def _check_examples(data: DistributedDataSet, counts: Sequence[int]) -> None:
    if not sum(counts):
        raise DataError(
            f"training needs at least one example. Received: none in {len(counts)} partitions; "
            f"{data.skipped()}."
        )
    skipped = data.skipped_so_far()
    if skipped.total:
        _log.warning("training continues without the skipped examples. %s", skipped)


def _tagged(kind: Kind) -> Callable[[int, Iterable[bytes]], Iterator[Element]]:
    def tag(index: int, chunks: Iterable[bytes]) -> Iterator[Element]:
        for number, chunk in enumerate(chunks):
            yield (index, number), kind, chunk

    return tag


def _joined(train: "RDD[bytes]", validation: "RDD[bytes]", workers: int) -> "RDD[Element]":
    """Join partition i of both RDDs by a shuffle; PySpark cannot zip partitions."""
    both: Any = train.mapPartitionsWithIndex(_tagged("train")).union(
        validation.mapPartitionsWithIndex(_tagged("validation"))
    )
    keyed = both.map(lambda element: (element[0][0], element))
    return keyed.partitionBy(workers, int).values()


class Exports:
    """The minibatches exported by the runs of a network."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._folders: list[str] = []

    def write(
        self, rdd: "RDD[bytes]", *, directory: str | os.PathLike[str] | None, batch_size: int
    ) -> "RDD[str]":
        """Export `rdd` (a Spark job) and return an RDD of the paths, partition by partition.

        Exports of earlier runs of the network, which are over, are deleted.
        """
        self.delete()
        parent = absolute(os.fspath(directory or own_folder("export")))
        folder = join(parent, uuid.uuid4().hex[:12])
        self._folders.append(folder if directory else parent)
        check_reached(self._spark, folder)
        parts = write_partitions(
            self._spark, rdd, folder, batch_size=batch_size, leftovers_apart=False
        )
        paths = [[join(folder, file.path) for file in part.files] for part in parts]
        context = context_of(self._spark)
        return context.parallelize(paths, len(paths)).flatMap(lambda partition: partition)

    def delete(self) -> bool:
        """Delete all exports; return True, also if there were none."""
        while self._folders:
            remove_tree(self._folders[-1])
            release(Path(self._folders.pop()))
        return True


def data_facts(
    plan: RepartitionPlan, data: DistributedDataSet, validation: DistributedDataSet | None
) -> dict[str, Any]:
    """Return JSON-serializable facts: `data` by set (rows, …) and the plan as `partitions`."""
    sets = {"train": data} | ({} if validation is None else {"validation": validation})
    return {
        "partitions": plan.to_dict(),
        "data": {name: _facts(each) for name, each in sets.items()},
    }


def _facts(data: DistributedDataSet) -> dict[str, Any]:
    skipped = data.skipped_so_far().total
    return {
        "rows": data.count() if data.is_counted else None,
        "partitions": data.rdd.getNumPartitions(),
        "fingerprint": data.fingerprint,
        **({"skipped": skipped} if skipped else {}),
        **(
            {"class_names": {name: list(names) for name, names in data.class_names.items()}}
            if data.class_names
            else {}
        ),
        **({"schema": data.schema.to_dict()} if data.schema is not None else {}),
    }


def first_layout(data: DistributedDataSet) -> Mapping[str, Any]:
    """Return `DataSet.layout` of the first examples; runs a Spark job."""
    chunks = run_job(data.spark, lambda: data.rdd.take(1), description="read the layout")
    if not chunks:
        raise DataError("the data has no examples. Received: only empty partitions.")
    return from_bytes(chunks[0]).layout

"""Lays training data out over the workers: counts, repartitions, exports, joins validation."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sparkwright.data import DistributedDataSet
from sparkwright.errors import DataError
from sparkwright.masters import TrainingMaster
from sparkwright.partitions import RepartitionPlan, plan_repartition
from sparkwright.storage._files import read_bytes
from sparkwright.timeline import PhaseCode

from ._tasks import Element

if TYPE_CHECKING:
    from pyspark import RDD

_log = logging.getLogger(__name__)

Run = Callable[[Callable[[], Any], str], Any]


class DataLayout:
    """The data of one run, laid out as the master wants it.

    Attributes:
        plan: what each partition holds before and after.
        elements: RDD of `Element`s with one partition a worker.
    """

    def __init__(
        self,
        *,
        data: DistributedDataSet,
        validation: DistributedDataSet | None,
        master: TrainingMaster,
        workers: int,
        export: Callable[["RDD[bytes]"], "RDD[str]"] | None,
        enter: Callable[[PhaseCode], None],
    ) -> None:
        """Count (a Spark job unless the counts are known) and describe the rest lazily.

        Args:
            data: the training data.
            validation: data for the loss after each epoch; None for none.
            master: repartition mode, strategy, storage level.
            workers: partitions to make.
            export: writes minibatches and returns their paths; None to train directly.
            enter: told of each phase as it begins.

        Raises:
            DataError: if there are no examples.
        """
        from sparkwright.partitions._execute import repartition

        self._persisted: list[RDD[Any]] = []
        # Kept only if it is read twice: to be counted, then to be trained on.
        level = None if data.is_counted else master.storage_level
        source = self._persist(data.rdd, level)
        counts = _counted(data, enter)
        _check_examples(data, counts)
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


def _counted(data: DistributedDataSet, enter: Callable[[PhaseCode], None]) -> tuple[int, ...]:
    """Examples in each partition; the phase is the layout afterwards."""
    if not data.is_counted:
        enter(PhaseCode.COUNT)
    counts = data.partition_counts()
    enter(PhaseCode.LAYOUT)
    return counts


def _spread(
    validation: DistributedDataSet, workers: int, enter: Callable[[PhaseCode], None]
) -> "RDD[bytes]":
    from sparkwright.partitions._execute import repartition

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
        _log.warning("training goes on without what the data's source skipped. %s", skipped)


def storage_level(name: str) -> Any:
    """PySpark's StorageLevel of that name; "_SER" is dropped, its data is always serialized."""
    from pyspark import StorageLevel

    return getattr(StorageLevel, name.replace("_SER", ""))


def _tagged(kind: str) -> Callable[[int, Iterable[bytes]], Iterator[Element]]:
    def tag(index: int, chunks: Iterable[bytes]) -> Iterator[Element]:
        for number, chunk in enumerate(chunks):
            yield (index, number), kind, chunk

    return tag


def _joined(train: "RDD[bytes]", validation: "RDD[bytes]", workers: int) -> "RDD[Element]":
    """Partition i of both, in partition i; PySpark cannot zip partitions, so by a shuffle."""
    both: Any = train.mapPartitionsWithIndex(_tagged("train")).union(
        validation.mapPartitionsWithIndex(_tagged("validation"))
    )
    keyed = both.map(lambda element: (element[0][0], element))
    return keyed.partitionBy(workers, int).values()

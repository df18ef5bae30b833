"""Division of an executor's memory between JVM, Python and TensorFlow; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.evaluation.reports import Table
from sparkwright.masters import TrainingMaster
from sparkwright.options import check_count
from sparkwright.spark.memory_parts import (
    MemoryPart,
    driver_parts,
    executor_parts,
    mib_text,
    network_memory,
    outside_heap_mib,
    parse_mib,
)

_LEAST_HEAP_MIB = 1024
_COLUMNS = ("MiB", "use", "consists of")


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryPlan:
    """The memory that executors and driver need, by use.

    Attributes:
        executors: number of executors.
        cores: cores of each executor.
        trainers: TensorFlow processes per executor, one for each task slot.
        container_mib: memory limit of an executor, MiB; None: unknown.
        heap_mib: `spark.executor.memory`, MiB.
        parts: uses of the executor's memory, the heap first.
        driver_heap_mib: `spark.driver.memory`, MiB.
        driver_parts: uses of the driver's memory, the heap first.
    """

    executors: int
    cores: int
    trainers: int
    container_mib: int | None
    heap_mib: int
    parts: tuple[MemoryPart, ...]
    driver_heap_mib: int
    driver_parts: tuple[MemoryPart, ...]

    @property
    def overhead_mib(self) -> int:
        """`spark.executor.memoryOverhead`, MiB: everything but the heap."""
        return outside_heap_mib(self.parts)

    @property
    def trainer_mib(self) -> int:
        """Memory of one training process, MiB."""
        return sum(part.each_mib for part in self.parts if part.place in ("TensorFlow", "files"))

    @property
    def total_mib(self) -> int:
        """Memory of each executor, MiB."""
        return self.heap_mib + self.overhead_mib

    @property
    def driver_total_mib(self) -> int:
        """Memory of the driver, MiB."""
        return self.driver_heap_mib + outside_heap_mib(self.driver_parts)

    @property
    def problem(self) -> str:
        """What is missing, with the sum and remedies; "" if the container suffices."""
        limit, total = self.container_mib, self.total_mib
        if limit is None or total <= limit:
            return ""
        terms = " + ".join(f"{part.sum_text} ({part.name})" for part in self.parts)
        remedies = [
            f"fewer `trainers` than {self.trainers}, " if self.trainers > 1 else "",
            "a smaller heap, " if self.heap_mib > _LEAST_HEAP_MIB else "",
        ]
        return (
            f"It does not fit: an executor needs {terms} = {mib_text(total)}, "
            f"{mib_text(total - limit)} more than its {mib_text(limit)}. Ask the cluster for more, "
            f"or choose {''.join(remedies)}smaller minibatches or another network."
        )

    def settings(self) -> dict[str, str]:
        """Return Spark settings by name, for `start_spark` or `SparkSession.builder`."""
        return {
            "spark.executor.instances": str(self.executors),
            "spark.executor.cores": str(self.cores),
            # Standalone clusters count cores instead of executors; other clusters ignore this.
            "spark.cores.max": str(self.executors * self.cores),
            "spark.task.cpus": str(self.cores // self.trainers),
            "spark.executor.memory": f"{self.heap_mib}m",
            "spark.executor.memoryOverhead": f"{self.overhead_mib}m",
            "spark.driver.memory": f"{self.driver_heap_mib}m",
            # Applies if the driver runs on the cluster (`--deploy-mode cluster`).
            "spark.driver.memoryOverhead": f"{outside_heap_mib(self.driver_parts)}m",
        }

    @property
    def arguments(self) -> dict[str, Any]:
        """The plan as arguments: `sw.start_spark(master="yarn", **memory.arguments)`."""
        return {
            "workers": self.executors,
            "cores_per_worker": self.cores,
            "memory_per_worker_mb": self.heap_mib,
            "settings": self.settings(),
        }

    def tables(self) -> list[Table]:
        """Return the executor's and the driver's memory: MiB, use and arithmetic."""
        known = "" if self.container_mib is None else f" of {mib_text(self.container_mib)}"
        trainers = f"{self.trainers} trainer{'s' * (self.trainers > 1)}"
        what = f"Memory of each executor with {trainers}: {mib_text(self.total_mib)}{known}"
        return [
            Table(title=title, rows=[_COLUMNS, *_rows(parts)], text_columns={1, 2})
            for title, parts in (
                (what, self.parts),
                (f"Memory of the driver: {mib_text(self.driver_total_mib)}", self.driver_parts),
            )
        ]


def _rows(parts: Sequence[MemoryPart]) -> list[tuple[str, str, str]]:
    return [
        (
            f"{part.size_mib:,}",
            part.name,
            f"{f'{part.sum_text}: ' if part.count > 1 else ''}{part.sentence}",
        )
        for part in parts
    ]


def plan_memory(
    model: Any,
    master: TrainingMaster,
    *,
    workers: int,
    cores: int = 1,
    trainers: int = 1,
    container: str | int | None = None,
    executor_memory: str | int | None = None,
    data_memory: str | int | None = None,
    driver_memory: str | int | None = None,
) -> MemoryPlan:
    """Divide the memory of executors and driver; the arguments are those of `advise`.

    Raises:
        ConfigurationError: if an argument is invalid.
    """
    for name, value in (("workers", workers), ("trainers", trainers), ("cores", cores)):
        check_count(name, value)
    if cores % trainers:
        raise ConfigurationError(
            "`cores` must be a multiple of `trainers`: a trainer gets cores / trainers cores, "
            f"and a task slot. Received: cores={cores}, trainers={trainers}."
        )

    def mib(name: str, given: str | int | None) -> int | None:
        return None if given is None else parse_mib(name, given)

    limit, driver_heap = mib("container", container), mib("driver_memory", driver_memory)
    # The default heap is a quarter of the container.
    heap = mib("executor_memory", executor_memory) or max(_LEAST_HEAP_MIB, (limit or 0) // 4)
    network = network_memory(model, master)
    driver_heap = driver_heap or _LEAST_HEAP_MIB
    data_mib = mib("data_memory", data_memory) or 0
    return MemoryPlan(
        executors=-(-workers // trainers),
        cores=cores,
        trainers=trainers,
        container_mib=limit,
        heap_mib=heap,
        parts=executor_parts(network, heap_mib=heap, trainers=trainers, data_mib=data_mib),
        driver_heap_mib=driver_heap,
        driver_parts=driver_parts(network, heap_mib=driver_heap),
    )

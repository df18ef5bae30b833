"""Division of a container's memory between JVM, Python and TensorFlow; pure functions."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from sparkwright.errors import ConfigurationError
from sparkwright.masters.parameter_averaging import ParameterAveragingTrainingMaster
from sparkwright.masters.training_master import TrainingMaster
from sparkwright.networks.estimating import Master
from sparkwright.options import check_count

from .memory_parts import (
    MemoryPart,
    aggregating_heap_mib,
    driver_parts,
    executor_parts,
    mib_text,
    network_memory,
    outside_heap_mib,
    parse_mib,
)

_LEAST_HEAP_MIB = 1024
_BATCH_SIZE = 32
_NO_LIMIT = (
    "spark.executor.pyspark.memory stays unset. Spark divides it by the executor's cores into an "
    "address space limit (RLIMIT_AS) for each Python worker; trainers inherit the limit and cannot "
    "raise it. TensorFlow reserves 2.2 GiB of addresses but uses 0.65 GiB; it does not start under "
    "a limit of 1 or 2 GiB."
)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class MemoryPlan:
    """The memory of executors and driver and its use; created by `plan_memory`.

    Attributes:
        workers: number of executors.
        cores: cores of each executor.
        trainers: TensorFlow processes per executor, one for each task slot.
        container_mib: memory limit of an executor, MiB; None: unknown.
        heap_mib: `spark.executor.memory`, MiB.
        overhead_mib: `spark.executor.memoryOverhead`, MiB: everything but the heap.
        parts: uses of the executor's memory, the heap first.
        driver_container_mib: memory limit of the driver, MiB; None: unknown.
        driver_heap_mib: `spark.driver.memory`, MiB.
        driver_overhead_mib: `spark.driver.memoryOverhead`, MiB; applies if the driver runs on the
            cluster (`--deploy-mode cluster`).
        driver_parts: uses of the driver's memory, the heap first.
    """

    workers: int
    cores: int
    trainers: int
    container_mib: int | None
    heap_mib: int
    overhead_mib: int
    parts: tuple[MemoryPart, ...]
    driver_container_mib: int | None
    driver_heap_mib: int
    driver_overhead_mib: int
    driver_parts: tuple[MemoryPart, ...]

    def __post_init__(self) -> None:
        """Raise if the parts exceed the containers.

        Raises:
            ConfigurationError: with the sum in the message.
        """
        for name in ("workers", "cores", "trainers"):
            check_count(name, getattr(self, name))
        if self.cores % self.trainers:
            raise ConfigurationError(
                "`cores` must be a multiple of `trainers`: a trainer gets cores / trainers cores, "
                f"and a task slot. Received: cores={self.cores}, trainers={self.trainers}."
            )
        _refuse_misfit("container", self.container_mib, self.total_mib, self.parts, self.trainers)
        _refuse_misfit(
            "driver_container", self.driver_container_mib, self.driver_total_mib, self.driver_parts
        )

    @property
    def total_mib(self) -> int:
        """Memory requested for each executor, MiB."""
        return self.heap_mib + self.overhead_mib

    @property
    def driver_total_mib(self) -> int:
        """Memory requested for a driver on the cluster, MiB."""
        return self.driver_heap_mib + self.driver_overhead_mib

    def settings(self) -> dict[str, str]:
        """Return Spark settings by name, for `start_spark` or `SparkSession.builder`."""
        return {
            "spark.executor.instances": str(self.workers),
            "spark.executor.cores": str(self.cores),
            # Standalone clusters count cores instead of executors; other clusters ignore this.
            "spark.cores.max": str(self.workers * self.cores),
            "spark.task.cpus": str(self.cores // self.trainers),
            "spark.executor.memory": f"{self.heap_mib}m",
            "spark.executor.memoryOverhead": f"{self.overhead_mib}m",
            "spark.driver.memory": f"{self.driver_heap_mib}m",
            "spark.driver.memoryOverhead": f"{self.driver_overhead_mib}m",
        }

    @property
    def arguments(self) -> dict[str, Any]:
        """The plan as arguments: `sw.start_spark(master="yarn", **plan.arguments)`."""
        return {
            "workers": self.workers,
            "cores_per_worker": self.cores,
            "memory_per_worker_mb": self.heap_mib,
            "settings": self.settings(),
        }

    def spark_submit(
        self,
        script: str = "train.py",
        *,
        master: str = "yarn",
        deploy_mode: Literal["client", "cluster"] = "cluster",
    ) -> str:
        """Return the shell command that runs `script` with this plan.

        Args:
            script: Python file, with its arguments if any.
            master: URL of the Spark master.
            deploy_mode: where the driver runs; default "cluster".
        """
        words = ["spark-submit", "--master", shlex.quote(master), "--deploy-mode", deploy_mode]
        lines = [" ".join(words)]
        lines += [f"  --conf {name}={value}" for name, value in self.settings().items()]
        return " \\\n".join([*lines, f"  {script}"])

    def describe(self) -> str:
        """Return tables of the executor's and the driver's memory: MiB, use and arithmetic."""
        what = f"{self.workers} executor{'s' if self.workers > 1 else ''} x {self.cores} cores"
        slots = f"{self.trainers} trainer{'s' if self.trainers > 1 else ''} on each"
        return "\n".join(
            [
                f"{what}, {slots}",
                *_table(self.parts, self.total_mib, self.container_mib),
                "",
                "Driver",
                *_table(self.driver_parts, self.driver_total_mib, self.driver_container_mib),
                "",
                _NO_LIMIT,
            ]
        )

    __repr__ = describe

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable fields."""
        return {"name": type(self).__name__, **asdict(self)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Create a plan from the result of `to_dict`.

        Raises:
            ConfigurationError: if the fields are not those of a plan, or exceed the containers.
        """
        given = dict(fields)
        wanted = set(cls.__dataclass_fields__)
        if given.pop("name", cls.__name__) != cls.__name__ or set(given) != wanted:
            raise ConfigurationError(
                f"a memory plan has {', '.join(sorted(wanted))}. Received: {sorted(fields)}."
            )
        for name in ("parts", "driver_parts"):
            given[name] = tuple(MemoryPart(**part) for part in given[name])
        return cls(**given)


def plan_memory(
    model: Any,
    *,
    container: str | int | None = None,
    workers: int = 2,
    cores: int = 1,
    trainers: int = 1,
    master: TrainingMaster | None = None,
    executor_memory: str | int | None = None,
    off_heap: str | int | None = None,
    extra: str | int | None = None,
    data: str | int | None = None,
    driver_memory: str | int | None = None,
    driver_container: str | int | None = None,
) -> MemoryPlan:
    """Divide the memory of executors and driver between JVM, Python and TensorFlow.

    Amounts are strings such as "11g" or "512m", or whole MiB. As in Spark, g is 1,024 MiB.

    Args:
        model: a built `keras.Model`, a `NetworkSpec`, or the number of parameters. For a number,
            the minibatch is not counted, and the optimizer is assumed to be Adam.
        container: memory limit of an executor, such as YARN's
            `yarn.scheduler.maximum-allocation-mb`; default None: no limit.
        workers: number of executors; default 2.
        cores: cores of each executor, divisible by `trainers`; default 1.
        trainers: training workers per executor; default 1. Each is a TensorFlow process with
            `cores / trainers` cores.
        master: determines the minibatch size and the exchanged state; default None: averaging with
            the optimizer state, and minibatches of 32.
        executor_memory: heap of an executor; default None: a quarter of the container, at least
            1 GiB.
        off_heap: memory of all trainers of an executor; default None: the estimate.
        extra: other memory outside the heap, for the JVM and Python workers; default None: the
            estimate.
        data: examples of one trainer, as arrays. They are in mapped files, which YARN counts as the
            trainer's memory. Default None: not counted.
        driver_memory: heap of the driver; default None: 1 GiB, more for large networks with
            `communication="spark"`.
        driver_container: memory limit of the driver; default None: no limit.

    Raises:
        ConfigurationError: if the parts exceed a limit, with the sum in the message, or an argument
            is invalid.

    Example:
        >>> plan = plan_memory(
        ...     25_000_000, container="11g", executor_memory="4g", off_heap="5g", extra="1g",
        ...     workers=4, cores=8,
        ... )
        >>> plan.settings()["spark.executor.memoryOverhead"], plan.total_mib
        ('6144m', 10240)
    """
    check_count("trainers", trainers)

    def mib(name: str, given: str | int | None) -> int | None:
        return None if given is None else parse_mib(name, given)

    limit, driver_heap = mib("container", container), mib("driver_memory", driver_memory)
    # The default heap is a quarter of the container.
    heap = mib("executor_memory", executor_memory) or max(_LEAST_HEAP_MIB, (limit or 0) // 4)
    averages = isinstance(master, ParameterAveragingTrainingMaster) or master is None
    kind: Master = "averaging" if averages else "sharing"
    network = network_memory(
        model,
        batch_size=_BATCH_SIZE if master is None else master.batch_size_per_worker,
        kind=kind,
        averages_updater=getattr(master, "updater", "average") == "average",
        velocity=isinstance(master, ParameterAveragingTrainingMaster)
        and master.velocity_size(1) > 0,
        rounded=master is not None and master.exchange.is_rounded,
        delayed=master is not None and master.exchange.delay > 0,
    )
    data_mib = mib("data", data) or 0
    parts = executor_parts(network.trainer, heap_mib=heap, trainers=trainers, data_mib=data_mib)
    if driver_heap is None:
        driver_heap = _LEAST_HEAP_MIB
        if getattr(master, "communication", "") == "spark":
            depth = getattr(master, "aggregation_depth", 2)
            needed = aggregating_heap_mib(
                network.vector_mib, workers=workers * trainers, depth=depth
            )
            driver_heap = max(driver_heap, needed)
    driver = driver_parts(network, heap_mib=driver_heap)
    return MemoryPlan(
        workers=workers,
        cores=cores,
        trainers=trainers,
        container_mib=limit,
        heap_mib=heap,
        overhead_mib=(
            _given_or_needed("off_heap", off_heap, parts, ("TensorFlow", "files"))
            + _given_or_needed("extra", extra, parts, ("JVM", "Python"))
        ),
        parts=parts,
        driver_container_mib=mib("driver_container", driver_container),
        driver_heap_mib=driver_heap,
        driver_overhead_mib=outside_heap_mib(driver),
        driver_parts=driver,
    )


def _given_or_needed(
    name: str, given: str | int | None, parts: Sequence[MemoryPart], places: Sequence[str]
) -> int:
    chosen = [part for part in parts if part.place in places]
    needed = sum(part.size_mib for part in chosen)
    if given is None:
        return needed
    mib = parse_mib(name, given)
    if mib < needed:
        raise ConfigurationError(
            f"`{name}` is too small. Received: {name}={given!r}, that is "
            f"{mib_text(mib)}; needed are {_sum_text(chosen)} = {mib_text(needed)}. Raise it, or "
            "omit it to use the estimate."
        )
    return mib


def _refuse_misfit(
    name: str, limit: int | None, total: int, parts: Sequence[MemoryPart], trainers: int = 1
) -> None:
    if limit is None or total <= limit:
        return
    needed = sum(part.size_mib for part in parts)
    room = f" + {total - needed:,} (room given beyond that)" if total > needed else ""
    remedies = [
        f"fewer `trainers` than {trainers}, " if trainers > 1 else "",
        "a smaller heap, " if parts[0].size_mib > _LEAST_HEAP_MIB else "",
    ]
    raise ConfigurationError(
        f"`{name}` is too small. Received: {name} of {mib_text(limit)}; needed are "
        f"{_sum_text(parts)}{room} = {mib_text(total)}, {mib_text(total - limit)} more. Ask the "
        f"cluster for more, or choose {''.join(remedies)}smaller minibatches or another network."
    )


def _sum_text(parts: Sequence[MemoryPart]) -> str:
    return " + ".join(f"{part.sum_text} ({part.name})" for part in parts)


def _table(parts: Sequence[MemoryPart], total: int, limit: int | None) -> list[str]:
    free = total - sum(part.size_mib for part in parts)
    if free:
        parts = [*parts, MemoryPart("more overhead", "JVM", free, 1, "Given beyond the estimate.")]
    width = max(len(part.name) for part in parts)
    lines = [
        f"  {part.size_mib:>9,} MiB  {part.name:<{width}}  "
        f"{f'{part.sum_text}: ' if part.count > 1 else ''}{part.sentence}"
        for part in parts
    ]
    known = "" if limit is None else f" of {mib_text(limit)}: {mib_text(limit - total)} free"
    return [*lines, f"  {total:>9,} MiB  requested{known}."]

"""Memory use of an executor and of the driver, by part; pure functions.

Peak resident sizes (VmHWM) were measured on Linux with Python 3.11, TensorFlow 2.21 and PySpark
4.3. As in YARN, they include pages of shared libraries and mapped files.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any, Literal, NamedTuple

from sparkwright.errors import ConfigurationError
from sparkwright.networks.describing import view_model
from sparkwright.networks.estimate import (
    NUMBER_BYTES,
    PROCESS_BYTES,
    Master,
    example_numbers,
    exchange_numbers,
)
from sparkwright.networks.spec import NetworkSpec
from sparkwright.networks.training import optimizer_slots

TRAINER_MIB = PROCESS_BYTES >> 20
# Spark's default for JVM memory outside the heap.
_JVM_SHARE, _JVM_LEAST_MIB = 0.1, 384
# Vectors in the driver: the start, the received result, the current result, one for a checkpoint.
_DRIVER_VECTORS = 4
# What Spark's driver needs itself, and its copies of a task's result while that arrives.
_DRIVER_HEAP_MIB = 512
_COPIES_OF_A_RESULT = 3
# Optimizer slots per parameter; an unknown optimizer counts as Adam.
_SLOTS = 2
Place = Literal["heap", "JVM", "Python", "TensorFlow", "files"]
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(b|[kmgtp]i?b?)?\s*", re.IGNORECASE)
_MIB = {"b": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20, "p": 2**30}
OVERHEAD = "spark.executor.memoryOverhead"
_FACTOR = "spark.executor.memoryOverheadFactor"
_LEAST = "spark.executor.minMemoryOverhead"
# Used on Kubernetes if the general setting is unset.
_KUBERNETES_FACTOR = "spark.kubernetes.memoryOverheadFactor"
# The default overhead suffices for networks of this size, with averaged Adam state.
_ROOM_FOR_PARAMETERS = 5_000_000


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One use of memory.

    Attributes:
        name: such as "Python workers".
        place: "heap"; "JVM" outside its heap; "Python" (Spark's); "TensorFlow"; mapped "files".
        each_mib: size of one, MiB.
        count: number of them.
        sentence: what the size consists of.
    """

    name: str
    place: Place
    each_mib: int
    count: int
    sentence: str

    @property
    def size_mib(self) -> int:
        """Size of all of them, MiB."""
        return self.count * self.each_mib

    @property
    def sum_text(self) -> str:
        """The size as a term of a sum."""
        return f"{self.count} x {self.each_mib:,}" if self.count > 1 else f"{self.each_mib:,}"


class NetworkMemory(NamedTuple):
    """MiB of a network: in a trainer by name, in the driver with vectors, and one vector."""

    trainer: Mapping[str, int]
    driver_mib: int
    vector_mib: int


def network_memory(
    model: Any,
    *,
    batch_size: int = 0,
    kind: Master = "averaging",
    averages_updater: bool = True,
    velocity: bool = False,
    rounded: bool = False,
    delayed: bool = False,
) -> NetworkMemory:
    """Estimate the memory of training a built Keras model, a spec or a number of parameters.

    Raises:
        ConfigurationError: if `model` is none of these.
    """
    parameters, trainable, updater, minibatch = _sizes(model, batch_size)
    traveling = parameters + (updater if kind == "sharing" or averages_updater else 0)
    traveling += trainable if velocity else 0
    copies = (trainable if rounded else 0) + (parameters if delayed else 0)
    sizes = {
        "parameters": parameters,
        "gradients": trainable,
        "optimizer": updater,
        "one minibatch": minibatch,
        "exchange": exchange_numbers(traveling, trainable, master=kind) + copies,
    }
    return NetworkMemory(
        trainer={name: mib_of_bytes(size) for name, size in sizes.items() if size},
        driver_mib=mib_of_bytes(parameters + updater + _DRIVER_VECTORS * traveling),
        vector_mib=mib_of_bytes(traveling),
    )


def _sizes(model: Any, batch_size: int) -> tuple[int, ...]:
    """Return the bytes of all parameters, trainable ones, optimizer state and a minibatch."""
    if isinstance(model, int) and not isinstance(model, bool) and model > 0:
        size = NUMBER_BYTES * model
        return size, size, _SLOTS * size, 0
    if isinstance(model, NetworkSpec):
        analysis = model.analysis
        parameters, trainable = analysis.parameters, analysis.trainable_parameters
        slots = optimizer_slots(model.optimizer.kind, model.optimizer.options)
    elif hasattr(model, "count_params") and getattr(model, "built", False):
        built: Any = model
        analysis, optimizer = view_model(built), getattr(built, "optimizer", None)
        parameters = int(built.count_params())
        trainable = sum(prod(each.shape) for each in built.trainable_variables)
        config = {} if optimizer is None else optimizer.get_config()
        slots = optimizer_slots(type(optimizer).__name__, config)
    else:
        raise ConfigurationError(
            "`model` must be a built Keras model, a NetworkSpec or a number of parameters "
            f"greater than 0. Received: model={model!r}."
        )
    numbers = (
        parameters,
        trainable,
        slots * trainable,
        batch_size * example_numbers(analysis.rows),
    )
    return tuple(NUMBER_BYTES * number for number in numbers)


def executor_parts(
    trainer: Mapping[str, int], *, heap_mib: int, trainers: int, data_mib: int
) -> tuple[MemoryPart, ...]:
    """Return the uses of an executor's memory, the heap first."""
    inside = TRAINER_MIB + sum(trainer.values())
    figures = ", ".join(f"{name} {mib:,}" for name, mib in trainer.items())
    working = "One for each task slot, with Arrow and the examples in transit."
    training = f"Python with TensorFlow {TRAINER_MIB}, {figures}."
    spare = "10% of a trainer, for unestimated use."
    mapped = "Examples of a trainer, in mapped files: reclaimable, but counted by YARN."
    parts = (
        *_jvm("executor", heap_mib),
        # Measured: 153 MiB in a Python worker that streams a partition, 47 MiB in its daemon.
        MemoryPart("Python daemon", "Python", 50, 1, "Starts Spark's Python workers."),
        MemoryPart("Python workers", "Python", 160, trainers, working),
        MemoryPart("trainers", "TensorFlow", inside, trainers, training),
        # TensorFlow's allocator, socket buffers, and anything the estimate omits.
        MemoryPart("reserve", "TensorFlow", ceil(0.1 * inside), trainers, spare),
        MemoryPart("data", "files", data_mib, trainers, mapped),
    )
    return tuple(part for part in parts if part.each_mib)


def driver_parts(network: NetworkMemory, *, heap_mib: int) -> tuple[MemoryPart, ...]:
    """Return the uses of the driver's memory, the heap first."""
    sentence = (
        f"Python with TensorFlow {TRAINER_MIB}, the model and {_DRIVER_VECTORS} vectors of its "
        f"state {network.driver_mib:,}."
    )
    size_mib = TRAINER_MIB + network.driver_mib
    script = MemoryPart("notebook or script", "TensorFlow", size_mib, 1, sentence)
    return (*_jvm("driver", heap_mib), script)


def aggregating_heap_mib(vector_mib: int, *, workers: int, depth: int) -> int:
    """Return the driver's heap for `communication="spark"`, MiB: partial sums pass through it.

    Measured with a vector of 195 MiB, two workers: 1,900 MiB suffice, 1,024 MiB do not.

    Example:
        >>> aggregating_heap_mib(195, workers=2, depth=2)
        1877
    """
    # As in Spark's treeAggregate: fewer partial sums reach the driver than there are workers.
    scale, partial_sums = max(ceil(workers ** (1 / depth)), 2), workers
    while partial_sums > scale + ceil(partial_sums / scale):
        partial_sums //= scale
    return _DRIVER_HEAP_MIB + vector_mib * (_COPIES_OF_A_RESULT * partial_sums + 1)


def _jvm(process: str, heap_mib: int) -> tuple[MemoryPart, MemoryPart]:
    sentence = (
        f"{_JVM_SHARE:.0%} of the heap, at least {mib_text(_JVM_LEAST_MIB)}: threads, code, "
        "network buffers."
    )
    outside_mib = max(_JVM_LEAST_MIB, ceil(_JVM_SHARE * heap_mib))
    return (
        MemoryPart("JVM heap", "heap", heap_mib, 1, f"spark.{process}.memory."),
        MemoryPart("JVM outside its heap", "JVM", outside_mib, 1, sentence),
    )


def mib_in(text: str) -> float | None:
    """Parse a size such as "2g" as Spark does, or "1.5g"; return MiB, or None if invalid.

    Example:
        >>> mib_in("2g"), mib_in("512"), mib_in("1048576b"), mib_in("much")
        (2048.0, 512.0, 1.0, None)
    """
    found = _SIZE.fullmatch(text)
    return None if found is None else float(found[1]) * _MIB[(found[2] or "m")[0].lower()]


def parse_mib(name: str, value: Any) -> int:
    """Parse a size such as "11g" or "4 GB" (of 1,024 MB), or whole MiB; return MiB, rounded up.

    Raises:
        ConfigurationError: if the value is invalid or not greater than 0.
    """
    mib: float = 0
    if isinstance(value, int) and not isinstance(value, bool):
        mib = value
    elif isinstance(value, str):
        mib = mib_in(value) or 0
    if mib <= 0:
        raise ConfigurationError(
            f"`{name}` must be an amount of memory greater than 0. Received: {name}={value!r}. "
            'Write "11g" or "512m", or a whole number of MiB.'
        )
    return ceil(mib)


def mib_of_bytes(size_bytes: int) -> int:
    """Convert bytes to MiB, rounded up."""
    return -(-size_bytes // 2**20)


def mib_text(mib: int) -> str:
    """Format MiB, such as "11,264 MiB"."""
    return f"{mib:,} MiB"


def overhead_settings(
    chosen: Mapping[str, str], *, elsewhere: Collection[str] = ()
) -> dict[str, str]:
    """Return the memory overhead for TensorFlow on YARN and Kubernetes, unless a setting has it.

    Spark's default, 10% of the heap and at least 384 MiB, is less than TensorFlow takes without a
    network. `elsewhere` names settings from Spark's own configuration.

    Example:
        >>> overhead_settings({"spark.master": "yarn", "spark.executor.memory": "1024m"})
        {'spark.executor.memoryOverhead': '1712m'}
    """
    contained = chosen.get("spark.master", "").startswith(("yarn", "k8s:"))
    decided = {OVERHEAD, _FACTOR, _LEAST, _KUBERNETES_FACTOR} & {*chosen, *elsewhere}
    if not contained or decided:
        return {}
    cores = int(chosen.get("spark.executor.cores", "1"))
    parts = executor_parts(
        network_memory(_ROOM_FOR_PARAMETERS).trainer,
        heap_mib=parse_mib("spark.executor.memory", chosen.get("spark.executor.memory", "1g")),
        trainers=max(1, cores // int(chosen.get("spark.task.cpus", "1"))),
        data_mib=0,
    )
    return {OVERHEAD: f"{outside_heap_mib(parts)}m"}


def outside_heap_mib(parts: Collection[MemoryPart]) -> int:
    """Return the MiB of everything but the heap."""
    return sum(part.size_mib for part in parts if part.place != "heap")


def overhead_in_container(master: str, settings: Mapping[str, str], *, heap_mib: int) -> int | None:
    """Return the MiB that Spark requests beside the heap; None except on YARN and Kubernetes.

    Example:
        >>> overhead_in_container("yarn", {}, heap_mib=8192)
        819
    """
    factor = settings.get(_FACTOR)
    if master.startswith("yarn"):
        is_python = settings.get("spark.yarn.isPython") == "true"
    elif master.startswith("k8s:"):
        factor = factor or settings.get(_KUBERNETES_FACTOR)
        # Spark sets this only if it also starts the driver in a pod.
        is_python = settings.get("spark.kubernetes.resource.type") == "python"
    else:
        return None
    found = mib_in(settings.get(OVERHEAD, ""))
    if found is None:
        least = mib_in(settings.get(_LEAST, "")) or _JVM_LEAST_MIB
        found = max(least, int(float(factor or _JVM_SHARE) * heap_mib))
    if is_python:
        found += mib_in(settings.get("spark.executor.pyspark.memory", "")) or 0
    return int(found)

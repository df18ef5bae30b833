"""Memory use of an executor and of the driver, by part; pure functions.

Peak resident sizes (VmHWM) were measured on Linux with Python 3.11, TensorFlow 2.21 and PySpark
4.3. As in YARN, they include pages of shared libraries and mapped files.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal, NamedTuple

from sparkwright.errors import ConfigurationError
from sparkwright.masters import ParameterAveragingTrainingMaster, TrainingMaster
from sparkwright.networks.estimate import PROCESS_BYTES, training_sizes

TRAINER_MIB = PROCESS_BYTES >> 20
# Spark's default for JVM memory outside the heap.
_JVM_SHARE, _JVM_LEAST_MIB = 0.1, 384
# Vectors in the driver: the start, the received result, the current result, one for a checkpoint.
_DRIVER_VECTORS = 4
# State vectors that a worker holds at its peak: when it receives the initial state or sends the
# result. Measured with 5 and 25 million parameters. Gradient sharing holds two more vectors of
# trainable parameters: the common parameters and the residual.
_AVERAGING_VECTORS, _SHARING_VECTORS, _SHARED_VECTORS = 5, 4, 2
# State vectors in a Python worker of Spark through which they pass; measured: 3.5 of 195 MiB.
_TASK_VECTORS = 4
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
    """MiB of a network: in a trainer by name, in the driver, and in a Python worker of Spark."""

    trainer: Mapping[str, int]
    driver_mib: int
    task_mib: int


def network_memory(model: Any, master: TrainingMaster) -> NetworkMemory:
    """Estimate the memory of training a built Keras model, a spec or a number of parameters.

    Raises:
        ConfigurationError: if `model` is none of these.
    """
    found, how = training_sizes(model, batch_size=master.batch_size_per_worker), master.exchange
    traveling = found.parameters + (found.optimizer if "moments" in how.what else 0)
    if isinstance(master, ParameterAveragingTrainingMaster):
        traveling += master.velocity_size(found.trainable)
        exchange = _AVERAGING_VECTORS * traveling
    else:
        exchange = _SHARING_VECTORS * traveling + _SHARED_VECTORS * found.trainable
    copies = (found.trainable if how.is_rounded else 0) + (found.parameters if how.delay else 0)
    sizes = {
        "parameters": found.parameters,
        "gradients": found.trainable,
        "optimizer": found.optimizer,
        "one minibatch": found.minibatch,
        "exchange": exchange + copies,
    }
    return NetworkMemory(
        trainer={name: mib_of_bytes(size) for name, size in sizes.items() if size},
        driver_mib=mib_of_bytes(found.parameters + found.optimizer + _DRIVER_VECTORS * traveling),
        task_mib=mib_of_bytes(_TASK_VECTORS * traveling) if how.among == "spark" else 0,
    )


def executor_parts(
    network: NetworkMemory, *, heap_mib: int, trainers: int, data_mib: int
) -> tuple[MemoryPart, ...]:
    """Return the uses of an executor's memory, the heap first."""
    inside = TRAINER_MIB + sum(network.trainer.values())
    figures = ", ".join(f"{name} {mib:,}" for name, mib in network.trainer.items())
    passing = "the parameters and the examples" if network.task_mib else "the examples"
    working = f"One for each task slot, with Arrow and {passing} in transit."
    training = f"Python with TensorFlow {TRAINER_MIB}, {figures}."
    spare = "10% of a trainer, for unestimated use."
    mapped = "Examples of a trainer, in mapped files: reclaimable, but counted by YARN."
    parts = (
        *_jvm("executor", heap_mib),
        # Measured: 153 MiB in a Python worker that streams a partition, 47 MiB in its daemon.
        MemoryPart("Python daemon", "Python", 50, 1, "Starts Spark's Python workers."),
        MemoryPart("Python workers", "Python", 160 + network.task_mib, trainers, working),
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
        network_memory(_ROOM_FOR_PARAMETERS, ParameterAveragingTrainingMaster()),
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

"""What takes memory in an executor and in the driver, each with its arithmetic; pure.

Processes were measured on Linux with Python 3.11, TensorFlow 2.21 and PySpark 4.3: the most that
was resident (VmHWM), pages of shared libraries and of mapped files included, as YARN counts.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Literal, NamedTuple, Self

from sparkwright.errors import ConfigurationError
from sparkwright.networks.describing import describe_model
from sparkwright.networks.estimate import (
    NUMBER_BYTES,
    PROCESS_BYTES,
    Master,
    estimate,
    exchange_numbers,
)
from sparkwright.networks.spec import NetworkSpec

TRAINER_MIB = PROCESS_BYTES >> 20
# A Python worker of Spark that streams a partition reached 153 MiB, the daemon above it 47.
PYTHON_WORKER_MIB = 160
PYTHON_DAEMON_MIB = 50
# What Spark itself sets aside for a JVM outside its heap, if nothing is said.
JVM_SHARE, JVM_LEAST_MIB = 0.1, 384
# TensorFlow's allocator, the buffers of sockets, and what an estimate leaves out.
_RESERVE_SHARE = 0.1
# Vectors of the driver: the start, the result on its way in and taken over, one at a checkpoint.
_DRIVER_VECTORS = 4
# An optimizer that is not known counts as Adam.
_SLOTS = 2
Place = Literal["heap", "JVM", "Python", "TensorFlow", "files"]
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(b|[kmgtp]i?b?)?\s*", re.IGNORECASE)
_MIB = {"b": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20, "p": 2**30}
OVERHEAD = "spark.executor.memoryOverhead"
_FACTOR = "spark.executor.memoryOverheadFactor"
_LEAST = "spark.executor.minMemoryOverhead"
# Counts on Kubernetes where the other is not set.
_KUBERNETES_FACTOR = "spark.kubernetes.memoryOverheadFactor"
# What decides it in place of the default below, in one way or another.
_DECIDING = (OVERHEAD, _FACTOR, _LEAST, _KUBERNETES_FACTOR)
# Networks of so many parameters have room, trained with Adam and averaged with its state.
ROOM_FOR_PARAMETERS = 5_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryPart:
    """One thing that takes memory.

    Attributes:
        name: such as "Python workers".
        place: "heap"; "JVM" outside its heap; "Python", of Spark; "TensorFlow"; mapped "files".
        each_mib: MiB of one of them.
        count: how many there are; default 1.
        sentence: what it is made of.
    """

    name: str
    place: Place
    each_mib: int
    count: int = 1
    sentence: str = ""

    @property
    def size_mib(self) -> int:
        """MiB of all of them."""
        return self.count * self.each_mib

    @property
    def sum_text(self) -> str:
        """Its size as a term of a sum."""
        return f"{self.count} x {self.each_mib:,}" if self.count > 1 else f"{self.each_mib:,}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**fields)


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkMemory:
    """What one copy of a network takes.

    Attributes:
        trainer: MiB in a trainer, by name.
        driver_mib: in the driver: the model and the vectors that come and go.
    """

    trainer: Mapping[str, int]
    driver_mib: int


def network_memory(
    model: Any, *, batch_size: int = 0, kind: Master = "averaging", save_updater: bool = True
) -> NetworkMemory:
    """What training `model` takes in one process.

    Args:
        model: a built `keras.Model`, a `NetworkSpec`, or how many parameters it has, all trainable.
        batch_size: examples of a minibatch; of a mere number of parameters it is not counted.
        kind: of the master; default averaging.
        save_updater: whether averaging averages the optimizer's state as well; default True.

    Raises:
        ConfigurationError: if `model` is none of these.
    """
    found = _sizes(model, batch_size)
    travelling = found.parameters + (found.updater if kind == "sharing" or save_updater else 0)
    sizes = {
        "parameters": found.parameters,
        "gradients": found.trainable,
        "optimizer": found.updater,
        "one minibatch": found.minibatch,
        "exchange": exchange_numbers(travelling, found.trainable, master=kind),
    }
    return NetworkMemory(
        trainer={name: mib_of_bytes(size) for name, size in sizes.items() if size},
        driver_mib=mib_of_bytes(found.parameters + found.updater + _DRIVER_VECTORS * travelling),
    )


class _Sizes(NamedTuple):
    """Bytes of a network's vectors, and of what a minibatch leaves in between."""

    parameters: int
    trainable: int
    updater: int
    minibatch: int


def _sizes(model: Any, batch_size: int) -> _Sizes:
    if isinstance(model, int) and not isinstance(model, bool) and model > 0:
        size = NUMBER_BYTES * model
        return _Sizes(size, size, _SLOTS * size, 0)
    if isinstance(model, NetworkSpec):
        spec = model
    else:
        if not hasattr(model, "count_params") or not getattr(model, "built", False):
            raise ConfigurationError(
                "`model` must be a built Keras model, a NetworkSpec or a number of parameters "
                f"greater than 0. Received: model={model!r}."
            )
        try:
            spec = describe_model(model)
        except ConfigurationError:  # layers of the user's own, whose outputs still have shapes
            return _looked_at(model, batch_size)
    found = {each.name: each.size_bytes for each in estimate(spec, batch_size=batch_size).memory}
    names = ("Parameters", "Gradients", "Optimizer", "One minibatch")
    return _Sizes(*(found[name] for name in names))


def _looked_at(model: Any, batch_size: int) -> _Sizes:
    trainable = NUMBER_BYTES * sum(prod(variable.shape) for variable in model.trainable_variables)
    outputs = sum(_output_numbers(layer) for layer in model.layers)
    return _Sizes(
        parameters=NUMBER_BYTES * int(model.count_params()),
        trainable=trainable,
        updater=_SLOTS * trainable,
        minibatch=2 * NUMBER_BYTES * outputs * batch_size,
    )


def _output_numbers(layer: Any) -> int:
    shape = getattr(getattr(layer, "output", None), "shape", ())
    return prod(length or 1 for length in tuple(shape)[1:]) if shape else 0


def executor_parts(
    network: NetworkMemory,
    *,
    heap_mib: int,
    trainers: int,
    data_mib: int,
) -> tuple[MemoryPart, ...]:
    """Everything in the container of an executor, its heap first."""
    inside = TRAINER_MIB + sum(network.trainer.values())
    figures = ", ".join(f"{name} {mib:,}" for name, mib in network.trainer.items())
    trainer = MemoryPart(
        name="trainers",
        place="TensorFlow",
        each_mib=inside,
        count=trainers,
        sentence=f"Python with TensorFlow {TRAINER_MIB}, {figures}.",
    )
    reserve = MemoryPart(
        name="reserve",
        place="TensorFlow",
        each_mib=-int(-_RESERVE_SHARE * inside // 1),
        count=trainers,
        sentence=f"{_RESERVE_SHARE:.0%} of a trainer, for what no estimate knows.",
    )
    files = MemoryPart(
        name="data",
        place="files",
        each_mib=data_mib,
        count=trainers,
        sentence="Examples of a trainer, in mapped files; Linux can drop them, YARN counts them.",
    )
    return (
        heap_part("spark.executor.memory", heap_mib),
        jvm_part(heap_mib),
        MemoryPart(
            name="Python daemon",
            place="Python",
            each_mib=PYTHON_DAEMON_MIB,
            sentence="Starts Spark's Python workers.",
        ),
        MemoryPart(
            name="Python workers",
            place="Python",
            each_mib=PYTHON_WORKER_MIB,
            count=trainers,
            sentence="One for each task slot; Arrow and the examples on their way included.",
        ),
        trainer,
        reserve,
        *([files] if data_mib else []),
    )


def driver_parts(network: NetworkMemory, *, heap_mib: int) -> tuple[MemoryPart, ...]:
    """Everything of the driver, its heap first."""
    return (
        heap_part("spark.driver.memory", heap_mib),
        jvm_part(heap_mib),
        MemoryPart(
            name="notebook or script",
            place="TensorFlow",
            each_mib=TRAINER_MIB + network.driver_mib,
            sentence=(
                f"Python with TensorFlow {TRAINER_MIB}, the model and {_DRIVER_VECTORS} vectors "
                f"of its state {network.driver_mib:,}."
            ),
        ),
    )


def heap_part(setting: str, heap_mib: int) -> MemoryPart:
    """The heap of a JVM."""
    return MemoryPart(name="JVM heap", place="heap", each_mib=heap_mib, sentence=f"{setting}.")


def jvm_part(heap_mib: int) -> MemoryPart:
    """What a JVM takes outside its heap, as Spark reckons."""
    return MemoryPart(
        name="JVM outside its heap",
        place="JVM",
        each_mib=max(JVM_LEAST_MIB, -int(-JVM_SHARE * heap_mib // 1)),
        sentence=f"{JVM_SHARE:.0%} of the heap, at least {mib_text(JVM_LEAST_MIB)}: threads, "
        "code, buffers of the network.",
    )


def mib_in(text: str) -> float | None:
    """MiB that a text such as "2g" says; without a unit it says MiB. None if it is no size.

    Units are those that Spark reads, from "b" to "p", also as "gb" and "gib", all of them powers of
    1,024. Parts of one, as in "1.5g", Spark does not read.

    Example:
        >>> mib_in("2g"), mib_in("512"), mib_in("1048576b"), mib_in("much")
        (2048.0, 512.0, 1.0, None)
    """
    found = _SIZE.fullmatch(text)
    return None if found is None else float(found[1]) * _MIB[(found[2] or "m")[0].lower()]


def parse_mib(name: str, value: Any) -> int:
    """MiB that `value` says, rounded up.

    Args:
        name: of the option, for the message.
        value: text such as "11g", "512m", "4 GB" (of 1,024 MB, as Spark counts), or whole MiB.

    Raises:
        ConfigurationError: if it is neither, or not greater than 0.

    Example:
        >>> parse_mib("container", "11g"), parse_mib("container", "1.5 GB"), parse_mib("x", 512)
        (11264, 1536, 512)
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
    return -int(-mib // 1)


def mib_of_bytes(size_bytes: int) -> int:
    """MiB that hold so many bytes."""
    return -(-size_bytes // 2**20)


def mib_text(mib: int) -> str:
    """For a person.

    Example:
        >>> mib_text(11264)
        '11,264 MiB'
    """
    return f"{mib:,} MiB"


def overhead_settings(
    chosen: Mapping[str, str], *, elsewhere: Collection[str] = ()
) -> dict[str, str]:
    """Room for TensorFlow in the containers of YARN and Kubernetes, if no setting says how much.

    Spark's own default, 10 % of the heap and at least 384 MiB, is less than TensorFlow takes before
    it has a network.

    Args:
        chosen: all other settings, the master among them.
        elsewhere: names of settings that Spark finds by itself.

    Example:
        >>> overhead_settings({"spark.master": "yarn", "spark.executor.memory": "1024m"})
        {'spark.executor.memoryOverhead': '1712m'}
        >>> overhead_settings({"spark.master": "local[2]"})
        {}
    """
    contained = chosen.get("spark.master", "").startswith(("yarn", "k8s:"))
    if not contained or any(name in chosen or name in elsewhere for name in _DECIDING):
        return {}
    cores = int(chosen.get("spark.executor.cores", "1"))
    network = network_memory(ROOM_FOR_PARAMETERS)
    parts = executor_parts(
        network,
        heap_mib=parse_mib("spark.executor.memory", chosen.get("spark.executor.memory", "1g")),
        trainers=max(1, cores // int(chosen.get("spark.task.cpus", "1"))),
        data_mib=0,
    )
    needed = sum(part.size_mib for part in parts if part.place != "heap")
    return {OVERHEAD: f"{needed}m"}


def overhead_in_container(master: str, settings: Mapping[str, str], *, heap_mib: int) -> int | None:
    """MiB that Spark asks YARN or Kubernetes for beside an executor's heap; None elsewhere.

    Args:
        master: its URL.
        settings: all that are set.
        heap_mib: of the executor.

    Example:
        >>> overhead_in_container("yarn", {}, heap_mib=8192)
        819
    """
    factor = settings.get(_FACTOR)
    if master.startswith("yarn"):
        is_python = settings.get("spark.yarn.isPython") == "true"
    elif master.startswith("k8s:"):
        factor = factor or settings.get(_KUBERNETES_FACTOR)
        # Spark says so only where it starts the driver in a pod, too.
        is_python = settings.get("spark.kubernetes.resource.type") == "python"
    else:
        return None
    found = mib_in(settings.get(OVERHEAD, ""))
    if found is None:
        least = mib_in(settings.get(_LEAST, "")) or JVM_LEAST_MIB
        found = max(least, int(float(factor or JVM_SHARE) * heap_mib))
    if is_python:
        found += mib_in(settings.get("spark.executor.pyspark.memory", "")) or 0
    return int(found)

"""What takes memory in an executor and in the driver, each with its arithmetic; pure.

Processes were measured on Linux with Python 3.11, TensorFlow 2.21 and PySpark 4.3: the most that
was resident (VmHWM), pages of shared libraries and of mapped files included, as YARN counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Literal, Self

from sparkwright.errors import ConfigurationError
from sparkwright.networks.estimate import (
    NUMBER_BYTES,
    PROCESS_BYTES,
    Master,
    estimate,
    exchange_numbers,
)
from sparkwright.networks.spec import NetworkSpec

from ._memory_size import mib_of_bytes, mib_text

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


def parameters_memory(parameters: int, *, kind: Master, save_updater: bool) -> NetworkMemory:
    """What training a network of so many parameters takes in one process, minibatch left out.

    Args:
        parameters: how many, all trainable.
        kind: of the master.
        save_updater: whether averaging averages the optimizer's state as well.
    """
    size = NUMBER_BYTES * parameters
    return _network(
        parameters=size,
        trainable=size,
        updater=_SLOTS * size,
        minibatch=0,
        kind=kind,
        save_updater=save_updater,
    )


def network_memory(
    model: Any,
    *,
    batch_size: int,
    kind: Master,
    save_updater: bool,
    describe: Callable[[Any], NetworkSpec],
) -> NetworkMemory:
    """What training `model` takes in one process.

    Args:
        model: a built `keras.Model`, a `NetworkSpec`, or how many parameters it has.
        batch_size: examples of a minibatch.
        kind: of the master.
        save_updater: whether averaging averages the optimizer's state as well.
        describe: makes a `NetworkSpec` of a Keras model.

    Raises:
        ConfigurationError: if `model` is none of these.
    """
    if isinstance(model, int) and not isinstance(model, bool) and model > 0:
        return parameters_memory(model, kind=kind, save_updater=save_updater)
    if isinstance(model, NetworkSpec):
        return _estimated(model, batch_size, kind=kind, save_updater=save_updater)
    if not hasattr(model, "count_params") or not getattr(model, "built", False):
        raise ConfigurationError(
            "`model` must be a built Keras model, a NetworkSpec or a number of parameters greater "
            f"than 0. Received: model={model!r}."
        )
    try:
        spec = describe(model)
    except ConfigurationError:  # layers of the user's own, whose outputs still have shapes
        return _looked_at(model, batch_size, kind=kind, save_updater=save_updater)
    return _estimated(spec, batch_size, kind=kind, save_updater=save_updater)


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


def _estimated(
    spec: NetworkSpec, batch_size: int, *, kind: Master, save_updater: bool
) -> NetworkMemory:
    found = estimate(spec, batch_size=batch_size)
    size_bytes = {figure.name: figure.size_bytes for figure in found.memory}
    return _network(
        parameters=size_bytes["Parameters"],
        trainable=size_bytes["Gradients"],
        updater=size_bytes["Optimizer"],
        minibatch=size_bytes["One minibatch"],
        kind=kind,
        save_updater=save_updater,
    )


def _looked_at(model: Any, batch_size: int, *, kind: Master, save_updater: bool) -> NetworkMemory:
    trainable = NUMBER_BYTES * sum(prod(variable.shape) for variable in model.trainable_variables)
    outputs = sum(_output_numbers(layer) for layer in model.layers)
    return _network(
        parameters=NUMBER_BYTES * int(model.count_params()),
        trainable=trainable,
        updater=_SLOTS * trainable,
        minibatch=2 * NUMBER_BYTES * outputs * batch_size,
        kind=kind,
        save_updater=save_updater,
    )


def _network(
    *,
    parameters: int,
    trainable: int,
    updater: int,
    minibatch: int,
    kind: Master,
    save_updater: bool,
) -> NetworkMemory:
    """From bytes of each kind."""
    travelling = parameters + (updater if kind == "sharing" or save_updater else 0)
    sizes = {
        "parameters": parameters,
        "gradients": trainable,
        "optimizer": updater,
        "one minibatch": minibatch,
        "exchange": exchange_numbers(travelling, trainable, master=kind),
    }
    return NetworkMemory(
        trainer={name: mib_of_bytes(size) for name, size in sizes.items() if size},
        driver_mib=mib_of_bytes(parameters + updater + _DRIVER_VECTORS * travelling),
    )


def _output_numbers(layer: Any) -> int:
    shape = getattr(getattr(layer, "output", None), "shape", ())
    return prod(length or 1 for length in tuple(shape)[1:]) if shape else 0

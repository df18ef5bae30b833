"""Estimate the memory and network traffic of a worker during training."""

from dataclasses import dataclass
from math import ceil, prod
from typing import Literal

from sparkwright.options import check_count

from .analysis import LayerAnalysis
from .spec import NetworkSpec
from .training import optimizer_slots

NUMBER_BYTES = 4  # float32
# Peak resident memory of a worker process before it loads a network, of which 374 MiB are library
# pages. Measured on Linux with TensorFlow 2.21.
PROCESS_BYTES = 650 << 20
# State vectors that a worker holds at its peak: when it receives the initial state or sends the
# result. Measured with 5 and 25 million parameters. Gradient sharing holds two more vectors of
# trainable parameters: the common parameters and the residual.
_AVERAGING_VECTORS, _SHARING_VECTORS, _SHARED_VECTORS = 5, 4, 2
SPARSE_SHARE = 0.001  # fraction of elements in a typical gradient-sharing message
_HEADER_WORDS = 4
_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}

Master = Literal["averaging", "sharing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimatedFigure:
    """One figure of an estimate.

    Attributes:
        name: such as "Parameters".
        size_bytes: size in bytes.
        sentence: how the size is computed.
    """

    name: str
    size_bytes: int
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkEstimate:
    """Memory and network traffic that training takes.

    Attributes:
        memory: parts of a worker's memory.
        traffic: messages that a worker sends; it receives the same amount.
        parameters: number of parameters of the network.
    """

    memory: tuple[EstimatedFigure, ...]
    traffic: tuple[EstimatedFigure, ...]
    parameters: int

    @property
    def worker_bytes(self) -> int:
        """Memory of one worker in bytes."""
        return sum(figure.size_bytes for figure in self.memory)


def estimate(
    spec: NetworkSpec,
    *,
    batch_size: int,
    workers: int = 2,
    master: Master = "averaging",
    averages_updater: bool = True,
    steps: int = 100,
) -> NetworkEstimate:
    """Estimate the memory and traffic of training `spec`.

    Layers whose shapes are unknown are not counted.

    Args:
        spec: the network.
        batch_size: minibatch size of one worker.
        workers: number of workers; default 2.
        master: "averaging" (default) or "sharing".
        averages_updater: whether the optimizer state is averaged as well; default True.
        steps: assumed length of axes of variable length; default 100.

    Raises:
        ConfigurationError: if `batch_size`, `workers` or `steps` is less than 1.

    Example:
        >>> from sparkwright.networks import PRESETS
        >>> found = estimate(PRESETS["lenet"].make(), batch_size=32)
        >>> [(figure.name, figure.size_bytes) for figure in found.traffic]
        [('One averaging round', 5172960)]
    """
    for name, value in (("batch_size", batch_size), ("workers", workers), ("steps", steps)):
        check_count(name, value)
    analysis = spec.analysis
    rows = [row for row in analysis.rows if row.enabled]
    held, trainable = analysis.parameters, analysis.trainable_parameters
    slots = optimizer_slots(spec.optimizer.kind, spec.optimizer.options)
    kept = sum(_kept(row, steps) for row in rows) * batch_size
    is_open = any(None in (row.output_shape or ()) for row in rows)
    assumed = f"; axes of variable length count as {steps}" if is_open else ""
    traveling = held + (trainable * slots if averages_updater or master == "sharing" else 0)
    exchange = f"At its peak, {_AVERAGING_VECTORS} flat vectors of {traveling:,} numbers."
    if master == "sharing":
        exchange = (
            f"At its peak, {_SHARING_VECTORS} flat vectors of {traveling:,} numbers, and "
            f"{_SHARED_VECTORS} of {trainable:,}."
        )
    numbers = (
        ("Parameters", held, f"{held:,} numbers of {NUMBER_BYTES} bytes."),
        ("Gradients", trainable, f"One for each of {trainable:,} trainable parameters."),
        (
            *("Optimizer", trainable * slots),
            f"{spec.optimizer.kind} stores {slots} numbers per trainable parameter.",
        ),
        (
            *("One minibatch", 2 * kept),
            f"Outputs of all layers for {batch_size:,} examples ({kept:,} numbers), and their "
            f"gradients{assumed}.",
        ),
        ("Exchange", exchange_numbers(traveling, trainable, master=master), exchange),
    )
    process = EstimatedFigure(
        name="Process",
        size_bytes=PROCESS_BYTES,
        sentence="Python and TensorFlow, as measured, without the data.",
    )
    return NetworkEstimate(
        memory=(*(_figure(name, NUMBER_BYTES * n, text) for name, n, text in numbers), process),
        traffic=_averaging(traveling, workers) if master == "averaging" else _sharing(trainable),
        parameters=held,
    )


def _figure(name: str, size_bytes: int, sentence: str) -> EstimatedFigure:
    return EstimatedFigure(name=name, size_bytes=size_bytes, sentence=sentence)


def exchange_numbers(traveling: int, trainable: int, *, master: Master) -> int:
    """Return how many numbers a worker's flat vectors hold at its peak."""
    if master == "averaging":
        return _AVERAGING_VECTORS * traveling
    return _SHARING_VECTORS * traveling + _SHARED_VECTORS * trainable


def _averaging(traveling: int, workers: int) -> tuple[EstimatedFigure, ...]:
    size = traveling * NUMBER_BYTES
    sentence = (
        f"Each worker sends 2 x ({workers} - 1) / {workers} of the vector of {size:,} bytes "
        "around the ring, and receives as much."
    )
    return (_figure("One averaging round", ceil(2 * (workers - 1) / workers * size), sentence),)


def _sharing(trainable: int) -> tuple[EstimatedFigure, ...]:
    sparse = (_HEADER_WORDS + ceil(trainable * SPARSE_SHARE)) * 4
    most = (_HEADER_WORDS + trainable // 16 + 1) * 4
    few = f"4 bytes per changed number, if {SPARSE_SHARE:.1%} of them change."
    return (
        _figure("Sparse update", min(sparse, most), few),
        _figure("Largest update", most, f"2 bits for each of {trainable:,} trainable parameters."),
    )


def _kept(row: LayerAnalysis, steps: int) -> int:
    """Return how many numbers per example a layer keeps for the backward pass."""
    if row.output_shape is None:
        return 0
    size = prod(steps if length is None else length for length in row.output_shape)
    gates = _GATES.get(row.kind)
    if gates is not None and row.input_shapes and row.output_shape:
        read, units = row.input_shapes[0][0], row.output_shape[-1] or 1
        size += (steps if read is None else read) * units * (gates + 1)
    return size

"""Estimate the sizes that training a network takes in a worker's memory."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Literal, NamedTuple

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
_OPEN_LENGTH = 100  # assumed, of axes of variable length
_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}

Master = Literal["averaging", "sharing"]


class TrainingSizes(NamedTuple):
    """Bytes of all parameters, trainable ones, the optimizer's state and one minibatch."""

    parameters: int
    trainable: int
    optimizer: int
    minibatch: int


def training_sizes(network: Any, *, batch_size: int) -> TrainingSizes:
    """Estimate the sizes of training a NetworkSpec or a built Keras model.

    A minibatch is the outputs of all layers, and their gradients. Layers whose shapes are unknown
    are not counted. A model that is not compiled counts as with Adam.
    """
    if isinstance(network, NetworkSpec):
        rows, name = network.analysis.rows, network.optimizer.kind
        options: Mapping[str, Any] = network.optimizer.options
        held, trainable = network.analysis.parameters, network.analysis.trainable_parameters
        layers = [(r.kind, r.input_shapes, r.output_shape) for r in rows if r.enabled]
    else:
        optimizer = getattr(network, "optimizer", None)
        name = "Adam" if optimizer is None else type(optimizer).__name__
        options = {} if optimizer is None else optimizer.get_config()
        held = int(network.count_params())
        trainable = sum(prod(variable.shape) for variable in network.trainable_variables)
        layers = [
            (
                type(layer).__name__,
                _shapes(layer, "input"),
                next(iter(_shapes(layer, "output")), None),
            )
            for layer in network.layers
        ]
    kept = sum(_kept(*layer) for layer in layers) * batch_size
    slots = optimizer_slots(name, options)
    numbers = (held, trainable, trainable * slots, 2 * kept)
    return TrainingSizes(*(NUMBER_BYTES * number for number in numbers))


def exchange_numbers(traveling: int, trainable: int, *, master: Master) -> int:
    """Return how many numbers a worker's flat vectors hold at its peak."""
    if master == "averaging":
        return _AVERAGING_VECTORS * traveling
    return _SHARING_VECTORS * traveling + _SHARED_VECTORS * trainable


def _shapes(layer: Any, side: str) -> list[tuple[int | None, ...]]:
    """Return the shapes of a Keras layer's inputs or outputs, without the axis of examples."""
    found: Any = getattr(layer, side, None)
    tensors: Any = found if isinstance(found, list | tuple) else [found]
    return [tuple(tensor.shape)[1:] for tensor in tensors if hasattr(tensor, "shape")]


def _kept(
    kind: str, inputs: Sequence[Sequence[int | None]], output: Sequence[int | None] | None
) -> int:
    """Return how many numbers per example a layer keeps for the backward pass."""
    if output is None:
        return 0
    size = prod(_OPEN_LENGTH if length is None else length for length in output)
    gates = _GATES.get(kind)
    if gates is not None and inputs and output:
        read, units = inputs[0][0], output[-1] or 1
        size += (_OPEN_LENGTH if read is None else read) * units * (gates + 1)
    return size

"""Estimate the sizes that training a network takes in a worker's memory."""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from sparkwright.errors import ConfigurationError

from .spec import NetworkSpec
from .training import optimizer_slots

_NUMBER_BYTES = 4  # float32
# Peak resident memory of a worker process before it loads a network, of which 374 MiB are library
# pages. Measured on Linux with TensorFlow 2.21.
PROCESS_BYTES = 650 << 20
_OPEN_LENGTH = 100  # assumed, of axes of variable length
_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}


class TrainingSizes(NamedTuple):
    """Bytes of all parameters, trainable ones, the optimizer's state and one minibatch."""

    parameters: int
    trainable: int
    optimizer: int
    minibatch: int


def training_sizes(network: Any, *, batch_size: int) -> TrainingSizes:
    """Estimate the sizes of training a NetworkSpec, a built model or a number of parameters."""
    # A minibatch is the outputs of all layers, and their gradients. Layers whose shapes are unknown
    # are not counted. A model that is not compiled, and a number, count as with Adam.
    name, options = "Adam", dict[str, Any]()
    layers: list[tuple[str, Any, Any]] = []
    model: Any = network
    if isinstance(network, NetworkSpec):
        name, options = network.optimizer.kind, dict(network.optimizer.options)
        held, trainable = network.analysis.parameters, network.analysis.trainable_parameters
        rows = (row for row in network.analysis.rows if row.enabled)
        layers += [(row.kind, row.input_shapes, row.output_shape) for row in rows]
    elif hasattr(model, "count_params") and getattr(model, "built", False):
        if (optimizer := getattr(model, "optimizer", None)) is not None:
            name, options = type(optimizer).__name__, optimizer.get_config()
        held = int(model.count_params())
        trainable = sum(prod(variable.shape) for variable in model.trainable_variables)
        for layer in model.layers:
            outputs = [*_shapes(layer, "output"), None]
            layers.append((type(layer).__name__, _shapes(layer, "input"), outputs[0]))
    elif isinstance(network, int) and not isinstance(network, bool) and network > 0:
        held = trainable = network
    else:
        raise ConfigurationError(
            "`network` must be a built Keras model, a NetworkSpec or a number of parameters "
            f"greater than 0. Received: network={network!r}."
        )
    kept = sum(_kept(*layer) for layer in layers) * batch_size
    slots = optimizer_slots(name, options)
    numbers = (held, trainable, trainable * slots, 2 * kept)
    return TrainingSizes(*(_NUMBER_BYTES * number for number in numbers))


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

"""Numbers that a worker holds in memory when it trains a network. Imports no Keras."""

from collections.abc import Iterable
from math import prod
from typing import Literal

from ._rows import LayerAnalysis

NUMBER_BYTES = 4  # float32
# Peak resident memory of a worker process before it loads a network, of which 374 MiB are library
# pages. Measured on Linux with TensorFlow 2.21.
PROCESS_BYTES = 650 << 20
# State vectors that a worker holds at its peak: when it receives the initial state or sends the
# result. Measured with 5 and 25 million parameters. Gradient sharing holds two more vectors of
# trainable parameters: the common parameters and the residual.
_AVERAGING_VECTORS, _SHARING_VECTORS, _SHARED_VECTORS = 5, 4, 2
_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
_STEPS = 100  # assumed length of axes of variable length

Master = Literal["averaging", "sharing"]


def exchange_numbers(traveling: int, trainable: int, *, master: Master) -> int:
    """Return how many numbers a worker's flat vectors hold at its peak."""
    if master == "averaging":
        return _AVERAGING_VECTORS * traveling
    return _SHARING_VECTORS * traveling + _SHARED_VECTORS * trainable


def example_numbers(rows: Iterable[LayerAnalysis]) -> int:
    """Return how many numbers an example takes: outputs kept for the backward pass, and gradients.

    Layers whose shapes are unknown are not counted. Axes of variable length count as 100.
    """
    return 2 * sum(_kept(row) for row in rows if row.enabled)


def _kept(row: LayerAnalysis) -> int:
    """Return how many numbers per example a layer keeps for the backward pass."""
    if row.output_shape is None:
        return 0
    size = prod(_STEPS if length is None else length for length in row.output_shape)
    gates = _GATES.get(row.kind)
    if gates is not None and row.input_shapes and row.output_shape:
        read, units = row.input_shapes[0][0], row.output_shape[-1] or 1
        size += (_STEPS if read is None else read) * units * (gates + 1)
    return size

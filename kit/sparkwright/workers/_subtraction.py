"""Subtracts from a network's variables what lies in, or at places of, their flat vector."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def compiled_subtraction(variables: Sequence[Any]) -> Callable[[Any, Any], None]:
    """A function that subtracts values at places of the flat vector of `variables`."""
    import tensorflow as tf

    sizes = [int(np.prod(variable.shape)) for variable in variables]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def subtract(indices: Any, values: Any, bounds: Any) -> None:
        for number, variable in enumerate(variables):
            here = slice(bounds[number], bounds[number + 1])
            places = indices[here] - starts[number]
            held = variable.value
            changes = tf.cast(values[here], held.dtype)
            if not held.shape.rank:
                tf.raw_ops.AssignSubVariableOp(resource=held.handle, value=tf.reduce_sum(changes))
                continue
            # `tf.unravel_index` refuses an empty list.
            strides = np.cumprod([1, *reversed(held.shape[1:])])[::-1]
            places = tf.stack(
                [
                    places // int(stride) % size
                    for stride, size in zip(strides, held.shape.as_list(), strict=True)
                ],
                axis=-1,
            )
            tf.raw_ops.ResourceScatterNdSub(ref=held.handle, indices=places, updates=changes)

    compiled: Any = tf.function(
        subtract,
        autograph=False,
        input_signature=[
            tf.TensorSpec([None], tf.int64),
            tf.TensorSpec([None], tf.float32),
            tf.TensorSpec([len(variables) + 1], tf.int64),
        ],
    )

    def call(indices: NDArray[np.int64], values: NDArray[Any]) -> None:
        order = np.argsort(indices, kind="stable")
        indices = indices[order]
        bounds = np.searchsorted(indices, starts)
        compiled(indices, values[order].astype(np.float32, copy=False), bounds)

    return call


def subtract_from(variables: Sequence[Any], vector: NDArray[Any]) -> None:
    """Subtract the whole flat `vector` from `variables`."""
    import tensorflow as tf

    start = 0
    for variable in variables:
        held, stop = variable.value, start + int(np.prod(variable.shape))
        part = vector[start:stop].reshape(held.shape)
        tensor = tf.cast(tf.convert_to_tensor(part), held.dtype)
        tf.raw_ops.AssignSubVariableOp(resource=held.handle, value=tensor)
        start = stop

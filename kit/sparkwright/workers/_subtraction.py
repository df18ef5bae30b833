"""Subtracts from a network's variables what lies in, or at places of, their flat vector."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class SparseSubtraction:
    """Subtracts values at places of the flat vector of some variables.

    The places are worked out in NumPy for all variables at once, and each variable is changed by
    one bare operation: calling a compiled function takes longer than all of them together.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        """Work out where each of `variables` lies in their flat vector."""
        self._variables = variables
        shapes = [tuple(variable.shape) or (1,) for variable in variables]
        rank = max(map(len, shapes), default=1)
        sizes = [int(np.prod(shape)) for shape in shapes]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # Of each variable, right-aligned: how long its axes are, and how far apart they lie.
        self._lengths = np.ones((len(shapes), rank), np.int64)
        for row, shape in zip(self._lengths, shapes, strict=True):
            row[rank - len(shape) :] = shape
        inner = np.c_[self._lengths[:, 1:], np.ones(len(shapes), np.int64)]
        self._strides = np.cumprod(inner[:, ::-1], axis=1)[:, ::-1]

    def __call__(self, indices: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Subtract `values` at `indices` of the vector; repeated places add up."""
        import tensorflow as tf

        order = np.argsort(indices, kind="stable")
        indices, values = indices[order], values[order]
        bounds = np.searchsorted(indices, self._starts)
        owners = np.repeat(np.arange(len(self._variables)), np.diff(bounds))
        offsets = (indices - self._starts[owners])[:, None]
        places = offsets // self._strides[owners] % np.maximum(1, self._lengths[owners])
        for variable, start, stop in zip(self._variables, bounds, bounds[1:], strict=False):
            if start == stop:
                continue
            held = variable.value
            changes = values[start:stop].astype(held.dtype.as_numpy_dtype, copy=False)
            if not held.shape.rank:
                tf.raw_ops.AssignSubVariableOp(resource=held.handle, value=changes.sum())
                continue
            tf.raw_ops.ResourceScatterNdSub(
                ref=held.handle,
                indices=places[start:stop, places.shape[1] - held.shape.rank :],
                updates=changes,
            )


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

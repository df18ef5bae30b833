"""Keras' backend of this process, and the values of its variables as NumPy arrays."""

import ctypes
import functools
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError

Backend = Literal["tensorflow", "jax"]
Array = NDArray[Any]
_SUPPORTED = ("tensorflow", "jax")


def backend_name() -> Backend:
    """Return which backend Keras computes with in this process.

    Raises:
        ConfigurationError: if it is neither TensorFlow nor JAX.
    """
    import keras

    name = keras.backend.backend()
    if name not in _SUPPORTED:
        raise ConfigurationError(
            f'Keras\' backend must be "tensorflow" or "jax". Received: backend={name!r}. Set '
            "KERAS_BACKEND to one of them before Keras is imported."
        )
    return name


class Variables:
    """Access to the values of Keras variables on TensorFlow.

    Bare operations: a variable's own methods take half as long again.
    """

    def __init__(self) -> None:
        import tensorflow as tf

        self._tf: Any = tf
        self._ops: Any = tf.raw_ops

    def held(self, variable: Any) -> Any:
        """Return what holds the value of a Keras variable, as the other methods take it."""
        # The TensorFlow variable within Keras'; its dtype knows types that NumPy has not.
        return variable.value

    def dtype(self, held: Any) -> np.dtype[Any]:
        """Return the dtype of the value."""
        return np.dtype(held.dtype.as_numpy_dtype)

    def read(self, held: Any) -> Array:
        """Return the value; on a CPU a window on it, which must be released before the next step.

        Otherwise the backend copies the variable instead of changing it in place.
        """
        return np.asarray(self._ops.ReadVariableOp(resource=held.handle, dtype=held.dtype))

    def assign(self, held: Any, value: Array) -> None:
        """Set the value to a copy of `value`, of the variable's shape and dtype."""
        tensor = self._tf.convert_to_tensor(value)
        self._ops.AssignVariableOp(resource=held.handle, value=tensor)

    def subtract(self, held: Any, value: Array) -> None:
        """Subtract `value`, of the variable's shape."""
        tensor = self._tf.cast(self._tf.convert_to_tensor(value), held.dtype)
        self._ops.AssignSubVariableOp(resource=held.handle, value=tensor)

    def window(self, held: Any) -> Array | None:
        """Return the value's own memory, flat, to be changed in place; None if that cannot be had.

        It must be released before the next step, as what `read` returns. On a GPU there is none,
        nor for a variable that sparse operations have changed: TensorFlow copies it at each read.
        TensorFlow may let variables and tensors share memory until one of them changes.
        """
        if "CPU" not in held.device:
            return None
        value, again = self.read(held), self.read(held)
        if not value.size or value.ctypes.data != again.ctypes.data:
            return None
        memory: Any = (ctypes.c_char * value.nbytes).from_address(value.ctypes.data)
        memory.owner = value  # which keeps it alive
        return np.frombuffer(memory, value.dtype)

    def subtract_at(self, held: Any, offsets: Array, values: Array) -> None:
        """Subtract (n,) `values` at (n,) `offsets` of the flat value; repeated ones add up."""
        changes = values.astype(held.dtype.as_numpy_dtype, copy=False)
        if held.shape.rank:
            places = np.stack(np.unravel_index(offsets, held.shape), axis=1)
            self._ops.ResourceScatterNdSub(ref=held.handle, indices=places, updates=changes)
        else:
            self._ops.AssignSubVariableOp(resource=held.handle, value=changes.sum())


class _JaxVariables(Variables):
    """JAX' arrays do not change: each change is a new array.

    NumPy makes it, because JAX would compile a function for each number of places.
    """

    def __init__(self) -> None:
        import jax  # pyright: ignore[reportMissingImports]

        self._jax: Any = jax

    def held(self, variable: Any) -> Any:
        return variable

    def dtype(self, held: Any) -> np.dtype[Any]:
        return np.dtype(held.value.dtype)

    def read(self, held: Any) -> Array:
        return np.asarray(held.value)

    def assign(self, held: Any, value: Array) -> None:
        # A copy: JAX may otherwise take over the memory of `value`, which its owner changes later.
        held.assign(self._jax.numpy.array(value, copy=True))

    def subtract(self, held: Any, value: Array) -> None:
        self.assign(held, self.read(held) - value.astype(self.dtype(held), copy=False))

    def window(self, held: Any) -> None:
        del held

    def subtract_at(self, held: Any, offsets: Array, values: Array) -> None:
        changed = np.array(self.read(held))
        flat = changed.reshape(-1)
        np.subtract.at(flat, offsets, values.astype(changed.dtype, copy=False))
        self.assign(held, changed)


@functools.cache
def variables() -> Variables:
    """Return the access to variables of this process' backend."""
    return _JaxVariables() if backend_name() == "jax" else Variables()

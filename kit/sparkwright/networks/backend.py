"""Keras' backend in this process, and access to its variables as NumPy arrays."""

import ctypes
import functools
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError

Backend = Literal["tensorflow", "jax"]
Array = NDArray[Any]
_SUPPORTED = ("tensorflow", "jax")


def backend_name() -> Backend:
    """Return Keras' backend in this process."""
    import keras

    name = keras.backend.backend()
    if name not in _SUPPORTED:
        raise ConfigurationError(
            f'Keras\' backend must be "tensorflow" or "jax". Received: backend={name!r}. Set '
            "KERAS_BACKEND to one of them before Keras is imported."
        )
    return name


class Variables:
    """Access to the values of Keras variables on TensorFlow."""

    # Uses raw operations: a variable's own methods take 1.5 times as long.

    def __init__(self) -> None:
        import tensorflow as tf

        self._tf: Any = tf
        self._ops: Any = tf.raw_ops

    def held(self, variable: Any) -> Any:
        """Return the backend's variable inside a Keras variable, for the other methods."""
        # The TensorFlow variable; its dtypes include types that NumPy lacks.
        return variable.value

    def dtype(self, held: Any) -> np.dtype[Any]:
        """Return the dtype of the value."""
        return np.dtype(held.dtype.as_numpy_dtype)

    def read(self, held: Any) -> Array:
        """Return the value; on a CPU as a view, which must be released before the next step."""
        # Otherwise the backend copies the variable instead of updating it in place.
        return np.asarray(self._ops.ReadVariableOp(resource=held.handle, dtype=held.dtype))

    def concatenated(self, held: Sequence[Any]) -> Array | None:
        """Return all values concatenated by the GPU, flat; None without a GPU."""
        del held

    def are_finite(self, held: Sequence[Any]) -> bool | None:
        """Return whether all values are finite, computed on the GPU; None without a GPU."""
        if not held or all("CPU" in each.device for each in held):
            return None
        tf = self._tf
        found = [tf.reduce_all(tf.math.is_finite(each)) for each in held]
        return bool(tf.reduce_all(tf.stack(found)))

    def assign(self, held: Sequence[Any], values: Iterable[Array]) -> None:
        """Assign copies of `values`, of the variables' shapes and dtypes."""
        for each, value in zip(held, values, strict=True):
            tensor = self._tf.convert_to_tensor(value)
            self._ops.AssignVariableOp(resource=each.handle, value=tensor)

    def subtract(self, held: Sequence[Any], values: Iterable[Array]) -> None:
        """Subtract `values`, of the variables' shapes."""
        for each, value in zip(held, values, strict=True):
            tensor = self._tf.cast(self._tf.convert_to_tensor(value), each.dtype)
            self._ops.AssignSubVariableOp(resource=each.handle, value=tensor)

    def window(self, held: Any) -> Array | None:
        """Return a flat, writable view of the variable's memory; None if there is none."""
        # Release it before the next step, as for `read`. There is none on a GPU, or after a sparse
        # update, because TensorFlow then copies the variable at each read. Variables and tensors
        # may share memory until one of them changes.
        if "CPU" not in held.device:
            return None
        value, again = self.read(held), self.read(held)
        if not value.size or value.ctypes.data != again.ctypes.data:
            return None
        memory: Any = (ctypes.c_char * value.nbytes).from_address(value.ctypes.data)
        memory.owner = value  # keeps the memory alive
        return np.frombuffer(memory, value.dtype)

    def subtract_at(self, held: Any, offsets: Array, values: Array) -> None:
        """Subtract (n,) `values` at (n,) `offsets` of the flat value; repeated offsets add up."""
        changes = values.astype(held.dtype.as_numpy_dtype, copy=False)
        if held.shape.rank:
            places = np.stack(np.unravel_index(offsets, held.shape), axis=1)
            self._ops.ResourceScatterNdSub(ref=held.handle, indices=places, updates=changes)
        else:
            self._ops.AssignSubVariableOp(resource=held.handle, value=changes.sum())


class _JaxVariables(Variables):
    """Access to variables on JAX, whose arrays are immutable: each update creates a new array."""

    def __init__(self) -> None:
        import jax  # pyright: ignore[reportMissingImports]

        self._jax: Any = jax

    def held(self, variable: Any) -> Any:
        return variable

    def dtype(self, held: Any) -> np.dtype[Any]:
        return np.dtype(held.value.dtype)

    def read(self, held: Any) -> Array:
        return np.asarray(held.value)

    def are_finite(self, held: Sequence[Any]) -> bool | None:
        del held

    def assign(self, held: Sequence[Any], values: Iterable[Array]) -> None:
        # Copy: JAX may reuse the memory of an array, or copy it later.
        self._set(held, [np.array(value) for value in values])

    def subtract(self, held: Sequence[Any], values: Iterable[Array]) -> None:
        pairs = zip(held, values, strict=True)
        self._set(held, [self.read(v) - x.astype(self.dtype(v), copy=False) for v, x in pairs])

    def _set(self, held: Sequence[Any], values: Sequence[Array]) -> None:
        for each, value in zip(held, self._jax.device_put(values), strict=True):
            each.assign(value)

    def window(self, held: Any) -> None:
        del held

    def subtract_at(self, held: Any, offsets: Array, values: Array) -> None:
        # NumPy, because JAX would compile a function for each number of offsets.
        changed = np.array(self.read(held))
        flat = changed.reshape(-1)
        np.subtract.at(flat, offsets, values.astype(changed.dtype, copy=False))
        self.assign([held], [changed])


class _JaxGpuVariables(_JaxVariables):
    """Access to variables in GPU memory: one transfer for all values, and updates on the GPU."""

    def __init__(self) -> None:
        super().__init__()
        np_, sharding = self._jax.numpy, self._jax.sharding.SingleDeviceSharding
        # JAX copies 100 MB to pageable host memory in 80 ms, to pinned memory in 2 ms (H100).
        self._pinned = sharding(self._jax.devices()[0], memory_kind="pinned_host")
        self._joined: Any = self._jax.jit(
            lambda values: np_.concatenate([value.ravel() for value in values])
        )
        self._all_finite: Any = self._jax.jit(
            lambda values: np_.stack([np_.isfinite(value).all() for value in values]).all()
        )

    def concatenated(self, held: Sequence[Any]) -> Array | None:
        if not held:
            return None
        joined = self._joined([each.value for each in held])
        return np.asarray(self._jax.device_put(joined, self._pinned))

    def are_finite(self, held: Sequence[Any]) -> bool | None:
        return bool(self._all_finite([each.value for each in held])) if held else None

    def assign(self, held: Sequence[Any], values: Iterable[Array]) -> None:
        self._set(held, [*values])
        # The caller may change the arrays once this returns.
        self._jax.block_until_ready([each.value for each in held])

    def subtract(self, held: Sequence[Any], values: Iterable[Array]) -> None:
        pairs = zip(held, values, strict=True)
        given = self._jax.device_put([x.astype(self.dtype(v), copy=False) for v, x in pairs])
        for each, value in zip(held, given, strict=True):
            each.assign(each.value - value)
        self._jax.block_until_ready([each.value for each in held])


@functools.cache
def variables() -> Variables:
    """Return the access to variables for this process' backend."""
    if backend_name() != "jax":
        return Variables()
    import jax  # pyright: ignore[reportMissingImports]

    return _JaxVariables() if jax.default_backend() == "cpu" else _JaxGpuVariables()

"""Arrays laid end to end, worked on as one vector in blocks that stay in the cache; pure."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

# Elements: 128 KiB of float32, so that a block and its scratch space fit the second-level cache.
# A multiple of 16, so that a block is whole words of a bitmap.
BLOCK = 32_768

Vector = NDArray[Any]
Target = Vector | Sequence[Vector]


class Pieces:
    """A vector that consists of one or more 1-D arrays.

    Attributes:
        arrays: the arrays, in order.
        starts: where each begins, and the whole length as the last entry.
    """

    def __init__(self, target: Target, *, name: str, writable: bool = True) -> None:
        """Refuse anything but 1-D arrays of float32 or float64, with DataError."""
        self.arrays: list[Vector] = [target] if isinstance(target, np.ndarray) else list(target)
        for array in self.arrays:
            _check(array, name, writable=writable)
        self.starts = [0, *accumulate(array.size for array in self.arrays)]

    @property
    def size(self) -> int:
        """Elements in all."""
        return self.starts[-1]

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, Vector]]:
        """The views that make up elements `start` to `stop`, each with its offset from `start`."""
        number = bisect_right(self.starts, start) - 1
        position = start
        while position < stop:
            first = self.starts[number]
            view = self.arrays[number][position - first : stop - first]
            if view.size:
                yield position - start, view
            position += view.size
            number += 1


def block_bounds(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """`range(start, stop)` in blocks, the last one shorter.

    Example:
        >>> list(block_bounds(5, 5 + BLOCK + 3)) == [(5, 5 + BLOCK), (5 + BLOCK, 8 + BLOCK)]
        True
    """
    return ((first, min(first + BLOCK, stop)) for first in range(start, stop, BLOCK))


def difference(
    shared: Vector, local: Pieces, bounds: tuple[int, int], scratch: NDArray[Any]
) -> NDArray[Any]:
    """`shared - local` for the elements from `bounds[0]` to `bounds[1]`, in `scratch`."""
    start, stop = bounds
    own, result = shared[start:stop], scratch[: stop - start]
    with np.errstate(over="ignore", invalid="ignore"):
        for offset, view in local.spans(start, stop):
            part = slice(offset, offset + view.size)
            np.subtract(own[part], view, out=result[part], casting="same_kind")
    return result


def single(name: str, vector: Any, *, writable: bool = True) -> Vector:
    """One array, to be changed in place by default.

    Raises:
        DataError: if it is not a 1-D array of float32 or float64, writable if it has to be.
    """
    _check(vector, name, writable=writable)
    return vector


def paired(shared: Vector, local: Target) -> Pieces:
    """`local`, checked to be as long as `shared`.

    Raises:
        DataError: if it is not, or is not 1-D arrays of float32 or float64.
    """
    pieces = Pieces(local, name="local", writable=False)
    if pieces.size != shared.size:
        raise DataError(
            "`local` must have as many elements as `shared`. "
            f"Received: {pieces.size} and {shared.size} elements."
        )
    return pieces


def segments(
    pieces: Pieces, threshold: float | Sequence[float]
) -> tuple[Sequence[int], Sequence[float]]:
    """The bounds of a message's segments, and their thresholds.

    Raises:
        ConfigurationError: if there are several thresholds, but not one for each array.
    """
    if not isinstance(threshold, Sequence):
        return [0, pieces.size], [threshold]
    if len(threshold) != len(pieces.arrays):
        raise ConfigurationError(
            "There must be one threshold for each variable. "
            f"Received: {len(threshold)} thresholds, {len(pieces.arrays)} variables."
        )
    return pieces.starts, threshold


def _check(array: Any, name: str, *, writable: bool) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.char not in "fd":
        raise DataError(
            f"`{name}` must be 1-D NumPy arrays of float32 or float64. "
            f"Received: {getattr(array, 'dtype', type(array).__name__)} "
            f"of shape {getattr(array, 'shape', None)}."
        )
    if writable and not array.flags.writeable:
        raise DataError(f"`{name}` is changed in place, so it must be writable. Pass a copy.")

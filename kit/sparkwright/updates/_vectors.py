"""Concatenated arrays processed as one vector, in blocks that stay in the cache; pure."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

# Elements: 128 KiB of float32, so that a block and its buffers fit in the second-level cache.
# A multiple of 16, so that a block is a whole number of bitmap words.
BLOCK = 32_768

Vector = NDArray[Any]
Target = Vector | Sequence[Vector]


class Pieces:
    """A vector that consists of one or more 1-D arrays."""

    def __init__(self, target: Target, *, name: str, writable: bool = True) -> None:
        """Check the arrays; raise DataError unless all are 1-D arrays of float32 or float64."""
        self.arrays: list[Vector] = [target] if isinstance(target, np.ndarray) else list(target)
        for array in self.arrays:
            _check(array, name, writable=writable)
        # The start of each array, then the total length.
        self.starts = [0, *accumulate(array.size for array in self.arrays)]

    @property
    def size(self) -> int:
        """Total number of elements."""
        return self.starts[-1]

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, Vector]]:
        """Yield the views of elements `start` to `stop`, each after its offset from `start`."""
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
    """Yield the bounds of the blocks of `range(start, stop)`; the last block may be shorter.

    Example:
        >>> list(block_bounds(5, 5 + BLOCK + 3)) == [(5, 5 + BLOCK), (5 + BLOCK, 8 + BLOCK)]
        True
    """
    return ((first, min(first + BLOCK, stop)) for first in range(start, stop, BLOCK))


def difference(
    shared: Vector, local: Pieces, bounds: tuple[int, int], scratch: NDArray[Any]
) -> NDArray[Any]:
    """Compute `shared - local` of the elements `bounds[0]` to `bounds[1]`, in `scratch`."""
    start, stop = bounds
    own, result = shared[start:stop], scratch[: stop - start]
    with np.errstate(over="ignore", invalid="ignore"):
        for offset, view in local.spans(start, stop):
            part = slice(offset, offset + view.size)
            np.subtract(own[part], view, out=result[part], casting="same_kind")
    return result


def single(name: str, vector: Any, *, writable: bool = True) -> Vector:
    """Check that `vector` is one array, by default a writable one, and return it."""
    _check(vector, name, writable=writable)
    return vector


def paired(shared: Vector, local: Target) -> Pieces:
    """Check that `local` is as long as `shared`, and return it as pieces."""
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
    """Return the bounds of a message's segments, and their thresholds."""
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

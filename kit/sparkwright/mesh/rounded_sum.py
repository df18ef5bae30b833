"""All-reduce with reduced precision: bfloat16, or 8-bit integers with a scale per block.

Each worker owns one segment. The other workers round their part of it and send it to the owner,
which sums in float32, rounds the sum and sends it to all. So each number is rounded twice, not
once per hop as in a ring. Each worker adds its rounding error to its next contribution (error
feedback).

References:
    F. Seide et al., "1-bit stochastic gradient descent and its application to data-parallel
    distributed training of speech DNNs", Interspeech 2014; S. P. Karimireddy et al., "Error
    feedback fixes SignSGD and other gradient compression schemes", ICML 2019, arXiv:1901.09847.
"""

from collections.abc import Iterator
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ._ring_blocks import segment_bounds
from .ring import Ring

Precision = Literal["bfloat16", "int8"]
Floats = NDArray[np.floating[Any]]
Bytes = NDArray[np.uint8]

_BLOCK = 256  # numbers with one scale
_PIECE = 256 * _BLOCK  # numbers rounded in one step; fits the CPU cache
_LARGEST = 127
# The reciprocal of a smaller scale overflows.
_SMALLEST_SCALE = float(np.finfo(np.float32).tiny)


class Rounding(Protocol):
    """Rounds numbers and encodes them as bytes."""

    def size(self, numbers: int) -> int:
        """Return the encoded size of `numbers` numbers, in bytes."""
        ...

    def encode(self, values: Floats) -> Bytes:
        """Encode the rounded `values`; replace `values` by the rounding errors, in place."""
        ...

    def add(self, content: Bytes, to: Floats) -> None:
        """Add the numbers in `content`, of `size(to.size)` bytes, to `to` in place."""
        ...


class Bfloat16:
    """The first 16 bits of float32: 2 bytes a number, 8 significant bits."""

    def __init__(self) -> None:
        """Load the bfloat16 type."""
        from ml_dtypes import bfloat16  # comes with Keras

        self._type = np.dtype(bfloat16)

    def size(self, numbers: int) -> int:
        """Return the encoded size of `numbers` numbers, in bytes."""
        return 2 * numbers

    def encode(self, values: Floats) -> Bytes:
        """Encode the rounded `values`; replace `values` by the rounding errors, in place."""
        found = np.empty(values.size, self._type)
        for piece in _pieces(values.size):
            found[piece] = values[piece]
            values[piece] -= found[piece].astype(values.dtype)
        return found.view(np.uint8)

    def add(self, content: Bytes, to: Floats) -> None:
        """Add the numbers in `content`, of `size(to.size)` bytes, to `to` in place."""
        found = content.view(self._type)
        for piece in _pieces(to.size):
            to[piece] += found[piece].astype(to.dtype)


class Int8:
    """8-bit integers, with a float32 scale per block of 256: 1.016 bytes a number.

    A block's scale is its largest magnitude / 127, so errors are at most 1/254 of that magnitude.
    """

    def size(self, numbers: int) -> int:
        """Return the encoded size of `numbers` numbers, in bytes."""
        return 4 * -(-numbers // _BLOCK) + numbers

    def encode(self, values: Floats) -> Bytes:
        """Encode the rounded `values`; replace `values` by the rounding errors, in place."""
        found = np.empty(self.size(values.size), np.uint8)
        scales, integers = self._parts(found, values.size)
        for rows, of_rows, target in _rows(values, scales, integers):
            largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
            of_rows[:] = scale = largest / np.float32(_LARGEST)
            usable = scale >= _SMALLEST_SCALE
            factor = np.divide(1.0, scale, out=np.zeros_like(scale), where=usable)
            rounded = rows * factor[:, None]
            np.rint(rounded, out=rounded)
            np.copyto(target, rounded, casting="unsafe")
            # Uses the transmitted scale in its dtype, as the receivers do.
            rows -= target * of_rows[:, None]
        return found

    def add(self, content: Bytes, to: Floats) -> None:
        """Add the numbers in `content`, of `size(to.size)` bytes, to `to` in place."""
        for rows, of_rows, source in _rows(to, *self._parts(content, to.size)):
            rows += source * of_rows[:, None]

    def _parts(self, content: Bytes, numbers: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Split `content` into scales and integers."""
        head = content.size - numbers
        return content[:head].view(np.float32), content[head:].view(np.int8)


ROUNDINGS: dict[Precision, type[Rounding]] = {"bfloat16": Bfloat16, "int8": Int8}


def all_reduce_rounded(ring: Ring, vector: Floats, total: Floats, rounding: Rounding) -> None:
    """Add the rounded sum of all `vector`s to `total`, leaving the rounding errors in `vector`."""
    bounds = [slice(*each) for each in segment_bounds(vector.size, ring.size)]
    own, rank = bounds[ring.rank], ring.rank
    incoming = np.empty(rounding.size(vector[own].size), np.uint8)
    for distance in range(1, ring.size):
        theirs = rounding.encode(vector[bounds[(rank + distance) % ring.size]])
        ring.exchange(theirs.data, incoming.data, distance=distance)
        rounding.add(incoming, vector[own])
    mine = rounding.encode(vector[own])
    rounding.add(mine, total[own])
    for distance in range(1, ring.size):
        segment = total[bounds[(rank - distance) % ring.size]]
        found = np.empty(rounding.size(segment.size), np.uint8)
        ring.exchange(mine.data, found.data, distance=distance)
        rounding.add(found, segment)


def _pieces(numbers: int) -> Iterator[slice]:
    return (slice(start, start + _PIECE) for start in range(0, numbers, _PIECE))


def _rows(
    values: Floats, scales: NDArray[Any], integers: NDArray[Any]
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield views of several whole blocks, one per row, then a view of the remainder."""
    whole = values.size - values.size % _BLOCK
    for start in range(0, whole, _PIECE):
        piece = slice(start, min(start + _PIECE, whole))
        of_rows = scales[piece.start // _BLOCK : piece.stop // _BLOCK]
        yield values[piece].reshape(-1, _BLOCK), of_rows, integers[piece].reshape(-1, _BLOCK)
    if whole < values.size:
        yield values[None, whole:], scales[whole // _BLOCK :], integers[None, whole:]

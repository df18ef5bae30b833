"""Sixteen elements to a word: packing and unpacking blocks of a bitmap; pure."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._format import Words

Flags = NDArray[np.bool_]


def pack(present: Flags, negative: Flags, words: Words) -> None:
    """Write the two flags of each element to `words`.

    Args:
        present: (16 * words,) what is sent.
        negative: (16 * words,) what is negative.
        words: contiguous int32, overwritten.
    """
    halves = words.view("<u2").reshape(-1, 2)
    halves[:, 0] = np.packbits(present, bitorder="little").view("<u2")
    halves[:, 1] = np.packbits(negative, bitorder="little").view("<u2")


def unpack(words: Words, threshold: float, out: NDArray[np.float32]) -> NDArray[np.float32]:
    """The value of each element of `words`: 0, ±t or -t / 2.

    Args:
        words: int32.
        threshold: t.
        out: at least (16 * words,) contiguous float32, overwritten.

    Returns:
        (16 * words,) the part of `out` that was written.
    """
    result = out[: 16 * words.size]
    # mode="clip" lets `take` write straight to `out`; codes are in range by construction.
    np.take(_units(), _codes(words), axis=0, out=result.reshape(-1, 8), mode="clip")
    return np.multiply(result, np.float32(threshold), out=result)


def selected_count(words: Words) -> int:
    """How many elements of `words` are not 0."""
    return int(np.take(_counts(), _codes(words)).sum(dtype=np.int64))


def _codes(words: Words) -> NDArray[np.intp]:
    """(2 * words,) for every 8 elements: the present bits, the negative bits above them."""
    # Swap the two middle bytes of each word; NumPy is much slower at moving single bytes.
    bits = words.view("<u4")
    middle = bits >> 8 & 0xFF00
    swapped = bits << 8 & 0xFF0000
    swapped |= middle
    swapped |= bits & 0xFF0000FF
    return swapped.view("<u2").astype(np.intp)


@cache
def _units() -> NDArray[np.float32]:
    """(65536, 8) what each code means, in units of t."""
    present, negative = _code_bits()
    units = np.where(present, np.where(negative, -1.0, 1.0), np.where(negative, -0.5, 0.0))
    return units.astype(np.float32)


@cache
def _counts() -> NDArray[np.uint8]:
    """(65536,) how many elements of each code are not 0."""
    present, negative = _code_bits()
    return (present | negative).sum(axis=1, dtype=np.uint8)


def _code_bits() -> tuple[NDArray[Any], NDArray[Any]]:
    octets = np.arange(1 << 16, dtype="<u2").view(np.uint8).reshape(-1, 2)
    bits = np.unpackbits(octets, axis=1, bitorder="little").astype(np.bool_)
    return bits[:, :8], bits[:, 8:]

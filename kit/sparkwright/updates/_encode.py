"""Encode the large elements of a residual and subtract them from it; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from ._format import (
    BITMAP,
    LARGEST_SIZE,
    SPARSE,
    WORD,
    Encoded,
    EncodedSegment,
    Flags,
    Words,
    bitmap_words,
    check_threshold,
    header,
    pack,
    unpack,
)
from ._vectors import BLOCK, Pieces, Vector, block_bounds, difference, paired, segments, single


def encode_difference(
    shared: Vector, local: Sequence[Vector], threshold: float | Sequence[float]
) -> Encoded:
    """Encode `shared - local` and subtract the message from `shared`.

    Args:
        shared: (N,) float32 or float64, equal on all workers. Changed in place as by `apply`, so
            the message leaves the residual.
        local: 1-D arrays of N elements in all, this worker's own variables; not changed.
        threshold: t for the whole vector, or one for each array of `local`. With several, the
            message has one segment for each.

    Raises:
        DataError: if the lengths of the vectors differ.
        ConfigurationError: if a threshold is not a finite number above 0, or the number of
            thresholds differs from the number of arrays.

    Example:
        >>> shared, local = np.zeros(40, np.float32), [np.zeros(30), np.zeros(10)]
        >>> local[1][2] = 0.75
        >>> encode_difference(shared, local, 0.5).words.tolist()
        [1, 40, 1056964608, 0, -33]
        >>> float(shared[32])
        0.5
    """
    pieces = paired(single("shared", shared), local)
    return _encode(shared, pieces, *segments(pieces, threshold))


def _encode(
    vector: Vector,
    local: Pieces,
    bounds: Sequence[int],
    thresholds: Sequence[Any],
) -> Encoded:
    checked = [check_threshold(threshold) for threshold in thresholds]
    for start, stop in pairwise(bounds):
        if stop - start > LARGEST_SIZE:
            raise DataError(
                f"A segment must have at most {LARGEST_SIZE} elements. Received: {stop - start}. "
                "Give one threshold for each variable."
            )
    scratch = _Scratch.of(vector.dtype)
    words: list[Words] = []
    encoded: list[EncodedSegment] = []
    for (start, stop), threshold in zip(pairwise(bounds), checked, strict=True):
        parts, selected = _segment(vector, local, start, stop, threshold=threshold, scratch=scratch)
        words += parts
        encoded.append(
            EncodedSegment(
                size=stop - start,
                threshold=threshold,
                selected=selected,
                dense=bool(parts[0][3] == BITMAP),
                length=sum(part.size for part in parts),
            )
        )
    return Encoded(words=np.concatenate(words, dtype=WORD), segments=tuple(encoded))


def _segment(
    vector: Vector,
    local: Pieces,
    start: int,
    stop: int,
    *,
    threshold: float,
    scratch: "_Scratch",
) -> tuple[list[Words], int]:
    """Return the words of one segment, in parts, and its number of selected elements."""
    size = stop - start
    value = vector.dtype.type(threshold)
    # The selected elements do not depend on the format. Indices are kept until a bitmap is
    # shorter, then packed, so no element is subtracted twice or lost.
    bitmap: Words | None = None
    kept: list[_Kept] = []
    count = 0
    for bounds in block_bounds(start, stop):
        target = vector[slice(*bounds)]
        residual = difference(vector, local, bounds, scratch.difference)
        first = bounds[0] - start
        present = scratch.select(residual, value)
        if bitmap is not None:
            count += _pack_block(
                residual, present, bitmap[first // 16 :], threshold, target, scratch
            )
            continue
        indices = np.flatnonzero(present)
        if not indices.size:
            continue
        negative = np.signbit(residual[indices])
        target[indices] -= np.where(negative, -value, value)
        kept.append(_Kept(first, indices, negative))
        count += indices.size
        if count > bitmap_words(size):
            bitmap = np.zeros(bitmap_words(size), WORD)
            for block in kept:
                block.pack(bitmap[block.first // 16 :], min(BLOCK, size - block.first), scratch)
    if bitmap is not None:
        return [header(size, size, threshold, BITMAP), bitmap], count
    return [header(count, size, threshold, SPARSE), *(block.words() for block in kept)], count


def _pack_block(
    residual: Vector,
    present: Flags,
    words: Words,
    threshold: float,
    target: Vector,
    scratch: "_Scratch",
) -> int:
    """Pack one block, subtract it from `target`, and return its number of selected elements."""
    size = residual.size
    whole = -(-size // 16) * 16
    negative = scratch.negative[:whole]
    np.signbit(residual, out=negative[:size])
    negative[:size] &= present
    count = int(np.count_nonzero(present))
    scratch.present[size:whole] = negative[size:] = False
    words = words[: whole // 16]
    pack(scratch.present[:whole], negative, words)
    target -= unpack(words, threshold, scratch.values)[:size]
    return count


@dataclass(frozen=True, slots=True)
class _Kept:
    """A block's selection: first element, indices relative to it, and flags of negative values."""

    first: int
    indices: NDArray[np.intp]
    negative: Flags

    def words(self) -> Words:
        signed = (self.indices + (self.first + 1)).astype(WORD)
        return np.negative(signed, out=signed, where=self.negative)

    def pack(self, words: Words, size: int, scratch: "_Scratch") -> None:
        whole = -(-size // 16) * 16
        present, negative = scratch.present[:whole], scratch.negative[:whole]
        present[:] = negative[:] = False
        present[self.indices] = True
        negative[self.indices] = self.negative
        pack(present, negative, words[: whole // 16])


@dataclass(frozen=True, slots=True)
class _Scratch:
    """Buffers for one block, reused for all blocks so that they stay in the cache."""

    difference: NDArray[Any]
    magnitude: NDArray[Any]
    values: NDArray[np.float32]
    present: Flags
    negative: Flags

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> "_Scratch":
        return cls(
            np.empty(BLOCK, dtype),
            np.empty(BLOCK, dtype),
            np.empty(BLOCK, np.float32),
            np.empty(BLOCK, np.bool_),
            np.empty(BLOCK, np.bool_),
        )

    def select(self, residual: Vector, threshold: Any) -> Flags:
        """Return flags of the elements with |x| >= `threshold`; False for NaN."""
        magnitude, present = self.magnitude[: residual.size], self.present[: residual.size]
        np.abs(residual, out=magnitude)
        return np.greater_equal(magnitude, threshold, out=present)

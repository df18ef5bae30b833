"""Decode messages to changes of the vector; pure.

Every function checks the whole message before it changes anything.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._format import Segment, parse, unpack
from ._vectors import BLOCK, Pieces, Target, block_bounds


def apply(words: Any, *targets: Target) -> None:
    """Subtract a message's decoded values from each target, in place.

    Args:
        words: (L,) int32 array, or its bytes.
        targets: each an (N,) vector of float32 or float64, or 1-D arrays of N elements in all.

    Raises:
        NetworkError: if the message is malformed or of another length; targets are unchanged.
        DataError: if a target has another type or number of dimensions.

    Example:
        >>> shared, local = np.zeros(4), [np.ones(2), np.ones(2)]
        >>> apply(np.array([2, 4, 1056964608, 0, 1, -3], np.int32), shared, local)
        >>> shared.tolist(), local[0].tolist(), local[1].tolist()
        ([-0.5, 0.0, 0.5, 0.0], [0.5, 1.0], [1.5, 1.0])
    """
    pieces = [Pieces(target, name="targets") for target in targets]
    segments: Sequence[Segment] = []
    for size in {piece.size for piece in pieces}:
        segments = parse(words, size)
    with np.errstate(over="ignore", invalid="ignore"):
        for segment in segments:
            _subtract(segment, pieces)


def selected_values(words: Any, size: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the indices and values of the elements that a message changes.

    Returns:
        (K,) int64 indices into the vector, ascending and unique, and the (K,) float32 values to
        subtract.

    Raises:
        NetworkError: if the message is malformed or does not cover `size` elements.

    Example:
        >>> selected_values(np.array([6, 6, 981668463, 1, 655372], np.int32), 6)
        (array([1, 2, 3]), array([-0.0005,  0.001 , -0.001 ], dtype=float32))
    """
    parts = [_selected(segment) for segment in parse(words, size)]
    return (
        np.concatenate([indices for indices, _ in parts]),
        np.concatenate([values for _, values in parts]),
    )


def _subtract(segment: Segment, targets: Sequence[Pieces]) -> None:
    if segment.dense:
        _subtract_bitmap(segment, targets)
    else:
        indices, values = _selected(segment)
        for pieces in targets:
            _subtract_at(pieces, indices, values)


def _subtract_bitmap(segment: Segment, targets: Sequence[Pieces]) -> None:
    scratch = np.empty(BLOCK, np.float32)
    for start, stop in block_bounds(0, segment.size):
        words = segment.payload[start // 16 : -(-stop // 16)]
        if not words.any():
            continue
        values = unpack(words, segment.threshold, scratch)
        for pieces in targets:
            for offset, view in pieces.spans(segment.start + start, segment.start + stop):
                np.subtract(view, values[offset : offset + view.size], out=view)


def _subtract_at(pieces: Pieces, indices: NDArray[np.int64], values: NDArray[np.float32]) -> None:
    """Subtract `values` at ascending `indices`."""
    cuts = np.searchsorted(indices, pieces.starts)
    for number, array in enumerate(pieces.arrays):
        first, last = cuts[number], cuts[number + 1]
        if first < last:
            array[indices[first:last] - pieces.starts[number]] -= values[first:last]


def _selected(segment: Segment) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the segment's indices into the whole vector, and their values."""
    if not segment.dense:
        indices = np.abs(segment.payload.astype(np.int64))
        indices += segment.start - 1
        threshold = np.float32(segment.threshold)
        return indices, np.where(segment.payload < 0, -threshold, threshold)
    scratch = np.empty(BLOCK, np.float32)
    found = [(np.empty(0, np.int64), np.empty(0, np.float32))]
    for start, stop in block_bounds(0, segment.size):
        words = segment.payload[start // 16 : -(-stop // 16)]
        values = unpack(words, segment.threshold, scratch)
        there = np.flatnonzero(values)
        found.append((there + (segment.start + start), values[there]))
    return (
        np.concatenate([indices for indices, _ in found], dtype=np.int64),
        np.concatenate([values for _, values in found]),
    )

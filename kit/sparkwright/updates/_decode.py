"""Decode messages to changes of the vector; pure.

Every function checks the whole message before it changes anything.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._format import HEADER_WORDS, EncodedSegment, Segment, parse, selected_count, unpack
from ._vectors import BLOCK, Pieces, Target, Vector, block_bounds


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
            _add(segment, pieces, sign=-1)


def decode(words: Any, out: Vector | None = None, *, size: int | None = None) -> Vector:
    """Decode a message to a dense vector.

    Args:
        words: (L,) int32 array, or its bytes.
        out: (N,) float32 or float64, overwritten; default None: a new float32 vector.
        size: N, if known. A short sparse message may declare up to 2**31 - 1 elements, so pass
            `size` or `out` for messages from the network.

    Raises:
        NetworkError: if the message is malformed or of another length; `out` is unchanged.

    Example:
        >>> decode(np.array([2, 4, 1056964608, 0, 1, -3], np.int32), size=4)
        array([ 0.5,  0. , -0.5,  0. ], dtype=float32)
    """
    if out is None:
        segments = parse(words, size)
        out = np.zeros(segments[-1].stop, np.float32)
        pieces = Pieces(out, name="out")
    else:
        pieces = Pieces(out, name="out")
        segments = parse(words, pieces.size)
        out[...] = 0
    for segment in segments:
        _add(segment, [pieces], sign=1)
    return out


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


def describe(words: Any, size: int | None = None) -> tuple[EncodedSegment, ...]:
    """Describe each segment of a message without decoding it.

    Raises:
        NetworkError: if the message is malformed or does not cover `size` elements.
    """
    return tuple(
        EncodedSegment(
            size=segment.size,
            threshold=segment.threshold,
            selected=selected_count(segment.payload) if segment.dense else segment.payload.size,
            dense=segment.dense,
            length=HEADER_WORDS + segment.payload.size,
        )
        for segment in parse(words, size)
    )


def _add(segment: Segment, targets: Sequence[Pieces], *, sign: int) -> None:
    if segment.dense:
        _add_bitmap(segment, targets, sign=sign)
    else:
        indices, values = _selected(segment)
        values *= np.float32(sign)
        for pieces in targets:
            _add_at(pieces, indices, values)


def _add_bitmap(segment: Segment, targets: Sequence[Pieces], *, sign: int) -> None:
    scratch = np.empty(BLOCK, np.float32)
    add = np.add if sign > 0 else np.subtract
    for start, stop in block_bounds(0, segment.size):
        words = segment.payload[start // 16 : -(-stop // 16)]
        if not words.any():
            continue
        values = unpack(words, segment.threshold, scratch)
        for pieces in targets:
            for offset, view in pieces.spans(segment.start + start, segment.start + stop):
                add(view, values[offset : offset + view.size], out=view)


def _add_at(pieces: Pieces, indices: NDArray[np.int64], values: NDArray[np.float32]) -> None:
    """Add `values` at ascending `indices`."""
    cuts = np.searchsorted(indices, pieces.starts)
    for number, array in enumerate(pieces.arrays):
        first, last = cuts[number], cuts[number + 1]
        if first < last:
            array[indices[first:last] - pieces.starts[number]] += values[first:last]


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

"""The wire format of an update, and the validation of received messages; pure.

A message is one or more consecutive segments. Segment i encodes the next N_i elements of the
vector. A segment is an int32 array in one of DL4J's two formats:

* sparse: [count, N, float32 bits of t, 0], then `count` words +(index + 1) for +t, -(index + 1)
  for -t;
* bitmap: [N, N, float32 bits of t, 1], then N // 16 + 1 words of 16 elements each. Bit b of a
  word means that element b is present, bit b + 16 that it is negative: ±t. Bit b + 16 without
  bit b is the half code, -t / 2.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, NetworkError

WORD = np.dtype("<i4")
HEADER_WORDS = 4
SPARSE, BITMAP = 0, 1
LARGEST_SIZE = 2**31 - 1
Words = NDArray[np.int32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One valid segment of a message."""

    start: int  # index of its first element in the vector
    size: int  # elements that it covers
    threshold: float  # exactly the float32 of the message
    dense: bool  # a bitmap
    payload: Words  # a view of the words after the header; ascending indices if sparse

    @property
    def stop(self) -> int:
        """The index after its last element in the vector."""
        return self.start + self.size


def bitmap_words(size: int) -> int:
    """Return the number of words of a bitmap of `size` elements, without the header.

    Example:
        >>> [bitmap_words(size) + HEADER_WORDS for size in (15, 31, 32)]
        [5, 6, 7]
    """
    return size // 16 + 1


def header(count: int, size: int, threshold: float, kind: int) -> Words:
    """Return the first four words of a segment."""
    words = np.array([count, size, 0, kind], WORD)
    words[2:3].view("<f4")[0] = threshold
    return words


def check_threshold(value: Any) -> float:
    """Return the threshold, rounded to float32."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    number = number and abs(value) <= sys.float_info.max  # False for integers that overflow
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(np.float32(value)) if number else math.nan
    if not (math.isfinite(rounded) and rounded > 0):
        raise ConfigurationError(
            "A threshold must be a finite number above 0 that float32 can hold. "
            f"Received: threshold={value!r}."
        )
    return rounded


def parse(words: Any, size: int) -> Sequence[Segment]:
    """Split a message of `size` elements into segments and validate all of it."""
    message = _as_words(words)
    segments: list[Segment] = []
    position = start = 0
    while position < message.size:
        segment = _parse_segment(message[position:], start)
        position += HEADER_WORDS + segment.payload.size
        start = segment.stop
        if start > size:
            break
        segments.append(segment)
    if not segments or start != size:
        raise _bad(f"must cover {size} elements", "covered", start)
    return segments


def _as_words(words: Any) -> Words:
    if isinstance(words, bytes | bytearray | memoryview):
        data = memoryview(words)
        if data.nbytes % WORD.itemsize or not data.c_contiguous:
            raise _bad("must be whole int32 words", "size_bytes", data.nbytes)
        return np.frombuffer(data, WORD)
    if not isinstance(words, np.ndarray) or words.ndim != 1 or words.dtype != WORD:
        raise _bad(
            "must be a 1-D int32 array",
            "words",
            f"{type(words).__name__} {getattr(words, 'dtype', '')}",
        )
    return words


def _parse_segment(words: Words, start: int) -> Segment:
    if words.size < HEADER_WORDS:
        raise _bad("must have a header of 4 words in each segment", "words", words.size)
    count, size, _, kind = (int(word) for word in words[:HEADER_WORDS])
    threshold = float(words[2:3].view("<f4")[0])
    if size < 0:
        raise _bad("must not have a negative length", "N", size)
    if not (math.isfinite(threshold) and threshold > 0):
        raise _bad("must have a finite threshold above 0", "t", threshold)
    if kind == SPARSE:
        if not 0 <= count <= size:
            raise _bad(f"must have a count from 0 to N={size}", "count", count)
        length = count
    elif kind == BITMAP:
        if count != size:
            raise _bad(f"must name the same length twice in a bitmap, N={size}", "count", count)
        length = bitmap_words(size)
    else:
        raise _bad("must be sparse (0) or a bitmap (1)", "type", kind)
    payload = words[HEADER_WORDS : HEADER_WORDS + length]
    if payload.size != length:
        raise _bad(f"must have {length} words after the header", "words", payload.size)
    if kind == SPARSE:
        payload = _ascending(payload, size)
    else:
        spare = 0xFFFF << size % 16 & 0xFFFF
        if int(payload[-1]) & (spare | spare << 16):
            raise _bad(f"must have no bits beyond N={size}", "last_word", int(payload[-1]))
    return Segment(
        start=start, size=size, threshold=threshold, dense=kind == BITMAP, payload=payload
    )


def _ascending(payload: Words, size: int) -> Words:
    """Return the signed indices in ascending order; DL4J writes them in any order."""
    numbers = np.abs(payload)  # -2**31 stays negative and is rejected with the zeros
    if numbers.size and not (int(numbers.min()) >= 1 and int(numbers.max()) <= size):
        raise _bad(f"must have indices from 1 to N={size}", "index", _first(payload, numbers, size))
    if (numbers[1:] > numbers[:-1]).all():
        return payload
    order = np.argsort(numbers)
    numbers = numbers[order]
    if not (numbers[1:] > numbers[:-1]).all():
        repeated = numbers[1:][numbers[1:] == numbers[:-1]]
        raise _bad("must name each index once", "index", int(repeated[0]))
    return payload[order]


def _first(payload: Words, numbers: Words, size: int) -> int:
    return int(payload[(numbers < 1) | (numbers > size)][0])


def _bad(rule: str, name: str, value: Any) -> NetworkError:
    return NetworkError(f"An update message {rule}. Received: {name}={value}.")


def pack(present: Flags, negative: Flags, words: Words) -> None:
    """Write the two (16 * words,) flags of each element to contiguous int32 `words`."""
    halves = words.view("<u2").reshape(-1, 2)
    halves[:, 0] = np.packbits(present, bitorder="little").view("<u2")
    halves[:, 1] = np.packbits(negative, bitorder="little").view("<u2")


def unpack(words: Words, threshold: float, out: NDArray[np.float32]) -> NDArray[np.float32]:
    """Write the value of each element, 0, ±t or -t / 2, to `out`; return the part written."""
    result = out[: 16 * words.size]
    # mode="clip" lets `take` write directly to `out`; codes are always in range.
    np.take(_units(), _codes(words), axis=0, out=result.reshape(-1, 8), mode="clip")
    return np.multiply(result, np.float32(threshold), out=result)


def _codes(words: Words) -> NDArray[np.intp]:
    """Return (2 * words,) codes of 8 elements: present bits, then negative bits above them."""
    # Swap the two middle bytes of each word; NumPy moves single bytes much more slowly.
    bits = words.view("<u4")
    middle = bits >> 8 & 0xFF00
    swapped = bits << 8 & 0xFF0000
    swapped |= middle
    swapped |= bits & 0xFF0000FF
    return swapped.view("<u2").astype(np.intp)


@cache
def _units() -> NDArray[np.float32]:
    """Return the (65536, 8) values of each code, in units of t."""
    octets = np.arange(1 << 16, dtype="<u2").view(np.uint8).reshape(-1, 2)
    bits = np.unpackbits(octets, axis=1, bitorder="little").astype(np.bool_)
    present, negative = bits[:, :8], bits[:, 8:]
    units = np.where(present, np.where(negative, -1.0, 1.0), np.where(negative, -0.5, 0.0))
    return units.astype(np.float32)


class EncodedSegment(NamedTuple):
    """Description of one segment of a message.

    Attributes:
        size: elements that it covers, N.
        threshold: t, rounded to float32.
        selected: number of elements that it changes.
        dense: whether it is a bitmap.
        length: number of words, including the header.
    """

    size: int
    threshold: float
    selected: int
    dense: bool
    length: int

    @property
    def sparsity(self) -> float:
        """Words after the header / N; a bitmap counts as 1/16."""
        if self.dense:
            return 1 / 16
        return self.selected / self.size if self.size else 0.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Encoded:
    """An encoded message.

    Attributes:
        words: (L,) int32, the message.
        segments: description of each segment.
    """

    words: Words
    segments: tuple[EncodedSegment, ...]

    @property
    def size(self) -> int:
        """Number of elements of the vector, N."""
        return sum(segment.size for segment in self.segments)

    @property
    def selected(self) -> int:
        """Number of elements that the message changes; 0 for an empty message."""
        return sum(segment.selected for segment in self.segments)

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The threshold of each segment."""
        return tuple(segment.threshold for segment in self.segments)

    @property
    def size_bytes(self) -> int:
        """Size of the message in bytes."""
        return self.words.nbytes

"""Spans: which lane did what, from when, for how long; on the wire, one by one, and as sums."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError

# More than a worker collects before it sends.
MOST_SPANS = 1 << 20
_SPAN_BYTES = 8 + 4 + 1
CODES = 64  # of phases, there is room for
# Bins of durations grow with them, sixteen to each doubling from a microsecond to seven weeks:
# a median read from them is within 2.2 % of the true one, however many spans there were.
EDGES_S = np.concatenate([[0.0], 2.0 ** np.arange(-20, 22, 1 / 16)])
DURATION_BINS = len(EDGES_S)  # the last one has no end


class SpanBlock(NamedTuple):
    """Some spans of one worker or of the driver, in the order in which they ended.

    Attributes:
        codes: (n,) uint8, see `PhaseCode`.
        starts_s: (n,) float64, by the clock of the process that recorded them.
        seconds: (n,) float32.
    """

    codes: NDArray[np.uint8]
    starts_s: NDArray[np.float64]
    seconds: NDArray[np.float32]

    @classmethod
    def of_one(cls, code: int, start_s: float, seconds: float) -> "SpanBlock":
        """Return a single span; one that seems to end before it begins has no length."""
        return cls(
            codes=np.array([code], np.uint8),
            starts_s=np.array([start_s]),
            seconds=np.array([max(0.0, seconds)], np.float32),
        )

    def to_payload(self) -> tuple[bytes, ...]:
        """Return the arrays, little-endian: starts, seconds, codes; thirteen bytes a span."""
        return (
            self.starts_s.astype("<f8").tobytes(),
            self.seconds.astype("<f4").tobytes(),
            self.codes.tobytes(),
        )

    @classmethod
    def from_payload(cls, payload: bytes | bytearray | memoryview, count: int) -> "SpanBlock":
        """Read what `to_payload` gave; the values are not checked.

        Raises:
            NetworkError: if these are not `count` spans, or too many.
        """
        if not 0 <= count <= MOST_SPANS or len(payload) != count * _SPAN_BYTES:
            raise NetworkError(
                f"a message of spans must hold at most {MOST_SPANS}, of {_SPAN_BYTES} bytes each. "
                f"Received: {count} in {len(payload)} bytes."
            )
        return cls(
            starts_s=np.frombuffer(payload, "<f8", count),
            seconds=np.frombuffer(payload, "<f4", count, 8 * count),
            codes=np.frombuffer(payload, np.uint8, count, 12 * count),
        )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Spans:
    """One row a span; or a row for each phase of a lane in each bucket of time, with its sum.

    Attributes:
        lanes: (n,) int32, -1 for the driver, else the worker.
        codes: (n,) uint8, of phases.
        starts_s: (n,) float64, seconds since the run began, by the driver's clock; of a sum, where
            its bucket begins.
        seconds: (n,) float32; of sums float64.
        width_s: seconds from one bucket to the next; 0: these are single spans.
    """

    lanes: NDArray[np.int32]
    codes: NDArray[np.uint8]
    starts_s: NDArray[np.float64]
    seconds: NDArray[Any]
    width_s: float = 0.0

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, lane: int, block: SpanBlock) -> "Spans":
        """Return the spans of one lane."""
        return cls(
            lanes=np.full(len(block.codes), lane, np.int32),
            codes=block.codes,
            starts_s=block.starts_s,
            seconds=block.seconds,
        )

    @classmethod
    def joined(cls, parts: Sequence["Spans"]) -> "Spans":
        """Return the single spans of all parts, one after another, as a copy."""
        return cls(
            lanes=np.concatenate([np.empty(0, np.int32), *(part.lanes for part in parts)]),
            codes=np.concatenate([np.empty(0, np.uint8), *(part.codes for part in parts)]),
            starts_s=np.concatenate([np.empty(0), *(part.starts_s for part in parts)]),
            seconds=np.concatenate([np.empty(0, np.float32), *(part.seconds for part in parts)]),
        )

    def coarser(self) -> "Spans":
        """Return sums in buckets twice as wide."""
        bucket = np.rint(self.starts_s / self.width_s).astype(np.int64) // 2
        row = (self.lanes.astype(np.int64) + 1) * 256 + self.codes
        length = int(bucket.max(initial=0)) + 1
        keys, place = np.unique(row * length + bucket, return_inverse=True)
        return Spans(
            lanes=(keys // length // 256 - 1).astype(np.int32),
            codes=(keys // length % 256).astype(np.uint8),
            starts_s=(keys % length).astype(np.float64) * (2.0 * self.width_s),
            seconds=np.bincount(place, weights=self.seconds).astype(np.float64),
            width_s=2 * self.width_s,
        )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Tallies:
    """Sums over all spans of a run.

    The first row is the driver, row w + 1 is worker w; columns are codes of phases.

    Attributes:
        count: (lanes, CODES) int64, spans.
        seconds: (lanes, CODES) float64, their sum.
        longest_s: (lanes, CODES) float64.
        durations: (2, CODES, DURATION_BINS) int64, spans of each duration: the driver's, the
            workers'.
    """

    count: NDArray[np.int64]
    seconds: NDArray[np.float64]
    longest_s: NDArray[np.float64]
    durations: NDArray[np.int64]

    @classmethod
    def empty(cls, workers: int) -> "Tallies":
        """Return the sums of no spans."""
        shape = (workers + 1, CODES)
        return cls(
            count=np.zeros(shape, np.int64),
            seconds=np.zeros(shape),
            longest_s=np.zeros(shape),
            durations=np.zeros((2, CODES, DURATION_BINS), np.int64),
        )

    def add(self, lane: int, codes: NDArray[np.uint8], seconds: NDArray[np.float64]) -> None:
        """Count spans of one lane, -1 for the driver; changes the arrays."""
        row = lane + 1
        self.count[row] += np.bincount(codes, minlength=CODES)
        self.seconds[row] += np.bincount(codes, weights=seconds, minlength=CODES)
        np.maximum.at(self.longest_s[row], codes, seconds)
        bins = np.searchsorted(EDGES_S, seconds, side="right") - 1
        flat = codes.astype(np.int64) * DURATION_BINS + bins
        np.add.at(self.durations[min(row, 1)].reshape(-1), flat, 1)

    def copy(self) -> "Tallies":
        """Return an independent copy."""
        return copy.deepcopy(self)


def duration_quantile_s(counts: NDArray[np.int64], share: float) -> float:
    """Return the duration that `share` of the spans did not exceed; 0.0 if there are none.

    Args:
        counts: (DURATION_BINS,) int64.
        share: from 0 to 1; 0.5 is the median.
    """
    wanted = max(1, int(np.ceil(share * counts.sum())))
    place = int(np.searchsorted(np.cumsum(counts), wanted))
    if place in (0, len(counts)):
        return 0.0
    return float(EDGES_S[place] * 2 ** (1 / 32))  # the middle of its bin


def cut(
    starts: NDArray[np.float64], lengths: NDArray[np.float64], columns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Cut stretches of time at the borders of columns of width 1.

    Returns:
        For each part the place of its stretch, its column from 0 to `columns` - 1, and its length.
    """
    ends = np.clip(starts + lengths, 0.0, columns)
    first = np.clip(starts.astype(np.int64), 0, columns - 1)
    last = np.clip(np.ceil(ends).astype(np.int64) - 1, first, columns - 1)
    parts = last - first + 1
    place = np.repeat(np.arange(len(starts)), parts)
    column = first[place] + np.arange(len(place)) - np.repeat(np.cumsum(parts) - parts, parts)
    overlap = np.minimum(ends[place], column + 1) - np.maximum(starts[place], column)
    # A whole stretch keeps its length, however short it is beside its start.
    whole = np.minimum(lengths, columns - starts)
    return place, column, np.maximum(np.where(parts[place] == 1, whole[place], overlap), 0.0)

"""Spans: which lane did what, from when, for how long; on the wire, one by one, and added up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError

# More than a worker collects before it sends.
MOST_SPANS = 1 << 20
_SPAN_BYTES = 8 + 4 + 1
CODES = 64  # of phases, there is room for
# Durations are counted in bins that grow with them, sixteen to each doubling: a median read from
# them is within 2.2 % of the true one, however many spans there were, and takes the same room.
_BINS_PER_DOUBLING = 16
_LEAST_EXPONENT, _LARGEST_EXPONENT = -20, 22  # a microsecond; seven weeks
DURATION_BINS = 1 + _BINS_PER_DOUBLING * (_LARGEST_EXPONENT - _LEAST_EXPONENT)


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
    """One row a span, in the order in which they arrived.

    Attributes:
        lanes: (n,) int32, -1 for the driver, else the worker.
        codes: (n,) uint8, of phases.
        starts_s: (n,) float64, seconds since the run began, by the driver's clock.
        seconds: (n,) float32.
    """

    lanes: NDArray[np.int32]
    codes: NDArray[np.uint8]
    starts_s: NDArray[np.float64]
    seconds: NDArray[np.float32]

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
        """Return the spans of all parts, one after another, as a copy."""
        return cls(
            lanes=np.concatenate([np.empty(0, np.int32), *(part.lanes for part in parts)]),
            codes=np.concatenate([np.empty(0, np.uint8), *(part.codes for part in parts)]),
            starts_s=np.concatenate([np.empty(0), *(part.starts_s for part in parts)]),
            seconds=np.concatenate([np.empty(0, np.float32), *(part.seconds for part in parts)]),
        )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class BucketSums:
    """Seconds of each phase of each lane in buckets of equal width.

    Attributes:
        width_s: seconds from one bucket to the next; the first begins with the run.
        lanes: (rows,) int32, -1 for the driver, else the worker.
        codes: (rows,) uint8.
        seconds: (rows, buckets) float64.
    """

    width_s: float
    lanes: NDArray[np.int32]
    codes: NDArray[np.uint8]
    seconds: NDArray[np.float64]


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
        """Count spans of one lane; changes the arrays.

        Args:
            lane: -1 for the driver, or the worker.
            codes: (n,) uint8 below CODES.
            seconds: (n,) float64.
        """
        row = lane + 1
        self.count[row] += np.bincount(codes, minlength=CODES)
        self.seconds[row] += np.bincount(codes, weights=seconds, minlength=CODES)
        np.maximum.at(self.longest_s[row], codes, seconds)
        flat = codes.astype(np.int64) * DURATION_BINS + duration_bins(seconds)
        np.add.at(self.durations[min(row, 1)].reshape(-1), flat, 1)

    def copy(self) -> "Tallies":
        """Return an independent copy."""
        return Tallies(
            count=self.count.copy(),
            seconds=self.seconds.copy(),
            longest_s=self.longest_s.copy(),
            durations=self.durations.copy(),
        )


def duration_bins(seconds: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the bin of each duration; bin 0 holds durations below a microsecond.

    Args:
        seconds: (n,) float, none below 0.

    Returns:
        (n,) int64 from 0 to `DURATION_BINS` - 1; the last one holds all longer ones, too.
    """
    least = 2.0**_LEAST_EXPONENT
    exponents = np.log2(np.maximum(np.asarray(seconds, np.float64), least)) - _LEAST_EXPONENT
    bins = 1 + (exponents * _BINS_PER_DOUBLING).astype(np.int64)
    return np.where(seconds < least, 0, np.minimum(bins, DURATION_BINS - 1))


def bin_edges_s() -> NDArray[np.float64]:
    """(DURATION_BINS + 1,) float64: where each bin begins and ends, in seconds."""
    steps = np.arange(DURATION_BINS, dtype=np.float64)
    return np.concatenate([[0.0], 2.0 ** (_LEAST_EXPONENT + steps / _BINS_PER_DOUBLING)])


def duration_quantile_s(counts: NDArray[np.int64], share: float) -> float:
    """Return the duration that `share` of the spans did not exceed; 0.0 if there are none.

    Args:
        counts: (DURATION_BINS,) int64.
        share: from 0 to 1; 0.5 is the median.

    Example:
        >>> counts = np.bincount(duration_bins(np.array([0.1, 0.2, 9.0])), minlength=DURATION_BINS)
        >>> round(duration_quantile_s(counts, 0.5), 1)
        0.2
    """
    total = int(counts.sum())
    if not total:
        return 0.0
    wanted = max(1, int(np.ceil(share * total)))
    place = int(np.searchsorted(np.cumsum(counts), wanted))
    if place == 0:
        return 0.0
    edges = bin_edges_s()
    return float(np.sqrt(edges[place] * edges[place + 1]))


def coarse_histogram(
    counts: NDArray[np.int64], *, bins: int = 20
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the counts in few bins, from the shortest duration to the longest.

    Args:
        counts: (DURATION_BINS,) int64.
        bins: how many, at most; fewer if all durations are alike.

    Returns:
        (n + 1,) float64 edges in seconds and (n,) int64 counts, which add up to all of them; no
        edges and no counts if there are no spans.
    """
    used = np.flatnonzero(counts)
    if not len(used):
        return np.empty(0), np.empty(0, np.int64)
    first, stop = int(used[0]), int(used[-1]) + 1
    cuts = np.unique(np.linspace(first, stop, min(bins, stop - first) + 1).round().astype(np.int64))
    return bin_edges_s()[cuts], np.add.reduceat(counts[:stop], cuts[:-1])

"""Spans of lanes, with phase, start and duration: serialized, individual and as sums."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError, NetworkError

from .phases import unknown_codes

# More spans than a worker collects before it sends them.
MOST_SPANS = 1 << 20
_SPAN_BYTES = 8 + 4 + 1
CODES = 64  # capacity for codes of phases
# Logarithmic bins of durations, sixteen per doubling, from a microsecond to seven weeks. A median
# computed from them is within 2.2 % of the true one, for any number of spans.
EDGES_S = np.concatenate([[0.0], 2.0 ** np.arange(-20, 22, 1 / 16)])
DURATION_BINS = len(EDGES_S)  # the last bin is unbounded
COLUMNS = {"lanes": np.int32, "codes": np.uint8, "starts_s": np.float64, "seconds": np.float32}
_LONGEST_S = 1e9  # thirty years; longer spans are invalid


class SpanBlock(NamedTuple):
    """Spans of one worker or of the driver, in the order of their ends."""

    codes: NDArray[np.uint8]  # (n,), see `PhaseCode`
    starts_s: NDArray[np.float64]  # (n,), by the clock of the recording process
    seconds: NDArray[np.float32]  # (n,)

    @classmethod
    def of_one(cls, code: int, start_s: float, seconds: float) -> "SpanBlock":
        """Return a single span; a negative duration becomes 0."""
        return cls(
            codes=np.array([code], np.uint8),
            starts_s=np.array([start_s]),
            seconds=np.array([max(0.0, seconds)], np.float32),
        )

    def to_payload(self) -> tuple[bytes, ...]:
        """Return the arrays, little-endian: starts, seconds, codes; 13 bytes per span."""
        return (
            self.starts_s.astype("<f8").tobytes(),
            self.seconds.astype("<f4").tobytes(),
            self.codes.tobytes(),
        )

    @classmethod
    def from_payload(cls, payload: bytes | bytearray | memoryview, count: int) -> "SpanBlock":
        """Read `to_payload`; NetworkError for a wrong count. Values are not checked."""
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
    """One row per span; or one row per lane, phase and time bucket, with the sum."""

    lanes: NDArray[np.int32]  # (n,), -1 for the driver, else the worker
    codes: NDArray[np.uint8]  # (n,), of phases
    # Since the run began, by the driver's clock; of the bucket for sums.
    starts_s: NDArray[np.float64]
    seconds: NDArray[Any]  # (n,) float32; float64 for sums
    width_s: float = 0.0  # of a bucket; 0 for individual spans

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(cls, lane: int, block: SpanBlock) -> "Spans":
        """Return the spans of one lane."""
        return cls(
            lanes=np.full(block.codes.size, lane, np.int32),
            codes=block.codes,
            starts_s=block.starts_s,
            seconds=block.seconds,
        )

    @classmethod
    def joined(cls, parts: Sequence["Spans"]) -> "Spans":
        """Return a copy of the individual spans of all parts, concatenated."""
        columns: dict[str, Any] = {
            name: np.concatenate([np.empty(0, kind), *(getattr(part, name) for part in parts)])
            for name, kind in COLUMNS.items()
        }
        return cls(**columns)

    def check(self, workers: int) -> None:
        """Raise DataError for a wrong lane, code or shape, or a negative or non-finite value."""
        shapes = [getattr(self, name).shape for name in COLUMNS]
        if shapes != [(self.codes.size,)] * len(COLUMNS):
            raise DataError(
                f"Spans have one lane, code, start and duration each. Received: shapes {shapes}."
            )
        if unknown := unknown_codes(self.codes):
            raise DataError(
                f"Spans have codes of phases. Received: {unknown[:5]}. A later version of "
                "sparkwright may know them."
            )
        if len(self) and not -1 <= self.lanes.min() <= self.lanes.max() < workers:
            raise DataError(
                f"Spans belong to the driver, lane -1, or one of {workers} workers. Received: "
                f"lanes from {self.lanes.min()} to {self.lanes.max()}."
            )
        # NaN fails each comparison, so it is rejected too.
        fits = (np.abs(self.starts_s) <= _LONGEST_S) & (self.seconds >= 0)
        fits &= self.seconds <= _LONGEST_S
        if not fits.all():
            place = int(np.argmin(fits))
            raise DataError(
                "Starts and durations of spans must be finite, durations not negative. Received: "
                f"start {self.starts_s[place]}, duration {self.seconds[place]}."
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
    """Sums over all spans of a run: rows driver, worker 0, ...; columns are codes of phases."""

    count: NDArray[np.int64]  # (lanes, CODES)
    seconds: NDArray[np.float64]  # (lanes, CODES)
    longest_s: NDArray[np.float64]  # (lanes, CODES)
    # Histograms (2, CODES, DURATION_BINS): the driver's, then the workers'.
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
        """Add spans of one lane, -1 for the driver, in place."""
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
    """Return the quantile `share` of (DURATION_BINS,) durations; 0.0 if there are none."""
    wanted = max(1, int(np.ceil(share * counts.sum())))
    place = int(np.searchsorted(np.cumsum(counts), wanted))
    if place in (0, len(counts)):
        return 0.0
    return float(EDGES_S[place] * 2 ** (1 / 32))  # the middle of the bin


def cut(
    starts: NDArray[np.float64], lengths: NDArray[np.float64], columns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Split intervals at borders of columns of width 1: interval, column and length of parts."""
    ends = np.clip(starts + lengths, 0.0, columns)
    first = np.clip(starts.astype(np.int64), 0, columns - 1)
    last = np.clip(np.ceil(ends).astype(np.int64) - 1, first, columns - 1)
    parts = last - first + 1
    place = np.repeat(np.arange(len(starts)), parts)
    column = first[place] + np.arange(len(place)) - np.repeat(np.cumsum(parts) - parts, parts)
    overlap = np.minimum(ends[place], column + 1) - np.maximum(starts[place], column)
    # Unsplit intervals keep their exact length, even if it is tiny compared with their start.
    whole = np.minimum(lengths, columns - starts)
    return place, column, np.maximum(np.where(parts[place] == 1, whole[place], overlap), 0.0)

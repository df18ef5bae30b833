"""Spans as columns: who did what, from when, for how long."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._span_block import SpanBlock

_FIRST_CAPACITY = 4096


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Spans:
    """One row a span, in the order in which they were heard of.

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

    def followed_by(self, lane: int, block: SpanBlock) -> "Spans":
        """With some more of one lane."""
        lanes = np.full(len(block.codes), lane, np.int32)
        return Spans(
            lanes=np.append(self.lanes, lanes),
            codes=np.append(self.codes, block.codes),
            starts_s=np.append(self.starts_s, block.starts_s),
            seconds=np.append(self.seconds, block.seconds),
        )


class SpanColumns:
    """Columns that grow."""

    def __init__(self) -> None:
        """Start empty."""
        self._length = 0
        self._held = _spans_of_size(_FIRST_CAPACITY)

    def __len__(self) -> int:
        return self._length

    def append(
        self,
        lane: int,
        codes: NDArray[np.uint8],
        starts_s: NDArray[np.float64],
        seconds: NDArray[np.float32],
    ) -> None:
        """Add spans of one lane."""
        start, stop = self._length, self._length + len(codes)
        if stop > len(self._held):
            larger = _spans_of_size(max(stop, 2 * len(self._held)))
            for old, new in zip(_columns(self._held), _columns(larger), strict=True):
                new[:start] = old[:start]
            self._held = larger
        self._held.lanes[start:stop] = lane
        self._held.codes[start:stop] = codes
        self._held.starts_s[start:stop] = starts_s
        self._held.seconds[start:stop] = seconds
        self._length = stop

    def spans(self) -> Spans:
        """Copies of what has been added so far."""
        lanes, codes, starts_s, seconds = (
            column[: self._length].copy() for column in _columns(self._held)
        )
        return Spans(lanes=lanes, codes=codes, starts_s=starts_s, seconds=seconds)


def _spans_of_size(size: int) -> Spans:
    return Spans(
        lanes=np.zeros(size, np.int32),
        codes=np.zeros(size, np.uint8),
        starts_s=np.zeros(size),
        seconds=np.zeros(size, np.float32),
    )


def _columns(spans: Spans) -> tuple[NDArray[Any], ...]:
    return spans.lanes, spans.codes, spans.starts_s, spans.seconds

"""The driver's store of a run's spans, in bounded memory."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .clocks import ClockReading
from .spans import SpanBlock, Spans, Tallies, cut
from .timeline import Timeline

_DRIVER = -1
_EXACT_SPANS = 500_000
_MOST_PARTS = 1000  # arrays of spans before they are concatenated
# float64 values: with a dozen phases per worker at most about 100 MB, up to 5,000 workers.
_MOST_CELLS = 8 << 20
_USUAL_PHASES = 8
_LEAST_BUCKETS, _MOST_BUCKETS = 128, 4096


class SpanStore:
    """Collects spans of driver and workers during a run; not thread-safe.

    The first spans, up to `exact_limit`, are stored individually: start-up and the first rounds.
    Later spans are summed by lane, phase and time bucket. The width of the buckets doubles as the
    run grows. Counts, sums and histograms of durations always include all spans.

    Example:
        >>> store = SpanStore(workers=1)
        >>> store.append(0, np.array([7], np.uint8), np.array([0.5]), np.array([0.25], np.float32))
        >>> store.timeline(elapsed_s=1.0).totals()[0].seconds
        0.25
    """

    def __init__(self, *, workers: int, exact_limit: int = _EXACT_SPANS) -> None:
        """Create an empty store.

        Args:
            workers: number of workers; spans of other lanes are rejected.
            exact_limit: number of individually stored spans; default 500,000, about 8.5 MB.
        """
        self._workers, self._room = workers, exact_limit
        self._exact: list[Spans] = []
        self._tallies = Tallies.empty(workers)
        self._end_s = 0.0
        # Sums by lane, code and bucket: the more lanes, the fewer buckets.
        room = max(1, _MOST_CELLS // (_USUAL_PHASES * (workers + 1)))
        self._buckets = min(max(1 << (room.bit_length() - 1), _LEAST_BUCKETS), _MOST_BUCKETS)
        self._width_s = 1.0
        self._sums: dict[tuple[int, int], NDArray[np.float64]] = {}

    def __len__(self) -> int:
        """The number of spans so far."""
        return int(self._tallies.count.sum())

    def append(
        self,
        lane: int,
        codes: NDArray[np.uint8],
        starts_s: NDArray[np.float64],
        seconds: NDArray[np.float32],
    ) -> None:
        """Add spans; if one is invalid, add none.

        Args:
            lane: -1 for the driver, else the worker.
            codes: (n,) uint8, of phases; see `PhaseCode`.
            starts_s: (n,) float64, seconds since the run began, by the driver's clock. Negative
                starts, due to the uncertainty of clocks, become 0.
            seconds: (n,) float32, at least 0.

        Raises:
            DataError: if a lane or code is unknown, a shape is wrong, or a value is not finite or
                is negative.
        """
        block = SpanBlock(
            np.array(codes, np.uint8),
            np.asarray(starts_s, np.float64),
            np.array(seconds, np.float32),
        )
        Spans.of(lane, block).check(self._workers)
        if not len(block.codes):
            return
        codes, starts_s = block.codes, np.maximum(block.starts_s, 0.0)
        exactly_s = block.seconds.astype(np.float64)
        self._end_s = max(self._end_s, float((starts_s + exactly_s).max()))
        self._tallies.add(lane, codes, exactly_s)
        kept = min(self._room, len(codes))
        self._room -= kept
        if kept:
            block = SpanBlock(codes[:kept], starts_s[:kept], block.seconds[:kept])
            self._exact.append(Spans.of(lane, block))
            if len(self._exact) > _MOST_PARTS:
                self._exact = [Spans.joined(self._exact)]
        if kept < len(codes):
            self._add_up(lane, codes[kept:], starts_s[kept:], exactly_s[kept:])

    def timeline(
        self,
        *,
        elapsed_s: float | None = None,
        hosts: Sequence[str] = (),
        clocks: Sequence[ClockReading] = (),
        name: str = "",
        ongoing: SpanBlock | None = None,
    ) -> Timeline:
        """Return an immutable timeline of the spans so far.

        Args:
            elapsed_s: seconds since the run began; default: the end of the last span.
            hosts: host of each worker; default: unknown.
            clocks: readings of workers' clocks.
            name: name of the run.
            ongoing: unfinished spans of the driver, as arguments of `append`; shown but not stored.
                Default None.
        """
        self._exact = [Spans.joined(self._exact)]
        spans, tallies, end_s = self._exact[0], self._tallies.copy(), self._end_s
        if ongoing is not None:
            seconds = ongoing.seconds.astype(np.float64)
            end_s = max(end_s, float((ongoing.starts_s + seconds).max(initial=0.0)))
            spans = Spans.joined([spans, Spans.of(_DRIVER, ongoing)])
            tallies.add(_DRIVER, ongoing.codes, seconds)
        known = [*hosts, *[""] * self._workers][: self._workers]
        return Timeline(
            name=name,
            elapsed_s=end_s if elapsed_s is None else max(float(elapsed_s), end_s),
            hosts=tuple(known),
            clocks=tuple(clocks),
            spans=spans,
            rest=self._rest(),
            tallies=tallies,
        )

    def _add_up(
        self,
        lane: int,
        codes: NDArray[np.uint8],
        starts_s: NDArray[np.float64],
        seconds: NDArray[np.float64],
    ) -> None:
        """Add spans to the sums; split spans at the borders of buckets."""
        while self._end_s > self._width_s * self._buckets:
            self._width_s *= 2
            for row in self._sums.values():
                pairs = row[0::2] + row[1::2]
                row[:] = np.concatenate([pairs, np.zeros(len(pairs))])
        place, bucket, part = cut(starts_s / self._width_s, seconds / self._width_s, self._buckets)
        for code in np.unique(codes).tolist():
            row = self._sums.setdefault((lane, code), np.zeros(self._buckets))
            mine = codes[place] == code
            np.add.at(row, bucket[mine], part[mine] * self._width_s)

    def _rest(self) -> Spans | None:
        if not self._sums:
            return None
        keys = np.array(sorted(self._sums))
        sums = np.stack([self._sums[lane, code] for lane, code in keys.tolist()])
        row, bucket = np.nonzero(sums)
        return Spans(
            lanes=keys[row, 0].astype(np.int32),
            codes=keys[row, 1].astype(np.uint8),
            starts_s=bucket.astype(np.float64) * self._width_s,
            seconds=sums[row, bucket],
            width_s=self._width_s,
        )

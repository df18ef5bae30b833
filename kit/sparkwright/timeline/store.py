"""The spans of a run as the driver keeps them while it goes on, in bounded memory."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from .clocks import ClockReading
from .phases import unknown_codes
from .spans import BucketSums, SpanBlock, Spans, Tallies
from .timeline import Timeline

_DRIVER = -1
_EXACT_SPANS = 500_000
_MOST_PARTS = 1000  # arrays of spans that are kept before they are joined
_LONGEST_S = 1e9  # thirty years; more is a mistake, or malice
_FIRST_WIDTH_S = 1.0
# Of float64: with a dozen phases a worker this is about 100 MB at most, up to 5,000 workers.
_MOST_CELLS = 8 << 20
_USUAL_PHASES = 8
_LEAST_BUCKETS, _MOST_BUCKETS = 128, 4096


class SpanStore:
    """Collects spans of driver and workers while a run goes on; not thread-safe by itself.

    The first spans are kept as they are, up to `exact_limit`: start-up and the first rounds are
    seen in full. Later ones are added up by lane, phase and bucket of time, whose width doubles as
    the run grows. Counts, sums and durations of all spans are exact in either case.

    Example:
        >>> store = SpanStore(workers=1)
        >>> store.append(0, np.array([7], np.uint8), np.array([0.5]), np.array([0.25], np.float32))
        >>> store.timeline(elapsed_s=1.0).totals()[0].seconds
        0.25
    """

    def __init__(self, *, workers: int, exact_limit: int = _EXACT_SPANS) -> None:
        """Start empty.

        Args:
            workers: how many there are; spans of others are refused.
            exact_limit: spans that are kept as they are; default 500,000, about 8.5 MB.
        """
        self._workers, self._room = workers, exact_limit
        self._exact: list[Spans] = []
        self._rest = Buckets(workers=workers)
        self._tallies = Tallies.empty(workers)
        self._end_s = 0.0

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
        """Add spans; all of them, or none if one is invalid.

        Args:
            lane: -1 for the driver, else the worker.
            codes: (n,) uint8, of phases; see `PhaseCode`.
            starts_s: (n,) float64, seconds since the run began, by the driver's clock. What would
                have begun before the run, by the uncertainty of clocks, begins with it.
            seconds: (n,) float32, none below 0.

        Raises:
            DataError: for an unknown lane or code, another shape, values not finite or negative.
        """
        codes, starts_s = np.array(codes, np.uint8), np.asarray(starts_s, np.float64)
        seconds = np.array(seconds, np.float32)
        self._check(lane, codes, starts_s, seconds)
        if not len(codes):
            return
        starts_s, exactly_s = np.maximum(starts_s, 0.0), seconds.astype(np.float64)
        self._end_s = max(self._end_s, float((starts_s + exactly_s).max()))
        self._tallies.add(lane, codes, exactly_s)
        kept = min(self._room, len(codes))
        self._room -= kept
        if kept:
            block = SpanBlock(codes[:kept], starts_s[:kept], seconds[:kept])
            self._exact.append(Spans.of(lane, block))
            if len(self._exact) > _MOST_PARTS:
                self._exact = [Spans.joined(self._exact)]
        self._rest.add(lane, codes[kept:], starts_s[kept:], exactly_s[kept:])

    def timeline(
        self,
        *,
        elapsed_s: float | None = None,
        hosts: Sequence[str] = (),
        clocks: Sequence[ClockReading] = (),
        name: str = "",
        ongoing: SpanBlock | None = None,
    ) -> Timeline:
        """Return what has arrived so far, as a value that does not change any more.

        Args:
            elapsed_s: seconds since the run began; default: until the last span's end.
            hosts: of each worker; default none: not known.
            clocks: readings of workers' clocks.
            name: of the run.
            ongoing: spans of the driver that have not ended, which are shown but not kept, as
                `append` takes them; default None: none.
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
            rest=self._rest.sums(),
            tallies=tallies,
        )

    def _check(
        self,
        lane: int,
        codes: NDArray[np.uint8],
        starts_s: NDArray[np.float64],
        seconds: NDArray[np.float32],
    ) -> None:
        if not -1 <= lane < self._workers:
            raise DataError(
                f"`lane` must be -1 for the driver or a worker below {self._workers}. "
                f"Received: lane={lane}."
            )
        if codes.ndim != 1 or not codes.shape == starts_s.shape == seconds.shape:
            raise DataError(
                "Spans have one code, start and duration each. Received: shapes "
                f"{codes.shape}, {starts_s.shape} and {seconds.shape}."
            )
        if unknown := unknown_codes(codes):
            raise DataError(f"Spans have codes of phases. Received: {unknown[:5]}.")
        # NaN fails each comparison, so it is refused with the rest.
        fits = (np.abs(starts_s) <= _LONGEST_S) & (seconds >= 0) & (seconds <= _LONGEST_S)
        if not fits.all():
            place = int(np.flatnonzero(~fits)[0])
            raise DataError(
                "Starts and durations of spans must be finite, durations not negative. Received: "
                f"start {float(starts_s[place])!r}, duration {float(seconds[place])!r}."
            )


class Buckets:
    """Adds spans up by lane and phase; the width of the buckets doubles as the run grows."""

    def __init__(self, *, workers: int) -> None:
        """Begin with buckets of a second.

        Args:
            workers: how many lanes there are beside the driver's; more lanes, fewer buckets.
        """
        room = max(1, _MOST_CELLS // (_USUAL_PHASES * (workers + 1)))
        count = 1 << (room.bit_length() - 1)
        self._count = min(max(count, _LEAST_BUCKETS), _MOST_BUCKETS)
        self._width_s = _FIRST_WIDTH_S
        self._end_s = 0.0
        self._rows: dict[tuple[int, int], NDArray[np.float64]] = {}

    def add(
        self,
        lane: int,
        codes: NDArray[np.uint8],
        starts_s: NDArray[np.float64],
        seconds: NDArray[np.float64],
    ) -> None:
        """Add spans of one lane; what lies across buckets is divided among them.

        Args:
            lane: -1 or the worker.
            codes: (n,) uint8.
            starts_s: (n,) float64, none below 0.
            seconds: (n,) float64.
        """
        if not len(codes):
            return
        self._end_s = max(self._end_s, float((starts_s + seconds).max()))
        while self._end_s > self._width_s * self._count:
            self._width_s *= 2
            for row in self._rows.values():
                pairs = row[0::2] + row[1::2]
                row[:] = np.concatenate([pairs, np.zeros(len(pairs))])
        for code in np.unique(codes).tolist():
            mine = codes == code
            row = self._rows.setdefault((lane, code), np.zeros(self._count))
            self._spread(row, starts_s[mine], seconds[mine])

    def sums(self) -> BucketSums | None:
        """Return what has been added so far, as a value of its own; None if nothing was."""
        if not self._rows:
            return None
        used = min(self._count, max(1, int(np.ceil(self._end_s / self._width_s))))
        keys = sorted(self._rows)
        return BucketSums(
            width_s=self._width_s,
            lanes=np.array([lane for lane, _ in keys], np.int32),
            codes=np.array([code for _, code in keys], np.uint8),
            seconds=np.stack([self._rows[key][:used] for key in keys]),
        )

    def _spread(
        self, row: NDArray[np.float64], starts_s: NDArray[np.float64], seconds: NDArray[np.float64]
    ) -> None:
        width_s, last_bucket = self._width_s, self._count - 1
        first = np.minimum((starts_s / width_s).astype(np.int64), last_bucket)
        last = np.minimum(((starts_s + seconds) / width_s).astype(np.int64), last_bucket)
        within = first == last
        np.add.at(row, first[within], seconds[within])
        for each in np.flatnonzero(~within).tolist():
            begin, end, length_s = int(first[each]), int(last[each]), float(seconds[each])
            head_s = min((begin + 1) * width_s - float(starts_s[each]), length_s)
            row[begin] += head_s
            row[begin + 1 : end] += width_s
            # The rest, so that nothing is lost by rounding.
            row[end] += length_s - head_s - (end - begin - 1) * width_s

"""What the driver keeps of a run's spans while it goes on, in a bounded room."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from ._buckets import Buckets
from ._clock_reading import ClockReading
from ._phases import unknown_codes
from ._span_block import SpanBlock
from ._spans import SpanColumns
from ._tallies import Tallies
from ._timeline import Timeline

_DRIVER = -1
_EXACT_SPANS = 500_000
_LONGEST_S = 1e9  # thirty years; more is a mistake, or malice


class SpanStore:
    """Collects spans of driver and workers; not safe for threads by itself.

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
        self._workers, self._exact_limit = workers, exact_limit
        self._exact = SpanColumns()
        self._rest = Buckets(workers=workers)
        self._tallies = Tallies.empty(workers)
        self._end_s = 0.0

    def __len__(self) -> int:
        """Spans so far."""
        return int(self._tallies.count.sum())

    def append(
        self,
        lane: int,
        codes: NDArray[np.uint8],
        starts_s: NDArray[np.float64],
        seconds: NDArray[np.float32],
    ) -> None:
        """Take spans in; all of them, or none if something is wrong with them.

        Args:
            lane: -1 for the driver, else the worker.
            codes: (n,) uint8, of phases; see `PhaseCode`.
            starts_s: (n,) float64, seconds since the run began, by the driver's clock. What would
                have begun before the run, by the uncertainty of clocks, begins with it.
            seconds: (n,) float32, none below 0.

        Raises:
            DataError: if they cannot be meant: another lane, code or shape, not finite, negative.
        """
        codes, starts_s = np.asarray(codes, np.uint8), np.asarray(starts_s, np.float64)
        seconds = np.asarray(seconds, np.float32)
        self._check(lane, codes, starts_s, seconds)
        if not len(codes):
            return
        starts_s, exactly_s = np.maximum(starts_s, 0.0), seconds.astype(np.float64)
        self._end_s = max(self._end_s, float((starts_s + exactly_s).max()))
        self._tallies.add(lane, codes, exactly_s)
        room = max(0, self._exact_limit - len(self._exact))
        self._exact.append(lane, codes[:room], starts_s[:room], seconds[:room])
        self._rest.add(lane, codes[room:], starts_s[room:], exactly_s[room:])

    def timeline(
        self,
        *,
        elapsed_s: float | None = None,
        hosts: Sequence[str] = (),
        clocks: Sequence[ClockReading] = (),
        name: str = "",
        ongoing: SpanBlock | None = None,
    ) -> Timeline:
        """What has been heard so far, as a value that does not change any more.

        Args:
            elapsed_s: seconds since the run began; default: until the last span's end.
            hosts: of each worker; default none: not known.
            clocks: readings of workers' clocks.
            name: of the run.
            ongoing: spans of the driver that have not ended, which are shown but not kept, as
                `append` takes them; default None: none.
        """
        spans, tallies, end_s = self._exact.spans(), self._tallies.copy(), self._end_s
        if ongoing is not None:
            seconds = ongoing.seconds.astype(np.float64)
            end_s = max(end_s, float((ongoing.starts_s + seconds).max(initial=0.0)))
            spans = spans.followed_by(_DRIVER, ongoing)
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

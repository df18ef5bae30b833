"""The clock by which the driver judges workers; pure."""


class DriverClock:
    """A monotonic clock that stands still while this process does.

    A driver that was suspended, or whose interpreter was held by C code, has heard from no worker:
    that is no sign that they are gone. Gaps between two ticks count as one tick.
    """

    def __init__(self, now_s: float, *, longest_gap_s: float) -> None:
        """Start at `now_s`."""
        self._now_s = self._ticked_s = now_s
        self._longest_gap_s = longest_gap_s

    def tick(self, now_s: float) -> float:
        """Advance to the machine's `now_s`; returns the time."""
        self._now_s = self.at(now_s)
        self._ticked_s = now_s
        return self._now_s

    def at(self, now_s: float) -> float:
        """The time at the machine's `now_s`."""
        return self._now_s + min(max(0.0, now_s - self._ticked_s), self._longest_gap_s)

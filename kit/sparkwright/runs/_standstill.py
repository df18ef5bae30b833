"""Detects that a run makes no progress, whatever the cause; pure."""


class Standstill:
    """Compares what counts in a run from tick to tick."""

    # `Stalls` looks at workers that compute. All can wait for each other, or repeat work that never
    # counts, without one of them being stalled.

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._counts: object = None
        self._since_s = 0.0
        self.shown = False  # has been noticed

    def check(self, counts: object, now_s: float) -> float | None:
        """Return the seconds of a standstill that is first noticed, 0 when it is over, or None."""
        if counts != self._counts:
            shown, self.shown = self.shown, False
            self._counts, self._since_s = counts, now_s
            return 0.0 if shown else None
        seconds = now_s - self._since_s
        if self.shown or seconds < self._timeout_s:
            return None
        self.shown = True
        return seconds

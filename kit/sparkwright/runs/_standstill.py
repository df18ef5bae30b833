"""Detects that a run makes no progress, whatever the cause; pure."""


class Standstill:
    """Compares what counts in a run from tick to tick.

    `Stalls` looks at workers that compute. A worker that waits is never stalled, so all workers can
    wait for each other, or repeat work that never counts, without one of them being stalled.

    Attributes:
        shown: whether the run stands still, and that has been noticed.
    """

    def __init__(self, *, timeout_s: float) -> None:
        """Notice a standstill of `timeout_s`."""
        self._timeout_s = timeout_s
        self._counts: object = None
        self._since_s = 0.0
        self.shown = False

    def check(self, counts: object, now_s: float) -> float | None:
        """Compare `counts` with those of the previous tick.

        Returns:
            The seconds of a standstill, when it is first noticed; 0 when it is over; else None.
        """
        if counts != self._counts:
            shown, self.shown = self.shown, False
            self._counts, self._since_s = counts, now_s
            return 0.0 if shown else None
        seconds = now_s - self._since_s
        if self.shown or seconds < self._timeout_s:
            return None
        self.shown = True
        return seconds

"""Whether workers and the run make progress, and the clock that judges them; pure.

`Stalls` finds workers that compute without progress, `Standstill` a run in which nothing counts.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class _Seen:
    steps: int
    since_s: float  # when `steps` last changed, or computing began
    shown: bool = False


class Stalls:
    """Detects stalled workers by the step counters in heartbeats.

    A separate thread sends heartbeats, so they continue if the training thread hangs (in a hook, a
    file system or a device driver). A worker that waits for others is not computing, and is never
    stalled.
    """

    def __init__(self, *, timeout_s: float) -> None:
        """Create without workers; a worker is stalled after `timeout_s` without progress."""
        self._timeout_s = timeout_s
        self._seen: dict[int, _Seen] = {}  # by connection

    def heartbeat(self, connection: int, *, steps: int, computing: bool, now_s: float) -> bool:
        """Process a heartbeat; return whether a worker shown as stalled has recovered."""
        seen = self._seen.get(connection)
        if seen is not None and computing and seen.steps == steps:
            return False
        self._seen.pop(connection, None)
        if computing:
            self._seen[connection] = _Seen(steps, now_s)
        return seen is not None and seen.shown

    def remove(self, connection: int) -> None:
        """Remove a connection."""
        self._seen.pop(connection, None)

    def stalled(self, now_s: float, *, since_s: float | None = None) -> list[int]:
        """Return connections without progress within the time-out; with `since_s`, since then."""
        return [
            connection
            for connection, seen in self._seen.items()
            if (seen.since_s <= since_s if since_s is not None else self._is_late(seen, now_s))
        ]

    def newly_stalled(self, now_s: float) -> list[int]:
        """Return the stalled connections that were not returned before."""
        found = [c for c in self.stalled(now_s) if not self._seen[c].shown]
        for connection in found:
            self._seen[connection].shown = True
        return found

    def seconds(self, connection: int, now_s: float) -> float:
        """Return the seconds since `connection` last made progress."""
        return now_s - self._seen[connection].since_s

    def _is_late(self, seen: _Seen, now_s: float) -> bool:
        return now_s - seen.since_s >= self._timeout_s


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


class DriverClock:
    """A monotonic clock that stops while this process is suspended.

    A driver that is suspended, or blocked by C code, receives no messages, although its workers are
    alive. So the time between two ticks counts as at most `longest_gap_s`.
    """

    def __init__(self, now_s: float, *, longest_gap_s: float) -> None:
        """Start at `now_s`."""
        self._now_s = self._ticked_s = now_s
        self._longest_gap_s = longest_gap_s

    def tick(self, now_s: float) -> float:
        """Advance to the machine's `now_s`; return the time."""
        self._now_s = self.at(now_s)
        self._ticked_s = now_s
        return self._now_s

    def at(self, now_s: float) -> float:
        """Return the time at the machine's `now_s`."""
        return self._now_s + min(max(0.0, now_s - self._ticked_s), self._longest_gap_s)

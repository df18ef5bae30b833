"""Whether a run makes progress, up to the delivery of its result; pure.

`Stalls` finds workers that compute without progress, `Standstill` a run in which nothing counts,
`Delivery` a worker that does not send the result. `DriverClock` is the clock that judges them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ._decisions import RequestResult, RequestSnapshot

# Heartbeats (1 per second) wait while a large message is sent. So a worker that has sent this
# number of heartbeats since the request is not sending its result.
_BEATS_BEFORE_RESULT = 10
_BEATS_BEFORE_SNAPSHOT = 5


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
            if seen.since_s <= (now_s - self._timeout_s if since_s is None else since_s)
        ]

    def newly_stalled(self, now_s: float) -> dict[int, float]:
        """Return connections not returned before -> seconds since they last made progress."""
        found = {c: now_s - self._seen[c].since_s for c in self.stalled(now_s)}
        found = {c: seconds for c, seconds in found.items() if not self._seen[c].shown}
        for connection in found:
            self._seen[connection].shown = True
        return found


class Standstill:
    """Compares what counts in a run from tick to tick.

    `Stalls` looks at workers that compute. A worker that waits is never stalled, so all workers can
    wait for each other, or repeat work that never counts, without one of them being stalled.
    """

    def __init__(self, *, timeout_s: float) -> None:
        """Notice a standstill of `timeout_s`."""
        self._timeout_s = timeout_s
        self._counts: object = None
        self._since_s = 0.0
        self.shown = False

    def check(self, counts: object, now_s: float) -> float | None:
        """Return the seconds of a standstill when first noticed; 0 when it is over; else None."""
        if counts != self._counts:
            shown, self.shown = self.shown, False
            self._counts, self._since_s = counts, now_s
            return 0.0 if shown else None
        seconds = now_s - self._since_s
        if self.shown or seconds < self._timeout_s:
            return None
        self.shown = True
        return seconds


class Delivery:
    """Requests the result: from one training thread, then from several control threads."""

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}  # connection -> heartbeats since the request
        self._any = False  # whether snapshots have been requested

    def request(self, connection: int) -> list[RequestResult]:
        """Request the result from `connection`."""
        self._asked, self._any = {connection: 0}, False
        return [RequestResult(connection=connection)]

    def request_snapshots(self, connections: Iterable[int]) -> list[RequestSnapshot]:
        """Request the last average from the control threads of `connections`, once."""
        if self._any:
            return []
        self._asked, self._any = dict.fromkeys(connections, 0), True
        return [RequestSnapshot(connection=connection) for connection in self._asked]

    def awaits(self, connection: int) -> bool:
        """Whether a request to `connection` is pending."""
        return connection in self._asked

    def lose(self, connection: int) -> bool:
        """Remove a lost connection; return whether it had the last pending request."""
        return self._asked.pop(connection, None) is not None and not self._asked

    def heartbeat(self, connection: int) -> Literal["sending", "hung", "failed"]:
        """Process a heartbeat; "hung": request snapshots; "failed": none will arrive."""
        if connection in self._asked:
            self._asked[connection] += 1
        beats = min(self._asked.values(), default=0)
        if self._any:
            return "failed" if beats >= _BEATS_BEFORE_SNAPSHOT else "sending"
        return "hung" if beats >= _BEATS_BEFORE_RESULT else "sending"


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

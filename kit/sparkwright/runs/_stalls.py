"""Which workers compute without making progress; pure."""

from dataclasses import dataclass


@dataclass(slots=True)
class _Seen:
    steps: int
    since_s: float  # when `steps` changed last, or computing began
    shown: bool = False


class Stalls:
    """Watches the step counters in heartbeats.

    Heartbeats come from a thread of their own, so a worker whose training thread hangs (in a hook,
    a file system, a driver) sends them as if nothing were wrong. A worker that waits for others
    does not compute, and is never stalled.
    """

    def __init__(self, *, timeout_s: float) -> None:
        """Call a worker stalled after `timeout_s` without progress."""
        self._timeout_s = timeout_s
        self._seen: dict[int, _Seen] = {}  # by connection

    def heard(self, connection: int, *, steps: int, computing: bool, now_s: float) -> bool:
        """Take a heartbeat; returns whether a worker shown as stalled makes progress again."""
        seen = self._seen.get(connection)
        if seen is not None and computing and seen.steps == steps:
            return False
        self._seen.pop(connection, None)
        if computing:
            self._seen[connection] = _Seen(steps, now_s)
        return seen is not None and seen.shown

    def forget(self, connection: int) -> None:
        """The connection is gone."""
        self._seen.pop(connection, None)

    def stalled(self, now_s: float, *, since_s: float | None = None) -> list[int]:
        """Connections without progress for the time-out; with `since_s`, since that moment."""
        return [
            connection
            for connection, seen in self._seen.items()
            if (seen.since_s <= since_s if since_s is not None else self._is_late(seen, now_s))
        ]

    def newly_stalled(self, now_s: float) -> list[int]:
        """Those of `stalled` that were not returned before."""
        found = [c for c in self.stalled(now_s) if not self._seen[c].shown]
        for connection in found:
            self._seen[connection].shown = True
        return found

    def seconds(self, connection: int, now_s: float) -> float:
        """How long `connection` has made no progress."""
        return now_s - self._seen[connection].since_s

    def _is_late(self, seen: _Seen, now_s: float) -> bool:
        return now_s - seen.since_s >= self._timeout_s

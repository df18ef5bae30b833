"""Requests for the result at the end of a run; pure."""

from collections.abc import Iterable
from typing import Literal

from ._decisions import RequestResult, RequestSnapshot

# Heartbeats (1 per second) wait while a large message is sent. So a worker that has sent this
# number of heartbeats since the request is not sending its result.
_BEATS_BEFORE_RESULT = 10
_BEATS_BEFORE_SNAPSHOT = 5


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
        """Process a heartbeat; return the state of the delivery.

        Returns:
            "sending"; "hung" if snapshots should be requested; or "failed" if none will arrive.
        """
        if connection in self._asked:
            self._asked[connection] += 1
        beats = min(self._asked.values(), default=0)
        if self._any:
            return "failed" if beats >= _BEATS_BEFORE_SNAPSHOT else "sending"
        return "hung" if beats >= _BEATS_BEFORE_RESULT else "sending"

"""Awaits the result of a run from a worker that may hang; pure."""

from collections.abc import Iterable
from typing import Literal

from ._decisions import RequestResult, RequestSnapshot

# A worker that still sends so many heartbeats, one a second, is not sending the result: heartbeats
# wait while a large message is under way.
_BEATS_BEFORE_RESULT = 10
_BEATS_BEFORE_SNAPSHOT = 5


class Delivery:
    """Asks one worker's training thread first, then the control threads of several workers."""

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}  # connection -> heartbeats since the request
        self._any = False  # snapshots have been requested

    def request(self, connection: int) -> list[RequestResult]:
        """Ask `connection` for the result."""
        self._asked, self._any = {connection: 0}, False
        return [RequestResult(connection=connection)]

    def request_snapshots(self, connections: Iterable[int]) -> list[RequestSnapshot]:
        """Ask the control threads of `connections` for the last average, once."""
        if self._any:
            return []
        self._asked, self._any = dict.fromkeys(connections, 0), True
        return [RequestSnapshot(connection=connection) for connection in self._asked]

    def awaits(self, connection: int) -> bool:
        """Whether `connection` has been asked."""
        return connection in self._asked

    def lose(self, connection: int) -> bool:
        """The connection is gone; returns whether nobody is left who has been asked."""
        return self._asked.pop(connection, None) is not None and not self._asked

    def heartbeat(self, connection: int) -> Literal["sending", "hung", "failed"]:
        """Take a heartbeat: "hung" asks for snapshots, "failed" means that none will come."""
        if connection in self._asked:
            self._asked[connection] += 1
        beats = min(self._asked.values(), default=0)
        if self._any:
            return "failed" if beats >= _BEATS_BEFORE_SNAPSHOT else "sending"
        return "hung" if beats >= _BEATS_BEFORE_RESULT else "sending"

"""Messages between neighbors of the mesh, and the retransmission log; pure."""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from sparkwright.errors import NetworkError

from .framing import Message

Origin = tuple[int, int]  # (worker, attempt); each attempt has its own sequence of updates
Payload = bytes | bytearray | memoryview
MAX_MESSAGES = 2048
MAX_BYTES = 256 << 20


class Update(NamedTuple):
    """A published update."""

    origin: Origin  # (worker, attempt)
    sequence: int  # at the origin, from 1
    payload: Payload  # encoded


class Versions(NamedTuple):
    """The sender's version vector."""

    tick: int  # increases with each `Versions` of the sender
    # The highest tick received from the receiver on this connection, or 0: all that it sent before
    # that tick has arrived or is lost.
    echo: int
    vector: Mapping[Origin, int]  # origin -> sequence number up to which the sender has all updates


class TooFarBehind(NamedTuple):
    """Notice that the receiver lacks updates that the sender no longer keeps."""

    floors: Mapping[Origin, int]  # origin -> highest sequence number that cannot be retransmitted
    vector: Mapping[Origin, int]


PeerMessage = Update | Versions | TooFarBehind


def fields_of(message: PeerMessage) -> tuple[str, dict[str, Any]]:
    """Return (kind, fields) of the framed message, without an update's payload.

    Example:
        >>> fields_of(Update((3, 0), 7, b"..."))
        ('update', {'origin': (3, 0), 'sequence': 7})
    """
    match message:
        case Update(origin=origin, sequence=sequence):
            return "update", {"origin": origin, "sequence": sequence}
        case Versions(tick=tick, echo=echo, vector=vector):
            return "versions", {"tick": tick, "echo": echo, "vector": _rows(vector)}
        case TooFarBehind(floors=floors, vector=vector):
            return "behind", {"floors": _rows(floors), "vector": _rows(vector)}


def from_frame(frame: Message) -> PeerMessage:
    """Decode a framed message."""
    fields = frame.fields
    try:
        match frame.kind:
            case "update":
                worker, attempt = fields["origin"]
                origin = (_number(worker), _number(attempt))
                return Update(origin, _number(fields["sequence"], 1), frame.payload)
            case "versions":
                return Versions(
                    _number(fields["tick"], 1), _number(fields["echo"]), _vector(fields["vector"])
                )
            case "behind":
                return TooFarBehind(_vector(fields["floors"]), _vector(fields["vector"]))
            case _:
                problem = "unknown kind"
    except (KeyError, TypeError, ValueError) as error:
        problem = repr(error)
    raise NetworkError(
        "a mesh message must be a valid 'update', 'versions' or 'behind'. Received: "
        f"kind={frame.kind[:40]!r} ({problem})."
    )


def _rows(vector: Mapping[Origin, int]) -> list[tuple[int, int, int]]:
    return [(worker, attempt, number) for (worker, attempt), number in vector.items()]


def _vector(rows: Any) -> dict[Origin, int]:
    return {(_number(w), _number(i)): _number(number) for w, i, number in rows}


def _number(value: Any, minimum: int = 0) -> int:
    if type(value) is not int or value < minimum:
        raise ValueError(f"{value!r:.40} is not an integer of at least {minimum}")
    return value


class UpdateLog:
    """A bounded log of updates in order of delivery; drops the oldest."""

    __slots__ = ("_floors", "_max_bytes", "_max_messages", "_updates", "size_bytes")

    def __init__(self, *, max_messages: int = MAX_MESSAGES, max_bytes: int = MAX_BYTES) -> None:
        """Create an empty log that keeps at most `max_messages` and `max_bytes` of payloads."""
        self._max_messages, self._max_bytes = max_messages, max_bytes
        self._updates: deque[Update] = deque()
        # Origin -> highest sequence number no longer in the log.
        self._floors: dict[Origin, int] = {}
        self.size_bytes = 0  # of all payloads

    def append(self, update: Update) -> None:
        """Append `update`; drop the oldest updates, possibly itself, to stay within bounds."""
        updates = self._updates
        updates.append(update)
        self.size_bytes += len(update.payload)
        while len(updates) > self._max_messages or self.size_bytes > self._max_bytes:
            oldest = updates.popleft()
            self.size_bytes -= len(oldest.payload)
            self._floors[oldest.origin] = max(oldest.sequence, self._floors.get(oldest.origin, 0))

    def missing(
        self, theirs: Mapping[Origin, int], upto: Mapping[Origin, int]
    ) -> tuple[list[Update], dict[Origin, int]]:
        """Return the updates up to `upto` that a peer with versions `theirs` lacks, and gaps."""
        lacking = {
            origin: theirs.get(origin, 0)
            for origin, last in upto.items()
            if theirs.get(origin, 0) < last
        }
        if not lacking:
            return [], {}
        # The last sequence number that is lost. No updates of these origins are returned.
        floors = {
            origin: self._floors[origin]
            for origin, first in lacking.items()
            if first < self._floors.get(origin, 0)
        }
        for origin in floors:
            del lacking[origin]
        found = [
            update
            for update in self._updates
            if lacking.get(update.origin, update.sequence) < update.sequence <= upto[update.origin]
        ]
        return found, floors

    def rewind(self, versions: Mapping[Origin, int]) -> list[Update]:
        """Remove and return the updates after `versions`."""
        beyond = [u for u in self._updates if u.sequence > versions.get(u.origin, 0)]
        if beyond:
            self._updates = deque(
                u for u in self._updates if u.sequence <= versions.get(u.origin, 0)
            )
            self.size_bytes -= sum(len(update.payload) for update in beyond)
        return beyond

    def skip(self, origin: Origin, sequence: int) -> None:
        """Record that updates of `origin` up to `sequence` are not in the log."""
        self._floors[origin] = max(sequence, self._floors.get(origin, 0))

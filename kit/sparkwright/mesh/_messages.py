"""Messages between neighbors of the mesh, and the log of updates that can be sent again; pure."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sparkwright.errors import NetworkError

from .framing import Message

Origin = tuple[int, int]  # (worker, attempt): a worker that starts again begins a new sequence
Payload = bytes | bytearray | memoryview
MAX_MESSAGES = 2048
MAX_BYTES = 256 << 20


class Update(NamedTuple):
    """One update.

    Attributes:
        origin: (worker, attempt) of who published it.
        sequence: its number there, from 1.
        payload: its bytes.
    """

    origin: Origin
    sequence: int
    payload: Payload

    @property
    def worker(self) -> int:
        """The worker that published it."""
        return self.origin[0]


class Versions(NamedTuple):
    """What the sender has: of each origin, everything up to a sequence number.

    Attributes:
        tick: rises with every such message of the sender.
        echo: the highest tick that the sender has had from the receiver on this connection, or 0.
            What the receiver had sent before that tick has arrived, or never will.
        vector: origin -> highest sequence number.
    """

    tick: int
    echo: int
    vector: Mapping[Origin, int]


class TooFarBehind(NamedTuple):
    """The receiver misses updates that the sender does not keep any more.

    Attributes:
        floors: origin -> the highest sequence number that cannot be sent again.
        vector: all that the sender has, as in `Versions`.
    """

    floors: Mapping[Origin, int]
    vector: Mapping[Origin, int]


PeerMessage = Update | Versions | TooFarBehind


def fields_of(message: PeerMessage) -> tuple[str, dict[str, Any]]:
    """(kind, fields) of the framed message; an update's payload goes beside them.

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
    """The message that a frame holds.

    Raises:
        NetworkError: if it holds none.
    """
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
        "neighbors of the mesh send updates, versions and word that one is behind. Received: "
        f"{frame.kind[:40]!r} ({problem})."
    )


def _rows(vector: Mapping[Origin, int]) -> list[tuple[int, int, int]]:
    return [(worker, attempt, number) for (worker, attempt), number in vector.items()]


def _vector(rows: Any) -> dict[Origin, int]:
    return {(_number(w), _number(i)): _number(number) for w, i, number in rows}


def _number(value: Any, minimum: int = 0) -> int:
    if type(value) is not int or value < minimum:
        raise ValueError(f"{value!r:.40} is no number of at least {minimum}")
    return value


class UpdateLog:
    """Updates in the order of their delivery, hence of each origin in order; oldest dropped.

    Attributes:
        size_bytes: of all payloads in it.
    """

    __slots__ = ("_floors", "_max_bytes", "_max_messages", "_updates", "size_bytes")

    def __init__(self, *, max_messages: int = MAX_MESSAGES, max_bytes: int = MAX_BYTES) -> None:
        """Keep at most so many messages, and so many bytes of them."""
        self._max_messages, self._max_bytes = max_messages, max_bytes
        self._updates: deque[Update] = deque()
        # Of each origin, the last that is not kept any more.
        self._floors: dict[Origin, int] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._updates)

    def __iter__(self) -> Iterator[Update]:
        return iter(self._updates)

    def append(self, update: Update) -> None:
        """Keep `update`, and drop the oldest beyond the bounds: itself, if it alone is too big."""
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
        """Return what a peer that has `theirs` lacks of `upto`.

        Returns:
            The updates, in order; and for origins of which too little is kept for that, the last
            sequence number that is not kept. None of their updates are among the former: without
            those before them, they would be of no use.
        """
        lacking = {
            origin: theirs.get(origin, 0)
            for origin, last in upto.items()
            if theirs.get(origin, 0) < last
        }
        if not lacking:
            return [], {}
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
        """Take out what lies beyond `versions`; say that what lies before may be missing here."""
        beyond = [u for u in self._updates if u.sequence > versions.get(u.origin, 0)]
        if beyond:
            self._updates = deque(
                u for u in self._updates if u.sequence <= versions.get(u.origin, 0)
            )
            self.size_bytes -= sum(len(update.payload) for update in beyond)
        return beyond

    def skip(self, origin: Origin, sequence: int) -> None:
        """Updates of `origin` up to `sequence` will never be kept here."""
        self._floors[origin] = max(sequence, self._floors.get(origin, 0))

"""What neighbours of the mesh tell one another, and how it lies on the wire; pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sparkwright.errors import NetworkError

from ._framing import Message

Origin = tuple[int, int]  # (worker, incarnation): a worker that starts again begins a new sequence
Payload = bytes | bytearray | memoryview


class Update(NamedTuple):
    """One update.

    Attributes:
        origin: (worker, incarnation) of who published it.
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
                worker, incarnation = fields["origin"]
                origin = (_number(worker), _number(incarnation))
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
        "neighbours of the mesh send updates, versions and word that one is behind. Received: "
        f"{frame.kind[:40]!r} ({problem})."
    )


def _rows(vector: Mapping[Origin, int]) -> list[tuple[int, int, int]]:
    return [(worker, incarnation, number) for (worker, incarnation), number in vector.items()]


def _vector(rows: Any) -> dict[Origin, int]:
    return {(_number(w), _number(i)): _number(number) for w, i, number in rows}


def _number(value: Any, minimum: int = 0) -> int:
    if type(value) is not int or value < minimum:
        raise ValueError(f"{value!r:.40} is no number of at least {minimum}")
    return value

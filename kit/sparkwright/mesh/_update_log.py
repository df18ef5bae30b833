"""The newest updates that a worker has, kept to be sent again; pure."""

from collections import deque
from collections.abc import Iterator, Mapping

from ._messages import Origin, Update

MAX_MESSAGES = 2048
MAX_BYTES = 256 << 20


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
        """What somebody who has `theirs` needs to have `upto` as well.

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

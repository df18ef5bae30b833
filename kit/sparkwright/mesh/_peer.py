"""Exactly-once, in-order delivery of updates to the replica of one mesh worker; pure.

Workers form a tree. Each worker forwards new updates to its neighbors and drops duplicates. Lost
updates, for example after a disconnect, are repaired by anti-entropy (Demers et al., "Epidemic
algorithms for replicated database maintenance", PODC 1987). Neighbors exchange version vectors
with every heartbeat and retransmit from their logs the updates that the other lacks.

A repair waits until the update cannot arrive otherwise. Each `Versions` echoes the newest tick
received, so messages sent before that tick have arrived or are lost. This assumes that a
connection preserves the order of messages. If it does not, updates may be sent twice, but are
delivered once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ._messages import (
    MAX_BYTES,
    MAX_MESSAGES,
    Origin,
    Payload,
    PeerMessage,
    TooFarBehind,
    Update,
    UpdateLog,
    Versions,
)


class Send(NamedTuple):
    """Send `message` to each of `neighbors`, after all earlier messages."""

    neighbors: Sequence[Origin]
    message: PeerMessage


class Deliver(NamedTuple):
    """Apply `update` to this worker's replica."""

    update: Update


class CatchUp(NamedTuple):
    """Fetch a full state from `neighbor`, whose log no longer has the missing updates."""

    neighbor: Origin


class Drop(NamedTuple):
    """Disconnect `neighbor`, which has timed out and has been removed."""

    neighbor: Origin


Action = Send | Deliver | CatchUp | Drop


@dataclass(slots=True)
class _Link:
    """State of the connection to a neighbor."""

    # Versions that were sent before; the neighbor gets missing ones only by a repair.
    confirmed: Mapping[Origin, int]
    # (tick, versions): becomes `confirmed` when the neighbor echoes the tick.
    mark: tuple[int, Mapping[Origin, int]] | None = None
    is_active: bool = True  # received something since the last timer
    received_s: float = 0.0
    echo: int = 0  # the neighbor's newest tick
    repaired: int = -1  # this worker's tick at the last repair
    catch_up_s: float | None = None  # when the last `TooFarBehind` led to a `CatchUp`


class Peer:
    """Protocol state of one worker. Events are methods; they return actions to run in order."""

    def __init__(
        self,
        me: Origin,
        *,
        heartbeat_s: float = 1.0,  # between versions to each neighbor
        timeout_s: float = 15.0,  # without messages, then a neighbor is dropped
        # Kept for retransmission, or out of order and held back.
        max_log_messages: int = MAX_MESSAGES,
        max_log_bytes: int = MAX_BYTES,
    ) -> None:
        """Start with nothing delivered and no neighbors; `me` must not have been used before."""
        self.me = me
        self._heartbeat_s, self._timeout_s = heartbeat_s, timeout_s
        self._log = UpdateLog(max_messages=max_log_messages, max_bytes=max_log_bytes)
        self._max_held_messages, self._max_held_bytes = max_log_messages, max_log_bytes
        self._links: dict[Origin, _Link] = {}
        self._versions: dict[Origin, int] = {}
        self._snapshot: dict[Origin, int] | None = None  # cached copy of `_versions`
        self._held: dict[Origin, dict[int, Update]] = {}
        self._held_count = self._held_bytes = 0
        self._sequence = self._tick = 0
        self._beat_s: float | None = None

    @property
    def versions(self) -> dict[Origin, int]:
        """Origin, including this one -> sequence number up to which all updates are delivered."""
        return dict(self._versions)

    @property
    def published_count(self) -> int:
        """The sequence number of this worker's newest update."""
        return self._sequence

    def has(self, versions: Mapping[Origin, int]) -> bool:
        """Whether all updates up to `versions` have been delivered."""
        return all(self._versions.get(origin, 0) >= last for origin, last in versions.items())

    # -- events -----------------------------------------------------------------------------

    def published(self, payload: Payload) -> list[Action]:
        """Handle a new update of this worker, already applied to its replica."""
        self._sequence += 1
        update = Update(self.me, self._sequence, payload)
        self._note(update)
        return [Send(tuple(self._links), update)] if self._links else []

    def neighbor_up(self, neighbor: Origin) -> list[Action]:
        """Handle a new connection to `neighbor`, also after a reconnect."""
        versions = self._copy()
        link = self._links[neighbor] = _Link(versions)
        if self._beat_s is not None:
            link.received_s = self._beat_s
        self._tick += 1
        return [Send((neighbor,), Versions(self._tick, 0, versions))]

    def neighbor_down(self, neighbor: Origin) -> list[Action]:
        """Handle the loss of the connection to `neighbor`."""
        self._links.pop(neighbor, None)
        return []

    def received_from(self, neighbor: Origin) -> None:
        """Record that `neighbor` is alive, for example because part of a message arrived."""
        if (link := self._links.get(neighbor)) is not None:
            link.is_active = True

    def received(self, neighbor: Origin, message: PeerMessage) -> list[Action]:
        """Handle a message from `neighbor`; ignore it if that is not connected."""
        link = self._links.get(neighbor)
        if link is None:
            return []
        link.is_active = True
        if type(message) is Update:
            origin = message.origin
            ahead = message.sequence - self._versions.get(origin, 0)
            if ahead <= 0 or (origin == self.me and message.sequence > self._sequence):
                return []
            if ahead > 1:
                self._hold(message)
                return []
            if origin in self._held:
                return self._deliver_all(message, neighbor)
            self._note(message)
            onward = [n for n in self._links if n != neighbor and n != origin]
            return [Deliver(message), Send(onward, message)] if onward else [Deliver(message)]
        if type(message) is Versions:
            return self._repair(neighbor, link, message)
        assert type(message) is TooFarBehind
        return self._catch_up(neighbor, link, message)

    def timer_fired(self, now_s: float) -> list[Action]:
        """Handle the timer at monotonic time `now_s`; call it at least once per heartbeat."""
        if self._beat_s is None:
            for link in self._links.values():
                link.received_s = now_s
        elif now_s - self._beat_s < self._heartbeat_s:
            return []
        self._beat_s = now_s
        actions: list[Action] = []
        for neighbor, link in list(self._links.items()):
            if link.is_active:
                link.is_active, link.received_s = False, now_s
            if now_s - link.received_s >= self._timeout_s:
                del self._links[neighbor]
                actions.append(Drop(neighbor))
        return actions + self._beat()

    def restored(self, versions: Mapping[Origin, int]) -> list[Action]:
        """Handle the replacement of this worker's replica by a state that includes `versions`.

        Later updates are delivered again, including this worker's own. Own updates that neither
        the state nor the log contains are lost. The sequence continues after them, and workers
        that lack them must fetch a newer state.
        """
        for origin, last in versions.items():
            if last > self._versions.get(origin, 0):
                self._log.skip(origin, last)
        again = self._log.rewind(versions)
        held = [update for updates in self._held.values() for update in updates.values()]
        self._held.clear()
        self._held_count = self._held_bytes = 0
        self._versions = {origin: last for origin, last in versions.items() if last > 0}
        self._sequence = max(self._sequence, versions.get(self.me, 0))
        own = [update.sequence for update in again if update.origin == self.me]
        before = (own[0] if own else self._sequence + 1) - 1
        if before > self._versions.get(self.me, 0):
            self._log.skip(self.me, before)
            self._versions[self.me] = before
        self._snapshot = None
        for update in (*again, *held):
            self._hold(update)
        actions: list[Action] = []
        for origin in list(self._held):
            for update in self._released(origin):
                self._note(update)
                actions.append(Deliver(update))
        for link in self._links.values():
            # Some updates may not have been sent to each neighbor; anti-entropy repairs that.
            link.confirmed, link.mark = self._copy(), None
            link.catch_up_s = None
        return actions + self._beat()

    # -- helpers ----------------------------------------------------------------------------

    def _note(self, update: Update) -> None:
        self._versions[update.origin] = update.sequence
        self._snapshot = None
        self._log.append(update)

    def _copy(self) -> dict[Origin, int]:
        if self._snapshot is None:
            self._snapshot = dict(self._versions)
        return self._snapshot

    def _beat(self) -> list[Action]:
        """Send the version vector to every neighbor."""
        actions: list[Action] = []
        versions = self._copy()
        for neighbor, link in self._links.items():
            self._tick += 1
            if link.mark is None:
                link.mark = (self._tick, versions)
            actions.append(Send((neighbor,), Versions(self._tick, link.echo, versions)))
        return actions

    def _repair(self, neighbor: Origin, link: _Link, theirs: Versions) -> list[Action]:
        """Retransmit the updates that `neighbor` has lost."""
        if theirs.tick < link.echo:
            return []  # outdated
        link.echo = theirs.tick
        if link.mark is not None and theirs.echo >= link.mark[0]:
            link.confirmed, link.mark = link.mark[1], None
        if theirs.echo <= link.repaired:
            return []  # the last repair may still be in flight
        updates, floors = self._log.missing(theirs.vector, link.confirmed)
        if updates or floors:
            link.repaired = self._tick
        actions: list[Action] = [Send((neighbor,), update) for update in updates]
        if floors:
            actions.append(Send((neighbor,), TooFarBehind(floors, self._copy())))
        return actions

    def _catch_up(self, neighbor: Origin, link: _Link, notice: TooFarBehind) -> list[Action]:
        """Catch up, unless a catch-up is running or the neighbor must catch up first."""
        now_s = self._beat_s or 0.0
        behind = any(self._versions.get(o, 0) < floor for o, floor in notice.floors.items())
        if not behind or (
            link.catch_up_s is not None and now_s - link.catch_up_s < self._timeout_s
        ):
            return []
        _, floors = self._log.missing(notice.vector, self._versions)
        if floors and _rank(self._versions) > _rank(notice.vector):
            # Both lack updates. If each fetched the other's state, or one worker alternated
            # between two such neighbors, it would never end; the highest-ranked state is kept.
            return []
        link.catch_up_s = now_s
        return [CatchUp(neighbor)]

    def _hold(self, update: Update) -> None:
        """Hold back an out-of-order update, or drop it if the buffer is full (repaired later)."""
        origin, sequence, payload = update
        if sequence <= self._versions.get(origin, 0) or sequence in self._held.get(origin, ()):
            return
        full = self._held_count >= self._max_held_messages
        if full or (self._held_count and self._held_bytes + len(payload) > self._max_held_bytes):
            return
        self._held.setdefault(origin, {})[sequence] = update
        self._held_count += 1
        self._held_bytes += len(payload)

    def _released(self, origin: Origin) -> list[Update]:
        """Remove and return held updates of `origin` that are next in order; drop stale ones."""
        held, last = self._held.get(origin, {}), self._versions.get(origin, 0)
        released: list[Update] = []
        while (update := held.get(last + 1)) is not None:
            released.append(update)
            last += 1
        for sequence in [sequence for sequence in held if sequence <= last]:
            update = held.pop(sequence)
            self._held_count -= 1
            self._held_bytes -= len(update.payload)
        if not held:
            self._held.pop(origin, None)
        return released

    def _deliver_all(self, update: Update, neighbor: Origin) -> list[Action]:
        """Deliver `update` and the held updates that follow it."""
        origin = update.origin
        self._note(update)
        actions: list[Action] = [Deliver(update)]
        released = self._released(origin)
        for later in released:
            self._note(later)
            actions.append(Deliver(later))
        onward = [n for n in self._links if n != neighbor and n != origin]
        if onward:
            actions += [Send(onward, each) for each in (update, *released)]
        return actions


def _rank(vector: Mapping[Origin, int]) -> tuple[int, list[tuple[Origin, int]]]:
    return sum(vector.values()), sorted(vector.items())

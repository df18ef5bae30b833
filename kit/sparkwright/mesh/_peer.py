"""How one worker of the mesh gives every update to its replica exactly once; pure.

Workers form a tree. Each passes a new update on to its neighbors, and drops what it has had. What
was lost on the way, with a neighbor that went away for example, is found by comparing versions
(anti-entropy, Demers et al., "Epidemic algorithms for replicated database maintenance", PODC
1987): neighbors tell one another with every heartbeat what they have, and each sends again from
its log what the other lacks. Sequence numbers of each origin make delivery exact and in order.

A repair waits until it is certain that the neighbor will not get the update anyway: each
`Versions` echoes the newest tick heard, so what was sent before that tick has arrived or is lost.
That assumes that a connection keeps the order of its messages. Where it does not, updates may
travel twice, and are still delivered once.
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
    """Send `message` to each of `neighbors`, after what was sent to them before."""

    neighbors: Sequence[Origin]
    message: PeerMessage


class Deliver(NamedTuple):
    """Apply `update` to this worker's replica."""

    update: Update


class CatchUp(NamedTuple):
    """Fetch a whole state from `neighbor`, whose log does not reach back far enough."""

    neighbor: Origin


class Drop(NamedTuple):
    """Give `neighbor` up: it has been silent for too long, and is no neighbor any more."""

    neighbor: Origin


Action = Send | Deliver | CatchUp | Drop


@dataclass(slots=True)
class _Link:
    """What this worker knows of a neighbor."""

    # What was sent before, or will not be sent but as a repair.
    confirmed: Mapping[Origin, int]
    # A tick, and what will be confirmed as soon as the neighbor echoes that.
    mark: tuple[int, Mapping[Origin, int]] | None = None
    heard: bool = True  # since the last timer
    heard_s: float = 0.0
    echo: int = 0  # its newest tick
    repaired: int = -1  # the tick that came before the last repair
    told_s: float | None = None  # when it said that this worker is too far behind


class Peer:
    """One worker's part; events are methods, which return actions to carry out in order."""

    def __init__(
        self,
        me: Origin,
        *,
        heartbeat_s: float = 1.0,
        timeout_s: float = 15.0,
        max_log_messages: int = MAX_MESSAGES,
        max_log_bytes: int = MAX_BYTES,
    ) -> None:
        """Start with nothing delivered and no neighbors.

        Args:
            me: (worker, attempt); nobody may have used it before.
            heartbeat_s: how often versions go to every neighbor.
            timeout_s: how long a neighbor may be silent.
            max_log_messages: how many updates are kept to be sent again, and how many that came
                before their turn are held back.
            max_log_bytes: how many bytes of each.
        """
        self.me = me
        self._heartbeat_s, self._timeout_s = heartbeat_s, timeout_s
        self._log = UpdateLog(max_messages=max_log_messages, max_bytes=max_log_bytes)
        self._max_held_messages, self._max_held_bytes = max_log_messages, max_log_bytes
        self._links: dict[Origin, _Link] = {}
        self._versions: dict[Origin, int] = {}
        self._snapshot: dict[Origin, int] | None = None  # a copy of them, while it is one
        self._held: dict[Origin, dict[int, Update]] = {}
        self._held_count = self._held_bytes = 0
        self._sequence = self._tick = 0
        self._beat_s: float | None = None

    @property
    def versions(self) -> dict[Origin, int]:
        """Of each origin, this worker too, the number up to which everything is delivered."""
        return dict(self._versions)

    @property
    def published_count(self) -> int:
        """The sequence number of this worker's newest update."""
        return self._sequence

    @property
    def neighbors(self) -> tuple[Origin, ...]:
        """Who is connected now."""
        return tuple(self._links)

    def has(self, versions: Mapping[Origin, int]) -> bool:
        """Whether everything up to `versions` has been delivered."""
        return all(self._versions.get(origin, 0) >= last for origin, last in versions.items())

    # -- events -----------------------------------------------------------------------------

    def published(self, payload: Payload) -> list[Action]:
        """This worker has a new update, which it has applied itself."""
        self._sequence += 1
        update = Update(self.me, self._sequence, payload)
        self._note(update)
        return [Send(tuple(self._links), update)] if self._links else []

    def neighbor_up(self, neighbor: Origin) -> list[Action]:
        """A connection to `neighbor` has been made, for the first time or anew."""
        versions = self._copy()
        link = self._links[neighbor] = _Link(versions)
        if self._beat_s is not None:
            link.heard_s = self._beat_s
        self._tick += 1
        return [Send((neighbor,), Versions(self._tick, 0, versions))]

    def neighbor_down(self, neighbor: Origin) -> list[Action]:
        """The connection to `neighbor` is gone."""
        self._links.pop(neighbor, None)
        return []

    def heard(self, neighbor: Origin) -> None:
        """A sign of life came from `neighbor`, such as a part of a message."""
        if (link := self._links.get(neighbor)) is not None:
            link.heard = True

    def received(self, neighbor: Origin, message: PeerMessage) -> list[Action]:
        """`message` came from `neighbor`; nothing happens if that is none any more."""
        link = self._links.get(neighbor)
        if link is None:
            return []
        link.heard = True
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
            return self._compared(neighbor, link, message)
        assert type(message) is TooFarBehind
        return self._told_behind(neighbor, link, message)

    def timer_fired(self, now_s: float) -> list[Action]:
        """The clock shows `now_s`; to be told at least as often as there are heartbeats."""
        if self._beat_s is None:
            for link in self._links.values():
                link.heard_s = now_s
        elif now_s - self._beat_s < self._heartbeat_s:
            return []
        self._beat_s = now_s
        actions: list[Action] = []
        for neighbor, link in list(self._links.items()):
            if link.heard:
                link.heard, link.heard_s = False, now_s
            if now_s - link.heard_s >= self._timeout_s:
                del self._links[neighbor]
                actions.append(Drop(neighbor))
        return actions + self._beat()

    def restored(self, versions: Mapping[Origin, int]) -> list[Action]:
        """This worker's replica was replaced by a state that includes everything up to `versions`.

        What has been delivered beyond those is delivered again, own updates too. Own updates that
        the state lacks and the log no longer keeps are lost: this worker's sequence goes on, and
        others who lack them are told to fetch a state that goes on as well.
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
            # Not all of it has been sent to everybody; comparing versions will tell.
            link.confirmed, link.mark = self._copy(), None
            link.told_s = None
        return actions + self._beat()

    # -- parts of them ----------------------------------------------------------------------

    def _note(self, update: Update) -> None:
        self._versions[update.origin] = update.sequence
        self._snapshot = None
        self._log.append(update)

    def _copy(self) -> dict[Origin, int]:
        if self._snapshot is None:
            self._snapshot = dict(self._versions)
        return self._snapshot

    def _beat(self) -> list[Action]:
        """Versions for everybody."""
        actions: list[Action] = []
        versions = self._copy()
        for neighbor, link in self._links.items():
            self._tick += 1
            if link.mark is None:
                link.mark = (self._tick, versions)
            actions.append(Send((neighbor,), Versions(self._tick, link.echo, versions)))
        return actions

    def _compared(self, neighbor: Origin, link: _Link, theirs: Versions) -> list[Action]:
        """Send again what `neighbor` has missed for good."""
        if theirs.tick < link.echo:
            return []  # overtaken by a newer one
        link.echo = theirs.tick
        if link.mark is not None and theirs.echo >= link.mark[0]:
            link.confirmed, link.mark = link.mark[1], None
        if theirs.echo <= link.repaired:
            return []  # the last repair may still be on its way
        updates, floors = self._log.missing(theirs.vector, link.confirmed)
        if updates or floors:
            link.repaired = self._tick
        actions: list[Action] = [Send((neighbor,), update) for update in updates]
        if floors:
            actions.append(Send((neighbor,), TooFarBehind(floors, self._copy())))
        return actions

    def _told_behind(self, neighbor: Origin, link: _Link, word: TooFarBehind) -> list[Action]:
        """Catch up, unless that has begun or the neighbor is to catch up first."""
        now_s = self._beat_s or 0.0
        behind = any(self._versions.get(o, 0) < floor for o, floor in word.floors.items())
        if not behind or (link.told_s is not None and now_s - link.told_s < self._timeout_s):
            return []
        _, floors = self._log.missing(word.vector, self._versions)
        if floors and _rank(self._versions) > _rank(word.vector):
            # Each misses something. If both fetched the other's state, or one in turn that of
            # two such neighbors, there would be no end; the highest state stays.
            return []
        link.told_s = now_s
        return [CatchUp(neighbor)]

    def _hold(self, update: Update) -> None:
        """Keep an update that came before its turn, or leave it to a repair if there are many."""
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
        """Held updates of `origin` whose turn has come; those of no more use are forgotten."""
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
        """Deliver `update`, and what had to wait for it."""
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

"""Connections, rings and meshes within one process, with a network as bad as wanted."""

import random
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sparkwright.mesh._messages import Update
from sparkwright.mesh._peer import CatchUp, Deliver, Peer, Send
from sparkwright.mesh.connection import Connection
from sparkwright.mesh.ring_port import RingPort
from sparkwright.mesh.topology import Topology

SECRET = bytes(range(32))
Ports = Callable[[int], list[RingPort]]


def socket_pair():
    """Return the two ends of a local connection."""
    left, right = socket.socketpair()
    return Connection(left), Connection(right)


def places(ports):
    """Return addresses and workers of a ring of `ports`, by rank."""
    return {
        "addresses": [port._port.address for port in ports],
        "workers": [port._port.worker for port in ports],
    }


def joined(ports, *, generation=1, **options):
    """Return the rings of all of `ports`, met in one ring."""
    settings = {"connect_timeout_s": 5.0, "peer_timeout_s": 5.0, **options}
    return each(
        ports,
        lambda rank, port: port.join(generation=generation, rank=rank, **places(ports), **settings),
    )


def each(members, work):
    """Return `work(rank, member)` for all members at once; the results by rank."""
    with ThreadPoolExecutor(len(members)) as threads:
        return list(threads.map(work, range(len(members)), members))


def neighbors(mesh):
    """The neighbors to which `mesh` is connected."""
    with mesh._lock:
        return frozenset(mesh._links)


def pending_bytes(mesh):
    """Bytes that `mesh` has queued for all neighbors together."""
    with mesh._lock:
        return sum(link.pending_bytes for link in mesh._links.values())


def versions(mesh):
    """Origin -> sequence number up to which `mesh` has all updates."""
    with mesh._lock:
        return mesh._peer.versions


def depth(tree):
    """Number of steps from the first member of a topology to the farthest."""
    member, steps = tree.members[-1], 0
    while (member := tree.upstream(member)) is not None:
        steps += 1
    return steps


class InMemoryMesh:
    """Peers, the messages between them, and their clock."""

    def __init__(
        self,
        *,
        seed=0,
        loss=0.0,
        repeat=0.0,
        reorder=0.0,
        on_deliver=lambda _, __: None,
        on_catch_up=lambda _, __: None,
        **options,
    ):
        """Start with nobody; `loss`, `repeat` and `reorder` are probabilities of each message.

        `on_deliver` is told (who, update), and `on_catch_up` (who, neighbor) when a peer needs a
        state of a neighbor; `options` are those of each `Peer`.
        """
        self.peers = {}
        self.now_s = 0.0
        self.messages = self.size_bytes = 0
        self.loss, self.repeat, self.reorder = loss, repeat, reorder
        self._chance = random.Random(seed)
        self._on_deliver, self._on_catch_up, self._options = on_deliver, on_catch_up, options
        self._traffic = deque()
        self._links = set()

    def start(self, origin):
        """A peer that knows nobody yet."""
        peer = self.peers[origin] = Peer(origin, **self._options)
        return peer

    def stop(self, origin):
        """The end of a peer; its neighbors notice."""
        for link in [link for link in self._links if origin in link]:
            self.cut(*link)
        del self.peers[origin]

    def cut(self, left, right):
        """Break the connection of two peers, if there is one."""
        if (link := frozenset((left, right))) in self._links:
            self._links.discard(link)
            for one, other in ((left, right), (right, left)):
                self.carry_out(one, self.peers[one].neighbor_down(other))

    def join(self, left, right):
        """Connect two peers, unless they are."""
        if (link := frozenset((left, right))) not in self._links:
            self._links.add(link)
            for one, other in ((left, right), (right, left)):
                self.carry_out(one, self.peers[one].neighbor_up(other))

    def reshape(self, members, mode):
        """Connect `members` as that tree, and nobody else; returns the tree."""
        tree = Topology(members=tuple(worker for worker, _ in members), mode=mode)
        origins = dict(zip(tree.members, members, strict=True))
        wanted = {
            frozenset((origins[worker], origins[below]))
            for worker in tree.members
            for below in tree.downstreams(worker)
        }
        for link in self._links - wanted:
            self.cut(*link)
        for link in wanted - self._links:
            self.join(*sorted(link))
        return tree

    def publish(self, origin, payload):
        """A new update of that peer."""
        self.carry_out(origin, self.peers[origin].published(payload))

    def tick(self, seconds, only=None):
        """Turn the clock; all peers, or `only` some, look at it."""
        self.now_s += seconds
        for origin in list(self.peers if only is None else only):
            self.carry_out(origin, self.peers[origin].timer_fired(self.now_s))

    def step(self):
        """Let one message arrive; whether there was one."""
        if not self._traffic:
            return False
        source, target, message = self._traffic.popleft()
        if (peer := self.peers.get(target)) is not None:
            self.carry_out(target, peer.received(source, message))
        return True

    def run(self):
        """Let messages arrive until none is on its way."""
        while self.step():
            pass

    def carry_out(self, origin, actions):
        """Do what the peer `origin` wants."""
        for action in actions:
            if isinstance(action, Send):
                self._send(origin, action.neighbors, action.message)
            elif isinstance(action, Deliver):
                self._on_deliver(origin, action.update)
            elif isinstance(action, CatchUp):
                self._on_catch_up(origin, action.neighbor)
            elif frozenset((origin, action.neighbor)) in self._links:
                self.cut(origin, action.neighbor)

    def _send(self, source, targets, message):
        traffic = self._traffic
        self.messages += len(targets)
        if type(message) is Update:
            self.size_bytes += len(message.payload) * len(targets)
        if not (self.loss or self.repeat or self.reorder):
            for target in targets:
                traffic.append((source, target, message))
            return
        chance = self._chance.random
        for target in targets:
            for _ in range(1 + (chance() < self.repeat)):
                if chance() < self.loss:
                    continue
                traffic.append((source, target, message))
                if chance() < self.reorder:
                    place = self._chance.randrange(len(traffic))
                    traffic[place], traffic[-1] = traffic[-1], traffic[place]

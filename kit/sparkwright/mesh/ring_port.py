"""Form rings over the ports of workers."""

import ipaddress
import sys
import threading
import time
from collections.abc import Sequence

from sparkwright.errors import NetworkError

from .connection import Connection
from .framing import Message
from .handshake import Address
from .port import PeerPort
from .ring import Link, Ring

_INTRODUCTION = "join"


class RingPort:
    """Forms rings over a worker's port; reused for each new generation."""

    def __init__(self, port: PeerPort, *, authenticate: bool | None = None) -> None:
        """Register with `port`."""
        # None: vectors are authenticated unless the next worker is at a loopback address, no relay.
        # It receives the choice in the first message.
        self._authenticate = authenticate
        self._arrivals: dict[tuple[int, int], Link] = {}  # (generation, rank) -> link
        self._changed = threading.Condition()
        self._over = -1  # the latest generation that can no longer be joined
        self._port = port
        port.on(_INTRODUCTION, self._take)

    def join(
        self,
        *,
        generation: int,  # connections for finished ones are rejected
        rank: int,  # this worker's
        addresses: Sequence[Address],  # by rank
        workers: Sequence[int],  # by rank
        connect_timeout_s: float,  # for each neighbor
        peer_timeout_s: float,  # of an exchange without progress
        each_with_each: bool = False,  # connect to all other workers
    ) -> Ring:
        """Connect to both neighbors and return the ring."""
        size = len(addresses)
        deadline = time.monotonic() + connect_timeout_s
        distances = range(1, size if each_with_each else min(2, size))
        onward, inward = list[Link](), list[Link]()
        try:
            for distance in distances:
                following = (rank + distance) % size
                connection = self._port.connect(
                    addresses[following],
                    worker=workers[following],
                    timeout_s=connect_timeout_s,
                    give_up=lambda: generation <= self._over,
                )
                onward.append(link := Link(connection, self._seals_vectors(connection)))
                introduction = {"generation": generation, "rank": rank, "sealed": link.sealed}
                connection.send(_INTRODUCTION, introduction)
            for distance in distances:
                previous = (rank - distance) % size
                arrival = self._arrival(generation, previous, deadline=deadline)
                if arrival is None:
                    raise NetworkError(
                        f"worker {rank} of the ring waited {connect_timeout_s:g} s for worker "
                        f"{previous} to join it. Check that workers can connect to one another "
                        "(`MeshConfig(ports=…)`), or increase `MeshConfig(connect_timeout_s=…)`."
                    )
                inward.append(arrival)
        except BaseException:
            for link in (*onward, *inward):
                link.connection.close()
            raise
        self.abandon(generation)
        return Ring(rank=rank, size=size, onward=onward, inward=inward, timeout_s=peer_timeout_s)

    def _seals_vectors(self, onward: Connection) -> bool:
        if onward.keys is not None and onward.keys.encrypt:
            return True
        if self._authenticate is None:
            return onward.relayed or not ipaddress.ip_address(onward.peer_host).is_loopback
        return self._authenticate

    def abandon(self, generation: int) -> None:
        """End a `join` of `generation` or an earlier one, and close connections for it."""
        with self._changed:
            self._over = max(generation, self._over)
            for key in [key for key in self._arrivals if key[0] <= generation]:
                self._arrivals.pop(key).connection.close()
            self._changed.notify_all()

    def close(self) -> None:
        """Reject new joins and close connections that no `join` has used."""
        self._port.off(_INTRODUCTION)
        self.abandon(sys.maxsize)

    def _take(self, inward: Connection, introduction: Message) -> None:
        """Keep a connection for its `join`; close it if that generation is finished."""
        match introduction.fields:
            case {"generation": int(generation), "rank": int(rank)}:
                pass
            case _:
                inward.close()
                return
        with self._changed:
            if generation <= self._over:
                inward.close()
                return
            earlier = self._arrivals.get((generation, rank))
            if earlier is not None:
                earlier.connection.close()
            sealed = introduction.fields.get("sealed") is not False
            self._arrivals[generation, rank] = Link(inward, sealed)
            self._changed.notify_all()

    def _arrival(self, generation: int, rank: int, *, deadline: float) -> Link | None:
        """Wait for the link from rank `rank`; return None on timeout."""
        with self._changed:
            self._changed.wait_for(
                lambda: (generation, rank) in self._arrivals or generation <= self._over,
                timeout=max(0.0, deadline - time.monotonic()),
            )
            if generation <= self._over:
                raise NetworkError(f"ring {generation} was abandoned before all workers joined it.")
            return self._arrivals.pop((generation, rank), None)

"""All-reduce, all-gather and broadcast around a ring of workers, over TCP."""

import ipaddress
import math
import select
import struct
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError

from ._ring_blocks import Incoming, Outgoing, all_gather_steps, reduce_scatter_steps, segment_bounds
from ._seal import Unsealed
from .auth import worker_identity
from .connection import Connection, connect
from .framing import Message
from .handshake import Address
from .port import PeerPort

# A vector that is broadcast is passed on in blocks of this size.
_BLOCK_BYTES = 256 << 10
_SLICE_S = 0.5
_LENGTH = struct.Struct("<Q")
_INTRODUCTION = "join"


class Ring:
    """This worker's place in a ring: it sends to the next worker and hears the previous one.

    Not thread-safe, except `abort`, by which another thread ends a wait at once.
    """

    def __init__(
        self, *, rank: int, size: int, onward: Connection | None, inward: Connection | None,
        timeout_s: float, sealed: tuple[bool, bool] = (True, True),
    ) -> None:  # fmt: skip
        """Use proven connections; both None for a ring of one.

        Args:
            rank: this worker's.
            size: of the ring.
            onward: to the next worker.
            inward: from the previous one.
            timeout_s: how long the ring may stand still in the middle of an exchange.
            sealed: whether vectors are authenticated on the way onward, and on the way inward.
                What `all_gather` sends is in any case.
        """
        self._sealed = sealed
        self.rank, self.size = rank, size
        self._timeout_s = timeout_s
        self._onward, self._inward = onward, inward
        for connection in (onward, inward):
            if connection is not None:
                connection.socket.setblocking(False)
        self._scratch = np.empty(0, np.uint8)
        self._aborted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def abort(self) -> None:
        """Close both connections; a thread that waits in this ring gets a NetworkError at once.

        A ring of one has none: its next `all_gather` raises the error.
        """
        self._aborted = True
        for connection in (self._onward, self._inward):
            if connection is not None:
                connection.close()

    def all_gather(self, content: bytes) -> list[bytes]:
        """Every worker's `content`, in the order of ranks (the lengths may differ).

        Workers meet here: it waits for the slowest as long as it takes. A dead one's connection
        closes, and the coordinator has the ring of a silent one aborted.
        """
        if self._aborted:
            raise NetworkError(f"the ring broke at worker {self.rank}: it was aborted.")
        found = [b""] * self.size
        found[self.rank] = content
        for step in range(self.size - 1):
            mine = found[(self.rank - step) % self.size]
            length = bytearray(_LENGTH.size)
            self._exchange(_LENGTH.pack(len(mine)), length, meeting=True)
            (expected,) = _LENGTH.unpack(length)
            if expected > _BLOCK_BYTES:
                raise NetworkError(f"a worker announced {expected} bytes of meta data; too many.")
            theirs = bytearray(expected)
            self._exchange(mine, theirs, meeting=True)
            found[(self.rank - step - 1) % self.size] = bytes(theirs)
        return found

    def all_reduce(self, vector: NDArray[Any]) -> None:
        """Replace the contiguous `vector` by the sum of all workers' vectors, in place.

        All should come to it at about the same time, as after `all_gather`.
        """
        bounds = segment_bounds(vector.size, self.size)
        raw = vector.view(np.uint8).data
        item = vector.itemsize
        longest = max(stop - start for start, stop in bounds) * item
        if self.size > 1 and self._scratch.size < longest:
            self._scratch = np.empty(longest, np.uint8)
        for step in reduce_scatter_steps(self.rank, self.size):
            start, stop = bounds[step.receive]
            out_start, out_stop = bounds[step.send]
            self._exchange(
                raw[out_start * item : out_stop * item],
                self._scratch[: (stop - start) * item].data,
                add_to=vector[start:stop],
            )
        for step in all_gather_steps(self.rank, self.size):
            start, stop = bounds[step.receive]
            out_start, out_stop = bounds[step.send]
            self._exchange(
                raw[out_start * item : out_stop * item],
                raw[start * item : stop * item],
            )

    def broadcast(self, vector: NDArray[Any], *, source: int) -> None:
        """Replace the contiguous `vector` by that of worker `source`, passed on block by block."""
        if self.size == 1:
            return
        distance = (self.rank - source) % self.size
        raw = vector.view(np.uint8).data
        nothing = memoryview(bytearray())
        previous = nothing
        for start in range(0, len(raw), _BLOCK_BYTES):
            block = raw[start : start + _BLOCK_BYTES]
            if distance == 0:
                self._exchange(block, nothing)
                continue
            # The block before goes on to the next worker while this one arrives.
            self._exchange(previous if distance < self.size - 1 else nothing, block)
            previous = block
        if 0 < distance < self.size - 1:
            self._exchange(previous, nothing)

    def _exchange(
        self,
        outgoing: Any,
        incoming: Any,
        *,
        add_to: NDArray[Any] | None = None,
        meeting: bool = False,
    ) -> None:
        """Send all of `outgoing` while filling `incoming`; add what has come to `add_to`.

        Raises:
            NetworkError: if a neighbour goes away, if something else than the neighbour sent what
                has come, or unless in a `meeting` nothing moves for `timeout_s`.
        """
        if self._onward is None or self._inward is None:
            return
        unsealed = Unsealed()
        sealer = self._onward.sealer if meeting or self._sealed[0] else unsealed
        opener = self._inward.opener if meeting or self._sealed[1] else unsealed
        out = Outgoing(memoryview(outgoing), self._onward.socket, sealer)
        into = Incoming(memoryview(incoming), self._inward.socket, opener)
        added = 0
        limit_s = math.inf if meeting else self._timeout_s
        deadline = time.monotonic() + limit_s
        while out.left or into.left:
            try:
                moved = into.left and into.receive_some()
                moved = (out.left and out.send_some()) or moved
                if add_to is not None and added < into.received:
                    item = add_to.itemsize
                    first, last = added // item, into.received // item
                    new = np.frombuffer(incoming, add_to.dtype, last - first, first * item)
                    np.add(add_to[first:last], new, out=add_to[first:last])
                    added = last * item
                if not moved:
                    self._wait(out.left, into.left, deadline)
                else:
                    deadline = time.monotonic() + limit_s
            except NetworkError:
                self.abort()
                raise
            except (OSError, ValueError) as error:
                raise NetworkError(f"the ring broke at worker {self.rank}: {error}.") from None

    def _wait(self, sending: bool, receiving: bool, deadline: float) -> None:
        assert self._onward is not None
        assert self._inward is not None
        poller = select.poll()
        if receiving:
            poller.register(self._inward.socket, select.POLLIN)
        if sending:
            poller.register(self._onward.socket, select.POLLOUT)
        remaining_s = deadline - time.monotonic()
        # In slices: a socket that `abort` closes between here and there would not end the wait.
        if not poller.poll(max(0.0, min(remaining_s, _SLICE_S)) * 1e3) and remaining_s <= 0:
            whom = (self.rank + (-1 if receiving else 1)) % self.size
            raise NetworkError(
                f"worker {self.rank} of the ring waited {self._timeout_s:g} s for worker {whom}. "
                "If it is only slow, raise `MeshConfig(peer_timeout_s=…)`."
            )


class RingPort:
    """Where the previous worker of a ring connects; one a worker, used again after a regroup."""

    def __init__(self, port: PeerPort, *, secret: bytes, authenticate: bool | None = None) -> None:
        """Take the connections of `port` that come to join a ring.

        Args:
            port: this worker's.
            secret: the run's.
            authenticate: whether vectors are authenticated. Default None: unless the next worker
                is reached at a loopback address. The next worker reads it in a message.
        """
        self._authenticate = authenticate
        # (generation, rank) -> that worker's connection, and whether its vectors are authenticated
        self._arrivals: dict[tuple[int, int], tuple[Connection, bool]] = {}
        self._changed = threading.Condition()
        self._over = -1  # the latest ring that nobody joins any more
        self._port, self._secret = port, secret
        port.on(_INTRODUCTION, self._take)

    @property
    def address(self) -> Address:
        """(host, port) where others find this worker."""
        return self._port.address

    def join(
        self,
        *,
        generation: int,
        rank: int,
        addresses: Sequence[Address],
        workers: Sequence[int],
        connect_timeout_s: float,
        peer_timeout_s: float,
    ) -> Ring:
        """Meet both neighbours of ring `generation`.

        Args:
            generation: of the ring; whoever comes for another one is sent away.
            rank: this worker's place in it.
            addresses: of all workers, by rank.
            workers: whom to find there, by rank.
            connect_timeout_s: how long to wait for each neighbour.
            peer_timeout_s: how long the ring may stand still in the middle of an exchange.

        Raises:
            NetworkError: if a neighbour does not come in time, or `abandon` was called.
        """
        size = len(addresses)
        if size == 1:
            return Ring(rank=0, size=1, onward=None, inward=None, timeout_s=peer_timeout_s)
        deadline = time.monotonic() + connect_timeout_s
        following = (rank + 1) % size
        onward = connect(
            addresses[following],
            secret=self._secret,
            to=worker_identity(workers[following]),
            timeout_s=connect_timeout_s,
            give_up=lambda: generation <= self._over,
        )
        try:
            sealed = self._seals_vectors(onward)
            onward.send(_INTRODUCTION, {"generation": generation, "rank": rank, "sealed": sealed})
            arrival = self._arrival(generation, rank=(rank - 1) % size, deadline=deadline)
            if arrival is None:
                raise NetworkError(
                    f"worker {rank} of the ring waited {connect_timeout_s:g} s for worker "
                    f"{(rank - 1) % size} to join it. Check that workers reach one another "
                    "(`MeshConfig(ports=…)`), or raise `MeshConfig(connect_timeout_s=…)`."
                )
        except BaseException:
            onward.close()
            raise
        inward, sealed_inward = arrival
        return Ring(
            rank=rank,
            size=size,
            onward=onward,
            inward=inward,
            timeout_s=peer_timeout_s,
            sealed=(sealed, sealed_inward),
        )

    def _seals_vectors(self, onward: Connection) -> bool:
        if onward.keys is not None and onward.keys.encrypt:
            return True
        if self._authenticate is None:
            return not ipaddress.ip_address(onward.peer_host).is_loopback
        return self._authenticate

    def abandon(self, generation: int) -> None:
        """End a `join` of `generation` or an earlier one at once; from another thread."""
        with self._changed:
            self._end(generation)

    def close(self) -> None:
        """Send joiners away from now on, and drop connections that nobody took."""
        self._port.off(_INTRODUCTION)
        self.abandon(sys.maxsize)

    def _take(self, inward: Connection, introduction: Message) -> None:
        """Keep a connection for the `join` that it came for; send it away if that is over."""
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
                earlier[0].close()
            sealed = introduction.fields.get("sealed") is not False
            self._arrivals[generation, rank] = inward, sealed
            self._changed.notify_all()

    def _arrival(
        self, generation: int, *, rank: int, deadline: float
    ) -> tuple[Connection, bool] | None:
        """The connection of worker `rank` of this ring; None if it does not come in time."""
        with self._changed:
            self._changed.wait_for(
                lambda: (generation, rank) in self._arrivals or generation <= self._over,
                timeout=max(0.0, deadline - time.monotonic()),
            )
            if generation <= self._over:
                raise NetworkError(f"ring {generation} was given up before all had joined it.")
            arrival = self._arrivals.pop((generation, rank), None)
            if arrival is not None:
                self._end(generation)
            return arrival

    def _end(self, generation: int) -> None:
        """Send away whoever has come, or still comes, for this ring or an earlier one."""
        self._over = max(generation, self._over)
        for key in [key for key in self._arrivals if key[0] <= generation]:
            self._arrivals.pop(key)[0].close()
        self._changed.notify_all()

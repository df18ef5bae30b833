"""All-reduce, all-gather and broadcast around a ring of workers, over TCP."""

import math
import select
import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError

from ._ring_blocks import Incoming, Outgoing, all_gather_steps, reduce_scatter_steps, segment_bounds
from ._seal import Unsealed
from .connection import Connection

# Block size of broadcasts.
_BLOCK_BYTES = 256 << 10
_SLICE_S = 0.5
_LENGTH = struct.Struct("<Q")
Meta = TypeVar("Meta", bound=tuple[Any, ...])


class Link(NamedTuple):
    """A connection to another worker of a ring."""

    connection: Connection
    sealed: bool = True  # whether vectors are authenticated; data of `all_gather` always is


class Ring:
    """A worker's member of a ring; it sends to the next worker and receives from the previous.

    Not thread-safe, except `abort`.
    """

    def __init__(
        self,
        *,
        rank: int,
        size: int,
        # To the next worker and optionally to those after it, by distance.
        onward: Sequence[Link] = (),
        # From the previous worker and optionally those before it, by distance.
        inward: Sequence[Link] = (),
        timeout_s: float,  # of an exchange without progress
    ) -> None:
        """Create a ring from authenticated connections; a ring of one has none."""
        self.rank, self.size = rank, size
        self._timeout_s = timeout_s
        self._onward, self._inward = onward, inward
        for link in (*onward, *inward):
            link.connection.socket.setblocking(False)
        self._scratch = np.empty(0, np.uint8)
        self._aborted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def abort(self) -> None:
        """Close all connections, so that a thread blocked in this ring raises NetworkError.

        In a ring of one, the next `all_gather` raises it.
        """
        self._aborted = True
        for link in (*self._onward, *self._inward):
            link.connection.close()

    def all_gather(self, content: bytes, *, same_size: bool = False) -> list[bytes]:
        """Return every worker's `content` (at most 256 KiB) by rank.

        Acts as a barrier: waits for the slowest worker without a timeout. The connection to a dead
        worker closes, and the coordinator aborts the ring of an unresponsive one.
        """
        if self._aborted:
            raise NetworkError(f"the ring broke at worker {self.rank}: it was aborted.")
        found = [b""] * self.size
        found[self.rank] = content
        for step in range(self.size - 1):
            mine = found[(self.rank - step) % self.size]
            expected = len(content) if same_size else self._size_of_next(mine)
            theirs = bytearray(expected)
            self.exchange(mine, theirs, meeting=True)
            found[(self.rank - step - 1) % self.size] = bytes(theirs)
        return found

    def exchanged(self, mine: Meta, layout: struct.Struct) -> list[Meta]:
        """All-gather a named tuple, encoded by `layout`; return the tuples by rank."""
        kind: Any = type(mine)
        contents = self.all_gather(layout.pack(*mine), same_size=True)
        return [kind(*layout.unpack(content)) for content in contents]

    def _size_of_next(self, mine: bytes) -> int:
        """Exchange sizes: send that of `mine`, return that of the content to receive."""
        length = bytearray(_LENGTH.size)
        self.exchange(_LENGTH.pack(len(mine)), length, meeting=True)
        (expected,) = _LENGTH.unpack(length)
        if expected > _BLOCK_BYTES:
            raise NetworkError(
                f"an all-gather must have at most {_BLOCK_BYTES} bytes a worker. "
                f"Received: {expected}."
            )
        return expected

    def all_reduce(self, vector: NDArray[Any]) -> None:
        """Replace the contiguous `vector` by the sum of all workers' vectors, in place.

        All workers must call it at about the same time, for example after `all_gather`.
        """
        bounds = segment_bounds(vector.size, self.size)
        raw = vector.view(np.uint8).data
        item = vector.itemsize
        parts = [raw[start * item : stop * item] for start, stop in bounds]
        longest = max(map(len, parts))
        if self.size > 1 and self._scratch.size < longest:
            self._scratch = np.empty(longest, np.uint8)
        for step in reduce_scatter_steps(self.rank, self.size):
            start, stop = bounds[step.receive]
            received = self._scratch[: len(parts[step.receive])].data
            self.exchange(parts[step.send], received, add_to=vector[start:stop])
        for step in all_gather_steps(self.rank, self.size):
            self.exchange(parts[step.send], parts[step.receive])

    def broadcast(self, vector: NDArray[Any], *, source: int) -> None:
        """Replace the contiguous `vector` by that of rank `source`, forwarded in blocks."""
        if self.size == 1:
            return
        distance = (self.rank - source) % self.size
        raw = vector.view(np.uint8).data
        nothing = memoryview(bytearray())
        previous = nothing
        for start in range(0, len(raw), _BLOCK_BYTES):
            block = raw[start : start + _BLOCK_BYTES]
            if distance == 0:
                self.exchange(block, nothing)
                continue
            # Forward the previous block while receiving this one.
            self.exchange(previous if distance < self.size - 1 else nothing, block)
            previous = block
        if 0 < distance < self.size - 1:
            self.exchange(previous, nothing)

    def broadcast_bytes(self, content: bytes, *, source: int) -> bytes:
        """Return `content` of rank `source`; other ranks need not know its size."""
        sizes = self.all_gather(len(content).to_bytes(8, "little"), same_size=True)
        lengths = [int.from_bytes(raw, "little") for raw in sizes]
        buffer = np.empty(lengths[source], np.uint8)
        if self.rank == source:
            buffer[:] = np.frombuffer(content, np.uint8)
        self.broadcast(buffer, source=source)
        return buffer.tobytes()

    def exchange(
        self,
        outgoing: Any,  # bytes for the worker `distance` ranks ahead
        incoming: Any,  # buffer for those from the worker `distance` ranks behind
        *,
        add_to: NDArray[Any] | None = None,  # `incoming` is added to it as it arrives
        meeting: bool = False,  # authenticate in any case, and wait without a timeout
        distance: int = 1,
    ) -> None:
        """Send all of `outgoing` while filling `incoming`."""
        if not self._onward:
            return
        (onward, seals), (inward, opens) = self._onward[distance - 1], self._inward[distance - 1]
        unsealed = Unsealed()
        sealer = onward.sealer if meeting or seals else unsealed
        opener = inward.opener if meeting or opens else unsealed
        out = Outgoing(memoryview(outgoing), onward.socket, sealer)
        into = Incoming(memoryview(incoming), inward.socket, opener)
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
                    self._wait(out.left, into.left, deadline, distance)
                else:
                    deadline = time.monotonic() + limit_s
            except NetworkError:
                self.abort()
                raise
            except (OSError, ValueError) as error:
                raise NetworkError(f"the ring broke at worker {self.rank}: {error}.") from None

    def _wait(self, sending: bool, receiving: bool, deadline: float, distance: int) -> None:
        poller = select.poll()
        if receiving:
            poller.register(self._inward[distance - 1].connection.socket, select.POLLIN)
        if sending:
            poller.register(self._onward[distance - 1].connection.socket, select.POLLOUT)
        remaining_s = deadline - time.monotonic()
        # In slices, because `abort` may close the socket just before `poll`, which then blocks.
        if not poller.poll(max(0.0, min(remaining_s, _SLICE_S)) * 1e3) and remaining_s <= 0:
            whom = (self.rank + (-distance if receiving else distance)) % self.size
            raise NetworkError(
                f"worker {self.rank} of the ring waited {self._timeout_s:g} s for worker {whom}. "
                "If it is slow, increase `MeshConfig(peer_timeout_s=…)`."
            )

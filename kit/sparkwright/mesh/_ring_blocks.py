"""The steps of a ring all-reduce, and sending and receiving of one exchange.

Reduce-scatter, then all-gather (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", JPDC 2009). With n workers, each sends 2 (n - 1) / n of the vector in
total. The order of additions depends only on ranks, so results are deterministic and bit-identical
on all workers.
"""

import socket
from itertools import pairwise
from typing import NamedTuple

from sparkwright.errors import NetworkError

from ._seal import Buffer, Seal


class Outgoing:
    """The outgoing bytes of one exchange: sealed blocks, each followed by its tag."""

    def __init__(self, content: memoryview, sock: socket.socket, sealer: Seal) -> None:
        self._content, self._socket, self._sealer = content, sock, sealer
        self._buffers: list[Buffer] = []  # sealed and not yet sent

    @property
    def left(self) -> bool:
        """Whether bytes remain to be sent."""
        return bool(self._buffers) or bool(len(self._content))

    def send_some(self) -> bool:
        """Send as much as possible without blocking; return whether anything was sent."""
        if not self._buffers:
            size = self._sealer.piece_bytes
            block, self._content = self._content[:size], self._content[size:]
            self._buffers += self._sealer.seal(block)
        try:
            sent = self._socket.sendmsg(self._buffers)
        except BlockingIOError:
            return False
        while self._buffers and sent >= len(self._buffers[0]):
            sent -= len(self._buffers.pop(0))
        if sent:
            self._buffers[0] = memoryview(self._buffers[0])[sent:]
        return True


class Incoming:
    """The incoming bytes of one exchange."""

    def __init__(self, into: memoryview, sock: socket.socket, opener: Seal) -> None:
        self._into, self._socket, self._opener = into, sock, opener
        self._tag = memoryview(bytearray(opener.tag_bytes))
        self._got = 0  # bytes of the next block and its tag
        self.received = 0

    @property
    def left(self) -> bool:
        """Whether bytes remain to be received."""
        return self.received < len(self._into)

    def receive_some(self) -> bool:
        """Receive at most one block without blocking; return whether anything was received."""
        block = self._into[self.received : self.received + self._opener.piece_bytes]
        tag_from = max(0, self._got - len(block))
        try:
            got, *_ = self._socket.recvmsg_into([block[self._got :], self._tag[tag_from:]])
        except BlockingIOError:
            return False
        if not got:
            raise NetworkError("the previous worker of the ring closed its connection.")
        self._got += got
        if self._got == len(block) + len(self._tag):
            self._opener.open(block, self._tag)
            self.received += len(block)
            self._got = 0
        return True


class Step(NamedTuple):
    """One step: send segment `send` to the next worker, receive `receive` from the previous."""

    send: int
    receive: int


def segment_bounds(length: int, parts: int) -> list[tuple[int, int]]:
    """Split `range(length)` into `parts` consecutive pieces whose sizes differ by at most one.

    Example:
        >>> segment_bounds(7, 3)
        [(0, 3), (3, 5), (5, 7)]
    """
    size, extra = divmod(length, parts)
    starts = [i * size + min(i, extra) for i in range(parts + 1)]
    return list(pairwise(starts))


def reduce_scatter_steps(rank: int, size: int) -> list[Step]:
    """Return the steps after which `rank` holds the full sum of segment `(rank + 1) % size`.

    Example:
        >>> reduce_scatter_steps(0, 3)
        [Step(send=0, receive=2), Step(send=2, receive=1)]
    """
    return [Step((rank - s) % size, (rank - s - 1) % size) for s in range(size - 1)]


def all_gather_steps(rank: int, size: int) -> list[Step]:
    """Return the steps after which every worker holds the sums of all segments.

    Example:
        >>> all_gather_steps(0, 3)
        [Step(send=1, receive=0), Step(send=0, receive=2)]
    """
    return [Step((rank - s + 1) % size, (rank - s) % size) for s in range(size - 1)]

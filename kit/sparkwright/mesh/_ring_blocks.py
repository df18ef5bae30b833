"""The order of a ring all-reduce, and the blocks that one exchange sends and receives.

Reduce-scatter, then all-gather (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", JPDC 2009): each worker sends 2 (n - 1) / n of the vector in all,
whatever the number n of workers. The order of the additions depends only on ranks, so the same
contributions give the same bits, and every worker ends with the same bits.
"""

import socket
from itertools import pairwise
from typing import NamedTuple

from sparkwright.errors import NetworkError

from ._seal import Buffer, Seal


class Outgoing:
    """What is sent in one exchange: sealed blocks, each followed by its tag."""

    def __init__(self, content: memoryview, sock: socket.socket, sealer: Seal) -> None:
        self._content, self._socket, self._sealer = content, sock, sealer
        self._buffers: list[Buffer] = []  # what is sealed and not yet sent

    @property
    def left(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._buffers) or bool(len(self._content))

    def send_some(self) -> bool:
        """Send what fits; whether anything did."""
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
    """What is received in one exchange.

    Attributes:
        received: bytes that have come and are the neighbor's.
    """

    def __init__(self, into: memoryview, sock: socket.socket, opener: Seal) -> None:
        self._into, self._socket, self._opener = into, sock, opener
        self._tag = memoryview(bytearray(opener.tag_bytes))
        self._got = 0  # of the next block and its tag
        self.received = 0

    @property
    def left(self) -> bool:
        """Whether something is still to come."""
        return self.received < len(self._into)

    def receive_some(self) -> bool:
        """Receive what is there, a block at most; whether anything was.

        Raises:
            NetworkError: if the neighbor is gone, or has not sent this.
        """
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
    """In one step, send segment `send` to the next worker and receive `receive`."""

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
    """After these, worker `rank` holds the whole sum of segment `(rank + 1) % size`.

    Example:
        >>> reduce_scatter_steps(0, 3)
        [Step(send=0, receive=2), Step(send=2, receive=1)]
    """
    return [Step((rank - s) % size, (rank - s - 1) % size) for s in range(size - 1)]


def all_gather_steps(rank: int, size: int) -> list[Step]:
    """After these, every worker holds every segment's sum.

    Example:
        >>> all_gather_steps(0, 3)
        [Step(send=1, receive=0), Step(send=0, receive=2)]
    """
    return [Step((rank - s + 1) % size, (rank - s) % size) for s in range(size - 1)]

"""One neighbor's connection and what waits to be sent over it."""

import threading
import time
from collections import deque
from itertools import chain

from ._messages import Origin, Payload
from ._seal import Buffer
from .connection import Connection

CHUNK_BYTES = 1 << 20


class MeshLink:
    """A connection with a queue; all but `send_some` is to be called with the mesh's lock held.

    Attributes:
        origin: the neighbor.
        connection: the way there.
        pending_bytes: what waits to be sent, with what is just being sent.
        moved_s: the monotonic clock when bytes were last taken from the queue, or it was empty.
        gone: the connection has been given up.
        busy: what came last is still being worked on.
    """

    def __init__(
        self,
        origin: Origin,
        connection: Connection,
        lock: threading.RLock,
        *,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """Nothing waits yet.

        Args:
            origin: the neighbor.
            connection: the way there.
            lock: guards the queue.
            chunk_bytes: small messages that wait are sent together up to this size, larger ones in
                pieces of it, to see that they move (default 1 MiB).
        """
        self._chunk_bytes = chunk_bytes
        self.origin, self.connection = origin, connection
        self.pending_bytes = 0
        self.moved_s = time.monotonic()
        self.noticed_s = 0.0  # `connection.heard_s` when it was last looked at
        self.gone = self.busy = False
        self._lock = lock
        self._ready = threading.Condition(lock)
        self._queue: deque[list[Buffer]] = deque()  # of each message the sealed parts

    def put(self, head: bytes, payload: Payload = b"") -> None:
        """Send this after what waits already."""
        if self.gone:
            return
        if not self.pending_bytes:
            self.moved_s = time.monotonic()
        # Sealed here: what is put first is sent first.
        parts = list(chain.from_iterable(self.connection.sealed(head, (payload,))))
        self._queue.append(parts)
        self.pending_bytes += sum(map(len, parts))
        self._ready.notify()

    def give_up(self) -> None:
        """Close the connection, forget what waits, end both threads."""
        self.gone = True
        self._queue.clear()
        self.pending_bytes = 0
        self._ready.notify()
        self.connection.close()

    def send_some(self, room: threading.Condition) -> bool:
        """Wait for something to send and send it, telling `room`; whether to go on.

        Raises:
            OSError: if the neighbor is gone.
        """
        with self._lock:
            while not self._queue and not self.gone:
                self._ready.wait()
            if self.gone:
                return False
            parts, size = self._take()
        if size <= self._chunk_bytes:
            self._send(b"".join(parts), room)
            return True
        for part in parts:
            view = memoryview(part)
            for start in range(0, len(view), self._chunk_bytes):
                self._send(view[start : start + self._chunk_bytes], room)
        return True

    def _take(self) -> tuple[list[Buffer], int]:
        """The next message, and those behind it as far as they fit into a chunk."""
        parts = self._queue.popleft()
        size = sum(map(len, parts))
        while self._queue and size + sum(map(len, self._queue[0])) <= self._chunk_bytes:
            more = self._queue.popleft()
            parts += more
            size += sum(map(len, more))
        return parts, size

    def _send(self, content: Buffer, room: threading.Condition) -> None:
        self.connection.socket.sendall(content)
        with self._lock:
            self.moved_s = time.monotonic()
            if not self.gone:
                self.pending_bytes -= len(content)
            room.notify_all()

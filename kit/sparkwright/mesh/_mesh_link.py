"""The connection to a neighbor and its send queue."""

import threading
import time
from collections import deque
from itertools import chain

from ._messages import Origin, Payload
from ._seal import Buffer
from .connection import Connection

CHUNK_BYTES = 1 << 20


class MeshLink:
    """A connection with a send queue.

    Call every method except `send_some` with the mesh's lock held.
    """

    def __init__(
        self,
        origin: Origin,
        connection: Connection,
        lock: threading.RLock,
        *,
        # Small messages are sent together up to it, larger ones split.
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        """Start with an empty queue."""
        self._chunk_bytes = chunk_bytes
        self.origin, self.connection = origin, connection
        self.pending_bytes = 0  # queued or being sent
        self.moved_s = time.monotonic()  # when the queue last shrank or was empty
        self.noticed_s = 0.0  # `connection.received_s` at the last check
        self.gone = self.busy = False
        self._lock = lock
        self._ready = threading.Condition(lock)
        self._queue: deque[list[Buffer]] = deque()  # the sealed parts of each message

    def put(self, head: bytes, payload: Payload = b"") -> None:
        """Append a message to the queue."""
        if self.gone:
            return
        if not self.pending_bytes:
            self.moved_s = time.monotonic()
        # Sealed here because sealing order must match sending order.
        parts = list(chain.from_iterable(self.connection.sealed(head, (payload,))))
        self._queue.append(parts)
        self.pending_bytes += sum(map(len, parts))
        self._ready.notify()

    def give_up(self) -> None:
        """Close the connection, clear the queue and stop both threads."""
        self.gone = True
        self._queue.clear()
        self.pending_bytes = 0
        self._ready.notify()
        self.connection.close()

    def send_some(self, room: threading.Condition) -> bool:
        """Wait for queued messages, send some and notify `room`; return whether to continue."""
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
        """Take the next message and as many following ones as fit into a chunk."""
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

"""A worker's connection on the driver, with a queue of outgoing messages."""

import queue
import threading
from collections.abc import Callable
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.mesh.connection import Connection
from sparkwright.mesh.framing import encode_head

from ._observations import WorkerRegistered


class Peer:
    """A connection to a worker, with a queue of outgoing messages.

    The coordinator's thread never waits for a worker, because a worker that receives 64 MB would
    delay all others and their heartbeats. A small message is sent immediately if it fits into the
    connection's buffer. A separate thread, started when first needed, sends the rest of it and the
    queued messages.
    """

    def __init__(self, connection: Connection, *, name: str) -> None:
        self.connection = connection
        self.registered: WorkerRegistered | None = None
        # When the last bytes arrived, by the machine's clock.
        self.received_s = connection.received_s
        # When the timer detected them, by the driver's clock; None before its first tick.
        self.alive_s: float | None = None
        self._name = name
        self._lock = threading.Lock()
        self._waiting = 0  # messages in the queue or being sent by the thread
        self._finished = False
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, send: Callable[[], None]) -> None:
        """Call `send` on the sender thread, after the messages already queued."""
        with self._lock:
            self._put(send)

    def send(self, kind: str, fields: dict[str, Any] | None = None) -> None:
        """Send a message without payload, immediately or from the queue."""
        self.send_encoded(encode_head(kind, fields or {}, 0))

    def send_encoded(self, head: bytes) -> None:
        """Send an encoded message without payload, immediately or from the queue."""
        with self._lock:
            if self._waiting:
                self._put(lambda: self.connection.send_encoded("", head))
                return
            try:
                left = self.connection.send_now(head)
            except OSError:
                self.connection.close()  # its reader then reports the loss
                return
            if left:
                self._put(lambda: self.connection.send_left(left))

    def finish(self) -> None:
        """Send the queued messages, then end the thread."""
        with self._lock:
            self._finished = True
            self._queue.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait, after `finish`, until all queued messages have been sent."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _put(self, send: Callable[[], None]) -> None:
        """Queue a message; needs the lock."""
        if self._finished:
            return
        self._waiting += 1
        self._queue.put(send)
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_all, name=self._name, daemon=True)
            self._thread.start()

    def _send_all(self) -> None:
        while (send := self._queue.get()) is not None:
            try:
                send()
            except (NetworkError, OSError):
                self.connection.close()  # its reader then reports the loss
                return
            with self._lock:
                self._waiting -= 1

"""A worker's connection on the driver, with a queue of what is to be sent."""

import queue
import threading
from collections.abc import Callable
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.mesh.connection import Connection
from sparkwright.mesh.framing import encode_head

from ._decisions import WorkerRegistered


class Peer:
    """One connection: what its reader knows, and a queue for what cannot be sent at once.

    The thread that decides never waits for a worker: one that takes in 64 MB would hold up all
    others, and their heartbeats with them. A small message goes out at once if it fits the
    connection's buffer; the rest of it, and what must wait, is sent by a thread, which starts when
    it is first needed.

    Attributes:
        connection: the connection.
        registered: its worker; None before it has registered.
        heard_s: when bytes were last seen to have come, by the machine's clock.
        alive_s: likewise by the driver's clock; None before the first look.
    """

    def __init__(self, connection: Connection, *, name: str) -> None:
        self.connection = connection
        self.registered: WorkerRegistered | None = None
        self.heard_s = connection.heard_s
        self.alive_s: float | None = None
        self._name = name
        self._lock = threading.Lock()
        self._waiting = 0  # in the queue, or being sent by the thread
        self._finished = False
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, send: Callable[[], None]) -> None:
        """Call `send` on the thread that sends, after what waits already."""
        with self._lock:
            self._put(send)

    def send(self, kind: str, fields: dict[str, Any] | None = None) -> None:
        """Send a message without payload, now or soon."""
        self.send_encoded(encode_head(kind, fields or {}, 0))

    def send_encoded(self, head: bytes) -> None:
        """Send a message without payload that is encoded already, now or soon."""
        with self._lock:
            if self._waiting:
                self._put(lambda: self.connection.send_encoded("", head))
                return
            try:
                left = self.connection.send_now(head)
            except OSError:
                self.connection.close()  # its reader reports it lost
                return
            if left:
                self._put(lambda: self.connection.send_left(left))

    def finish(self) -> None:
        """Send what is in the queue, then end the thread."""
        with self._lock:
            self._finished = True
            self._queue.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait, after `finish`, until everything has been sent."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _put(self, send: Callable[[], None]) -> None:
        """With the lock held."""
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
                self.connection.close()  # its reader reports it lost
                return
            with self._lock:
                self._waiting -= 1

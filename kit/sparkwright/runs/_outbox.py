"""A worker's connection on the driver, with a queue of what is to be sent."""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.mesh.connection import Connection

from ._decisions import WorkerRegistered


class Peer:
    """One connection: what its reader knows, and a queue with a thread that sends.

    Nothing is sent by the thread that decides, or a worker that takes in 64 MB would hold up all
    others, and their heartbeats with them.

    Attributes:
        connection: the connection.
        registered: its worker; None before it has registered.
        heard_s: when bytes were last seen to have come, by the machine's clock.
        alive_s: likewise by the driver's clock; None before the first look.
        thread: the one that sends; to be started by the owner.
    """

    def __init__(self, connection: Connection, *, name: str) -> None:
        self.connection = connection
        self.registered: WorkerRegistered | None = None
        self.heard_s = connection.heard_s
        self.alive_s: float | None = None
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._send_all, name=name, daemon=True)

    def put(self, send: Callable[[], None]) -> None:
        """Call `send` soon, on the thread that sends."""
        self._queue.put(send)

    def send(
        self, kind: str, fields: dict[str, Any] | None = None, payload: Sequence[Any] = ()
    ) -> None:
        """Send a message soon."""
        self.put(lambda: self.connection.send(kind, fields, payload))

    def send_encoded(self, kind: str, head: bytes) -> None:
        """Send a message that is encoded already soon."""
        self.put(lambda: self.connection.send_encoded(kind, head))

    def finish(self) -> None:
        """Send what is in the queue, then end the thread."""
        self._queue.put(None)

    def _send_all(self) -> None:
        while (send := self._queue.get()) is not None:
            try:
                send()
            except NetworkError:
                self.connection.close()  # its reader reports it lost
                return

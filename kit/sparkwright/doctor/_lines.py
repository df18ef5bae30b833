"""Messages between the doctor's driver and executors: one line of JSON each.

The connection has proved the secret before, by the handshake of `mesh._connection`. Both ends set
a time-out on the socket, so nobody waits for ever.
"""

import json
import socket
from typing import Any

_MOST_BYTES = 4 << 20


class Lines:
    """Dictionaries over a socket."""

    def __init__(self, sock: socket.socket, *, timeout_s: float) -> None:
        """Take over `sock`; each wait for bytes ends after `timeout_s`."""
        self.socket = sock
        self._rest = b""
        sock.settimeout(timeout_s)

    def send(self, fields: dict[str, Any]) -> None:
        """Send one.

        Raises:
            OSError: if the other end is gone.
        """
        self.socket.sendall(json.dumps(fields).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next one.

        Raises:
            OSError: if the other end is gone, silent, or sends what is none of this.
        """
        while b"\n" not in self._rest:
            if len(self._rest) > _MOST_BYTES:
                raise ConnectionError(f"a message may have {_MOST_BYTES} bytes here.")
            received = self.socket.recv(1 << 16)
            if not received:
                raise ConnectionError("the other end closed the connection.")
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise ConnectionError("a message must be an object in JSON.")
        found: dict[str, Any] = fields
        return found

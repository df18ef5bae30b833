"""Messages between the doctor's driver and executors: one line of JSON each.

The connection has proved the secret before, by the handshake of `mesh._auth`. Each line begins with
its HMAC-SHA256, by the sender's key of this connection, of the line's number and the JSON: a line
that was changed, repeated, left out or moved is refused. (The mesh's own frames need a package that
executors may lack.) Both ends set a time-out on the socket, so nobody waits for ever.
"""

import hmac
import json
import socket
from typing import Any

from sparkwright.mesh._auth import Keys

_MOST_BYTES = 4 << 20
_CODE_BYTES = 64


class Lines:
    """Dictionaries over a socket."""

    def __init__(self, sock: socket.socket, keys: Keys, *, timeout_s: float) -> None:
        """Take over `sock` after the handshake; each wait for bytes ends after `timeout_s`."""
        self.socket, self._keys = sock, keys
        self._sent = self._received = 0
        self._rest = b""
        sock.settimeout(timeout_s)

    def send(self, fields: dict[str, Any]) -> None:
        """Send one.

        Raises:
            OSError: if the other end is gone.
        """
        line = json.dumps(fields).encode()
        self.socket.sendall(_code(self._keys.sending, self._sent, line) + line + b"\n")
        self._sent += 1

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
        code, line = line[:_CODE_BYTES], line[_CODE_BYTES:]
        if not hmac.compare_digest(code, _code(self._keys.receiving, self._received, line)):
            raise ConnectionError("a message was not sent by the peer, or was changed on the way.")
        self._received += 1
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise ConnectionError("a message must be an object in JSON.")
        found: dict[str, Any] = fields
        return found


def _code(key: bytes, number: int, line: bytes) -> bytes:
    return hmac.digest(key, number.to_bytes(8, "big") + line, "sha256").hex().encode()

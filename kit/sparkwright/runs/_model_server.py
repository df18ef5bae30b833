"""Hands a model's weights to the tasks of an evaluation, past the JVM and without pickle."""

import hashlib
import os
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.mesh._auth import SECRET_BYTES
from sparkwright.mesh._connection import Connection, Listener
from sparkwright.networks import ModelState, pack_arrays


class ModelServer:
    """Serves one state of one model until closed.

    Attributes:
        digest: SHA-256 of what is served; tasks whose trainer has it already do not fetch it.
        secret: of this server.
        port: where it listens.
    """

    def __init__(self, state: ModelState, *, host: str, ports: range, name: str) -> None:
        """Copy the state and listen.

        Raises:
            NetworkError: if no port can be opened.
        """
        self._parts: tuple[Any, ...] = (
            state.read(updater=False),
            pack_arrays(state.read_extras()),
        )
        digest = hashlib.sha256()
        for part in self._parts:
            digest.update(part)
        self.digest = digest.hexdigest()
        self.secret = os.urandom(SECRET_BYTES)
        self._listener = Listener(
            secret=self.secret, host=host, ports=ports, on_connection=self._serve, name=name
        )
        self.port = self._listener.address[1]

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _serve(self, connection: Connection) -> None:
        # On the handshake's own thread, which ends with the answer.
        try:
            connection.socket.settimeout(60.0)
            message = connection.receive(max_payload_bytes=0)
            if message is not None and message.kind == "fetch":
                connection.send("weights", {}, self._parts)
        except (NetworkError, OSError):
            pass  # the task reports its own side of it
        finally:
            connection.close()

"""Mutual authentication with the run's secret, and key derivation for the connection.

    client -> server   hello | client nonce (32)
    server -> client   server nonce (32) | encrypt (1) | server's proof (32)
    client -> server   client's proof (32)

A proof is the HMAC-SHA256, keyed with the run's secret, of a label, all preceding bytes and the
server's identity ("driver" or "worker 3"). The client checks the server's proof for the identity
that it dialed. The server checks the client's proof for its own identity. So:

- The labels prevent reflection: one side's proof is invalid as the other's.
- Fresh nonces of both sides prevent replay of a recorded handshake.
- The identity prevents relaying a handshake to a different server. Addresses are not bound,
  because network address translation changes them.
- Each connection derives one key for each direction from the same bytes. An attacker who relays a
  handshake gets neither key, and can only forward messages or drop the connection; see `_seal`.
"""

import hmac
from typing import NamedTuple

HELLO = b"sparkwright-2\n"
NONCE_BYTES = 32
PROOF_BYTES = 32
SECRET_BYTES = 32
DRIVER = "driver"
TRAINER = "trainer"  # on a Unix socket
_PLAIN, _ENCRYPTED = b"\0", b"\1"


class Keys(NamedTuple):
    """The keys of one end of a connection."""

    sending: bytes  # 32 bytes, as is `receiving`
    receiving: bytes
    encrypt: bool  # in addition to authenticating


def worker_identity(worker: int) -> str:
    """Return the identity of a worker's port, the same for each attempt."""
    return f"worker {worker}"


class Handshake(NamedTuple):
    """The shared state of a handshake after the server has sent its nonce."""

    secret: bytes
    identity: str
    client_nonce: bytes  # 32 random bytes, as is `server_nonce`
    server_nonce: bytes
    encrypt: bool = False  # whether the server requires encryption

    @property
    def encrypt_byte(self) -> bytes:
        """`encrypt` on the wire."""
        return _ENCRYPTED if self.encrypt else _PLAIN

    def proof(self, role: str) -> bytes:
        """Return the 32-byte proof of `role`, "client" or "server"."""
        return self._digest(f"{role} proof")

    def is_proof(self, received: bytes, role: str) -> bool:
        """Compare `received` with the proof of `role` in constant time."""
        return hmac.compare_digest(received, self.proof(role))

    def keys(self, role: str) -> Keys:
        """Return the keys of `role`, "client" or "server"."""
        client, server = self._digest("client key"), self._digest("server key")
        sending, receiving = (client, server) if role == "client" else (server, client)
        return Keys(sending, receiving, self.encrypt)

    def _digest(self, label: str) -> bytes:
        # Unambiguous: the label ends with a zero byte, the identity is last, the rest is fixed.
        seen = HELLO + self.client_nonce + self.server_nonce + self.encrypt_byte
        return hmac.digest(
            self.secret, label.encode() + b"\0" + seen + self.identity.encode(), "sha256"
        )

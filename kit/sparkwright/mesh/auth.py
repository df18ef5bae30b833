"""Proof that both ends of a connection know the run's secret, and the keys for what follows.

    client -> server   hello | client nonce (32)
    server -> client   server nonce (32) | encrypt (1) | server's proof (32)
    client -> server   client's proof (32)

A proof is the HMAC-SHA256, under the run's secret, of a label, everything above it and the
identity of the server: "driver" or "worker 3". The client states whom it means to reach by
checking the proof of that identity; the server checks the client's proof for its own. So:

- The labels keep one side's proof from being played back as the other's.
- Fresh nonces of both sides keep a recorded handshake from being played back.
- The identity keeps a handshake from being relayed to another server than the one meant. Addresses
  are not bound: they differ between the two ends behind address translation.
- Each connection has a key for each direction, made from the same bytes. Relaying a handshake gives
  neither key, so the relay can forward messages or drop the connection, nothing else; see `_seal`.
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
    """What one end of a connection needs for the messages on it.

    Attributes:
        sending: the key (32 bytes) for messages of this end.
        receiving: likewise of the other end.
        encrypt: whether messages are encrypted, not only authenticated.
    """

    sending: bytes
    receiving: bytes
    encrypt: bool


def worker_identity(worker: int) -> str:
    """The identity of the port of `worker`, whatever its attempt."""
    return f"worker {worker}"


class Handshake(NamedTuple):
    """What both ends know of a handshake when the server has chosen its nonce.

    Attributes:
        secret: the run's.
        identity: the server's.
        client_nonce: 32 random bytes.
        server_nonce: 32 random bytes.
        encrypt: whether the server wants messages to be encrypted.
    """

    secret: bytes
    identity: str
    client_nonce: bytes
    server_nonce: bytes
    encrypt: bool = False

    @property
    def encrypt_byte(self) -> bytes:
        """`encrypt` on the wire."""
        return _ENCRYPTED if self.encrypt else _PLAIN

    def proof(self, role: str) -> bytes:
        """(32,) bytes that only a holder of the secret can make; `role`: "client" or "server"."""
        return self._digest(f"{role} proof")

    def is_proof(self, received: bytes, role: str) -> bool:
        """Whether `received` is that proof, compared in constant time."""
        return hmac.compare_digest(received, self.proof(role))

    def keys(self, role: str) -> Keys:
        """The keys of the end that is "client" or "server"."""
        client, server = self._digest("client key"), self._digest("server key")
        sending, receiving = (client, server) if role == "client" else (server, client)
        return Keys(sending, receiving, self.encrypt)

    def _digest(self, label: str) -> bytes:
        # Fixed lengths, but for the label, which ends with a zero, and the identity at the end.
        seen = HELLO + self.client_nonce + self.server_nonce + self.encrypt_byte
        return hmac.digest(
            self.secret, label.encode() + b"\0" + seen + self.identity.encode(), "sha256"
        )

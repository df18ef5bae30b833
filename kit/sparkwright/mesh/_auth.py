"""Proof that both ends of a connection know the run's secret, without sending it.

    client -> server   hello | client nonce (32)
    server -> client   server nonce (32) | HMAC(secret, "server" + both nonces)
    client -> server   HMAC(secret, "client" + both nonces)

HMAC-SHA256. The two labels keep one side's proof from being played back as the other's; fresh
nonces keep a recorded conversation from being played back at all.
"""

import hmac

HELLO = b"sparkwright-1\n"
NONCE_BYTES = 32
PROOF_BYTES = 32
SECRET_BYTES = 32


def proof(secret: bytes, role: str, client_nonce: bytes, server_nonce: bytes) -> bytes:
    """(32,) bytes that only a holder of `secret` can make for these nonces."""
    return hmac.digest(secret, role.encode() + client_nonce + server_nonce, "sha256")


def is_proof(
    received: bytes, secret: bytes, role: str, client_nonce: bytes, server_nonce: bytes
) -> bool:
    """Whether `received` is that proof, compared in constant time."""
    return hmac.compare_digest(received, proof(secret, role, client_nonce, server_nonce))

"""Authentication and optional encryption of a connection's bytes, piece by piece.

Invariant: `open` accepts a piece only if the other end of the same connection sealed it at the same
position of the sequence. It rejects changed, repeated, omitted, reordered, truncated and reflected
pieces. An attacker can still cut the connection.

AES-256-GCM with a key for each connection and direction (`auth.Keys`) and the piece's number as
nonce. Without encryption the piece is associated data (GMAC): it is sent from and received into
the caller's memory without a copy, followed by its tag.
"""

from collections.abc import Iterable, Iterator

from sparkwright.errors import NetworkError

from .auth import Keys

Buffer = bytes | bytearray | memoryview
PIECE_BYTES = 2 << 20
# Encryption copies; small pieces stay in the CPU cache.
ENCRYPTED_PIECE_BYTES = 256 << 10
_NONCE_BYTES = 12


class Unsealed:
    """No authentication or encryption, for sockets within one machine with a known peer."""

    tag_bytes, piece_bytes = 0, PIECE_BYTES

    def seal(self, content: Buffer, clear: bytes = b"") -> tuple[Buffer, Buffer]:
        """Return `content` unchanged and an empty tag."""
        del clear
        return content, b""

    def open(self, content: memoryview, tag: Buffer, clear: bytes = b"") -> None:
        """Accept any content."""


class Sealed:
    """One direction of a connection: one end seals pieces, the other opens them in that order."""

    tag_bytes = 16

    def __init__(self, key: bytes, *, encrypt: bool) -> None:
        # Lazy import, to keep `import sparkwright` fast.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher, self._encrypt, self._invalid = AESGCM(key), encrypt, InvalidTag
        self.piece_bytes = ENCRYPTED_PIECE_BYTES if encrypt else PIECE_BYTES  # at most
        self._number = 0

    def _nonce(self) -> bytes:
        self._number += 1
        return self._number.to_bytes(_NONCE_BYTES, "big")

    def seal(self, content: Buffer, clear: bytes = b"") -> tuple[Buffer, Buffer]:
        """Return (bytes to send for `content`, tag); `clear` is authenticated, never encrypted."""
        if not self._encrypt:
            return content, self._cipher.encrypt(self._nonce(), b"", _joined(clear, content))
        sealed = memoryview(self._cipher.encrypt(self._nonce(), content, clear))
        return sealed[: -self.tag_bytes], sealed[-self.tag_bytes :]

    def open(self, content: memoryview, tag: Buffer, clear: bytes = b"") -> None:
        """Check `content` and decrypt it in place."""
        try:
            if not self._encrypt:
                self._cipher.decrypt(self._nonce(), tag, _joined(clear, content))
            else:
                sealed = b"".join((content, tag))
                content[:] = self._cipher.decrypt(self._nonce(), sealed, clear)
        except self._invalid:
            raise NetworkError(
                "each message must carry the peer's authentication code. Received: another code, "
                "so the message was changed, repeated, omitted or reordered in transit. The "
                "connection is closed; check the network between the two machines."
            ) from None


Seal = Sealed | Unsealed


def seals(keys: Keys | None) -> tuple[Seal, Seal]:
    """Return (sealer, opener) for `keys`; with None, both are `Unsealed`."""
    if keys is None:
        return Unsealed(), Unsealed()
    sealer = Sealed(keys.sending, encrypt=keys.encrypt)
    return sealer, Sealed(keys.receiving, encrypt=keys.encrypt)


def pieces(views: Iterable[Buffer], size: int) -> Iterator[Buffer]:
    """Split the concatenated `views` into pieces of `size` bytes; the last may be shorter.

    A piece within one view is a view; a piece across several views is a copy.

    Example:
        >>> [bytes(piece) for piece in pieces([b"abcdef", b"", b"gh"], 4)]
        [b'abcd', b'efgh']
    """
    parts: list[Buffer] = []
    room = size
    for view in map(memoryview, views):
        start = 0
        while start < len(view):
            part = view[start : start + room]
            start, room = start + len(part), room - len(part)
            parts.append(part)
            if not room:
                yield _joined(*parts)
                parts, room = [], size
    if parts:
        yield _joined(*parts)


def _joined(*parts: Buffer) -> Buffer:
    filled = [part for part in parts if len(part)]
    return filled[0] if len(filled) == 1 else b"".join(filled)

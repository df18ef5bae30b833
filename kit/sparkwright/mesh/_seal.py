"""Authenticates, and on request encrypts, what a connection carries, piece by piece.

Invariant: what `open` accepts was sealed by the other end of this very connection, in this
place of its sequence. A piece that was changed, repeated, left out, moved, cut or sent back to its
sender is refused. Who can cut the connection can still end it, at any time.

AES-256-GCM with the direction's own key of this connection (`_auth.Keys`) and the piece's number as
nonce. Without encryption the piece is associated data (GMAC): it travels as it is, out of and into
the caller's memory, followed by its tag.
"""

from collections.abc import Iterable, Iterator

from sparkwright.errors import NetworkError

from .auth import Keys

Buffer = bytes | bytearray | memoryview
PIECE_BYTES = 2 << 20
# What is encrypted is copied, and small pieces are copied within the processor's cache.
ENCRYPTED_PIECE_BYTES = 256 << 10
_NONCE_BYTES = 12


class Unsealed:
    """Neither authenticates nor encrypts: for sockets within one machine, whose peer is known."""

    tag_bytes, piece_bytes = 0, PIECE_BYTES

    def seal(self, content: Buffer, clear: bytes = b"") -> tuple[Buffer, Buffer]:
        """`content` itself, without a tag."""
        del clear
        return content, b""

    def open(self, content: memoryview, tag: Buffer, clear: bytes = b"") -> None:
        """Accept everything."""


class Sealed:
    """One direction of a connection: one end seals pieces, the other opens them, in this order.

    A piece has `piece_bytes` at most.
    """

    tag_bytes = 16

    def __init__(self, key: bytes, *, encrypt: bool) -> None:
        # Inside, so that `import sparkwright` stays quick.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher, self._encrypt, self._invalid = AESGCM(key), encrypt, InvalidTag
        self.piece_bytes = ENCRYPTED_PIECE_BYTES if encrypt else PIECE_BYTES
        self._number = 0

    def _nonce(self) -> bytes:
        self._number += 1
        return self._number.to_bytes(_NONCE_BYTES, "big")

    def seal(self, content: Buffer, clear: bytes = b"") -> tuple[Buffer, Buffer]:
        """(what to send in place of `content`, its tag); `clear` is sent as it is."""
        if not self._encrypt:
            return content, self._cipher.encrypt(self._nonce(), b"", _joined(clear, content))
        sealed = memoryview(self._cipher.encrypt(self._nonce(), content, clear))
        return sealed[: -self.tag_bytes], sealed[-self.tag_bytes :]

    def open(self, content: memoryview, tag: Buffer, clear: bytes = b"") -> None:
        """Check `content` and decrypt it in place.

        Raises:
            NetworkError: if the other end has not sealed this as its next piece.
        """
        try:
            if not self._encrypt:
                self._cipher.decrypt(self._nonce(), tag, _joined(clear, content))
            else:
                sealed = b"".join((content, tag))
                content[:] = self._cipher.decrypt(self._nonce(), sealed, clear)
        except self._invalid:
            raise NetworkError(
                "each message must carry the peer's authentication code. Received: one with "
                "another code, so it was changed, repeated, left out or moved on the way. The "
                "connection is closed; find out what lies between the two machines."
            ) from None


Seal = Sealed | Unsealed


def seals(keys: Keys | None) -> tuple[Seal, Seal]:
    """What seals and opens with `keys`; None: nothing does."""
    if keys is None:
        return Unsealed(), Unsealed()
    sealer = Sealed(keys.sending, encrypt=keys.encrypt)
    return sealer, Sealed(keys.receiving, encrypt=keys.encrypt)


def pieces(views: Iterable[Buffer], size: int) -> Iterator[Buffer]:
    """Cut the bytes of `views`, one after another, into pieces of `size`; the last may be shorter.

    A piece out of one view is a view of it; one out of several is a copy.

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

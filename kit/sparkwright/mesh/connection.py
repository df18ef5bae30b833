"""Authenticated message connections over TCP, and unauthenticated ones over a Unix socket.

Invariant: every message that `Connection.receive` returns was sent on this connection by a holder
of the run's secret. Messages arrive in order and without gaps. For the client, that holder is the
server that it named (`connect(to=…)`). An attacker in the middle can only delay messages or cut
the connection.

    message = header | fields | tag | piece | tag | piece | tag …

Header and fields are authenticated together, before the payload is read. `auth` derives the keys,
`_seal` computes the tags, `framing` encodes the header and fields.
"""

import contextlib
import errno
import logging
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparkwright.errors import NetworkError

from ._seal import Buffer, pieces, seals
from .auth import DRIVER, Keys
from .framing import HEADER, MAX_PAYLOAD_BYTES, Message, decode_fields, decode_header, encode_head
from .handshake import (
    HANDSHAKE_TIMEOUT_S,
    Address,
    allocate,
    bind,
    close_socket,
    dial,
    greet_client,
    receive_exactly,
    receive_into,
)

_ACCEPT_AGAIN_S = 0.05
# A normal handshake takes milliseconds. Longer ones may be evicted to admit another.
_SLOW_S = 0.5
_log = logging.getLogger(__name__)


class Connection:
    """A connection to an authenticated peer that sends and receives whole messages.

    `send` may be called from any thread.
    """

    def __init__(
        self, sock: socket.socket, keys: Keys | None = None, *, relayed: bool = False
    ) -> None:
        """Take ownership of a socket; without `keys`, of one whose peer the kernel identifies."""
        self.socket, self.keys, self.relayed = sock, keys, relayed
        self.sealer, self.opener = seals(keys)
        self.received_s = time.monotonic()  # also of bytes inside a message
        self._sending = threading.Lock()

    @property
    def peer_host(self) -> str:
        """Address of the peer, or of the driver if it relays; empty for a Unix socket."""
        name = self.socket.getpeername()
        return str(name[0]) if isinstance(name, tuple) else ""

    def send(
        self, kind: str, fields: dict[str, Any] | None = None, payload: Sequence[Any] = ()
    ) -> None:
        """Send one message; `payload` is a sequence of bytes-like objects or arrays."""
        # An empty view cannot be cast.
        views = [v.cast("B") for v in map(memoryview, payload) if v.nbytes]
        self.send_encoded(kind, encode_head(kind, fields or {}, sum(map(len, views))), views)

    def send_encoded(self, kind: str, head: bytes, views: Sequence[memoryview] = ()) -> None:
        """Send a message whose head was encoded by `encode_head`, so that peers can share it."""
        try:
            with self._sending:
                for buffers in self.sealed(head, views):
                    _send_all(self.socket, buffers)
        except OSError as error:
            raise NetworkError(
                f"the peer disconnected while {kind!r} was sent: {error}."
            ) from error

    def send_now(self, head: bytes) -> Sequence[memoryview]:
        """Send a message without payload as far as possible without blocking; return the rest.

        Pass the rest to `send_left` before sending anything else.
        """
        with self._sending:
            (buffers,) = self.sealed(head)
            try:
                sent = self.socket.sendmsg(buffers, [], socket.MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
        return _after(sent, deque(memoryview(buffer) for buffer in buffers if len(buffer)))

    def send_left(self, left: Sequence[memoryview]) -> None:
        """Send the rest that `send_now` returned."""
        with self._sending:
            _send_all(self.socket, left)

    def sealed(self, head: bytes, views: Sequence[Buffer] = ()) -> Iterator[tuple[Buffer, ...]]:
        """Yield the parts of a message to send, sealed lazily.

        For callers that bypass `send`. They must send all parts before sealing or sending anything
        else.
        """
        header, fields = head[: HEADER.size], memoryview(head)[HEADER.size :]
        yield header, *self.sealer.seal(fields, clear=header)
        for piece in pieces(views, self.sealer.piece_bytes):
            yield self.sealer.seal(piece)

    def receive(self, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> Message | None:
        """Receive the next message; return None if the peer has closed the connection."""
        header = receive_exactly(
            self.socket, HEADER.size, at_boundary=True, on_received=self._on_received
        )
        if header is None:
            return None
        fields_bytes, payload_bytes = decode_header(header, max_payload_bytes=max_payload_bytes)
        body = bytearray(fields_bytes)
        self._receive_piece(memoryview(body), clear=bytes(header))
        kind, fields = decode_fields(body)
        payload = allocate(payload_bytes)
        view = memoryview(payload)
        size = self.opener.piece_bytes
        for start in range(0, payload_bytes, size):
            self._receive_piece(view[start : start + size])
        return Message(kind=kind, fields=fields, payload=payload)

    def close(self) -> None:
        """Close the connection and wake a thread blocked in `receive`."""
        close_socket(self.socket)

    def _receive_piece(self, piece: memoryview, *, clear: bytes = b"") -> None:
        tag = bytearray(self.opener.tag_bytes)
        receive_into(self.socket, piece, on_received=self._on_received)
        receive_into(self.socket, memoryview(tag), on_received=self._on_received)
        try:
            self.opener.open(piece, tag, clear)
        except NetworkError as error:
            _log.warning("a connection with %s was closed: %s", self.peer_host, error)
            self.close()
            raise

    def _on_received(self, count: int) -> None:
        self.received_s = time.monotonic()


class Listener:
    """Accept authenticated connections on a background thread.

    Each handshake runs on its own thread for at most `HANDSHAKE_TIMEOUT_S`, so that unauthenticated
    peers block no one else. At most `max_handshakes` run concurrently. Above that, a new connection
    evicts the oldest handshake of the address that has most of them, if either:

    - that handshake has taken at least 0.5 s, or
    - the new connection is from another address, and that address has a quarter of all handshakes.

    Otherwise the new connection is closed; its client can retry.
    """

    def __init__(
        self,
        *,
        secret: bytes,
        host: str,
        ports: Sequence[int],
        on_connection: Callable[[Connection], None],  # on a separate thread
        name: str,
        identity: str = DRIVER,  # see `mesh.auth`
        encrypt: bool = False,
        max_handshakes: int = 64,  # at the same time
    ) -> None:
        """Bind the first free one of `ports` (0: any) on `host` and start accepting."""
        self._secret, self._on_connection = secret, on_connection
        self._identity, self._encrypt = identity, encrypt
        self._max_handshakes = max_handshakes
        # Running handshakes: (peer address, start time), oldest first.
        self._handshakes: dict[socket.socket, tuple[str, float]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._socket = bind(host, ports)
        self.address: Address = self._socket.getsockname()[:2]
        self._thread = threading.Thread(target=self._accept, name=name, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        is_warned = False
        while True:
            try:
                sock, (host, _) = self._socket.accept()
            except OSError as error:
                # Closed, or a transient error (too many open files, aborted connection).
                if error.errno == errno.EMFILE and not is_warned:
                    is_warned = True
                    _log.warning("%s: %s waits to accept a connection.", error, self._thread.name)
                if self._closed.wait(_ACCEPT_AGAIN_S):
                    return
                continue
            if not self._admit(sock, host, time.monotonic()):
                sock.close()
                continue
            threading.Thread(
                target=self._greet, args=(sock,), name=f"{self._thread.name}-greet", daemon=True
            ).start()

    def _admit(self, sock: socket.socket, host: str, now_s: float) -> bool:
        """Register a handshake, evicting another one if necessary; return whether it may run."""
        with self._lock:
            if len(self._handshakes) >= self._max_handshakes:
                most, count = Counter(h for h, _ in self._handshakes.values()).most_common(1)[0]
                oldest = next(s for s, (h, _) in self._handshakes.items() if h == most)
                is_slow = now_s - self._handshakes[oldest][1] >= _SLOW_S
                if not is_slow and (host == most or 4 * count < self._max_handshakes):
                    return False
                del self._handshakes[oldest]
                with contextlib.suppress(OSError):  # already disconnected
                    oldest.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it
            self._handshakes[sock] = host, now_s
            return True

    def _greet(self, sock: socket.socket) -> None:
        keys: Keys | None = None
        with contextlib.suppress(OSError, NetworkError):
            keys = greet_client(sock, self._secret, identity=self._identity, encrypt=self._encrypt)
        with self._lock:
            evicted = self._handshakes.pop(sock, None) is None
        if keys is None or evicted or self._closed.is_set():
            sock.close()
            return
        self._on_connection(Connection(sock, keys))

    def close(self) -> None:
        """Stop accepting; established connections stay open."""
        self._closed.set()
        close_socket(self._socket)
        self._thread.join(HANDSHAKE_TIMEOUT_S)


def connect(
    address: Address,
    *,
    secret: bytes,
    timeout_s: float,
    to: str = DRIVER,  # the identity that the listener must prove; see `mesh.auth`
    give_up: Callable[[], bool] = lambda: False,
) -> Connection:
    """Connect to a `Listener`, retrying until `timeout_s` has passed or `give_up()` is true."""
    try:
        return Connection(
            *dial(address, secret=secret, timeout_s=timeout_s, to=to, give_up=give_up)
        )
    except NetworkError:
        raise
    except OSError as error:
        raise NetworkError(
            f"{error}. Check that this port is open between the two machines, or choose another "
            "with `MeshConfig(ports=…, network_mask=…)`."
        ) from None


def _send_all(sock: socket.socket, buffers: Sequence[Buffer]) -> None:
    left = deque(memoryview(buffer) for buffer in buffers if len(buffer))
    while left:
        left = _after(sock.sendmsg(left), left)


def _after(sent: int, left: deque[memoryview]) -> deque[memoryview]:
    """Remove the first `sent` bytes from the buffers; return the rest."""
    while left and sent >= len(left[0]):
        sent -= len(left.popleft())
    if sent:
        left[0] = left[0][sent:]
    return left

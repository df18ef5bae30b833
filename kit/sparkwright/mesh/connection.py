"""Authenticated message connections over TCP, and plain ones over a Unix socket.

Invariant: every message that `Connection.receive` returns was sent on this connection by a holder
of the run's secret, after all messages that came before it and with none left out. To the client,
that holder is the server it named (`connect(to=…)`). An attacker between the two ends can delay
messages or cut the connection, nothing else.

    message = header | fields | tag | piece | tag | piece | tag …

Header and fields are authenticated together, so no payload is read that the peer did not announce.
`_auth` makes the keys, `_seal` the tags, `_framing` the header and fields.
"""

import contextlib
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
# A handshake takes milliseconds; one that takes longer may have to make room for another.
_SLOW_S = 0.5
_log = logging.getLogger(__name__)


class Connection:
    """A proven peer: whole messages in and out. `send` may be called from any thread.

    Attributes:
        socket: the socket.
        keys: of the handshake; None: messages are neither authenticated nor encrypted.
        sealer: seals what is sent, in the order of sending.
        opener: opens what is received, in the order of arrival.
        relayed: whether the driver passes on what both ends send.
        heard_s: the monotonic clock when the last bytes came, in the middle of a message too.
    """

    def __init__(
        self, sock: socket.socket, keys: Keys | None = None, *, relayed: bool = False
    ) -> None:
        """Take over `sock`, whose peer has been authenticated.

        Args:
            sock: the socket.
            keys: of the handshake. Default None, for a Unix socket whose peer the kernel names.
            relayed: whether the driver passes on what both ends send; default False.
        """
        self.socket, self.keys, self.relayed = sock, keys, relayed
        self.sealer, self.opener = seals(keys)
        self.heard_s = time.monotonic()
        self._sending = threading.Lock()

    @property
    def peer_host(self) -> str:
        """The peer's address, or the driver's if it relays; empty for a Unix socket."""
        name = self.socket.getpeername()
        return str(name[0]) if isinstance(name, tuple) else ""

    def send(
        self, kind: str, fields: dict[str, Any] | None = None, payload: Sequence[Any] = ()
    ) -> None:
        """Send one message; `payload` is a sequence of bytes-like objects or arrays.

        Raises:
            NetworkError: if the peer is gone.
        """
        # A view of no bytes cannot be cast.
        views = [v.cast("B") for v in map(memoryview, payload) if v.nbytes]
        self.send_encoded(kind, encode_head(kind, fields or {}, sum(map(len, views))), views)

    def send_encoded(self, kind: str, head: bytes, views: Sequence[memoryview] = ()) -> None:
        """Send a message whose head is encoded already, as for many peers; see `encode_head`.

        Raises:
            NetworkError: if the peer is gone.
        """
        try:
            with self._sending:
                for buffers in self.sealed(head, views):
                    _send_all(self.socket, buffers)
        except OSError as error:
            raise NetworkError(f"the peer went away while {kind!r} was sent: {error}.") from error

    def send_now(self, head: bytes) -> Sequence[memoryview]:
        """Send of a message without payload what can go without waiting; return the rest.

        The rest must be sent by `send_left` before anything else is sent.

        Raises:
            OSError: if the peer is gone.
        """
        with self._sending:
            (buffers,) = self.sealed(head)
            try:
                sent = self.socket.sendmsg(buffers, [], socket.MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
        return _after(sent, deque(memoryview(buffer) for buffer in buffers if len(buffer)))

    def send_left(self, left: Sequence[memoryview]) -> None:
        """Send what `send_now` returned.

        Raises:
            OSError: if the peer is gone.
        """
        with self._sending:
            _send_all(self.socket, left)

    def sealed(self, head: bytes, views: Sequence[Buffer] = ()) -> Iterator[tuple[Buffer, ...]]:
        """What to send of one message, in parts; sealed as they are taken.

        For who sends without `send`: nothing else may be sealed or sent before the last part.
        """
        header, fields = head[: HEADER.size], memoryview(head)[HEADER.size :]
        yield header, *self.sealer.seal(fields, clear=header)
        for piece in pieces(views, self.sealer.piece_bytes):
            yield self.sealer.seal(piece)

    def receive(self, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> Message | None:
        """The next message, or None when the peer has closed the connection.

        Raises:
            NetworkError: if the peer sends garbage, more than there is memory for, or goes away
                inside a message; if something else than the peer sent this, which also closes the
                connection.
            TimeoutError: if the socket's time-out passes without a byte.
        """
        header = receive_exactly(self.socket, HEADER.size, at_boundary=True, heard=self._heard)
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
        """Close, waking a thread that waits in `receive`."""
        close_socket(self.socket)

    def _receive_piece(self, piece: memoryview, *, clear: bytes = b"") -> None:
        tag = bytearray(self.opener.tag_bytes)
        receive_into(self.socket, piece, heard=self._heard)
        receive_into(self.socket, memoryview(tag), heard=self._heard)
        try:
            self.opener.open(piece, tag, clear)
        except NetworkError as error:
            _log.warning("a connection with %s was closed: %s", self.peer_host, error)
            self.close()
            raise

    def _heard(self, count: int) -> None:
        self.heard_s = time.monotonic()


class Listener:
    """Accepts authenticated connections on a thread of its own.

    Each handshake runs on its own short-lived thread and is over in `HANDSHAKE_TIMEOUT_S`, so that
    a silent or babbling stranger holds up nobody. At most `max_handshakes` run at once. Beyond
    that, the oldest handshake of the address with the most of them makes room, if it has lasted
    for half a second, or if another address asks and that one has a quarter of all. Otherwise the
    newcomer is disconnected, and can retry.
    """

    def __init__(
        self,
        *,
        secret: bytes,
        host: str,
        ports: Sequence[int],
        on_connection: Callable[[Connection], None],
        name: str,
        identity: str = DRIVER,
        encrypt: bool = False,
        max_handshakes: int = 64,
    ) -> None:
        """Bind the first free one of `ports` (0: any) on `host` and start accepting.

        Args:
            secret: the run's.
            host: the address to listen on.
            ports: the ports to try.
            on_connection: called with each connection, on a thread of its own.
            name: what the threads' names begin with.
            identity: what clients name to reach this listener; see `_auth`.
            encrypt: whether connections are encrypted, not only authenticated.
            max_handshakes: how many run at once.

        Raises:
            NetworkError: if none of the ports can be bound.
        """
        self._secret, self._on_connection = secret, on_connection
        self._identity, self._encrypt = identity, encrypt
        self._max_handshakes = max_handshakes
        # Whose handshake runs: their address and when they came, the oldest first.
        self._strangers: dict[socket.socket, tuple[str, float]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._socket = bind(host, ports)
        self.address: Address = self._socket.getsockname()[:2]
        self._thread = threading.Thread(target=self._accept, name=name, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, (host, _) = self._socket.accept()
            except OSError:
                # Closed; or too many open files, or a peer that gave up: those pass.
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
        """Whether there is room for another handshake, or some has been made."""
        with self._lock:
            if len(self._strangers) >= self._max_handshakes:
                most, count = Counter(h for h, _ in self._strangers.values()).most_common(1)[0]
                oldest = next(s for s, (h, _) in self._strangers.items() if h == most)
                is_slow = now_s - self._strangers[oldest][1] >= _SLOW_S
                if not is_slow and (host == most or 4 * count < self._max_handshakes):
                    return False
                del self._strangers[oldest]
                with contextlib.suppress(OSError):  # it may have hung up
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread wakes up and closes it
            self._strangers[sock] = host, now_s
            return True

    def _greet(self, sock: socket.socket) -> None:
        keys: Keys | None = None
        with contextlib.suppress(OSError, NetworkError):
            keys = greet_client(sock, self._secret, identity=self._identity, encrypt=self._encrypt)
        with self._lock:
            had_to_go = self._strangers.pop(sock, None) is None
        if keys is None or had_to_go or self._closed.is_set():
            sock.close()
            return
        self._on_connection(Connection(sock, keys))

    def close(self) -> None:
        """Stop accepting; connections already made stay open."""
        self._closed.set()
        close_socket(self._socket)
        self._thread.join(HANDSHAKE_TIMEOUT_S)


def connect(
    address: Address,
    *,
    secret: bytes,
    timeout_s: float,
    to: str = DRIVER,
    give_up: Callable[[], bool] = lambda: False,
) -> Connection:
    """Connect to a `Listener`, trying again until `timeout_s` has passed or `give_up()` is true.

    Args:
        address: (host, port).
        secret: the run's.
        timeout_s: how long to try.
        to: the identity that the listener must prove; see `_auth`. Default: the driver's.
        give_up: whether to stop trying.

    Raises:
        NetworkError: if nobody answers there in time, or who answers does not know the secret or
            is not `to`.
    """
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
    """Send all of `buffers`, one after another.

    Raises:
        OSError: if the peer is gone.
    """
    left = deque(memoryview(buffer) for buffer in buffers if len(buffer))
    while left:
        left = _after(sock.sendmsg(left), left)


def _after(sent: int, left: deque[memoryview]) -> deque[memoryview]:
    """What is left of some buffers after so many bytes."""
    while left and sent >= len(left[0]):
        sent -= len(left.popleft())
    if sent:
        left[0] = left[0][sent:]
    return left

"""Authenticated message connections over TCP or a Unix socket."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sparkwright.errors import NetworkError

from ._auth import HELLO, NONCE_BYTES, PROOF_BYTES, is_proof, proof
from ._framing import (
    HEADER,
    MAX_PAYLOAD_BYTES,
    Message,
    decode_fields,
    decode_header,
    encode_head,
)

HANDSHAKE_TIMEOUT_S = 5.0
# A machine that vanishes without a word is noticed after 30 s, whatever its peer waits for. The
# probes alone would not do: they begin only when nothing is being sent, signs of life among it, and
# for those Linux tries 15 minutes. A peer that takes in nothing for so long is given up, too.
_KEEPALIVE = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 30_000,
}
_ACCEPT_AGAIN_S = 0.05
Address = tuple[str, int]


class Connection:
    """A proven peer: whole messages in and out. `send` may be called from any thread.

    Attributes:
        socket: the socket.
        heard_s: the monotonic clock when the last bytes came, in the middle of a message too.
        received_bytes: how many have come so far.
    """

    def __init__(self, sock: socket.socket) -> None:
        """Take over `sock`, whose peer has been authenticated."""
        self.socket = sock
        self.heard_s = time.monotonic()
        self.received_bytes = 0
        self._sending = threading.Lock()

    @property
    def peer_host(self) -> str:
        """The peer's address; empty for a Unix socket."""
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
                self.socket.sendall(head)
                for view in views:
                    self.socket.sendall(view)
        except OSError as error:
            raise NetworkError(f"the peer went away while {kind!r} was sent: {error}.") from error

    def receive(self, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> Message | None:
        """The next message, or None when the peer has closed the connection.

        Raises:
            NetworkError: if the peer sends garbage, more than there is memory for, or goes away
                inside a message.
            TimeoutError: if the socket's time-out passes without a byte.
        """
        header = _receive_exactly(self.socket, HEADER.size, at_boundary=True, heard=self._heard)
        if header is None:
            return None
        fields_bytes, payload_bytes = decode_header(header, max_payload_bytes=max_payload_bytes)
        body = _receive_exactly(self.socket, fields_bytes, heard=self._heard) or b""
        kind, fields = decode_fields(body)
        payload = _receive_exactly(self.socket, payload_bytes, heard=self._heard) or b""
        return Message(kind=kind, fields=fields, payload=payload)

    def close(self) -> None:
        """Close, waking a thread that waits in `receive`."""
        close_socket(self.socket)

    def _heard(self, count: int) -> None:
        self.heard_s = time.monotonic()
        self.received_bytes += count


class Listener:
    """Accepts authenticated connections on a thread of its own.

    Each handshake runs on its own short-lived thread and is over in `HANDSHAKE_TIMEOUT_S`, so that
    a silent or babbling stranger holds up nobody; at most `max_handshakes` run at once.
    """

    def __init__(
        self,
        *,
        secret: bytes,
        host: str,
        ports: Sequence[int],
        on_connection: Callable[[Connection], None],
        name: str,
        max_handshakes: int = 64,
    ) -> None:
        """Bind the first free one of `ports` (0: any) on `host` and start accepting.

        Raises:
            NetworkError: if none of the ports can be bound.
        """
        self._secret, self._on_connection = secret, on_connection
        self._slots = threading.BoundedSemaphore(max_handshakes)
        self._closed = threading.Event()
        self._socket = bind(host, ports)
        self.address: Address = self._socket.getsockname()[:2]
        self._thread = threading.Thread(target=self._accept, name=name, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                # Closed; or too many open files, or a peer that gave up: those pass.
                if self._closed.wait(_ACCEPT_AGAIN_S):
                    return
                continue
            if not self._slots.acquire(blocking=False):
                sock.close()
                continue
            threading.Thread(
                target=self._greet, args=(sock,), name=f"{self._thread.name}-greet", daemon=True
            ).start()

    def _greet(self, sock: socket.socket) -> None:
        try:
            greet_client(sock, self._secret)
        except (OSError, NetworkError):
            sock.close()
            return
        finally:
            self._slots.release()
        if self._closed.is_set():
            sock.close()
            return
        self._on_connection(Connection(sock))

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
    give_up: Callable[[], bool] = lambda: False,
) -> Connection:
    """Connect to a `Listener`, trying again until `timeout_s` has passed or `give_up()` is true.

    Raises:
        NetworkError: if nobody answers there in time, or who answers does not know the secret.
    """
    try:
        return Connection(dial(address, secret=secret, timeout_s=timeout_s, give_up=give_up))
    except NetworkError:
        raise
    except OSError as error:
        raise NetworkError(
            f"{error}. Check that this port is open between the two machines, or choose another "
            "with `MeshConfig(ports=…, network_mask=…)`."
        ) from None


def dial(
    address: Address,
    *,
    secret: bytes,
    timeout_s: float,
    give_up: Callable[[], bool] = lambda: False,
) -> socket.socket:
    """The socket to a `Listener` that has proved the secret; see `connect`.

    Raises:
        OSError: if nobody answers there in time.
        NetworkError: if who answers does not know the secret; that is not tried again.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = 0.02
    while True:
        remaining_s = deadline - time.monotonic()
        try:
            return _dial_once(address, secret, timeout_s=max(0.1, min(remaining_s, 5.0)))
        except NetworkError:
            raise
        except OSError as error:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or give_up():
                raise ConnectionError(
                    f"{address[0]}:{address[1]} could not be reached within {timeout_s:g} s: "
                    f"{error}"
                ) from None
            time.sleep(min(pause_s, remaining_s))
            pause_s = min(2 * pause_s, 1.0)


def _dial_once(address: Address, secret: bytes, *, timeout_s: float) -> socket.socket:
    """Connect and greet.

    Raises:
        OSError: if nobody answers, or who does hangs up: a listener with many guests at its door
            sends others away, and they may come again.
        NetworkError: if who answers does not know the secret.
    """
    sock = socket.create_connection(address, timeout=timeout_s)
    try:
        greet_server(sock, secret)
    except NetworkError as error:
        sock.close()
        raise NetworkError(
            f"whoever listens at {address[0]}:{address[1]} did not prove this run's secret: {error}"
        ) from None
    except OSError:
        sock.close()
        raise
    return sock


def greet_server(sock: socket.socket, secret: bytes) -> None:
    """The client's half of the handshake; see `_auth`.

    Raises:
        NetworkError: if the server says something else than it should, or nothing in time.
        ConnectionError: if it hangs up without a word.
    """
    deadline = time.monotonic() + HANDSHAKE_TIMEOUT_S
    sock.settimeout(HANDSHAKE_TIMEOUT_S)
    nonce = os.urandom(NONCE_BYTES)
    sock.sendall(HELLO + nonce)
    try:
        answer = _receive_exactly(
            sock, NONCE_BYTES + PROOF_BYTES, at_boundary=True, deadline=deadline
        )
    except TimeoutError:
        raise NetworkError("the peer said nothing.") from None
    if answer is None:
        raise ConnectionResetError("it hung up before it had said anything")
    server_nonce, received = answer[:NONCE_BYTES], answer[NONCE_BYTES:]
    if not is_proof(bytes(received), secret, "server", nonce, bytes(server_nonce)):
        raise NetworkError("the server's proof is wrong.")
    sock.sendall(proof(secret, "client", nonce, bytes(server_nonce)))
    _tune(sock)


def greet_client(sock: socket.socket, secret: bytes) -> None:
    """The server's half of the handshake; see `_auth`."""
    deadline = time.monotonic() + HANDSHAKE_TIMEOUT_S
    sock.settimeout(HANDSHAKE_TIMEOUT_S)
    hello = _receive_exactly(sock, len(HELLO) + NONCE_BYTES, deadline=deadline) or b""
    if hello[: len(HELLO)] != HELLO:
        raise NetworkError("the peer did not speak this protocol.")
    client_nonce, server_nonce = bytes(hello[len(HELLO) :]), os.urandom(NONCE_BYTES)
    sock.sendall(server_nonce + proof(secret, "server", client_nonce, server_nonce))
    received = _receive_exactly(sock, PROOF_BYTES, deadline=deadline) or b""
    if not is_proof(bytes(received), secret, "client", client_nonce, server_nonce):
        raise NetworkError("the client's proof is wrong.")
    _tune(sock)


def close_socket(sock: socket.socket) -> None:
    """Shut down and close, whatever state the socket is in; wakes threads blocked on it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _tune(sock: socket.socket) -> None:
    sock.settimeout(None)
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # not everywhere
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def bind(host: str, ports: Sequence[int]) -> socket.socket:
    """A socket that listens on the first free one of `ports` (0: any).

    Raises:
        NetworkError: if none of them can be bound.
    """
    problem: OSError | None = None
    for port in ports:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # A run that has just ended on this port must not keep the next one from it for a
            # minute; whoever still listens there does.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(128)
        except OSError as error:
            sock.close()
            problem = error
        else:
            return sock
    span = f"{ports[0]}-{ports[-1]}" if len(ports) > 1 else str(ports[0] if len(ports) else "none")
    raise NetworkError(
        f"no port could be opened on {host}. Received: ports={span} ({problem}). Choose free ones "
        "with `MeshConfig(ports=…)`, or leave `ports` out for any free port."
    )


def _receive_exactly(
    sock: socket.socket,
    count: int,
    *,
    at_boundary: bool = False,
    deadline: float | None = None,
    heard: Callable[[int], None] = lambda _: None,
) -> bytearray | None:
    try:
        content = bytearray(count)
    except MemoryError:
        raise NetworkError(
            f"the peer announced {count} bytes, more than there is memory for."
        ) from None
    view, received = memoryview(content), 0
    while received < count:
        try:
            if deadline is not None:
                sock.settimeout(max(1e-3, deadline - time.monotonic()))
            got = sock.recv_into(view[received:])
        except TimeoutError:
            if at_boundary and not received:
                raise
            raise NetworkError("the peer fell silent inside a message.") from None
        except OSError as error:
            if at_boundary and not received:
                return None
            raise NetworkError(f"the peer went away inside a message: {error}.") from None
        if not got:
            if at_boundary and not received:
                return None
            raise NetworkError("the peer closed the connection inside a message.")
        received += got
        heard(got)
    return content

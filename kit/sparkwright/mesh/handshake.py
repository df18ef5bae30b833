"""Listening, dialing and the authentication handshake of `mesh.auth`."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from sparkwright.errors import NetworkError

from .auth import DRIVER, HELLO, NONCE_BYTES, PROOF_BYTES, Handshake, Keys

HANDSHAKE_TIMEOUT_S = 5.0
# Detect a dead machine within 30 s. Keepalive probes run only while no data is in flight; for data
# in flight, Linux retries 15 minutes by default, so TCP_USER_TIMEOUT is needed too. It also drops
# a peer that reads nothing for 30 s.
_KEEPALIVE = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 30_000,
}
Address = tuple[str, int]


def dial(
    address: Address,
    *,
    secret: bytes,
    timeout_s: float,  # of all retries
    to: str = DRIVER,  # the identity that the listener must prove; a failed proof is not retried
    give_up: Callable[[], bool] = lambda: False,
    # Opens a socket, given a timeout in seconds.
    reach: Callable[[float], socket.socket] | None = None,
    where: str = "",  # in error messages; default: the address
) -> tuple[socket.socket, Keys]:
    """Open a socket to an authenticated listener, with retries; see `connect`."""
    reach = reach or partial(socket.create_connection, address)
    where = where or f"{address[0]}:{address[1]}"
    deadline = time.monotonic() + timeout_s
    pause_s = 0.02
    while True:
        remaining_s = deadline - time.monotonic()
        try:
            sock = reach(max(0.1, min(remaining_s, 5.0)))
            return sock, _greet_server(sock, secret, to, where)
        except NetworkError:
            raise
        except OSError as error:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or give_up():
                raise ConnectionError(
                    f"{where} could not be reached within {timeout_s:g} s: {error}"
                ) from None
            time.sleep(min(pause_s, remaining_s))
            pause_s = min(2 * pause_s, 1.0)


def _greet_server(sock: socket.socket, secret: bytes, to: str, where: str) -> Keys:
    """Run the client's half of the handshake; close `sock` on failure."""
    try:
        return greet_server(sock, secret, to=to)
    except NetworkError as error:
        sock.close()
        raise NetworkError(
            f"the listener at {where} did not prove this run's secret as its {to}: {error}"
        ) from None
    except OSError:  # for example, the listener is overloaded: the client can retry
        sock.close()
        raise


def greet_server(sock: socket.socket, secret: bytes, *, to: str = DRIVER) -> Keys:
    """Run the client's half of the handshake; see `mesh.auth`."""
    deadline = time.monotonic() + HANDSHAKE_TIMEOUT_S
    sock.settimeout(HANDSHAKE_TIMEOUT_S)
    nonce = os.urandom(NONCE_BYTES)
    sock.sendall(HELLO + nonce)
    try:
        answer = receive_exactly(
            sock, NONCE_BYTES + 1 + PROOF_BYTES, at_boundary=True, deadline=deadline
        )
    except TimeoutError:
        raise NetworkError("the peer did not answer in time.") from None
    if answer is None:
        raise ConnectionResetError("it disconnected before answering")
    server_nonce, received = bytes(answer[:NONCE_BYTES]), bytes(answer[NONCE_BYTES + 1 :])
    encrypt = answer[NONCE_BYTES] == 1
    handshake = Handshake(secret, to, nonce, server_nonce, encrypt)
    if not handshake.is_proof(received, "server"):
        raise NetworkError("the server's proof is wrong.")
    sock.sendall(handshake.proof("client"))
    _tune(sock)
    return handshake.keys("client")


def greet_client(
    sock: socket.socket, secret: bytes, *, identity: str = DRIVER, encrypt: bool = False
) -> Keys:
    """Run the server's half of the handshake; see `mesh.auth`."""
    deadline = time.monotonic() + HANDSHAKE_TIMEOUT_S
    sock.settimeout(HANDSHAKE_TIMEOUT_S)
    hello = receive_exactly(sock, len(HELLO) + NONCE_BYTES, deadline=deadline) or b""
    if hello[: len(HELLO)] != HELLO:
        raise NetworkError("the peer uses another protocol.")
    client_nonce, server_nonce = bytes(hello[len(HELLO) :]), os.urandom(NONCE_BYTES)
    handshake = Handshake(secret, identity, client_nonce, server_nonce, encrypt)
    sock.sendall(server_nonce + handshake.encrypt_byte + handshake.proof("server"))
    received = receive_exactly(sock, PROOF_BYTES, deadline=deadline) or b""
    if not handshake.is_proof(bytes(received), "client"):
        raise NetworkError("the client's proof is wrong.")
    _tune(sock)
    return handshake.keys("server")


def close_socket(sock: socket.socket) -> None:
    """Shut down and close a socket in any state; wakes threads blocked on it."""
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
        if hasattr(socket, name):  # platform-dependent
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def bind(host: str, ports: Sequence[int]) -> socket.socket:
    """Return a socket listening on the first free port of `ports` (0: any free port)."""
    problem: OSError | None = None
    for port in ports:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # Allow rebinding while connections of a finished run are in TIME_WAIT.
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


def receive_exactly(
    sock: socket.socket,
    count: int,
    *,
    at_boundary: bool = False,
    deadline: float | None = None,
    on_received: Callable[[int], None] = lambda _: None,
) -> bytearray | None:
    """Receive `count` bytes; return None if the peer has closed `at_boundary` of a message."""
    content = allocate(count)
    if receive_into(
        sock,
        memoryview(content),
        at_boundary=at_boundary,
        deadline=deadline,
        on_received=on_received,
    ):
        return content
    return None


def allocate(count: int) -> bytearray:
    """Allocate a buffer for `count` bytes that the peer has announced."""
    try:
        return bytearray(count)
    except MemoryError:
        raise NetworkError(f"the peer announced {count} bytes, more than fit in memory.") from None


def receive_into(
    sock: socket.socket,
    view: memoryview,
    *,
    at_boundary: bool = False,
    deadline: float | None = None,
    on_received: Callable[[int], None] = lambda _: None,
) -> bool:
    """Fill `view`; return False if the peer has closed `at_boundary`.

    Raises the same errors as `receive_exactly`.
    """
    received = 0
    while received < len(view):
        try:
            if deadline is not None:
                sock.settimeout(max(1e-3, deadline - time.monotonic()))
            got = sock.recv_into(view[received:])
        except TimeoutError:
            if at_boundary and not received:
                raise
            raise NetworkError("the peer timed out inside a message.") from None
        except OSError as error:
            if at_boundary and not received:
                return False
            raise NetworkError(f"the peer disconnected inside a message: {error}.") from None
        if not got:
            if at_boundary and not received:
                return False
            raise NetworkError("the peer closed the connection inside a message.")
        received += got
        on_received(got)
    return True

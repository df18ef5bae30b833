"""Sockets until both ends are proven: listening, dialing, and the handshake of `_auth`."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from sparkwright.errors import NetworkError

from .auth import DRIVER, HELLO, NONCE_BYTES, PROOF_BYTES, Handshake, Keys

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
Address = tuple[str, int]


def dial(
    address: Address,
    *,
    secret: bytes,
    timeout_s: float,
    to: str = DRIVER,
    give_up: Callable[[], bool] = lambda: False,
    reach: Callable[[float], socket.socket] | None = None,
    where: str = "",
) -> tuple[socket.socket, Keys]:
    """The socket to a listener that has proved the secret and its identity; see `connect`.

    `reach`, which gets a time-out in seconds, makes sockets that lead there; by default they are
    connected to `address`. `where` names the listener in errors; by default its address does.

    Raises:
        OSError: if nobody answers there in time.
        NetworkError: if the listener does not know the secret, or is not `to`; that is not tried
            again.
    """
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
    """Greet, or close `sock`.

    Raises:
        OSError: if the listener hangs up: one with many guests at its door disconnects others,
            which can retry.
        NetworkError: if the listener does not know the secret, or is not `to`.
    """
    try:
        return greet_server(sock, secret, to=to)
    except NetworkError as error:
        sock.close()
        raise NetworkError(
            f"the listener at {where} did not prove this run's secret as its {to}: {error}"
        ) from None
    except OSError:
        sock.close()
        raise


def greet_server(sock: socket.socket, secret: bytes, *, to: str = DRIVER) -> Keys:
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
        answer = receive_exactly(
            sock, NONCE_BYTES + 1 + PROOF_BYTES, at_boundary=True, deadline=deadline
        )
    except TimeoutError:
        raise NetworkError("the peer said nothing.") from None
    if answer is None:
        raise ConnectionResetError("it hung up before it had said anything")
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
    """The server's half of the handshake; see `_auth`.

    Raises:
        NetworkError: if the client says something else than it should, or nothing in time.
        OSError: if it hangs up.
    """
    deadline = time.monotonic() + HANDSHAKE_TIMEOUT_S
    sock.settimeout(HANDSHAKE_TIMEOUT_S)
    hello = receive_exactly(sock, len(HELLO) + NONCE_BYTES, deadline=deadline) or b""
    if hello[: len(HELLO)] != HELLO:
        raise NetworkError("the peer did not speak this protocol.")
    client_nonce, server_nonce = bytes(hello[len(HELLO) :]), os.urandom(NONCE_BYTES)
    handshake = Handshake(secret, identity, client_nonce, server_nonce, encrypt)
    sock.sendall(server_nonce + handshake.encrypt_byte + handshake.proof("server"))
    received = receive_exactly(sock, PROOF_BYTES, deadline=deadline) or b""
    if not handshake.is_proof(bytes(received), "client"):
        raise NetworkError("the client's proof is wrong.")
    _tune(sock)
    return handshake.keys("server")


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
            # minute; a process that still listens there does.
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
    heard: Callable[[int], None] = lambda _: None,
) -> bytearray | None:
    """The next `count` bytes; None if the peer has closed `at_boundary` of a message.

    Raises:
        NetworkError: if the peer goes away or falls silent inside a message, or announces more
            than there is memory for.
        TimeoutError: if no byte comes in time, `at_boundary`.
    """
    content = allocate(count)
    if receive_into(
        sock, memoryview(content), at_boundary=at_boundary, deadline=deadline, heard=heard
    ):
        return content
    return None


def allocate(count: int) -> bytearray:
    """Room for `count` bytes that the peer has announced.

    Raises:
        NetworkError: if there is not so much memory.
    """
    try:
        return bytearray(count)
    except MemoryError:
        raise NetworkError(
            f"the peer announced {count} bytes, more than there is memory for."
        ) from None


def receive_into(
    sock: socket.socket,
    view: memoryview,
    *,
    at_boundary: bool = False,
    deadline: float | None = None,
    heard: Callable[[int], None] = lambda _: None,
) -> bool:
    """Fill `view`; False if the peer has closed `at_boundary`. Raises as `receive_exactly`."""
    received = 0
    while received < len(view):
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
                return False
            raise NetworkError(f"the peer went away inside a message: {error}.") from None
        if not got:
            if at_boundary and not received:
                return False
            raise NetworkError("the peer closed the connection inside a message.")
        received += got
        heard(got)
    return True

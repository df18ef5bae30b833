"""Connections between workers, relayed by the driver, for workers that cannot listen.

    worker A -> driver    "connect" | from, to    on a new connection, which then waits
    driver   -> worker B  "connect_back" | ticket    on B's connection to the coordinator
    worker B -> driver    "accept" | ticket    on another new connection
    driver   -> worker A  "connected"

From then on the driver forwards bytes in both directions. A and B first run the handshake for the
identity "worker B", as on a direct connection. So messages are authenticated, and optionally
encrypted, end to end.
"""

import contextlib
import socket
import time
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from sparkwright.errors import NetworkError

from ._splicer import Splicer
from .auth import worker_identity
from .connection import Connection, connect
from .handshake import Address, dial, greet_client

CONNECT, CONNECT_BACK, ACCEPT = "connect", "connect_back", "accept"
_CONNECTED, _REFUSED = "connected", "refused"
# How often a wait checks whether to stop.
_LOOK_S = 0.2
Origin = tuple[int, int]  # (worker, attempt)


class _Waiting(NamedTuple):
    connection: Connection
    awaited: int
    until_s: float


class Relay:
    """The driver's side: connections that wait for the other worker, and relayed connections.

    Holds only connections of workers that have proved the run's secret.
    """

    def __init__(self, *, timeout_s: float, name: str) -> None:
        """Start without connections; each waits for the other worker for at most `timeout_s`."""
        self._timeout_s = timeout_s
        self._splicer = Splicer(name=f"{name}-relay")
        self._waiting: dict[int, _Waiting] = {}
        self._count = 0
        self._lock = Lock()
        self._closed = False

    def wait(self, connection: Connection, *, awaited: int) -> int:
        """Keep `connection` until the worker of connection `awaited` accepts the ticket."""
        with self._lock:
            self._count += 1
            if self._closed:
                connection.close()
            else:
                until_s = time.monotonic() + self._timeout_s
                self._waiting[self._count] = _Waiting(connection, awaited, until_s)
            return self._count

    def accept(self, connection: Connection, ticket: int) -> None:
        """Relay between `connection` and the connection of `ticket`; close it if none waits."""
        with self._lock:
            found = self._waiting.pop(ticket, None)
        if found is None:
            connection.close()
            return
        try:
            found.connection.send(_CONNECTED)
        except NetworkError:
            found.connection.close()
            connection.close()
            return
        self._splicer.splice(found.connection.socket, connection.socket)

    def expire(self) -> None:
        """Close connections whose wait has timed out."""
        now_s = time.monotonic()
        self._close_those(lambda each: each.until_s < now_s)

    def lost(self, awaited: int) -> None:
        """Close connections that wait for a worker whose connection `awaited` was lost."""
        self._close_those(lambda each: each.awaited == awaited)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
        self._close_those(lambda _: True)
        self._splicer.close()

    def _close_those(self, which: Callable[[_Waiting], bool]) -> None:
        with self._lock:
            over = [ticket for ticket, each in self._waiting.items() if which(each)]
            for ticket in over:
                self._waiting.pop(ticket).connection.close()


def refuse(connection: Connection, reason: str) -> None:
    """Reject a worker's request to be connected; called on the driver."""
    with contextlib.suppress(NetworkError):
        connection.send(_REFUSED, {"reason": reason})
    connection.close()


class RelayClient:
    """A worker's side: connects to other workers, and accepts connections, without listening."""

    def __init__(
        self, driver: Address, *, secret: bytes, me: Origin, encrypt: bool, timeout_s: float
    ) -> None:
        """Start without connections; `timeout_s` limits retries to connect to the driver."""
        self.me = me
        self._driver, self._secret, self._encrypt = driver, secret, encrypt
        self._timeout_s = timeout_s

    def connect(self, to: Origin, *, timeout_s: float, give_up: Callable[[], bool]) -> Connection:
        """Connect to a worker, retrying until `timeout_s` has passed or `give_up()` is true."""
        until_s = time.monotonic() + timeout_s

        def reach(_: float) -> socket.socket:
            return self._reach(to, until_s=until_s, timeout_s=timeout_s, give_up=give_up)

        try:
            sock, keys = dial(
                self._driver,
                secret=self._secret,
                timeout_s=timeout_s,
                to=worker_identity(to[0]),
                give_up=give_up,
                reach=reach,
                where=f"worker {to[0]} (attempt {to[1]}), by way of the driver,",
            )
        except NetworkError:
            raise
        except OSError as error:
            raise NetworkError(
                f"{error}. If that worker is slow, increase `MeshConfig(connect_timeout_s=…)`."
            ) from None
        return Connection(sock, keys, relayed=True)

    def accept(self, ticket: int) -> Connection:
        """Accept the connection that waits for `ticket` at the driver."""
        connection = connect(self._driver, secret=self._secret, timeout_s=self._timeout_s)
        try:
            connection.send(ACCEPT, {"ticket": ticket})
            identity = worker_identity(self.me[0])
            keys = greet_client(
                connection.socket, self._secret, identity=identity, encrypt=self._encrypt
            )
        except BaseException:
            connection.close()
            raise
        return Connection(connection.socket, keys, relayed=True)

    def _reach(
        self, to: Origin, *, until_s: float, timeout_s: float, give_up: Callable[[], bool]
    ) -> socket.socket:
        """Open a relayed socket to `to`, before the handshake."""
        left_s = max(0.0, until_s - time.monotonic())
        connection = connect(self._driver, secret=self._secret, timeout_s=left_s, give_up=give_up)
        try:
            connection.send(CONNECT, {"from": self.me, "to": to})
            connection.socket.settimeout(_LOOK_S)
            while True:
                try:
                    answer = connection.receive(max_payload_bytes=0)
                    break
                except TimeoutError:
                    if give_up() or time.monotonic() > until_s:
                        raise TimeoutError(
                            f"worker {self.me[0]} waited {timeout_s:g} s for worker {to[0]} to "
                            "connect back to the driver"
                        ) from None
            if answer is None:
                raise ConnectionResetError("the driver closed the connection")
            if answer.kind != _CONNECTED:
                raise ConnectionRefusedError(str(answer.fields.get("reason", "refused")))
        except BaseException:
            connection.close()
            raise
        return connection.socket

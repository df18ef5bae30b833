"""Connections between workers by way of the driver's port, for workers that may not listen.

    worker A -> driver    "connect" | from, to    on a connection of its own, which then waits
    driver   -> worker B  "connect_back" | ticket    on B's line to the coordinator
    worker B -> driver    "accept" | ticket    on another connection of its own
    driver   -> worker A  "connected"

From then on the driver passes on what comes, both ways. The first thing to come is the handshake
of A with B as "worker B", as on a direct connection. So messages are authenticated, and perhaps
encrypted, between A and B.
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
# How often a wait looks whether it still makes sense.
_LOOK_S = 0.2
Origin = tuple[int, int]  # (worker, attempt)


class _Waiting(NamedTuple):
    connection: Connection
    awaited: int
    until_s: float


class Relay:
    """The driver's part: connections that wait for a worker's answer, and those passed on.

    A connection is here only after its worker has proved the run's secret.
    """

    def __init__(self, *, timeout_s: float, name: str) -> None:
        """Nothing is passed on yet.

        Args:
            timeout_s: how long a connection may wait for the other worker.
            name: what the thread's name begins with.
        """
        self._timeout_s = timeout_s
        self._splicer = Splicer(name=f"{name}-relay")
        self._waiting: dict[int, _Waiting] = {}
        self._count = 0
        self._lock = Lock()
        self._closed = False

    def wait(self, connection: Connection, *, awaited: int) -> int:
        """Keep `connection` until a worker answers.

        Args:
            connection: of the worker that wants to reach the other.
            awaited: the number of the other's line to the coordinator.

        Returns:
            The ticket with which the other is to `accept`.
        """
        with self._lock:
            self._count += 1
            if self._closed:
                connection.close()
            else:
                until_s = time.monotonic() + self._timeout_s
                self._waiting[self._count] = _Waiting(connection, awaited, until_s)
            return self._count

    def accept(self, connection: Connection, ticket: int) -> None:
        """Pass on bytes between `connection` and the one that waits for `ticket`, if it does."""
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
        """Close connections that have waited for too long."""
        now_s = time.monotonic()
        self._close_those(lambda each: each.until_s < now_s)

    def lost(self, awaited: int) -> None:
        """The line `awaited` is gone: close the connections that wait for its worker."""
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
    """Turn away a worker that wants to be connected, on the driver."""
    with contextlib.suppress(NetworkError):
        connection.send(_REFUSED, {"reason": reason})
    connection.close()


class RelayClient:
    """A worker's part: reaches others, and is reached by them, without listening.

    Attributes:
        me: (worker, attempt).
    """

    def __init__(
        self, driver: Address, *, secret: bytes, me: Origin, encrypt: bool, timeout_s: float
    ) -> None:
        """Nothing is connected yet.

        Args:
            driver: the driver's (host, port).
            secret: the run's.
            me: (worker, attempt), whom others name.
            encrypt: whether others' connections are encrypted, not only authenticated.
            timeout_s: how long to try to reach the driver.
        """
        self.me = me
        self._driver, self._secret, self._encrypt = driver, secret, encrypt
        self._timeout_s = timeout_s

    def connect(self, to: Origin, *, timeout_s: float, give_up: Callable[[], bool]) -> Connection:
        """Connect to another worker, trying again until `timeout_s` has passed or `give_up()`.

        Raises:
            NetworkError: if it does not answer in time, or does not prove the run's secret.
        """
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
                f"{error}. If that worker is only slow, raise `MeshConfig(connect_timeout_s=…)`."
            ) from None
        return Connection(sock, keys, relayed=True)

    def accept(self, ticket: int) -> Connection:
        """The connection of the worker that waits for `ticket` at the driver.

        Raises:
            OSError: if the other is gone.
            NetworkError: likewise, or if it does not prove the run's secret.
        """
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
        """A socket whose other end is at `to`, before the handshake.

        Raises:
            OSError: if the worker does not answer in time.
            NetworkError: if the driver cannot be reached.
        """
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
                            "connect to the driver in answer"
                        ) from None
            if answer is None:
                raise ConnectionResetError("the driver closed the connection")
            if answer.kind != _CONNECTED:
                raise ConnectionRefusedError(str(answer.fields.get("reason", "refused")))
        except BaseException:
            connection.close()
            raise
        return connection.socket

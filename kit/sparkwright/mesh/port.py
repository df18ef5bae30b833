"""The single port of a worker, shared by all kinds of peer connections, and its address."""

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence

from sparkwright.errors import ConfigurationError, NetworkError

from .auth import worker_identity
from .connection import Connection, Listener, connect
from .framing import Message
from .handshake import HANDSHAKE_TIMEOUT_S, Address
from .relay import RelayClient

Handler = Callable[[Connection, Message], None]


class PeerPort:
    """Dispatch incoming connections to handlers by the kind of their first message.

    The first message has no payload. A connection without a valid first message within
    `HANDSHAKE_TIMEOUT_S` is closed.
    """

    def __init__(
        self,
        *,
        secret: bytes,
        worker: int,
        host: str,
        ports: Sequence[int],  # to try
        name: str,  # prefix of the threads' names
        encrypt: bool = False,  # in addition to authenticating
        # Then no port is opened, and the caller passes requests to `connect_back`.
        relay: RelayClient | None = None,
    ) -> None:
        """Bind the first free one of `ports` (0: any) on `host` and listen."""
        self.worker = worker  # also its identity
        self._secret, self._relay, self._name = secret, relay, name
        self._handlers: dict[str, Handler] = {}
        # Open connections -> kind of the first message; None before it.
        self._open: dict[Connection, str | None] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._listener: Listener | None = None
        if relay is not None:
            self.address: Address = (host, relay.me[1])
            return
        self._listener = Listener(
            secret=secret,
            host=host,
            ports=ports,
            on_connection=self._introduce,
            name=name,
            identity=worker_identity(worker),
            encrypt=encrypt,
        )
        # With a relay, which needs no port, the port is the worker's attempt.
        self.address = self._listener.address

    def connect(
        self,
        address: Address,
        *,
        worker: int,
        timeout_s: float,  # of all retries
        give_up: Callable[[], bool] = lambda: False,  # whether to stop retrying
    ) -> Connection:
        """Connect to another worker's port; see `mesh.connection.connect`."""
        if self._relay is not None:
            return self._relay.connect((worker, address[1]), timeout_s=timeout_s, give_up=give_up)
        return connect(
            address,
            secret=self._secret,
            to=worker_identity(worker),
            timeout_s=timeout_s,
            give_up=give_up,
        )

    def connect_back(self, ticket: int) -> None:
        """Accept, on a new thread, the connection that waits for this worker at the driver."""

        def take(relay: RelayClient) -> None:
            with contextlib.suppress(NetworkError, OSError):  # reported by the dialing worker
                self._introduce(relay.accept(ticket))

        if self._relay is not None:
            name = f"{self._name}-connect-back"
            threading.Thread(target=take, args=(self._relay,), name=name, daemon=True).start()

    def on(self, kind: str, handler: Handler) -> None:
        """Register a handler of connections whose first message has this `kind`.

        The handler runs on a separate thread and may block. Until it returns, `off` closes the
        connection. Afterwards the handler owns the connection. Register handlers before sending the
        address to peers.
        """
        self._handlers[kind] = handler

    def off(self, kind: str) -> None:
        """Unregister a kind; close its connections whose handler is running."""
        with self._lock:
            self._handlers.pop(kind, None)
            for connection in [each for each, of in self._open.items() if of == kind]:
                connection.close()

    def close(self) -> None:
        """Stop listening and close connections that have not sent their first message.

        Connections passed to a handler stay open.
        """
        with self._lock:
            self._closed = True
            for connection in [each for each, of in self._open.items() if of is None]:
                connection.close()
        if self._listener is not None:
            self._listener.close()

    def _introduce(self, connection: Connection) -> None:
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._open[connection] = None
        message = _first_message(connection)
        with self._lock:
            handler = None if message is None else self._handlers.get(message.kind)
            if message is None or handler is None or self._closed:
                del self._open[connection]
                connection.close()
                return
            self._open[connection] = message.kind
        try:
            handler(connection, message)
        finally:
            with self._lock:
                del self._open[connection]


def _first_message(connection: Connection) -> Message | None:
    try:
        connection.socket.settimeout(HANDSHAKE_TIMEOUT_S)
        message = connection.receive(max_payload_bytes=0)
        connection.socket.settimeout(None)
    except (NetworkError, OSError):
        return None
    return message


def address_in(network_mask: str) -> str:
    """Return this machine's IPv4 address within a network."""
    import psutil

    network = ipaddress.ip_network(network_mask, strict=False)
    found = [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET
    ]
    inside = [a for a in found if ipaddress.ip_address(a) in network]
    if not inside:
        raise ConfigurationError(
            "`network_mask` must contain an address of this machine. Received: "
            f"network_mask={network_mask!r}; this machine has {sorted(found)}."
        )
    return inside[0]

"""One port a worker, whatever its peers want of it, and the address it listens on."""

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
    """Hands each connection to whoever takes those that begin with such a message.

    A first message has a kind, fields and no payload. A connection that begins with something
    else, or says nothing for `HANDSHAKE_TIMEOUT_S`, is closed.

    Attributes:
        address: (host, port) that it listens on. With a relay, which needs none, the worker's
            attempt stands for the port, so that nobody reaches the wrong attempt.
        worker: whom others mean to reach here.
    """

    def __init__(
        self,
        *,
        secret: bytes,
        worker: int,
        host: str,
        ports: Sequence[int],
        name: str,
        encrypt: bool = False,
        relay: RelayClient | None = None,
    ) -> None:
        """Bind the first free one of `ports` (0: any) on `host` and listen.

        Args:
            secret: the run's.
            worker: whom others mean to reach here.
            host: the address to listen on.
            ports: the ports to try.
            name: what the threads' names begin with.
            encrypt: whether connections are encrypted, not only authenticated.
            relay: connects workers by way of the driver; then nothing listens here, and the
                driver's calls are to be passed to `connect_back`. Default None.

        Raises:
            NetworkError: if none of the ports can be opened.
        """
        self.worker = worker
        self._secret, self._relay, self._name = secret, relay, name
        self._handlers: dict[str, Handler] = {}
        # Of those introducing themselves (None), or being handled, the kind.
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
        self.address = self._listener.address

    def connect(
        self,
        address: Address,
        *,
        worker: int,
        timeout_s: float,
        give_up: Callable[[], bool] = lambda: False,
    ) -> Connection:
        """Connect to another worker's port; see `mesh.connection.connect`.

        Args:
            address: of the other's port.
            worker: who must be there.
            timeout_s: how long to try.
            give_up: whether to stop trying.

        Raises:
            NetworkError: if it cannot be reached in time, or does not prove the run's secret.
        """
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
        """Take the connection that waits for this worker at the driver, on a thread of its own."""

        def take(relay: RelayClient) -> None:
            with contextlib.suppress(NetworkError, OSError):  # the other reports its side of it
                self._introduce(relay.accept(ticket))

        if self._relay is not None:
            name = f"{self._name}-connect-back"
            threading.Thread(target=take, args=(self._relay,), name=name, daemon=True).start()

    def on(self, kind: str, handler: Handler) -> None:
        """From now on, connections whose first message is a `kind` belong to `handler`.

        It is called on a thread of that connection's own and may stay there: until it returns,
        `off` closes the connection. Afterwards the connection is its to close. Register before the
        address is sent to a peer.
        """
        self._handlers[kind] = handler

    def off(self, kind: str) -> None:
        """Turn connections of that kind away from now on, and close those being handled."""
        with self._lock:
            self._handlers.pop(kind, None)
            for connection in [each for each, of in self._open.items() if of == kind]:
                connection.close()

    def close(self) -> None:
        """Stop listening and drop connections that have not introduced themselves.

        Connections that a handler has taken stay open.
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
    """This machine's IPv4 address within a network.

    Raises:
        ConfigurationError: if there is none; lists those that there are.
    """
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

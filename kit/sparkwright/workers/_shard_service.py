"""Hands minibatches of one worker's shard to workers that help it."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError
from sparkwright.mesh._auth import worker_identity
from sparkwright.mesh._connection import Address, Connection, connect
from sparkwright.mesh._framing import Message
from sparkwright.mesh._port import PeerPort

from ._shard import Shard

INTRODUCTION = "shard"
_MAX_ROWS_BYTES = 64 << 20


class ShardServer:
    """Answers requests for examples of a shard until closed."""

    def __init__(self, shard: Shard, port: PeerPort) -> None:
        """Take connections of `port` that ask for examples."""
        self._shard, self._port = shard, port
        self._connections: set[Connection] = set()
        self._lock = threading.Lock()
        self._closed = False
        port.on(INTRODUCTION, self._serve)

    def close(self) -> None:
        """Hang up on all helpers."""
        self._port.off(INTRODUCTION)
        with self._lock:
            self._closed = True
            for connection in self._connections:
                connection.close()

    def _serve(self, connection: Connection, _: Message) -> None:
        """Answer one helper until it hangs up.

        A request's payload is an int64 array of row numbers of any shape; the answer's is the
        columns' arrays one after another, whose dtypes and shapes its fields tell.
        """
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._connections.add(connection)
        try:
            connection.socket.settimeout(None)
            while (message := connection.receive(max_payload_bytes=_MAX_ROWS_BYTES)) is not None:
                rows = np.frombuffer(message.payload, np.int64).reshape(message.fields["shape"])
                if rows.size and not (rows.min() >= 0 and rows.max() < self._shard.rows):
                    raise NetworkError(f"rows must lie in 0..{self._shard.rows - 1}.")
                found = self._shard.gather(rows)
                columns = [[name, array.dtype.str, array.shape] for name, array in found.items()]
                connection.send("examples", {"columns": columns}, tuple(found.values()))
        except (NetworkError, OSError, ValueError, KeyError):
            pass  # the helper reports its own side of it
        finally:
            connection.close()
            with self._lock:
                self._connections.discard(connection)


class RemoteShard:
    """Another worker's shard, asked for over the network.

    Attributes:
        rows: how many examples it has.
    """

    def __init__(
        self, address: Address, *, worker: int, rows: int, secret: bytes,
        connect_timeout_s: float, peer_timeout_s: float,
    ) -> None:  # fmt: skip
        """Nothing is connected before the first `gather`."""
        self.rows = rows
        self._address, self._worker, self._secret = address, worker, secret
        self._connect_timeout_s, self._peer_timeout_s = connect_timeout_s, peer_timeout_s
        self._connection: Connection | None = None
        self.gone = False

    def gather(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """As `Shard.gather`.

        Raises:
            NetworkError: if its worker is gone or does not answer in time.
        """
        message: Message | None = None
        try:
            if not self.gone:
                message = self._ask(rows)
        except (OSError, NetworkError):  # a time-out is an OSError
            message = None
        if message is None:
            self.close()
            raise NetworkError(
                f"the worker at {self._address[0]}:{self._address[1]} did not send its examples "
                f"within {self._peer_timeout_s:g} s."
            )
        return _columns(message)

    def close(self) -> None:
        """Hang up, for good; from any thread."""
        self.gone = True
        connection = self._connection
        if connection is not None:
            connection.close()

    def _ask(self, rows: NDArray[np.int64]) -> Message | None:
        connection = self._connection
        if connection is None:
            connection = self._connection = connect(
                self._address,
                secret=self._secret,
                to=worker_identity(self._worker),
                timeout_s=self._connect_timeout_s,
                give_up=lambda: self.gone,
            )
            connection.send(INTRODUCTION)
            connection.socket.settimeout(self._peer_timeout_s)
        connection.send("rows", {"shape": rows.shape}, (np.ascontiguousarray(rows),))
        return connection.receive()


class ShardSource:
    """Where other workers' shards are; changes with the group."""

    def __init__(self, *, secret: bytes, connect_timeout_s: float, peer_timeout_s: float) -> None:
        """Know nobody yet."""
        self._secret = secret
        self._connect_timeout_s, self._peer_timeout_s = connect_timeout_s, peer_timeout_s
        self._shards: dict[int, tuple[Address, RemoteShard]] = {}

    def use(self, addresses: dict[int, Address], rows: Sequence[int]) -> None:
        """Know where each worker is, and how many examples each has."""
        for worker, (address, shard) in list(self._shards.items()):
            if addresses.get(worker) != address or shard.gone:
                shard.close()
                del self._shards[worker]
        for worker, address in addresses.items():
            if worker not in self._shards:
                remote = RemoteShard(
                    address,
                    worker=worker,
                    rows=rows[worker],
                    secret=self._secret,
                    connect_timeout_s=self._connect_timeout_s,
                    peer_timeout_s=self._peer_timeout_s,
                )
                self._shards[worker] = address, remote

    def of(self, worker: int) -> RemoteShard:
        """The shard of `worker`.

        Raises:
            NetworkError: if that worker is not in the group.
        """
        if worker not in self._shards:
            raise NetworkError(f"worker {worker} has left the group, and its data with it.")
        return self._shards[worker][1]

    def close(self) -> None:
        """Hang up on all."""
        for _, shard in self._shards.values():
            shard.close()
        self._shards = {}


def _columns(message: Message) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    start = 0
    for name, dtype, shape in message.fields["columns"]:
        count = int(np.prod(shape))
        found[name] = np.frombuffer(message.payload, np.dtype(dtype), count, start).reshape(shape)
        start += found[name].nbytes
    return found

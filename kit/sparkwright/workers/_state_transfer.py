"""Transfer of a worker's state to a new worker."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sparkwright.errors import NetworkError
from sparkwright.mesh.connection import Address, Connection
from sparkwright.mesh.framing import Message
from sparkwright.mesh.port import PeerPort

from ._wire import pack, unpack

INTRODUCTION = "state"


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A worker's state between two minibatches."""

    vector: NDArray[Any]  # in the layout of `ModelState.read`, with the optimizer's
    extras: bytes  # not averaged, with the seeds of worker 0
    iterations: int  # of the optimizer
    clock: int  # minibatches trained
    clocks: dict[int, int]  # by worker, as far as known
    versions: dict[tuple[int, int], int]  # (worker, attempt) -> its last update included


class StateServer:
    """Queue requests of new workers for a state, until the training thread serves them."""

    def __init__(self, port: PeerPort, *, me: tuple[int, int]) -> None:
        """Register with `port` for state requests to (worker, attempt) `me`."""
        self._port, self._me = port, me
        self._lock = threading.Lock()
        self._waiting: list[Connection] = []
        self._sending: list[threading.Thread] = []
        self._closed = False
        port.on(INTRODUCTION, self._arrive)

    def serve(self, take: Callable[[], Snapshot]) -> None:
        """Send the result of `take` to all waiting workers, each on its own thread."""
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, []
        snapshot = take()
        for connection in waiting:
            thread = threading.Thread(
                target=_send, args=(connection, snapshot), name="sparkwright-state", daemon=True
            )
            self._sending = [t for t in self._sending if t.is_alive()] + [thread]
            thread.start()

    def close(self) -> None:
        """Close waiting connections; wait up to 5 s for each running transfer."""
        self._port.off(INTRODUCTION)
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.close()
        for thread in self._sending:
            thread.join(timeout=5.0)

    def _arrive(self, connection: Connection, hello: Message) -> None:
        with self._lock:
            if self._closed or hello.fields.get("of") != list(self._me):
                connection.close()
            else:
                self._waiting.append(connection)


def fetch_state(
    address: Address,
    *,
    of: tuple[int, int],
    port: PeerPort,
    size: int,
    connect_timeout_s: float,
    peer_timeout_s: float,
) -> Snapshot:
    """Fetch the state of the worker at `address`, which must be (worker, attempt) `of`."""
    connection = port.connect(address, worker=of[0], timeout_s=connect_timeout_s)
    try:
        connection.send(INTRODUCTION, {"of": of})
        # The worker answers between two minibatches, which may take long.
        connection.socket.settimeout(max(peer_timeout_s, connect_timeout_s))
        message = connection.receive()
    except TimeoutError:
        message = None
    finally:
        connection.close()
    found = None if message is None else unpack(message, own_code=False)
    if not (isinstance(found, Snapshot) and found.vector.shape == (size,)):
        raise NetworkError(f"worker {of[0]} on {address[0]} did not send its state.")
    return found


def _send(connection: Connection, snapshot: Snapshot) -> None:
    with contextlib.suppress(NetworkError, OSError):  # the new worker has disconnected
        connection.send("state", *pack(snapshot, own_code=False))
    connection.close()

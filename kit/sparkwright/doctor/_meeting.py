"""The rendezvous of the doctor's tasks with the driver, over the connections of a run.

All tasks wait for each other, so that each slot is examined once. They compare clocks with the
driver and connect to each other's ports. Every message has the kind "doctor".
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sparkwright.errors import NetworkError
from sparkwright.masters.mesh_config import ports_in_variable
from sparkwright.mesh.connection import Connection, Listener
from sparkwright.mesh.handshake import Address, dial
from sparkwright.mesh.port import address_in

if TYPE_CHECKING:
    from ._probe import Orders

_LOOK_AGAIN_S = 0.5
_CLOCK_QUESTIONS = 8
_MOST_PEERS = 16


class Meeting:
    """The driver's side: listens like a run until all tasks, or no more tasks, connect."""

    def __init__(
        self,
        *,
        secret: bytes,
        host: str,
        ports: Sequence[int],
        tasks: int,
        quiet_s: float,  # without a new task: continue without those that have not started
        timeout_s: float,  # without a message
    ) -> None:
        """Open a port for `tasks` tasks."""
        self.came: set[int] = set()
        self.answers: dict[str, dict[str, Any]] = {}
        self.running: Callable[[], int] = lambda: 0
        self._tasks, self._quiet_s, self._timeout_s = tasks, quiet_s, timeout_s
        self._addresses: dict[str, list[Any]] = {}
        self._labels: dict[str, str] = {}
        self._tried = 0
        self._last_news_s = time.monotonic()
        self._begun = False  # whether the wait for tasks has ended
        self._closed = False
        self._changed = threading.Condition()
        self._connections: set[Connection] = set()
        self._listener = Listener(
            secret=secret, host=host, ports=ports, on_connection=self._attend, name="doctor"
        )
        self.address: Address = self._listener.address

    def close(self) -> None:
        """Stop listening and close the remaining connections."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            connections = tuple(self._connections)
        self._listener.close()
        for connection in connections:
            connection.close()

    def _attend(self, connection: Connection) -> None:
        with self._changed:
            if self._closed:
                connection.close()
                return
            self._connections.add(connection)
        connection.socket.settimeout(self._timeout_s)
        try:
            # The task reports connection errors if it can.
            with contextlib.suppress(OSError, NetworkError, LookupError, TypeError, ValueError):
                self._converse(connection)
        finally:
            connection.close()
            with self._changed:
                self._connections.discard(connection)
                self._changed.notify_all()

    def _converse(self, connection: Connection) -> None:
        hello = _receive(connection)
        executor, label = str(hello["executor"]), str(hello["label"])
        with self._changed:
            is_first = executor not in self._labels
            self._labels[executor] = label
        _send(connection, first=is_first)
        fields = _receive(connection)
        while fields.get("time"):
            _send(connection, came=time.time(), left=time.time())
            fields = _receive(connection)
        if is_first:
            self._arrive(executor, label, fields)
        self._wait_for_all(int(hello["task"]))
        if is_first:
            _send(connection, others=self._others(executor))
            self._have_tried(executor, _receive(connection)["peers"])
        _send(connection)

    def _arrive(self, executor: str, label: str, message: dict[str, Any]) -> None:
        with self._changed:
            if message["address"] is not None:
                host, port = message["address"]
                self._addresses[executor] = [str(host), int(port)]
            self.answers[executor] = {
                "executor": executor,
                "label": label,
                "place": dict(message["place"]),
                "samples": message["samples"],
            }

    def _wait_for_all(self, task: int) -> None:
        with self._changed:
            if self._begun:
                return  # a late task in a slot that became free
            self.came.add(task)
            self._last_news_s = time.monotonic()
            self._changed.notify_all()
            while len(self.came) < self._tasks and not self._closed and not self._begun:
                rest_s = self._last_news_s + self._quiet_s - time.monotonic()
                if rest_s <= 0 and self.running() <= len(self.came):
                    break
                self._changed.wait(rest_s if rest_s > 0 else _LOOK_AGAIN_S)
            self._begun = True
            self._changed.notify_all()

    def _others(self, executor: str) -> dict[str, list[Any]]:
        with self._changed:
            if executor not in self._addresses:
                return {}
            chosen = partners(executor, sorted(self._addresses))
            return {self._labels[other]: self._addresses[other] for other in chosen}

    def _have_tried(self, executor: str, peers: dict[str, Any]) -> None:
        with self._changed:
            place = self.answers[executor]["place"]
            place["peers"] = {str(label): str(problem) for label, problem in peers.items()}
            self._tried += 1
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._tried >= len(self.answers) or self._closed, self._timeout_s / 2
            )


def attend(
    orders: "Orders", hello: dict[str, Any], place: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    """Run a task's side of the meeting; `place` examines the machine."""
    assert orders.driver is not None
    connection = Connection(*dial(orders.driver, secret=orders.secret, timeout_s=orders.connect_s))
    connection.socket.settimeout(orders.wait_s)
    with contextlib.closing(connection), contextlib.ExitStack() as stack:
        _send(connection, **hello)
        if not _receive(connection)["first"]:
            _send(connection)
            _receive(connection)
            return {}
        samples = [_query_time(connection, orders.clock) for _ in range(_CLOCK_QUESTIONS)]
        found, address = {**place(""), "port_problem": ""}, None
        try:
            listener = _open(orders, connection, identity=hello["label"])
            stack.callback(listener.close)  # stays open until all tasks have tried it
            address = list(listener.address)
        except (OSError, ValueError, ImportError) as error:
            found["port_problem"] = str(error)
        _send(connection, place=found, samples=samples, address=address)
        found["peers"] = _try_all(_receive(connection)["others"], orders)
        _send(connection, peers=found["peers"])
        _receive(connection)
    return {"place": found, "samples": samples}


def _open(orders: "Orders", to_driver: Connection, *, identity: str) -> Listener:
    """Open a port like a worker of a run."""
    host, ports = to_driver.socket.getsockname()[0], orders.ports
    return Listener(
        secret=orders.secret,
        host=host if orders.network_mask is None else address_in(orders.network_mask),
        ports=ports_in_variable(ports, os.environ) if isinstance(ports, str) else ports,
        on_connection=Connection.close,
        name="doctor",
        identity=identity,
    )


def _query_time(connection: Connection, clock: Callable[[], float]) -> list[float]:
    """Return the times of request sent, request received, response sent, response received."""
    asked = clock()
    _send(connection, time=True)
    answer = _receive(connection)
    return [asked, float(answer["came"]), float(answer["left"]), clock()]


def _try_all(others: dict[str, list[Any]], orders: "Orders") -> dict[str, str]:
    """Return the connection error of each label; "" on success."""

    def attempt(label: str, host: str, port: int) -> str:
        try:
            sock, _ = dial((host, port), secret=orders.secret, to=label, timeout_s=orders.connect_s)
            sock.close()
        except OSError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(_MOST_PEERS) as pool:
        found = {label: pool.submit(attempt, label, *others[label]) for label in others}
    return {label: future.result() for label, future in found.items()}


def partners(me: str, all_of_them: Sequence[str]) -> list[str]:
    """Choose the executors that executor `me` connects to: all others, or evenly spaced ones.

    Example:
        >>> partners("b", ["a", "b", "c"])
        ['c', 'a']
    """
    start = all_of_them.index(me)
    others = [*all_of_them[start + 1 :], *all_of_them[:start]]
    if len(others) <= _MOST_PEERS:
        return others
    return [others[number * len(others) // _MOST_PEERS] for number in range(_MOST_PEERS)]


def _send(connection: Connection, **fields: Any) -> None:
    connection.send("doctor", fields)


def _receive(connection: Connection) -> dict[str, Any]:
    message = connection.receive(max_payload_bytes=0)
    if message is None:
        raise ConnectionError("the other end closed the connection.")
    return message.fields

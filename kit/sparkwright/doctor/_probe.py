"""What runs inside the tasks of the doctor's job: look around, meet the others, try their ports.

It is sent whole to executors, where the kit may be missing: see `_gathering`.
"""

import contextlib
import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.masters._port_span import ports_in_variable
from sparkwright.mesh._addresses import address_in
from sparkwright.mesh._handshake import bind, close_socket, dial, greet_client

from ._at_once import all_within
from ._lines import Lines
from ._machine import examine, java_above, no_kit

_CLOCK_QUESTIONS = 8
_MOST_PEERS = 16
_ACCEPT_S = 0.5
_HOLD_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What the driver wants tasks to do.

    Attributes:
        driver: (host, port) where the driver listens; None: it has no port open.
        secret: that both ends prove.
        ports: those that an executor may open; (0,): any; or the name of the environment variable
            in which each machine keeps its own.
        network_mask: the network of the executors' addresses; None: the one that leads to the
            driver.
        connect_s: how long to try to connect.
        wait_s: how long to wait for the driver's word, which waits for the other tasks.
        folders: folder to write to -> URL as it is told; see `_files`.
        files_s: how long reading and writing may take.
        clock: what time it is.
        find_kit: looks for the kit, without importing it.
    """

    driver: tuple[str, int] | None
    secret: bytes
    ports: Sequence[int] | str
    network_mask: str | None
    connect_s: float
    wait_s: float
    folders: dict[str, str]
    files_s: float
    clock: Callable[[], float] = time.time
    find_kit: Callable[[str], dict[str, Any]] = no_kit


def look(orders: Orders, task: int) -> dict[str, Any]:
    """One task's answer: `executor`, `label`, `place`, `samples`; or `executor` alone.

    The first task of an executor does the work; the others hold their slots meanwhile, so that
    Spark gives the rest to other executors.
    """
    java = java_above()
    number, host = java.get("executor"), socket.gethostname()
    executor = f"{host}/{java.get('pid', os.getppid())}"
    label = f"executor {number} ({host})" if number else f"executor ({host})"
    answer: dict[str, Any] = {"executor": executor, "label": label}
    answer.update(_met(orders, answer, task=task, java=java))
    if "place" in answer and orders.folders:
        answer["place"]["files"] = _files(orders, executor)
    return answer


def _met(
    orders: Orders, answer: dict[str, Any], *, task: int, java: dict[str, Any]
) -> dict[str, Any]:
    """What came of the meeting; without one, what can be told alone."""
    if orders.driver is None:
        time.sleep(_HOLD_S)  # or one slot would be given to several tasks, another to none
        return {"place": _place(orders, java)}
    lines: Lines | None = None
    try:
        lines = _connect(orders)
        return _meet(lines, orders, answer, task=task, java=java)
    except (OSError, LookupError, TypeError, ValueError) as error:
        return {
            "place": {**_place(orders, java), "driver_problem": str(error) or type(error).__name__}
        }
    finally:
        if lines is not None:
            close_socket(lines.socket)


def _place(orders: Orders, java: dict[str, Any]) -> dict[str, Any]:
    found = examine(find_kit=orders.find_kit, java=java)
    return {**found, "gpu_addresses": _gpu_addresses()}


def _connect(orders: Orders) -> Lines:
    """The driver, which is tried again until `connect_s` have passed.

    Raises:
        OSError: if it cannot be reached, or is somebody else.
    """
    assert orders.driver is not None
    sock, keys = dial(orders.driver, secret=orders.secret, timeout_s=orders.connect_s)
    return Lines(sock, keys, timeout_s=orders.wait_s)


def _meet(
    lines: Lines, orders: Orders, answer: dict[str, Any], *, task: int, java: dict[str, Any]
) -> dict[str, Any]:
    """Speak with the driver to the end.

    Raises:
        OSError: if it goes away, or waits for others too long.
    """
    lines.send({"executor": answer["executor"], "label": answer["label"], "task": task})
    if not lines.receive()["first"]:
        lines.send({})
        lines.receive()
        return {}
    samples = [_ask_the_time(lines, orders.clock) for _ in range(_CLOCK_QUESTIONS)]
    place = {**_place(orders, java), "driver_problem": ""}
    with _Port(orders, lines.socket, answer["label"]) as port:
        place["port_problem"] = port.problem
        lines.send({"place": place, "samples": samples, "address": port.address})
        others: dict[str, list[Any]] = lines.receive()["others"]
        place["peers"] = _try_all(others, orders)
        lines.send({"peers": place["peers"]})
        # The port stays open until all have tried it.
        lines.receive()
    return {"place": place, "samples": samples}


def _ask_the_time(lines: Lines, clock: Callable[[], float]) -> list[float]:
    """When the question was sent, came, was answered, and when the answer came back."""
    asked = clock()
    lines.send({"time": True})
    answer = lines.receive()
    return [asked, float(answer["came"]), float(answer["left"]), clock()]


def _gpu_addresses() -> list[str]:
    """What Spark gave to this task."""
    try:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        gpu = context.resources().get("gpu") if context is not None else None
    except ImportError:
        return []
    return list(gpu.addresses) if gpu is not None else []


class _Port:
    """A port as a worker of a run would open one, for the time of a `with`.

    Attributes:
        address: [host, port]; None if none could be opened.
        problem: why not; else "".
    """

    def __init__(self, orders: Orders, to_driver: socket.socket, label: str) -> None:
        self.address: list[Any] | None = None
        self.problem = ""
        self._secret, self._label = orders.secret, label
        self._over = threading.Event()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        try:
            host = to_driver.getsockname()[0]
            if orders.network_mask is not None:
                host = address_in(orders.network_mask)
            ports = orders.ports
            if isinstance(ports, str):
                ports = ports_in_variable(ports, os.environ)
            self._socket = bind(host, ports)
            self._socket.settimeout(_ACCEPT_S)
        except (OSError, ValueError, ImportError) as error:
            self.problem = str(error)
            return
        self.address = [host, self._socket.getsockname()[1]]
        self._thread = threading.Thread(target=self._accept, args=(self._socket,), daemon=True)
        self._thread.start()

    def __enter__(self) -> "_Port":
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._socket is not None and self._thread is not None:
            close_socket(self._socket)
            self._thread.join(5.0)

    def _accept(self, listening: socket.socket) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                sock, _ = listening.accept()
                threading.Thread(target=self._greet, args=(sock,), daemon=True).start()

    def _greet(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, NetworkError):
            greet_client(sock, self._secret, identity=self._label)
        sock.close()


def partners(me: str, all_of_them: Sequence[str], *, most: int = _MOST_PEERS) -> list[str]:
    """Whom one executor tries: all others, or so many spread evenly, different ones for each.

    Example:
        >>> partners("b", ["a", "b", "c"])
        ['c', 'a']
    """
    start = all_of_them.index(me)
    others = [*all_of_them[start + 1 :], *all_of_them[:start]]
    if len(others) <= most:
        return others
    return [others[number * len(others) // most] for number in range(most)]


def _try_all(others: dict[str, list[Any]], orders: Orders) -> dict[str, str]:
    """Label -> why its port was not reached; "" if it was."""

    def attempt(label: str, host: str, port: int) -> str:
        try:
            sock, _ = dial((host, port), secret=orders.secret, to=label, timeout_s=orders.connect_s)
            sock.close()
        except OSError as error:
            return str(error)
        return ""

    actions = {label: partial(attempt, label, *address) for label, address in others.items()}
    seconds = 2 * orders.connect_s
    return all_within(actions, seconds, f"no answer within {seconds:g} s")


def _files(orders: Orders, executor: str) -> dict[str, str]:
    """URL as it is told -> why the driver's file there cannot be read or one be written."""
    name = file_of(executor)
    actions = {
        url: partial(_read_and_write, folder, name) for folder, url in orders.folders.items()
    }
    otherwise = f"reading and writing took more than {orders.files_s:g} s"
    return all_within(actions, orders.files_s, otherwise)


def file_of(executor: str) -> str:
    """The name of an executor's file."""
    return hashlib.sha256(executor.encode()).hexdigest()[:16]


def _read_and_write(folder: str, name: str) -> str:
    # Here, and not above: the kit may be missing, which is told elsewhere.
    from sparkwright.storage._files import join, read_bytes, write_bytes

    write_bytes(join(folder, name), read_bytes(join(folder, "driver")))
    return ""

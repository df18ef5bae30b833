"""What runs inside the tasks of the doctor's job: look around, meet the others, try their ports.

It is sent whole to executors, where the kit may be missing: see `_gathering`.
"""

import contextlib
import hashlib
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.mesh._addresses import address_in
from sparkwright.mesh._connection import close_socket, greet_client, greet_server

from ._lines import Lines
from ._machine import examine, java_above, no_kit

_CLOCK_QUESTIONS = 8
_MOST_PEERS = 16
_BACKLOG = 128
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
    deadline = time.monotonic() + orders.connect_s
    while True:
        try:
            sock = socket.create_connection(orders.driver, timeout=orders.connect_s)
            break
        except OSError as error:
            if time.monotonic() >= deadline:
                host, port = orders.driver
                raise ConnectionError(
                    f"{host}:{port} was not reached within {orders.connect_s:g} s ({error})"
                ) from None
            time.sleep(0.1)
    try:
        greet_server(sock, orders.secret)
    except (OSError, NetworkError) as error:
        sock.close()
        raise ConnectionError(
            f"who listens at {orders.driver[0]}:{orders.driver[1]} is not the driver ({error})"
        ) from None
    return Lines(sock, timeout_s=orders.wait_s)


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
    with _Port(orders, lines.socket) as port:
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

    def __init__(self, orders: Orders, to_driver: socket.socket) -> None:
        self.address: list[Any] | None = None
        self.problem = ""
        self._secret = orders.secret
        self._over = threading.Event()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        try:
            host = to_driver.getsockname()[0]
            if orders.network_mask is not None:
                host = address_in(orders.network_mask)
            self._socket = _bound(host, ports_here(orders.ports))
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
            greet_client(sock, self._secret)
        sock.close()


def ports_here(ports: Sequence[int] | str) -> Sequence[int]:
    """The ports that may be opened on this machine.

    Raises:
        ValueError: if the variable that should say so does not.
    """
    if not isinstance(ports, str):
        return ports
    text = os.environ.get(ports, "")
    match = re.fullmatch(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", text)
    if match is None:
        raise ValueError(f"the environment variable {ports} must name ports. Received: {text!r}")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


def _bound(host: str, ports: Sequence[int]) -> socket.socket:
    problem: OSError | None = None
    for port in ports:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(_BACKLOG)
            sock.settimeout(_ACCEPT_S)
        except OSError as error:
            sock.close()
            problem = error
        else:
            return sock
    raise OSError(
        f"no port could be opened on {host}. Received: ports={ports[0]} to {ports[-1]} ({problem})"
    )


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
    """Label -> why its port was not reached; "" if it was. All at the same time."""
    found = {label: f"no answer within {2 * orders.connect_s:g} s" for label in others}

    def attempt(label: str, host: str, port: int) -> None:
        found[label] = _try(host, port, orders)

    threads = [
        threading.Thread(target=attempt, args=(label, *address), daemon=True)
        for label, address in others.items()
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 2 * orders.connect_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def _try(host: str, port: int, orders: Orders) -> str:
    try:
        with socket.create_connection((host, port), timeout=orders.connect_s) as sock:
            greet_server(sock, orders.secret)
    except (OSError, NetworkError) as error:
        return f"{host}:{port} ({error})"
    return ""


def _files(orders: Orders, executor: str) -> dict[str, str]:
    """URL as it is told -> why the driver's file there cannot be read or one be written."""
    found = {
        url: f"reading and writing took more than {orders.files_s:g} s"
        for url in orders.folders.values()
    }

    def attempt(folder: str, url: str) -> None:
        found[url] = _read_and_write(folder, file_of(executor))

    threads = [
        threading.Thread(target=attempt, args=item, daemon=True) for item in orders.folders.items()
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + orders.files_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def file_of(executor: str) -> str:
    """The name of an executor's file."""
    return hashlib.sha256(executor.encode()).hexdigest()[:16]


def _read_and_write(folder: str, name: str) -> str:
    try:
        # Here, and not above: the kit may be missing, which is told elsewhere.
        from sparkwright.storage._files import join, read_bytes, write_bytes

        content = read_bytes(join(folder, "driver"))
        write_bytes(join(folder, name), content)
    except Exception as error:
        # Whatever a store's client raises: it is told, and the other checks go on.
        return f"{type(error).__name__}: {error}"
    return ""

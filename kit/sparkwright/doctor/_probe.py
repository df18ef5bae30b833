"""What runs inside the tasks of the doctor's job: examine the machine, meet the others, try files.

It is sent whole to executors, where the kit may be missing: what needs the kit is imported inside
functions, after the machine has been examined.
"""

import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ._machine import examine, java_above, no_kit

_HOLD_S = 1.0
_MOST_AT_ONCE = 32


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
        wait_s: how long to wait for the driver's answer, which waits for the other tasks.
        folders: folder to write to -> URL as it is shown; see `_files`.
        files_s: how long reading and writing may take.
        clock: returns the wall clock's time.
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
    """Return one task's answer: `executor`, `label`, `place`, `samples`; or `executor` alone.

    The first task of an executor does the work; the others hold their slots meanwhile, so that
    Spark gives the rest to other executors.
    """
    java = java_above()
    number, host = java.get("executor"), socket.gethostname()
    executor = f"{host}/{java.get('pid', os.getppid())}"
    label = f"executor {number} ({host})" if number else f"executor ({host})"
    answer: dict[str, Any] = {"executor": executor, "label": label}

    def place() -> dict[str, Any]:
        found = examine(find_kit=orders.find_kit, java=java)
        return {**found, "gpu_addresses": _gpu_addresses()}

    answer.update(_met(orders, {**answer, "task": task}, place))
    if "place" in answer and orders.folders:
        answer["place"]["files"] = _files(orders, executor)
    return answer


def _met(
    orders: Orders, hello: dict[str, Any], place: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Return what came of the meeting; without one, what the task finds out alone."""
    if orders.driver is None:
        time.sleep(_HOLD_S)  # or one slot would be given to several tasks, another to none
        return {"place": place()}
    try:
        from sparkwright.doctor._meeting import attend

        return attend(orders, hello, place)
    except ImportError as error:
        time.sleep(_HOLD_S)
        return {"place": {**place(), "driver_problem": f"the kit cannot be imported: {error}"}}
    except (OSError, LookupError, TypeError, ValueError) as error:
        problem = str(error) or type(error).__name__
        return {"place": {**place(), "driver_problem": problem}}


def _gpu_addresses() -> list[str]:
    """Return what Spark gave to this task."""
    try:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        gpu = context.resources().get("gpu") if context is not None else None
    except ImportError:
        return []
    return list(gpu.addresses) if gpu is not None else []


def _files(orders: Orders, executor: str) -> dict[str, str]:
    """Return for each URL why the driver's file there cannot be read or one be written."""
    name = file_of(executor)
    actions = {
        url: partial(_read_and_write, folder, name) for folder, url in orders.folders.items()
    }
    otherwise = f"reading and writing took more than {orders.files_s:g} s"
    return all_within(actions, orders.files_s, otherwise)


def file_of(executor: str) -> str:
    """Return the name of an executor's file."""
    return hashlib.sha256(executor.encode()).hexdigest()[:16]


def _read_and_write(folder: str, name: str) -> str:
    from sparkwright.storage._files import join, read_bytes, write_bytes

    write_bytes(join(folder, name), read_bytes(join(folder, "driver")))
    return ""


def all_within(
    actions: Mapping[str, Callable[[], str]], seconds: float, otherwise: str
) -> dict[str, str]:
    """Run actions at the same time, each of which may hang; return what each returns, by name.

    Args:
        actions: an exception of one is returned as text.
        seconds: how long to wait for all of them; threads that hang are left alone.
        otherwise: counts for those that have not ended by then.

    Example:
        >>> all_within({"a": lambda: "", "b": lambda: str(1 / 0)}, 5.0, "too slow")
        {'a': '', 'b': 'ZeroDivisionError: division by zero'}
    """
    found = dict.fromkeys(actions, otherwise)
    left = list(actions.items())

    def work() -> None:
        while True:
            try:
                name, action = left.pop()
            except IndexError:
                return  # others have taken the rest
            try:
                found[name] = action()
            except Exception as error:
                # Whatever a store's client raises: it is shown, and the other actions go on.
                found[name] = f"{type(error).__name__}: {error}"

    # Not a pool: Python would wait for a pool's threads at its end.
    threads = [
        threading.Thread(target=work, daemon=True) for _ in range(min(len(left), _MOST_AT_ONCE))
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)

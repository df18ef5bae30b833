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
    """What the driver wants tasks to do."""

    driver: tuple[str, int] | None  # where the driver listens; None: it has no port open
    secret: bytes
    # Those that an executor may open; (0,): any; or the environment variable that names them.
    ports: Sequence[int] | str
    network_mask: str | None
    connect_s: float
    wait_s: float  # for the driver's answer, which waits for the other tasks
    folders: dict[str, str]  # folder to write to -> URL as it is shown
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

    def place(driver_problem: str | None = None) -> dict[str, Any]:
        found = examine(find_kit=orders.find_kit, java=java)
        return {**found, "gpu_addresses": _gpu_addresses(), "driver_problem": driver_problem}

    try:
        if orders.driver is None:
            time.sleep(_HOLD_S)  # or one slot would be given to several tasks, another to none
            answer["place"] = place()
        else:
            from sparkwright.doctor._meeting import attend

            answer.update(attend(orders, {**answer, "task": task}, place))
    except ImportError as error:
        time.sleep(_HOLD_S)
        answer["place"] = place(f"the kit cannot be imported: {error}")
    except (OSError, LookupError, TypeError, ValueError) as error:
        answer["place"] = place(str(error) or type(error).__name__)
    if "place" in answer and orders.folders:

        def write(folder: str) -> str:
            from sparkwright.doctor._folders import write_beside

            return write_beside(folder, file_of(executor))

        actions = {url: partial(write, folder) for folder, url in orders.folders.items()}
        otherwise = f"reading and writing took more than {orders.files_s:g} s"
        answer["place"]["files"] = all_within(actions, orders.files_s, otherwise)
    return answer


def _gpu_addresses() -> list[str]:
    """Return what Spark gave to this task."""
    try:
        from pyspark import TaskContext
    except ImportError:
        return []
    context: Any = TaskContext.get()
    gpu = context.resources().get("gpu") if context is not None else None
    return list(gpu.addresses) if gpu is not None else []


def file_of(executor: str) -> str:
    """Return the name of an executor's file."""
    return hashlib.sha256(executor.encode()).hexdigest()[:16]


def all_within(
    actions: Mapping[str, Callable[[], str]], seconds: float, otherwise: str
) -> dict[str, str]:
    """Run actions at the same time, each of which may hang; return what each returns, by name.

    An exception is returned as text. `otherwise` counts for what has not ended after `seconds`;
    threads that hang are left alone.
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

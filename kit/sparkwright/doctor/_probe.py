"""What runs inside the tasks of the doctor's job: examine the machine, meet the others, try files.

It is sent whole to executors, where the kit may be missing: what needs the kit is imported inside
functions, after the machine has been examined.
"""

import os
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ._machine import examine, java_above
from ._orders import Orders, all_within, file_of

_HOLD_S = 1.0


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


def _read_and_write(folder: str, name: str) -> str:
    from sparkwright.storage._files import join, read_bytes, write_bytes

    write_bytes(join(folder, name), read_bytes(join(folder, "driver")))
    return ""

"""The tasks of the doctor's job: examine the machine, attend the meeting, access files.

Executors may lack packages that the kit needs, so functions import what needs them.
"""

import os
import socket
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from ._machine import examine, java_above
from ._orders import Orders, all_within, file_of

_HOLD_S = 1.0


def answers_of(orders: Orders, task: int, _: Iterable[Any]) -> list[dict[str, Any]]:
    """Run a task of `mapPartitionsWithIndex`."""
    return [look(orders, task)]


def look(orders: Orders, task: int) -> dict[str, Any]:
    """Return one task's answer: `executor`, `label`, `place`, `samples`; or `executor` alone."""
    java = java_above()
    number, host = java.get("executor"), socket.gethostname()
    executor = f"{host}/{java.get('pid', os.getppid())}"
    label = f"executor {number} ({host})" if number else f"executor ({host})"
    answer: dict[str, Any] = {"executor": executor, "label": label}

    place = partial(_place, java)
    try:
        if orders.driver is None:
            time.sleep(_HOLD_S)  # prevents Spark from running several tasks in one slot
            answer["place"] = place()
        else:
            from ._meeting import attend

            # An executor's first task does the work. The others keep their slots busy meanwhile, so
            # that Spark starts the remaining tasks on other executors.
            answer.update(attend(orders, {**answer, "task": task}, place))
    except ImportError as error:
        time.sleep(_HOLD_S)
        answer["place"] = place(f"the kit cannot be imported: {error}")
    except (OSError, LookupError, TypeError, ValueError) as error:
        answer["place"] = place(str(error) or type(error).__name__)
    if "place" in answer and orders.folders:
        name = file_of(executor)
        actions = {url: partial(_write, folder, name) for folder, url in orders.folders.items()}
        otherwise = f"reading and writing took more than {orders.files_s:g} s"
        answer["place"]["files"] = all_within(actions, orders.files_s, otherwise)
    return answer


def _place(java: dict[str, Any], driver_problem: str | None = None) -> dict[str, Any]:
    found = examine(java)
    return {**found, "gpu_addresses": _gpu_addresses(), "driver_problem": driver_problem}


def _write(folder: str, name: str) -> str:
    from ._folders import write_beside

    return write_beside(folder, name)


def _gpu_addresses() -> list[str]:
    """Return the addresses of the GPUs that Spark assigned to this task."""
    try:
        from pyspark import TaskContext
    except ImportError:
        return []
    context: Any = TaskContext.get()
    gpu = context.resources().get("gpu") if context is not None else None
    return list(gpu.addresses) if gpu is not None else []

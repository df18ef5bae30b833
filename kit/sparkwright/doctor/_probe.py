"""The tasks of the doctor's job: examine the machine, attend the meeting, access files.

The module is pickled by value, because executors may lack the kit. Functions import the kit only
after the machine has been examined.
"""

import os
import socket
import time
from functools import partial
from typing import Any

from ._machine import examine, java_above
from ._orders import Orders, all_within, file_of

_HOLD_S = 1.0


def look(orders: Orders, task: int) -> dict[str, Any]:
    """Return one task's answer: `executor`, `label`, `place`, `samples`; or `executor` alone."""
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
            time.sleep(_HOLD_S)  # prevents Spark from running several tasks in one slot
            answer["place"] = place()
        else:
            from sparkwright.doctor._meeting import attend

            # An executor's first task does the work. The others keep their slots busy meanwhile, so
            # that Spark starts the remaining tasks on other executors.
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
    """Return the addresses of the GPUs that Spark assigned to this task."""
    try:
        from pyspark import TaskContext
    except ImportError:
        return []
    context: Any = TaskContext.get()
    gpu = context.resources().get("gpu") if context is not None else None
    return list(gpu.addresses) if gpu is not None else []

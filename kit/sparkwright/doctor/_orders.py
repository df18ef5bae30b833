"""What the tasks of the doctor's job receive, and what they share."""

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_MOST_AT_ONCE = 32


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The settings of the tasks, from the driver."""

    driver: tuple[str, int] | None  # the driver's address; None: no open port
    secret: bytes
    # Ports that executors may open, (0,) for any; or the name of an environment variable.
    ports: Sequence[int] | str
    network_mask: str | None
    connect_s: float
    wait_s: float  # timeout of the driver's answer, which waits for the other tasks
    folders: dict[str, str]  # folder to write to -> displayed URL
    files_s: float
    clock: Callable[[], float] = time.time


def file_of(executor: str) -> str:
    return hashlib.sha256(executor.encode()).hexdigest()[:16]


def all_within(
    actions: Mapping[str, Callable[[], str]], seconds: float, otherwise: str
) -> dict[str, str]:
    """Run actions concurrently; return results, exceptions as text, or `otherwise` if late."""
    found = dict.fromkeys(actions, otherwise)
    left = list(actions.items())

    def work() -> None:
        while True:
            try:
                name, action = left.pop()
            except IndexError:
                return  # no actions are left
            try:
                found[name] = action()
            except Exception as error:
                # Storage clients raise various errors: report them and continue.
                found[name] = f"{type(error).__name__}: {error}"

    # Not a pool: Python waits for the threads of a pool at exit.
    threads = [
        threading.Thread(target=work, daemon=True) for _ in range(min(len(left), _MOST_AT_ONCE))
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)

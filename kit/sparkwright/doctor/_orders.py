"""What the tasks of the doctor's job are asked to do.

Sent whole to executors, where the kit may be missing: it imports nothing of the kit but
`_machine`, which is sent with it.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._machine import no_kit

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


def file_of(executor: str) -> str:
    """Return the name of an executor's file."""
    return hashlib.sha256(executor.encode()).hexdigest()[:16]


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

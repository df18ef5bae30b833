"""Some things at the same time, each of which may hang; sent whole to executors."""

import threading
import time
from collections.abc import Callable, Mapping

_MOST_AT_ONCE = 32


def all_within(
    actions: Mapping[str, Callable[[], str]], seconds: float, otherwise: str
) -> dict[str, str]:
    """What each action returns, by name; its exception in words if it raises one.

    Args:
        actions: run on threads that nobody waits for any longer than that.
        seconds: for all of them.
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
                # Whatever a store's client raises: it is told, and the other actions go on.
                found[name] = f"{type(error).__name__}: {error}"

    threads = [
        threading.Thread(target=work, daemon=True) for _ in range(min(len(left), _MOST_AT_ONCE))
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)

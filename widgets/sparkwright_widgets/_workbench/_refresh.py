"""Shows what has changed, on one thread at a time."""

import threading
from collections.abc import Callable

from sparkwright.errors import RunTimeoutError

_TIMEOUT_S = 10.0


class Refresher:
    """Calls `show` after changes, once for those that come while it runs.

    No lock is held while it runs: parts have locks of their own, and call back while they hold
    them. What changes meanwhile makes it run once more.
    """

    def __init__(self, show: Callable[[], None]) -> None:
        self._show = show
        self._ended = threading.Condition()
        self._stale = self._running = False

    def refresh(self, *, wait: bool = False) -> None:
        """Show what has changed, unless another thread does it already, which then repeats it.

        With `wait`, wait for that thread, at most 10 s; then RunTimeoutError is raised.
        """
        with self._ended:
            self._stale = True
            if self._running:
                if wait and not self._ended.wait_for(lambda: not self._running, _TIMEOUT_S):
                    raise RunTimeoutError(
                        f"the workbench waited {_TIMEOUT_S:g} s for another thread to update its "
                        "parts. Try again."
                    )
                return
            self._running = True
        try:
            while self._take_stale():
                self._show()
        except BaseException:
            self._end()
            raise

    def _take_stale(self) -> bool:
        with self._ended:
            stale, self._stale = self._stale, False
            if not stale:
                self._end()
            return stale

    def _end(self) -> None:
        with self._ended:
            self._running = False
            self._ended.notify_all()

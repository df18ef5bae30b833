"""Refresh the widgets on one thread at a time."""

import threading
from collections.abc import Callable

from sparkwright.errors import RunTimeoutError

_TIMEOUT_S = 10.0


class Refresher:
    """Calls `show` after changes; changes during a call cause one more call."""

    # No lock is held during the call, because parts call back while holding their own locks.

    def __init__(self, show: Callable[[], None]) -> None:
        self._show = show
        self._ended = threading.Condition()
        self._stale = self._running = False

    def refresh(self, *, wait: bool = False) -> None:
        """Call `show`, or let the thread that is already in `show` repeat it."""
        with self._ended:
            self._stale = True
            if self._running:
                if wait and not self._ended.wait_for(lambda: not self._running, _TIMEOUT_S):
                    raise RunTimeoutError(
                        f"the workbench waited {_TIMEOUT_S:g} s for another thread to update its "
                        "widgets. Try again."
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

"""Work that takes a while, done beside the notebook: callbacks must return at once.

ipykernel runs callbacks on threads of its own choice, and a callback that blocks can neither be
interrupted nor let others through.
"""

import threading
from collections.abc import Callable
from typing import Any


class Background:
    """Does one piece of work at a time, on a daemon thread with this name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether work is being done."""
        return self._thread is not None

    def begin(
        self,
        work: Callable[[], Any],
        *,
        then: Callable[[Any], None],
        otherwise: Callable[[BaseException], None],
    ) -> bool:
        """Do `work`; `then` gets what it returns, `otherwise` what it or `then` raises.

        Both are called on the thread, when `busy` is False again. Returns False, and begins
        nothing, while other work is being done.
        """

        def main() -> None:
            try:
                result = work()
            except BaseException as error:
                self._thread = None
                otherwise(error)
                return
            self._thread = None
            try:
                then(result)
            except Exception as error:
                otherwise(error)

        with self._lock:
            if self._thread is not None:
                return False
            thread = threading.Thread(target=main, name=f"sparkwright-{self._name}", daemon=True)
            self._thread = thread
            thread.start()
            self._last = thread  # not before: a thread that has not begun cannot be waited for
        return True

    _last: threading.Thread | None = None

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the last work and what followed are done; False if that took too long.

        Work that was begun by what followed is waited for too.
        """
        while True:
            last = self._last
            if last is None or last is threading.current_thread():
                return True
            last.join(timeout_s)
            if last.is_alive():
                return False
            if self._last is last:
                return True

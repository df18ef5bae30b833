"""Background threads for work that takes long, because callbacks must return immediately.

ipykernel chooses the thread of each callback. A blocking callback cannot be interrupted, and delays
all others.
"""

import threading
from collections.abc import Callable
from typing import Any


class Background:
    """Runs one task at a time on a daemon thread with this name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None

    def begin(
        self,
        work: Callable[[], Any],
        *,
        then: Callable[[Any], None],
        otherwise: Callable[[BaseException], None],
    ) -> bool:
        """Run `work` on the thread; return False without starting it if another task is running."""

        def main() -> None:
            try:
                result = work()
            except BaseException as error:
                # The callbacks are called after `busy` becomes False.
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
            self._last = thread  # after `start`: an unstarted thread cannot be joined
        return True

    _last: threading.Thread | None = None

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the last task, its callback, and tasks it starts; return False on a timeout."""
        while True:
            last = self._last
            if last is None or last is threading.current_thread():
                return True
            last.join(timeout_s)
            if last.is_alive():
                return False
            if self._last is last:
                return True

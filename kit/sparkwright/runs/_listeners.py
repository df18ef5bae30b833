"""The events of a run, and their delivery to listeners on a separate thread."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ._events import RowsLogged, RunEvent

Listener = Callable[[RunEvent], None]
_log = logging.getLogger(__name__)


class EventLog:
    """The events of a run so far. Every method may be called from any thread."""

    def __init__(self, *, name: str) -> None:
        """Start the thread of the listeners; its name begins with `name`."""
        self._events: list[tuple[float, RunEvent]] = []  # with monotonic times
        self._listeners: list[Listener] = []
        self._pending: queue.SimpleQueue[RunEvent | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread = threading.Thread(
            target=self._call_listeners, name=f"{name}-listeners", daemon=True
        )
        self._thread.start()

    def add(self, event: RunEvent) -> None:
        """Add an event; `RowsLogged` is only delivered, because the run's log has its rows."""
        with self._lock:
            if not isinstance(event, RowsLogged):
                self._events.append((time.monotonic(), event))
            self._pending.put(event)

    def rows(self, began_s: float) -> list[dict[str, Any]]:
        """Return "time_s" since `began_s`, "event" (the class) and the fields of each event."""
        with self._lock:
            found = list(self._events)
        return [
            {
                "time_s": time_s - began_s,
                "event": type(event).__name__,
                **{field.name: getattr(event, field.name) for field in fields(event)},
            }
            for time_s, event in found
        ]

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every later event; return a function to remove it."""
        with self._lock:
            self._listeners.append(listener)

        def remove() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return remove

    def close(self) -> None:
        """Deliver the remaining events to the listeners, then end their thread."""
        self._pending.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=10.0)

    def _call_listeners(self) -> None:
        while (event := self._pending.get()) is not None:
            with self._lock:
                listeners = list(self._listeners)
            for listener in listeners:
                try:
                    listener(event)
                except BaseException:  # such as SystemExit, which would end this thread
                    _log.exception(
                        "a listener failed on %s; the run continues", type(event).__name__
                    )

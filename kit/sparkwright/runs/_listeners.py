"""What a run tells beside its rows: events, warnings, and the git revision of its code."""

import contextlib
import logging
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import fields
from typing import Any, ClassVar

from ._events import RowsLogged, RunEvent

Listener = Callable[[RunEvent], None]
_log = logging.getLogger(__name__)
_MOST_WARNINGS = 50
_GIT_S = 5.0


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


def git_revision(folder: str | os.PathLike[str]) -> str | None:
    """Return the commit that git has checked out in `folder` or a parent; None without one."""
    command = ["git", "-C", str(folder), "rev-parse", "--verify", "-q", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S)
    except (OSError, subprocess.TimeoutExpired):  # for example, git is not installed
        return None
    return done.stdout.strip() or None


class WarningKeeper(logging.Handler):
    """Keeps the first 50 distinct warnings that sparkwright logs during a run."""

    _listening: ClassVar[list[str]] = []

    def __init__(self, thread_name: str) -> None:
        """Create without warnings; names of the run's threads begin with `thread_name`."""
        super().__init__(logging.WARNING)
        self._thread_name = thread_name
        self._texts: list[str] = []

    @property
    def texts(self) -> tuple[str, ...]:
        """The warnings logged so far."""
        return tuple(self._texts)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning, unless it belongs to another run."""
        # Loggers are shared by the process: the name of the thread identifies the run.
        owners = [name for name in tuple(self._listening) if _is_of(name, record.threadName or "")]
        if owners and self._thread_name not in owners:
            return
        text = record.getMessage()
        if len(self._texts) < _MOST_WARNINGS and text not in self._texts:
            self._texts.append(text)

    @contextlib.contextmanager
    def listening(self) -> Generator[None]:
        """Attach the handler to sparkwright's logger within the block."""
        logger = logging.getLogger("sparkwright")
        self._listening.append(self._thread_name)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
            self._listening.remove(self._thread_name)


def _is_of(run: str, thread: str) -> bool:
    return thread == run or thread.startswith(f"{run}-")

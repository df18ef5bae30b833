"""Provenance of a run: git revision and warnings."""

import contextlib
import logging
import os
import subprocess
from collections.abc import Generator
from typing import ClassVar

_MOST_WARNINGS = 50
_GIT_S = 5.0


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

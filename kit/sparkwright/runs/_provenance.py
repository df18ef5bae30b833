"""What is noted of a run so that somebody can find out later what it was."""

import contextlib
import logging
import os
import subprocess
from collections.abc import Generator
from typing import ClassVar

_MOST_WARNINGS = 50
_GIT_S = 5.0


def git_revision(folder: str | os.PathLike[str]) -> str | None:
    """Return the commit that git has checked out in `folder` or above it; None: there is none.

    Changes that were not committed are not reported.
    """
    command = ["git", "-C", str(folder), "rev-parse", "--verify", "-q", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S)
    except (OSError, subprocess.TimeoutExpired):  # such as without git
        return None
    return done.stdout.strip() or None


class WarningKeeper(logging.Handler):
    """Keeps the texts of warnings that the engine logs in a run; the first 50, each once.

    The engine's loggers are those of the process. A run's warnings are told from those of others
    by the thread: its name is the run's, or begins with that and a hyphen. What comes from threads
    that no run has given a name is kept by all who listen.
    """

    _listening: ClassVar[list[str]] = []

    def __init__(self, thread_name: str) -> None:
        """Keep nothing yet; the names of the run's other threads begin with `thread_name`."""
        super().__init__(logging.WARNING)
        self._thread_name = thread_name
        self._texts: list[str] = []

    @property
    def texts(self) -> tuple[str, ...]:
        """What was logged so far."""
        return tuple(self._texts)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one, unless it is another run's."""
        owners = [name for name in tuple(self._listening) if _is_of(name, record.threadName or "")]
        if owners and self._thread_name not in owners:
            return
        text = record.getMessage()
        if len(self._texts) < _MOST_WARNINGS and text not in self._texts:
            self._texts.append(text)

    @contextlib.contextmanager
    def listening(self) -> Generator[None]:
        """Listen to the engine's loggers within the block."""
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

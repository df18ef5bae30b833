"""What is noted of a run so that somebody can find out later what it was."""

import contextlib
import logging
import os
from collections import deque
from collections.abc import Generator
from pathlib import Path

_MOST_WARNINGS = 50


def git_revision(folder: str | os.PathLike[str]) -> str | None:
    """The commit that is checked out in `folder` or above it, in full; no process is started.

    None where there is none, or where it cannot be read. It says nothing of changes that were not
    committed.
    """
    try:
        here = Path(folder).resolve()
        for place in (here, *here.parents):
            if (place / ".git").exists():
                return _head(place / ".git")
    except (OSError, ValueError):
        pass
    return None


class WarningKeeper(logging.Handler):
    """Keeps the texts of warnings that the engine logs; the first 50, each once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._texts: deque[str] = deque()

    @property
    def texts(self) -> tuple[str, ...]:
        """What was logged so far."""
        return tuple(self._texts)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        text = record.getMessage()
        if len(self._texts) < _MOST_WARNINGS and text not in self._texts:
            self._texts.append(text)

    @contextlib.contextmanager
    def listening(self) -> Generator[None]:
        """Listen to the engine's loggers within the block."""
        logger = logging.getLogger("sparkwright")
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)


def _head(git: Path) -> str | None:
    if git.is_file():  # of a worktree: it names the folder
        git = (git.parent / git.read_text().partition("gitdir:")[2].strip()).resolve()
    head = (git / "HEAD").read_text().strip()
    if not head.startswith("ref:"):
        return _commit(head)
    name = head.partition(":")[2].strip()
    common = git / "commondir"
    folders = [git, (git / common.read_text().strip()).resolve()] if common.is_file() else [git]
    for folder in folders:
        if (folder / name).is_file():
            return _commit((folder / name).read_text().strip())
        packed = folder / "packed-refs"
        for line in packed.read_text().splitlines() if packed.is_file() else ():
            if line.endswith(f" {name}"):
                return _commit(line.partition(" ")[0])
    return None


def _commit(text: str) -> str | None:
    is_hex = len(text) in (40, 64) and all(digit in "0123456789abcdef" for digit in text)
    return text if is_hex else None

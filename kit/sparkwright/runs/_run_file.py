"""The SQLite file that holds runs: its table, connections and errors."""

import contextlib
import os
import sqlite3
from collections.abc import Generator
from pathlib import Path

VARIABLE = "SPARKWRIGHT_RUNS"
OFF = "off"
# How long a connection waits for the lock of another process.
BUSY_S = 5.0
_REMEDIES = {
    "SQLITE_BUSY": f"Another process held the file's lock for {BUSY_S:g} s; try again later. ",
    "SQLITE_FULL": "Free space on its disk. ",
}
_VERSION = 2
# The long columns come last, so that SQLite reads them only if they are selected.
_TABLE = """CREATE TABLE runs (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, tags TEXT NOT NULL DEFAULT '[]',
    started REAL NOT NULL, heard REAL NOT NULL, process TEXT NOT NULL,
    summary TEXT NOT NULL, validation TEXT NOT NULL, curve TEXT NOT NULL
)"""


def default_path() -> Path:
    """Return the path of the run file: `SPARKWRIGHT_RUNS`, else in the user's data folder."""
    given = os.environ.get(VARIABLE, "").strip()
    if given and not is_off():
        return Path(given).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "sparkwright" / "runs.sqlite"


def is_off() -> bool:
    """Return whether `SPARKWRIGHT_RUNS` switches recording off."""
    return os.environ.get(VARIABLE, "").strip().lower() == OFF


@contextlib.contextmanager
def opened(path: Path, *, write: bool) -> Generator[sqlite3.Connection]:
    """Open a transaction that commits at the end of the block, or rolls back on an error.

    Uses SQLite's rollback journal, because its write-ahead log needs shared memory, which fails on
    network file systems.
    """
    if write:
        with contextlib.suppress(OSError):  # SQLite's error is reported below
            path.parent.mkdir(parents=True, exist_ok=True)
    elif not path.exists():
        raise FileNotFoundError(f"there is no file of runs at {path}.")
    # "rw" also to read: the next connection rolls back what a killed process left incomplete.
    uri = f"{path.absolute().as_uri()}?mode={'rwc' if write else 'rw'}"
    try:
        with contextlib.closing(
            sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
        ) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            with connection:
                _prepare(connection, path, write=write)
                yield connection
    except sqlite3.Error as error:
        remedy = _REMEDIES.get(getattr(error, "sqlite_errorname", ""), "")
        raise OSError(
            f"runs at {path} could not be {'written' if write else 'read'}: {error}. {remedy}"
            f"`{VARIABLE}` may name another file, on a local disk."
        ) from error


def _prepare(connection: sqlite3.Connection, path: Path, *, write: bool) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, _VERSION):
        raise OSError(
            f"runs at {path} must be in version {_VERSION} of the file's format. Received: version "
            f"{version}. Use the version of Sparkwright that wrote them, or let `{VARIABLE}` name "
            "another file."
        )
    if not version and not write:
        raise FileNotFoundError(f"there are no runs in {path} yet.")
    if not version:
        connection.execute(_TABLE)
        connection.execute("CREATE INDEX runs_by_start ON runs (started)")
        connection.execute(f"PRAGMA user_version = {_VERSION}")

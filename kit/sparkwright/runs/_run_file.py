"""The SQLite file that holds runs: its tables, connections and errors."""

import contextlib
import os
import sqlite3
from collections.abc import Generator
from pathlib import Path

VARIABLE = "SPARKWRIGHT_RUNS"
OFF = "off"
# So long a connection waits for the lock of another process.
BUSY_S = 5.0
_REMEDIES = {
    "SQLITE_BUSY": f"Another process held the file's lock for {BUSY_S:g} s; try again later. ",
    "SQLITE_FULL": "Free space on its disk. ",
}
# One entry a version of the file; the file's `user_version` counts those that it has.
_MIGRATIONS = (
    (
        """CREATE TABLE runs (
            id TEXT PRIMARY KEY, name TEXT NOT NULL, title TEXT NOT NULL,
            started REAL NOT NULL, ended REAL, heard REAL NOT NULL,
            state TEXT NOT NULL, message TEXT NOT NULL, error TEXT,
            epoch INTEGER NOT NULL, epochs INTEGER NOT NULL, workers INTEGER NOT NULL,
            examples_per_s REAL NOT NULL, seconds REAL NOT NULL,
            tags TEXT NOT NULL DEFAULT '[]', settings TEXT NOT NULL, metrics TEXT NOT NULL,
            sparkline TEXT NOT NULL,
            host TEXT NOT NULL, place TEXT NOT NULL, pid INTEGER NOT NULL, pid_started REAL NOT NULL
        )""",
        "CREATE INDEX runs_by_start ON runs (started)",
        """CREATE TABLE points (
            run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, number INTEGER NOT NULL,
            epoch INTEGER NOT NULL, step INTEGER NOT NULL, time_s REAL NOT NULL, loss REAL,
            examples INTEGER NOT NULL, examples_per_s REAL, further TEXT NOT NULL,
            PRIMARY KEY (run, number)
        ) WITHOUT ROWID""",
        """CREATE TABLE epochs (
            run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, epoch INTEGER NOT NULL,
            loss REAL, PRIMARY KEY (run, epoch)
        ) WITHOUT ROWID""",
        """CREATE TABLE validation (
            run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, epoch INTEGER NOT NULL,
            step INTEGER NOT NULL, loss REAL, metrics TEXT NOT NULL, PRIMARY KEY (run, epoch)
        ) WITHOUT ROWID""",
    ),
)


def default_path() -> Path:
    """Return where runs are stored: `SPARKWRIGHT_RUNS`, else in the user's folder for data."""
    given = os.environ.get(VARIABLE, "").strip()
    if given and given.lower() != OFF:
        return Path(given).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "sparkwright" / "runs.sqlite"


def is_off() -> bool:
    """Return whether `SPARKWRIGHT_RUNS` switches recording off."""
    return os.environ.get(VARIABLE, "").strip().lower() == OFF


@contextlib.contextmanager
def opened(path: Path, *, write: bool) -> Generator[sqlite3.Connection]:
    """Open a transaction that is committed at the end of the block, or rolled back on an error.

    SQLite's rollback journal is used, never its write-ahead log: that needs memory which all
    processes share, so it fails on network file systems. Transactions are short and rare here.

    Args:
        path: the file; made, with its folder, if `write`.
        write: lock the file for writing.

    Raises:
        FileNotFoundError: if there is no file and nothing is to be written.
        OSError: if the file cannot be read or written, naming it.
    """
    if write:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _failed(path, write, error) from error
    elif not path.exists():
        raise FileNotFoundError(f"there is no file of runs at {path}.")
    # Also to read: what a killed process left half written is rolled back by the next one.
    uri = f"{path.absolute().as_uri()}?mode={'rwc' if write else 'rw'}"
    try:
        with contextlib.closing(
            sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
        ) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                _upgrade(connection, path, write=write)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # some errors have rolled it back
                    connection.execute("ROLLBACK")
                raise
    except sqlite3.Error as error:
        raise _failed(path, write, error) from error


def _failed(path: Path, write: bool, error: Exception) -> OSError:
    remedy = _REMEDIES.get(getattr(error, "sqlite_errorname", ""), "")
    return OSError(
        f"runs at {path} could not be {'written' if write else 'read'}: {error}. {remedy}"
        f"`{VARIABLE}` may name another file, on a local disk."
    )


def _upgrade(connection: sqlite3.Connection, path: Path, *, write: bool) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(_MIGRATIONS):
        raise OSError(
            f"runs at {path} were written by a newer version of Sparkwright. Received: version "
            f"{version} of the file; this one knows {len(_MIGRATIONS)}. Upgrade Sparkwright, or "
            f"let `{VARIABLE}` name another file."
        )
    if not write:
        if not version:
            raise FileNotFoundError(f"there are no runs in {path} yet.")
        return
    for number in range(version, len(_MIGRATIONS)):
        for statement in _MIGRATIONS[number]:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number + 1}")

"""Stored runs of all sessions, in a local SQLite file."""

import json
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sparkwright._process import Process
from sparkwright.errors import ConfigurationError
from sparkwright.evaluation.numbers import number_text

from ._events import RunState, RunStatus, ValidationPoint, WorkerStatus
from ._history import History
from ._run_file import default_path, opened
from .comparing import differing
from .names import check_name

ENDED = ("done", "stopped", "failed", "lost")
# All columns except the long ones.
_COLUMNS = "id, name, tags, started, heard, process, summary"


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A snapshot of a stored run; can be compared like a `TrainingRun`.

    `title`, `message`, `error`, `epoch`, `epochs` and `examples_per_s` are as in `TrainingRun` and
    `RunStatus`.

    Attributes:
        id: identifier in the store; 32 hexadecimal digits.
        name: the run's name, or the one that `RunStore.rename` set.
        state: that of its `TrainingRun`, or "lost" if its process ended before the run did.
        started_at: start time, with time zone.
        ended_at: end time, with time zone; None before the end and if unknown.
        heard_at: when its process last wrote.
        workers: number of workers.
        seconds: from the start to the end, or to `heard_at`.
        tags: sorted.
        configuration: JSON-serializable, see `TrainingRun.configuration`.
        loss: mean over the workers in the last complete round, as in the live panel; None before.
        metrics: of the last complete epoch, by the names of Keras' history: "loss", "val_loss", ….
        sparkline: at most 60 losses over the whole run, for a small chart.
        start_seconds: not stored; None.
        finished: True: the snapshot does not change. `state` tells whether the run has ended.
    """

    id: str
    name: str
    title: str
    state: str
    message: str
    error: str | None
    started_at: datetime
    ended_at: datetime | None
    heard_at: datetime
    epoch: int
    epochs: int
    workers: int
    examples_per_s: float
    seconds: float
    tags: tuple[str, ...]
    configuration: Mapping[str, Any]
    loss: float | None = None
    metrics: Mapping[str, float]
    sparkline: tuple[float, ...]
    _store: "RunStore" = field(repr=False, compare=False)

    start_seconds = None
    finished = True

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended: done, stopped, failed or lost."""
        return self.state in ENDED

    @cached_property
    def validation(self) -> tuple[ValidationPoint, ...]:
        """Results on the validation data."""
        return tuple(ValidationPoint(**point) for point in self._stored("validation"))

    @cached_property
    def log(self) -> History:
        """The learning curve: at most 512 rows, means over workers and steps, as of one worker."""
        log = History()
        if columns := self._stored("curve"):
            log.append({name: np.array(values) for name, values in columns.items()})
        return log

    def _stored(self, column: str) -> Any:
        rows = self._store.select(f"SELECT {column} FROM runs WHERE id = ?", self.id)
        return json.loads(rows[0][0]) if rows else ()

    @property
    def status(self) -> RunStatus:
        """The status as of a `TrainingRun`; a lost run is "failed"."""
        states: dict[str, RunState] = {"lost": "failed"}
        return RunStatus(
            state=states.get(self.state, self.state),  # pyright: ignore[reportArgumentType]
            message=self.message,
            error=self.error,
            epoch=self.epoch,
            epochs=self.epochs,
            examples_per_s=self.examples_per_s,
            elapsed_s=self.seconds,
            workers=tuple(WorkerStatus(worker=k, state="done") for k in range(self.workers)),
            validation=self.validation,
            note=str(self.configuration.get("note", "")),
        )


class RunTable(tuple[StoredRun, ...]):
    """Stored runs, newest first."""

    __slots__ = ()

    def settings(self) -> dict[str, list[Any]]:
        """Settings that affect training and differ among these runs: name -> value of each run."""
        return differing([run.configuration for run in self], matters=True)

    def to_pandas(self) -> Any:
        """Return a DataFrame: one row per run, with metrics and the settings that differ."""
        import pandas as pd

        settings = self.settings()
        names = ("name", "state", "started_at", "seconds", "epoch", "epochs", "examples_per_s")
        rows = [
            {
                **{name: getattr(run, name) for name in names},
                "tags": ", ".join(run.tags),
                **run.metrics,
                **{name: values[number] for name, values in settings.items()},
            }
            for number, run in enumerate(self)
        ]
        return pd.DataFrame(rows, index=pd.Index([run.id for run in self], name="id"))

    def __repr__(self) -> str:
        lines = (
            f"{run.name}  {run.state}  epoch {run.epoch}/{run.epochs}  "
            + "  ".join(f"{name} {number_text(value)}" for name, value in run.metrics.items())
            for run in self
        )
        return "\n".join([f"{len(self)} run{'' if len(self) == 1 else 's'}", *lines])


class RunStore:
    """The runs of all sessions of a user in one SQLite file; safe for concurrent processes.

    Methods accept a `StoredRun`, an `id` or a name; of runs with the same name the latest is used.

    Args:
        path: the file. Default None: the environment variable `SPARKWRIGHT_RUNS`, else
            `sparkwright/runs.sqlite` in `XDG_DATA_HOME` or `~/.local/share`.

    Example:
        store = sw.RunStore()
        store.runs().to_pandas()
        store.tag("brisk-heron", "baseline")
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Set the path without opening the file."""
        self.path = default_path() if path is None else Path(path).expanduser()

    def __repr__(self) -> str:
        return f"RunStore({str(self.path)!r})"

    def runs(self, *, tag: str | None = None, limit: int = 500) -> RunTable:
        """Return the latest runs.

        Args:
            tag: only runs with this tag; default None: all runs.
            limit: maximum number of runs; default 500.

        Raises:
            OSError: if the file cannot be read, or a newer version of Sparkwright wrote it.
        """
        given, where = [], ""
        if tag is not None:
            given, where = [tag], "WHERE EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?) "
        query = f"SELECT {_COLUMNS} FROM runs {where}ORDER BY started DESC, rowid DESC LIMIT ?"
        return RunTable(self._read(row) for row in self.select(query, *given, limit))

    def run(self, run: "str | StoredRun") -> StoredRun:
        """Return the current state of a stored run.

        Raises:
            ConfigurationError: if there is no such run.
            OSError: as for `runs`.
        """
        key = run.id if isinstance(run, StoredRun) else run
        order = "ORDER BY id = ? DESC, started DESC LIMIT 1"
        rows = self.select(f"SELECT {_COLUMNS} FROM runs WHERE ? IN (id, name) {order}", key, key)
        if not rows:
            names = ", ".join(repr(each.name) for each in self.runs(limit=5)) or "no runs"
            raise ConfigurationError(
                f"`run` must be the name or the id of a stored run. Received: {key!r}. The latest "
                f"in {self.path}: {names}."
            )
        return self._read(rows[0])

    def tag(self, run: "str | StoredRun", *tags: str) -> StoredRun:
        """Add tags to a run; return it.

        Raises:
            ConfigurationError: if there is no such run, or a tag is not a short line of text.
            OSError: if the file cannot be written.
        """
        for tag in tags:
            check_name(tag)
        return self._change_tags(run, "UNION", tags)

    def untag(self, run: "str | StoredRun", *tags: str) -> StoredRun:
        """Remove tags from a run; return it. Raises as `tag` does."""
        return self._change_tags(run, "EXCEPT", tags)

    def rename(self, run: "str | StoredRun", name: str) -> StoredRun:
        """Rename a run; return it. Raises as `tag` does."""
        check_name(name)
        return self._set(run, "name = ?", name)

    def delete(self, *runs: "str | StoredRun") -> None:
        """Delete runs permanently. An active run keeps training but is no longer stored.

        Raises:
            ConfigurationError: if one of the runs does not exist; then none is deleted.
            OSError: if the file cannot be written.
        """
        ids = [self.run(run).id for run in runs]
        with opened(self.path, write=True) as connection:
            connection.executemany("DELETE FROM runs WHERE id = ?", [(each,) for each in ids])

    def select(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """Return the rows of an SQL query; none if the file does not exist yet.

        Raises:
            OSError: as for `runs`.
        """
        try:
            with opened(self.path, write=False) as connection:
                return connection.execute(query, values).fetchall()
        except FileNotFoundError:
            return []

    def _change_tags(
        self, run: "str | StoredRun", operator: str, tags: tuple[str, ...]
    ) -> StoredRun:
        # In one statement, so that concurrent changes of tags are not lost.
        both = f"SELECT value FROM json_each(tags) {operator} SELECT value FROM json_each(?)"
        change = f"tags = (SELECT json_group_array(value) FROM ({both} ORDER BY value))"
        return self._set(run, change, json.dumps(tags))

    def _set(self, run: "str | StoredRun", change: str, value: str) -> StoredRun:
        id = self.run(run).id
        with opened(self.path, write=True) as connection:
            connection.execute(f"UPDATE runs SET {change} WHERE id = ?", (value, id))
        return self.run(id)

    def _read(self, row: sqlite3.Row) -> StoredRun:
        found: dict[str, Any] = json.loads(row["summary"])
        process = Process(*json.loads(row["process"]))
        if found["state"] not in ENDED and not process.is_alive(
            silent_s=time.time() - row["heard"]
        ):
            where = f"in epoch {found['epoch']} of {found['epochs']}"
            found |= {"state": "lost", "message": f"ended with its kernel, {where}"}
        ended_at, sparkline = found.pop("ended"), found.pop("sparkline")
        return StoredRun(
            **found,
            sparkline=tuple(sparkline),
            tags=tuple(json.loads(row["tags"])),
            id=row["id"],
            name=row["name"],
            started_at=_time(row["started"]),
            ended_at=None if ended_at is None else _time(ended_at),
            heard_at=_time(row["heard"]),
            _store=self,
        )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds).astimezone()

"""Runs of all sessions, in a local SQLite file."""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sparkwright.errors import ConfigurationError
from sparkwright.evaluation.numbers import number_text

from ._events import RunState, RunStatus, ValidationPoint, WorkerStatus
from ._history import History
from ._process import Process
from ._run_file import default_path, opened
from .comparing import differing
from .names import check_name

ENDED = ("done", "stopped", "failed", "lost")
_LOST = "ended with its kernel"


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A run as it was stored when it was read; it can be compared like a `TrainingRun`.

    Attributes:
        id: identifies it in the store; 32 hexadecimal digits.
        name: as given or drawn when it began, or changed since.
        title: what is trained.
        state: that of its `TrainingRun`, or "lost" if its process ended before the run did.
        message: one sentence.
        error: what went wrong; None if nothing did.
        started_at: when, with the time zone.
        ended_at: likewise; None before the end, and where it is unknown.
        heard_at: when its process last wrote.
        epoch: the last epoch that began, from 1; 0 before training.
        epochs: how many there would be.
        workers: how many.
        examples_per_s: of all workers.
        seconds: from the start to the end, or to `heard_at`.
        tags: sorted.
        configuration: JSON-able, see `TrainingRun.configuration`.
        metrics: of the last complete epoch, as Keras' history names them: "loss", "val_loss", ….
        sparkline: at most 60 losses from the beginning to the end, for a small picture.
        host: the driver's machine.
        pid: the driver's process there.
        start_seconds: not stored; None.
        finished: True: nothing is added to this value any more. `state` says whether the run ended.
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
    metrics: Mapping[str, float]
    sparkline: tuple[float, ...]
    host: str
    pid: int
    _store: "RunStore" = field(repr=False, compare=False)

    start_seconds = None
    finished = True

    @property
    def has_ended(self) -> bool:
        """Whether the run ended, in whatever way."""
        return self.state in ENDED

    @cached_property
    def epoch_losses(self) -> dict[int, float]:
        """Mean training loss of each epoch, by its number from 1."""
        found = self._store.select("SELECT epoch, loss FROM epochs WHERE run = ?", self.id)
        return {row["epoch"]: _number(row["loss"]) for row in found}

    @cached_property
    def validation(self) -> tuple[ValidationPoint, ...]:
        """Results on the validation data."""
        query = "SELECT * FROM validation WHERE run = ? ORDER BY epoch"
        return tuple(
            ValidationPoint(
                epoch=row["epoch"],
                step=row["step"],
                loss=_number(row["loss"]),
                metrics=_numbers(row["metrics"]),
            )
            for row in self._store.select(query, self.id)
        )

    @cached_property
    def log(self) -> History:
        """The curve: at most 512 rows, each a mean over workers and steps, as of one worker."""
        rows = self._store.select("SELECT * FROM points WHERE run = ? ORDER BY number", self.id)
        log = History()
        if rows:
            names = ("epoch", "step", "time_s", "loss", "examples", "examples_per_s")
            columns = {name: _column(row[name] for row in rows) for name in names}
            columns["worker"] = np.zeros(len(rows))
            columns["round"] = np.arange(1.0, len(rows) + 1)
            further = [_numbers(row["further"]) for row in rows]
            for name in dict.fromkeys(name for each in further for name in each):
                columns[name] = _column(each.get(name) for each in further)
            log.append(columns)
        return log

    @property
    def status(self) -> RunStatus:
        """As of a `TrainingRun`; a lost run is "failed"."""
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
    """Stored runs, the latest first."""

    __slots__ = ()

    def settings(self) -> dict[str, list[Any]]:
        """Settings that differ among these runs and that matter: name -> each run's value."""
        return differing([run.configuration for run in self], matters=True)

    def to_pandas(self) -> Any:
        """Return a DataFrame: one row a run, with metrics and the settings that differ."""
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
    """Runs of all sessions of a user, in one SQLite file; several processes may use it at once.

    A run is named by its `StoredRun`, its `id`, or its name; of runs of one name the latest counts.

    Args:
        path: the file. Default None: the environment variable `SPARKWRIGHT_RUNS`, else
            `sparkwright/runs.sqlite` in `XDG_DATA_HOME` or `~/.local/share`.

    Example:
        store = sw.RunStore()
        store.runs().to_pandas()
        store.tag("brisk-heron", "baseline")
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Open nothing yet."""
        self.path = default_path() if path is None else Path(path).expanduser()

    def __repr__(self) -> str:
        return f"RunStore({str(self.path)!r})"

    def runs(self, *, tag: str | None = None, limit: int = 500) -> RunTable:
        """Return the latest runs.

        Args:
            tag: only runs with this tag; default None: all.
            limit: at most so many; default 500.

        Raises:
            OSError: if the file cannot be read, or a newer version of Sparkwright wrote it.
        """
        query = "SELECT * FROM runs ORDER BY started DESC, rowid DESC LIMIT ?"
        if tag is not None:
            tagged = "EXISTS (SELECT 1 FROM json_each(runs.tags) WHERE value = ?)"
            query = query.replace("ORDER", f"WHERE {tagged} ORDER")
        given = (limit,) if tag is None else (tag, limit)
        return RunTable(self._read(row) for row in self.select(query, *given))

    def run(self, run: "str | StoredRun") -> StoredRun:
        """Return a run as it is stored now.

        Raises:
            ConfigurationError: if there is no such run.
            OSError: as for `runs`.
        """
        key = run.id if isinstance(run, StoredRun) else run
        query = "SELECT * FROM runs WHERE id = ? OR name = ? ORDER BY id = ? DESC, started DESC"
        rows = self.select(f"{query} LIMIT 1", key, key, key)
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
            ConfigurationError: if there is no such run, or a tag is no short line of text.
            OSError: if the file cannot be written.
        """
        for tag in tags:
            check_name(tag)
        return self._change_tags(run, lambda old: old | set(tags))

    def untag(self, run: "str | StoredRun", *tags: str) -> StoredRun:
        """Remove tags from a run; return it. Raises as `tag` does."""
        return self._change_tags(run, lambda old: old - set(tags))

    def rename(self, run: "str | StoredRun", name: str) -> StoredRun:
        """Give a run another name; return it. Raises as `tag` does."""
        check_name(name)
        return self._set(self.run(run), "name", name)

    def delete(self, *runs: "str | StoredRun") -> None:
        """Delete runs for good. A run that goes on trains on, and is not stored any more.

        Raises:
            ConfigurationError: if there is no such run; none is deleted then.
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
        self, run: "str | StoredRun", change: Callable[[set[str]], set[str]]
    ) -> StoredRun:
        found = self.run(run)
        return self._set(found, "tags", json.dumps(sorted(change(set(found.tags)))))

    def _set(self, run: StoredRun, column: str, value: str) -> StoredRun:
        with opened(self.path, write=True) as connection:
            connection.execute(f"UPDATE runs SET {column} = ? WHERE id = ?", (value, run.id))
        return self.run(run.id)

    def _read(self, row: sqlite3.Row) -> StoredRun:
        state, message = row["state"], row["message"]
        process = Process(row["host"], row["place"], row["pid"], row["pid_started"])
        if state not in ENDED and not process.lives(silent_s=time.time() - row["heard"]):
            state, message = "lost", f"{_LOST}, in epoch {row['epoch']} of {row['epochs']}"
        return StoredRun(
            **{
                name: row[name]
                for name in (
                    *("id", "name", "title", "error", "epoch", "epochs", "workers"),
                    *("examples_per_s", "seconds", "host", "pid"),
                )
            },
            state=state,
            message=message,
            started_at=_time(row["started"]),
            ended_at=None if row["ended"] is None else _time(row["ended"]),
            heard_at=_time(row["heard"]),
            tags=tuple(json.loads(row["tags"])),
            configuration=json.loads(row["settings"]),
            metrics=_numbers(row["metrics"]),
            sparkline=tuple(_number(value) for value in json.loads(row["sparkline"])),
            _store=self,
        )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds).astimezone()


def _number(value: float | None) -> float:
    """Return a stored number; SQLite and JSON have no NaN."""
    return np.nan if value is None else float(value)


def _numbers(text: str) -> dict[str, float]:
    return {name: _number(value) for name, value in json.loads(text).items()}


def _column(values: Any) -> Any:
    return np.array([_number(value) for value in values])

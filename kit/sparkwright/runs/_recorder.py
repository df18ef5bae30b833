"""Writes a run into the store while it goes on, on a thread of its own."""

import atexit
import json
import logging
import math
import sqlite3
import threading
import time
import uuid
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ._curve_summary import CurveSummary
from ._events import RowsLogged, RunEvent, RunStatus, StateChanged
from ._process import Process
from ._run import TrainingRun
from ._run_file import opened
from .names import NAMES
from .record import RunRecord
from .store import ENDED, RunStore

_log = logging.getLogger(__name__)
# Without an event so long between two writes; always 50 times as long as one took, up to a limit.
_SOONEST_S, _SHARE, _LATEST_S = 2.0, 50.0, 15.0
_LAST_TRIES = 3
_EXIT_S = 10.0
_CHUNK_ROWS = 65_536
_COLUMNS = ("epoch", "step", "time_s", "loss", "examples", "examples_per_s")
_live: "weakref.WeakSet[RunRecorder]" = weakref.WeakSet()


def record_run(run: TrainingRun, record: RunRecord) -> None:
    """Begin to store `run`; never raises."""
    try:
        RunRecorder(RunStore(), run, record)
    except Exception as error:
        _warn(run.name, error)


def reserve_names() -> None:
    """Keep the names of stored runs from being drawn or given again; never raises."""
    try:
        names = RunStore().select("SELECT DISTINCT name FROM runs")
        NAMES.reserve(row["name"] for row in names)
    except Exception as error:  # the recorder will warn
        _log.debug("names of stored runs are unknown: %s", error)


class RunRecorder:
    """Stores one run, from a thread that ends with it.

    Training never waits for it. What cannot be written is tried again with the next write; the
    first failure is logged as a warning.

    Args:
        store: where to.
        run: the run; read only.
        record: the run's, which computes the metrics of an epoch.

    Attributes:
        id: the run's in the store.
    """

    def __init__(self, store: RunStore, run: TrainingRun, record: RunRecord) -> None:
        """Start the thread."""
        self.id = uuid.uuid4().hex
        self._store, self._run, self._record = store, run, record
        self._curve, self._next_row = CurveSummary(), 0
        self._metrics: tuple[int, dict[str, float]] = (0, {})  # of which epoch
        self._is_stored = self._has_warned = False
        self._wake, self._ended = threading.Event(), threading.Event()
        self._remove_listener = run.add_listener(self._on_event)
        self._thread = threading.Thread(
            target=self._main, name=f"sparkwright-{run.id}-recorder", daemon=True
        )
        _live.add(self)
        self._thread.start()

    @property
    def run_has_ended(self) -> bool:
        """Whether the run has ended; then its last write begins."""
        return self._run.status.state in ENDED

    def wait(self, timeout_s: float) -> bool:
        """Wait until the end of the run is stored; False if that takes longer."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _on_event(self, event: RunEvent) -> None:
        if not isinstance(event, RowsLogged):
            self._wake.set()
        if isinstance(event, StateChanged) and event.state in ENDED:
            self._ended.set()

    def _main(self) -> None:
        result = "stored"
        while not self.run_has_ended and result != "deleted":
            self._wake.clear()
            began_s = time.monotonic()
            result = self._try_to_write()
            pause_s = min(_SHARE * (time.monotonic() - began_s), _LATEST_S)
            if not self._ended.wait(pause_s):
                self._wake.wait(max(0.0, _SOONEST_S - pause_s))
        self._curve, self._next_row = CurveSummary(), 0  # rows may have been dropped since
        for _ in range(_LAST_TRIES):
            if result == "deleted" or self._try_to_write() != "failed":
                break
        self._remove_listener()

    def _try_to_write(self) -> Literal["stored", "deleted", "failed"]:
        try:
            return "stored" if self._write() else "deleted"
        except Exception as error:
            if not self._has_warned:
                self._has_warned = True
                _warn(self._run.name, error)
            return "failed"

    def _write(self) -> bool:
        """Write all that is known; return False if the run was deleted from the store."""
        status = self._run.status
        self._read_log()
        values = self._values(status)
        with opened(self._store.path, write=True) as connection:
            if not self._is_stored:
                _insert(connection, {**values, **self._identity()})
            elif not _update(connection, self.id, values):
                return False
            self._write_curve(connection, status)
        self._is_stored = True
        return True

    def _read_log(self) -> None:
        log = self._run.log
        if len(log) < self._next_row:  # training restarted
            self._curve, self._next_row = CurveSummary(), 0
        while self._next_row < len(log):
            rows = log.rows(self._next_row, self._next_row + _CHUNK_ROWS)
            self._curve.add(rows)
            self._next_row += len(rows["step"])

    def _identity(self) -> dict[str, Any]:
        """What is written once, and may be changed by others later."""
        run, process = self._run, Process.this()
        return {
            "id": self.id,
            "name": run.name,
            "title": run.title,
            "started": run.started_at.timestamp(),
            "host": process.host,
            "place": process.place,
            "pid": process.pid,
            "pid_started": process.started,
        }

    def _values(self, status: RunStatus) -> dict[str, Any]:
        run, ended_at = self._run, self._run.ended_at
        has_ended = status.state in ENDED
        return {
            "ended": ended_at.timestamp() if ended_at is not None and has_ended else None,
            "heard": time.time(),
            "state": status.state,
            "message": status.message,
            "error": status.error,
            "epoch": status.epoch,
            "epochs": status.epochs,
            "workers": len(status.workers),
            "examples_per_s": _finite(status.examples_per_s) or 0.0,
            "seconds": status.elapsed_s,
            "settings": json.dumps(run.configuration, default=str),
            "metrics": _json(self._metrics_now(status)),
            "sparkline": json.dumps([_finite(loss) for loss in self._curve.sparkline()]),
        }

    def _metrics_now(self, status: RunStatus) -> Mapping[str, float]:
        """Metrics of the last complete epoch; before there is one, the mean loss so far."""
        result = self._run.result
        epoch = status.epoch - 1 if result is None else result.progress.complete_epochs
        if epoch > 0 and self._next_row:
            if result is not None or self._metrics[0] != epoch:
                self._metrics = epoch, self._record.epoch_logs(epoch)
            return self._metrics[1]
        losses = list(self._epoch_losses())
        return {"loss": losses[-1][1]} if losses else {}

    def _epoch_losses(self) -> Iterable[tuple[int, float]]:
        for epoch, (total, count) in sorted(self._curve.epochs.items()):
            yield epoch, total / count if count else math.nan

    def _write_curve(self, connection: sqlite3.Connection, status: RunStatus) -> None:
        for table in ("points", "epochs", "validation"):
            connection.execute(f"DELETE FROM {table} WHERE run = ?", (self.id,))
        points = self._curve.points()
        columns = {name: column.tolist() for name, column in points.items()}
        further = sorted(columns.keys() - {*_COLUMNS})
        rows = [
            (
                *(self.id, number, int(epoch), int(step), time_s, loss, int(examples), rate),
                _json({name: columns[name][number] for name in further}),
            )
            for number, (epoch, step, time_s, loss, examples, rate) in enumerate(
                zip(*(columns[name] for name in _COLUMNS), strict=True)
            )
        ]
        connection.executemany("INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        losses = [(self.id, *each) for each in self._epoch_losses()]
        connection.executemany("INSERT INTO epochs VALUES (?, ?, ?)", losses)
        validation = [
            (self.id, point.epoch, point.step, point.loss, _json(point.metrics))
            for point in status.validation
        ]
        connection.executemany("INSERT INTO validation VALUES (?, ?, ?, ?, ?)", validation)


def _insert(connection: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    connection.execute(f"INSERT INTO runs ({names}) VALUES ({places})", values)


def _update(connection: sqlite3.Connection, id: str, values: Mapping[str, Any]) -> bool:
    changes = ", ".join(f"{name} = :{name}" for name in values)
    done = connection.execute(f"UPDATE runs SET {changes} WHERE id = :id", {**values, "id": id})
    return done.rowcount > 0


def _finite(value: float) -> float | None:
    """Return the number, or None: JSON has neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None


def _json(numbers: Mapping[str, float]) -> str:
    return json.dumps({name: _finite(value) for name, value in numbers.items()})


def _warn(name: str, error: Exception) -> None:
    _log.warning(
        "run %s is not stored, but trains on: %s", *(name, str(error) or type(error).__name__)
    )


def _write_ends() -> None:
    """Store the ends of runs before the interpreter exits, which ends their threads."""
    deadline_s = time.monotonic() + _EXIT_S
    for recorder in list(_live):
        if recorder.run_has_ended:
            recorder.wait(max(0.0, deadline_s - time.monotonic()))


atexit.register(_write_ends)

"""Writes a run to the store during training, on a separate thread."""

import atexit
import json
import logging
import threading
import time
import uuid
import weakref
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ._events import RunEvent, StateChanged
from ._run import TrainingRun
from ._run_file import opened
from .names import NAMES
from .record import RunRecord
from .round_means import RoundMeans
from .store import ENDED, Process, RunStore

_log = logging.getLogger(__name__)
# Seconds between two writes: 50 times the duration of a write, within limits.
_SOONEST_S, _SHARE, _LATEST_S = 2.0, 50.0, 15.0
_LAST_TRIES = 3
_EXIT_S = 10.0
_CHUNK_ROWS = 65_536
POINTS, SPARKLINE_POINTS = 512, 60
# Column aggregations of a curve, and how two of them are merged.
_JOINED = {"sum": "sum", "count": "sum", "max": "max"}
_live: "weakref.WeakSet[RunRecorder]" = weakref.WeakSet()


def record_run(run: TrainingRun, record: RunRecord) -> None:
    """Start to store `run`; never raises."""
    try:
        RunRecorder(RunStore(), run, record)
    except Exception as error:
        _warn(run.name, error)


def reserve_names() -> None:
    """Reserve the names of stored runs; never raises."""
    try:
        names = RunStore().select("SELECT DISTINCT name FROM runs")
        NAMES.reserve(row["name"] for row in names)
    except Exception as error:  # the recorder warns
        _log.debug("the names of stored runs could not be read: %s", error)


class RunRecorder:
    """Stores one run, on a thread that ends with it, so that training never waits."""

    def __init__(self, store: RunStore, run: TrainingRun, record: RunRecord) -> None:
        self.id = uuid.uuid4().hex
        self._store, self._run, self._record = store, run, record
        self._restart()
        self._metrics: tuple[int, dict[str, float]] = (0, {})  # epoch and its metrics
        self._is_stored = self._has_warned = False
        self._ended = threading.Event()
        self._remove_listener = run.add_listener(self._on_event)
        self._thread = threading.Thread(
            target=self._main, name=f"sparkwright-{run.id}-recorder", daemon=True
        )
        _live.add(self)
        self._thread.start()

    @property
    def run_has_ended(self) -> bool:
        """Whether the run has ended; the last write then follows."""
        return self._run.status.state in ENDED

    def wait(self, timeout_s: float) -> bool:
        """Wait until the end of the run is stored; return False after `timeout_s`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _on_event(self, event: RunEvent) -> None:
        if isinstance(event, StateChanged) and event.state in ENDED:
            self._ended.set()

    def _main(self) -> None:
        result = "stored"
        while not self.run_has_ended and result != "deleted":
            began_s = time.monotonic()
            result = self._try_to_write()
            pause_s = _SHARE * (time.monotonic() - began_s)
            self._ended.wait(min(max(_SOONEST_S, pause_s), _LATEST_S))
        self._restart()  # rows may have been dropped from the log
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

    def _restart(self) -> None:
        master: Any = self._run.configuration.get("master")
        sharing = isinstance(master, dict) and master.get("name") == "SharedTrainingMaster"
        self._curve, self._next_row = Curve(sharing=sharing), 0

    def _read_log(self) -> None:
        log = self._run.log
        if len(log) < self._next_row:  # training restarted
            self._restart()
        while self._next_row < len(log):
            rows = log.rows(self._next_row, self._next_row + _CHUNK_ROWS)
            self._curve.add(rows)
            self._next_row += len(rows["step"])

    def _write(self) -> bool:
        """Write the run; return False if it was deleted from the store."""
        run, status = self._run, self._run.status
        self._read_log()
        if status.state in ENDED:
            self._curve.rounds.finish()
        columns = self._curve.columns()
        losses = np.array(columns.get("loss", []))
        parts = np.array_split(losses, min(SPARKLINE_POINTS, len(losses) or 1))
        result, ended_at = run.result, run.ended_at if status.state in ENDED else None
        epoch = status.epoch - 1 if result is None else result.progress.complete_epochs
        if epoch > 0 and columns and (result is not None or self._metrics[0] != epoch):
            self._metrics = epoch, self._record.epoch_logs(epoch)
        elif epoch <= 0 and columns:  # no epoch is complete: the latest loss
            self._metrics = 0, {"loss": columns["loss"][-1]}
        summary = {
            "title": run.title,
            "state": status.state,
            "message": status.message,
            "error": status.error,
            "ended": None if ended_at is None else ended_at.timestamp(),
            "epoch": status.epoch,
            "epochs": status.epochs,
            "workers": len(status.workers),
            "examples_per_s": status.examples_per_s,
            "seconds": status.elapsed_s,
            "configuration": run.configuration,
            "loss": self._curve.rounds.latest,
            "metrics": self._metrics[1],
            "sparkline": [float(part.mean()) for part in parts if len(part)],
        }
        values = {
            "heard": time.time(),
            "summary": json.dumps(summary, default=str),
            "validation": json.dumps([point.to_dict() for point in status.validation]),
            "curve": json.dumps(columns),
        }
        with opened(self._store.path, write=True) as connection:
            if self._is_stored:
                changes = ", ".join(f"{name} = :{name}" for name in values)
                done = connection.execute(
                    f"UPDATE runs SET {changes} WHERE id = :id", {**values, "id": self.id}
                )
                return done.rowcount > 0
            # These columns are written once, because the user may change them later.
            values |= {"id": self.id, "name": run.name, "started": run.started_at.timestamp()}
            values["process"] = json.dumps(Process.this())
            places = ", ".join(f":{name}" for name in values)
            connection.execute(f"INSERT INTO runs ({', '.join(values)}) VALUES ({places})", values)
        self._is_stored = True
        return True


class Curve:
    """The log of a run, reduced to at most `POINTS` points.

    A point is the mean over all workers and a fixed number of steps: 1 at first. When the limit is
    exceeded, pairs of points are merged, which doubles this number.

    Example:
        >>> curve = Curve()
        >>> curve.add({"step": np.array([1, 1, 2]), "epoch": np.array([1, 1, 1]),
        ...     "worker": np.array([0, 1, 0]), "round": np.array([1, 1, 1]),
        ...     "loss": np.array([4.0, 2.0, 1.0]), "examples": np.array([32, 32, 32]),
        ...     "time_s": np.array([0.1, 0.2, 0.3]), "examples_per_s": np.array([9.0, 7.0, 8.0])})
        >>> curve.columns()["loss"]
        [3.0, 1.0]
    """

    def __init__(self, *, sharing: bool = False) -> None:
        self.rounds = RoundMeans(sharing=sharing)
        self._steps = 1  # steps per point
        self._parts: dict[str, Any] = {}  # aggregation -> DataFrame with one row per point

    def add(self, rows: Mapping[str, Any]) -> None:
        """Add rows of the log, except minibatches that no worker reported."""
        import pandas as pd

        frame: Any = pd.DataFrame(dict(rows))
        frame = frame[frame["examples_per_s"].notna()]
        if frame.empty:
            return
        self.rounds.add({name: column.to_numpy() for name, column in frame.items()})
        frame["loss"] *= frame["examples"]
        groups = frame.groupby((frame["step"] - 1) // self._steps)
        for how, joined in _JOINED.items():
            both: list[Any] = [self._parts.get(how), groups.agg(how)]
            parts = pd.concat(both)
            self._parts[how] = parts.groupby(parts.index).agg(joined)
        while self._parts["max"].index.max() >= POINTS:
            self._steps *= 2
            for how, part in self._parts.items():
                self._parts[how] = part.groupby(part.index // 2).agg(_JOINED[how])

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of the log, one row per point; `examples` are those of the point."""
        if not self._parts:
            return {}
        sums, counts = self._parts["sum"], self._parts["count"]
        found = sums / counts
        found["examples"], found["loss"] = sums["examples"], sums["loss"] / sums["examples"]
        found.loc[counts["loss"] < counts["step"], "loss"] = np.nan  # keep NaN losses visible
        for name in ("epoch", "step", "time_s"):
            found[name] = self._parts["max"][name]
        found["worker"], found["round"] = 0, np.arange(1, len(found) + 1)
        return {str(name): column.tolist() for name, column in found.items()}


def _warn(name: str, error: Exception) -> None:
    _log.warning(
        "run %s is not stored; training continues: %s",
        *(name, str(error) or type(error).__name__),
    )


def _write_ends() -> None:
    """Wait for the last writes of ended runs before the interpreter exits."""
    deadline_s = time.monotonic() + _EXIT_S
    for recorder in list(_live):
        if recorder.run_has_ended:
            recorder.wait(max(0.0, deadline_s - time.monotonic()))


atexit.register(_write_ends)

"""Sends the measurements of a run to a tracker, on a separate thread."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from sparkwright.trackers import Tracker

from .record import RunRecord

_log = logging.getLogger(__name__)
# Columns of the log that are not measurements.
_PLACES = ["epoch", "round", "step", "examples", "time_s"]


class RunTracking:
    """Sends the measurements of one run to one tracker.

    It reads the run's log at the tracker's speed, without a queue. A slow tracker gets means over
    more minibatches.
    """

    def __init__(
        self, tracker: Tracker, record: RunRecord, parameters: Mapping[str, Any], *, validates: bool
    ) -> None:
        """Prepare without starting the thread."""
        self._tracker, self._record, self._parameters = tracker, record, parameters
        self._validates, self._name = validates, tracker.name or type(tracker).__name__
        self._row, self._counts = 0, Counter[int]()  # next row; rows per epoch
        self._epoch = self._taken = 0  # the last epoch and histograms that were sent
        self._has_warned = False
        self._ended, self._ended_s = threading.Event(), 0.0

    def begin(self, run: Any) -> None:
        """Start the thread."""
        self._run, name = run, f"sparkwright-{run.id}-tracker"
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Send the end of the run; non-blocking."""
        self._ended_s = time.monotonic()
        self._ended.set()

    def wait(self) -> None:
        """Wait until the tracker is done, at most its `wait_s` seconds after `end`."""
        wait_s = self._tracker.wait_s
        self._thread.join(max(0.0, self._ended_s + wait_s - time.monotonic()))
        if self._thread.is_alive():
            self._warn(f"it was still busy {wait_s:g} s (`wait_s`) after the end of the run")

    def _main(self) -> None:
        def begin() -> None:
            if found := self._tracker.begin(self._run, self._parameters):
                self._record.tracked(self._name, found)

        if self._try(begin):
            while not self._ended.wait(self._tracker.every_s):
                self._try(self._send_new, False)
            self._try(self._send_new, True)
            self._try(self._tracker.end, self._run.status.state)

    def _send_new(self, over: bool) -> None:
        log = self._run.log
        if was_cut := len(log) < self._row:  # training restarted, or rows were dropped
            self._row, self._counts = 0, Counter()
        rows = log.rows(self._row)
        self._counts.update(rows["epoch"].tolist())
        self._row += len(rows["step"])
        values, workers = step_values(rows)
        if workers and not was_cut:
            values["examples_per_s"] = self._run.status.examples_per_s
            self._try(self._tracker.step, int(rows["step"].max()), values, workers)
        for taken in self._run.histograms.since(self._taken):
            self._taken = taken.step
            found = {"/".join(key): each for key, each in taken.found.items()}
            self._try(self._tracker.histograms, taken.step, found)
        self._send_epochs(over)

    def _send_epochs(self, over: bool) -> None:
        status, steps = self._run.status, self._record.steps_per_epoch or 0
        validated = {point.epoch for point in status.validation}
        last = self._run.result.progress.complete_epochs if over else status.epoch
        for epoch in sorted(epoch for epoch in self._counts if epoch > self._epoch):
            trained = self._counts[epoch] >= steps > 0
            complete = trained and (not self._validates or epoch in validated)
            # Rows of a lost worker may never arrive.
            if epoch > last or not (complete or over or status.epoch > epoch + 1):
                return
            self._epoch = epoch
            self._try(self._tracker.epoch, epoch, self._record.epoch_logs(epoch))

    def _try(self, method: Callable[..., Any], *given: Any) -> bool:
        try:
            method(*given)
        except Exception as error:
            self._warn(f"{type(error).__name__}: {error}")
            return False
        return True

    def _warn(self, reason: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "run %s is not tracked completely by %s; training continues: %.500s",
                *(self._run.name, self._name, reason),
            )


def step_values(rows: Mapping[str, Any]) -> tuple[dict[str, float], dict[int, dict[str, float]]]:
    """Return the means of rows of the log over the workers, and the means of each worker."""
    import pandas as pd

    frame = pd.DataFrame(dict(rows))
    known = frame[frame["examples_per_s"].notna()].drop(columns=_PLACES)
    by_worker: Any = known.groupby("worker").mean()
    workers = {int(worker): row.dropna().to_dict() for worker, row in by_worker.iterrows()}
    return by_worker.mean().dropna().to_dict(), workers

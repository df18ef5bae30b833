"""The record of a run: written by the engine, read by everything else."""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparkwright.masters import TrainingPlan
from sparkwright.workers.protocol import Progress

from ._events import (
    RowsLogged,
    RunState,
    RunStatus,
    StateChanged,
    Validated,
    ValidationPoint,
    WorkerJoined,
    WorkerLost,
    WorkerStalled,
    WorkerState,
    WorkerStatus,
)
from ._history import History, Throughput, block_rows, epoch_logs, unreported_rows
from ._listeners import EventLog
from .histograms import RunHistograms
from .timeline_record import TimelineRecord

_log = logging.getLogger(__name__)
# Polling interval of `await_rows`.
_POLL_S = 0.002


class RunRecord:
    """Tables of the events, minibatches and phases of a run.

    The engine adds to it; status, history, timeline and reports are read from it. Listeners are
    called on a separate thread. Every method may be called from any thread.
    """

    def __init__(self, *, workers: int, epochs: int, name: str) -> None:
        """Start now, in the state "queued"."""
        self.log, self.histograms = History(), RunHistograms()
        self.times = TimelineRecord(workers=workers, name=name)  # phases of driver and workers
        self.facts: Mapping[str, Any] = {}  # JSON-serializable, known after the start
        self.behind: tuple[str, ...] = ()  # runs whose task slots this run waits for
        self._starting = "waiting for workers"
        self.began_s = time.monotonic()
        self.first_loss_s: float | None = None  # since the start
        # Worker -> seconds since its last message, from the server.
        self.silence_s: Callable[[], dict[int, float]] = dict
        self._lock = threading.RLock()
        self._status = RunStatus(
            epochs=epochs, workers=tuple(WorkerStatus(worker=w) for w in range(workers))
        )
        self._heard_s = [self.began_s] * workers
        self._logged_s = [-math.inf] * workers  # `time_s` of each worker's last row
        self._throughput = Throughput()
        self._plan: TrainingPlan | None = None
        self._entered = self._rounds = 0  # the current epoch, and its number of averagings
        self._ended_s: float | None = None
        # For listeners; without `RowsLogged`, whose rows `log` has.
        self.events = EventLog(name=name)

    # -- read -------------------------------------------------------------------------------

    def status(self) -> RunStatus:
        """Return a snapshot of the status."""
        # Without this lock, because the server calls the record with its own lock held.
        ago = self.silence_s()
        with self._lock:
            now_s = self._ended_s or time.monotonic()
            recent, overall = self._rates(now_s)
            is_over, total = self._ended_s is not None, self._plan.examples if self._plan else 0
            rate = overall or recent
            remaining_s = max(0.0, total - self._throughput.trained) / rate if rate else None
            workers = tuple(
                replace(w, last_heard_s=ago.get(w.worker, now_s - self._heard_s[w.worker]))
                for w in self._status.workers
            )
            return replace(
                self._status,
                workers=workers,
                examples_per_s=overall if is_over else recent or overall,
                elapsed_s=now_s - self.began_s,
                remaining_s=None if is_over or not total else remaining_s,
            )

    @property
    def steps_per_epoch(self) -> int | None:
        """Minibatches per epoch, summed over the workers; None while unknown."""
        return None if self._plan is None else sum(self._plan.minibatches)

    def epoch_logs(self, epoch: int, rows: Mapping[str, Any] | None = None) -> dict[str, float]:
        """Return the Keras logs of `epoch` (from 1), with validation values as "val_…".

        `rows` are the rows of the log to use; default None: all.
        """
        with self._lock:
            points, rows = self._status.validation, self.log.rows() if rows is None else rows
        logs = epoch_logs(rows, epoch)
        for point in points:
            if point.epoch == epoch:
                found = {"loss": point.loss, **point.metrics}
                logs |= {f"val_{name}": value for name, value in sorted(found.items())}
        return logs

    def await_rows(self, steps: Sequence[int], timeout_s: float) -> None:
        """Wait until each worker has logged its number of `steps`, or for `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and any(
            worker.steps < count for worker, count in zip(self._status.workers, steps, strict=True)
        ):
            time.sleep(_POLL_S)

    # -- written by the engine --------------------------------------------------------------

    def noted(self, facts: Mapping[str, Any]) -> None:
        """Add JSON-serializable facts to the run's `configuration`."""
        with self._lock:
            self.facts = {**self.facts, **facts}

    def annotated(self, note: str) -> None:
        """Set the caveat on the run's scores."""
        with self._lock:
            self._status = replace(self._status, note=note)

    def tracked(self, tracker: str, id: str) -> None:
        """Record the id of the run in a tracker."""
        with self._lock:
            tracked = {**self._status.tracked, tracker: id}
            self._status = replace(self._status, tracked=tracked)

    def set_plan(self, plan: TrainingPlan) -> None:
        """Set the plan, once the examples have been counted."""
        with self._lock:
            self._plan = plan
            workers = tuple(
                replace(w, rows=rows)
                for w, rows in zip(self._status.workers, plan.rows, strict=True)
            )
            self._enter(plan, max(self._status.epoch, plan.first_epoch + 1))
            self._status = replace(self._status, rounds=self._rounds, workers=workers)

    def set_waiting_for(self, runs: tuple[str, ...]) -> None:
        """Set the runs whose task slots this run waits for; empty: it can start."""
        with self._lock:
            changes, self.behind = runs != self.behind, runs
            if changes and self._status.state in ("queued", "starting"):
                self.state_changed("starting", self._starting)

    def state_changed(self, state: RunState, message: str, *, error: str | None = None) -> None:
        """Change the state; "starting" becomes "queued" while the run waits for other runs."""
        with self._lock:
            if state == "starting":
                self._starting = message
                if self.behind:
                    state = "queued"
                    message = f"Waiting for run {' or '.join(self.behind)} to end"
            if self._ended_s is not None or (
                self._status.state == "stopping" and state in ("starting", "training")
            ):
                return
            if state in ("done", "stopped", "failed"):
                self._ended_s = time.monotonic()
            self._status = replace(self._status, state=state, message=message, error=error)
        self.events.add(StateChanged(state=state, message=message))

    def worker_joined(
        self, worker: int, *, host: str, rows: int, device: str = "", pid: int = 0
    ) -> None:
        """Record that a worker has registered, for the first time or after a restart."""
        before = self._status.workers[worker]
        restarts = 0 if before.state == "waiting" else before.restarts + 1
        where = {"host": host, "rows": rows, "device": device, "pid": pid}
        self._change(worker, state="starting", restarts=restarts, **where)
        self.events.add(WorkerJoined(worker=worker, host=host, attempt=restarts))

    def worker_placed(self, worker: int, *, host: str, device: str, pid: int) -> None:
        """Set the place of a worker that does not register, with Spark's communication."""
        self._change(worker, host=host, device=device, pid=pid)

    def worker_lost(self, worker: int) -> None:
        """Record the loss of a worker."""
        host = self._status.workers[worker].host
        self._change(worker, state="lost")
        self.times.expected(worker)
        self.events.add(WorkerLost(worker=worker, host=host))

    def worker_stalled(self, worker: int, seconds: float) -> None:
        """Record that a worker computes without progress for `seconds`; 0: it has recovered."""
        self._change(worker, state="stalled" if seconds else "training")
        if seconds:
            host = self._status.workers[worker].host
            _log.warning(
                "worker %d on %s has made no progress for %.0f s. A hook, a file system or a "
                "device driver may hang. Use `run.stop()` to end the run with the last average, "
                "or `MeshConfig(replace_stalled=True)` to replace stalled workers. For longer "
                "steps, raise `MeshConfig(stall_timeout_s=…)`.",
                *(worker, host, seconds),
            )
            self.events.add(WorkerStalled(worker=worker, host=host, seconds=seconds))

    def stood_still(self, seconds: float, waits_for: str, *, stacks: bool = True) -> None:
        """Record that the run makes no progress for `seconds`; 0: it goes on."""
        if seconds:
            _log.warning(
                "no minibatch has counted for %.0f s. The run waits for %s. %sUse `run.stop()` to "
                "end the run with the last average.",
                *(seconds, waits_for, "The stacks of the workers follow. " if stacks else ""),
            )
        else:
            _log.warning("the run makes progress again.")

    def worker_alive(self, worker: int) -> None:
        """Record a heartbeat of a worker."""
        self._heard_s[worker] = time.monotonic()

    def resumed(
        self,
        history: Mapping[str, Any],
        validation: Sequence[Mapping[str, Any]],
        progress: Progress,
    ) -> None:
        """Continue from a checkpoint, with its log."""
        with self._lock:
            points = tuple(ValidationPoint(**point) for point in validation)
            self._status = replace(self._status, validation=points)
            if len(next(iter(history.values()), ())):
                self.log.append(history)
            times = self.log.rows()["time_s"]
            # Continue the log's time where the checkpoint ended.
            self.began_s -= float(times.max()) if len(times) else 0.0
            rows = self.log.rows()
            for worker in range(len(progress.steps)):
                self._change(worker, steps=int((rows["worker"] == worker).sum()))
            self._status = replace(
                self._status, epoch=progress.epoch, averagings=progress.averagings
            )
        # Adds rows that had not arrived when the checkpoint was written.
        self.progress_settled(progress, exact=not self._is_sharing)

    def rows_trained(
        self,
        worker: int,
        blocks: list[dict[str, Any]],
        losses: Any,  # (n,) float32, n minibatches in all blocks
        examples: Any,  # (n,) int32
        further: Mapping[str, Any] | None = None,  # columns, each (n,) float32
    ) -> None:
        """Log trained minibatches of a worker, see `block_rows`."""
        now_s = time.monotonic()
        with self._lock:
            self._heard_s[worker] = now_s
            status = self._status.workers[worker]
            step, start, first = status.steps, 0, len(self.log)
            for block in blocks:
                count = int(block["count"])
                part = slice(start, start + count)
                if count:
                    ended_s = now_s - float(block["age_s"])
                    rows = block_rows(
                        block,
                        worker=worker,
                        step=step,
                        ended_s=ended_s - self.began_s,
                        not_before_s=self._logged_s[worker],
                        loss=losses[part],
                        examples=examples[part],
                        **{name: values[part] for name, values in (further or {}).items()},
                    )
                    self._logged_s[worker] = float(rows["time_s"][-1])
                    self.log.append(rows)
                    self._throughput.add(int(examples[part].sum()), ended_s=ended_s)
                start, step = start + count, step + count
            if not blocks:
                return
            last = blocks[-1]
            self._change(
                worker,
                # Its last rows may arrive after a worker has left its slot.
                state="lost" if status.state == "lost" else "training",
                steps=step,
                loss=float(losses[-1]) if len(losses) else status.loss,
                **_encoding_of(status, further or {}),
            )
            self._advance(last, now_s)
        if start:
            self.events.add(RowsLogged(start=first, count=start))

    def validated(self, *, epoch: int, loss: float, metrics: dict[str, float]) -> None:
        """Add the validation results of the averaged network."""
        with self._lock:
            step = max(w.steps for w in self._status.workers)
            point = ValidationPoint(epoch=epoch, step=step, loss=loss, metrics=metrics)
            # Validation is repeated if a worker was lost.
            before = tuple(p for p in self._status.validation if p.epoch < epoch)
            self._status = replace(self._status, validation=(*before, point))
        self.events.add(Validated(point=point))

    def progress_settled(self, progress: Progress, *, exact: bool = True) -> None:
        """Make the log of each worker agree with the minibatches that count.

        A lost worker may not have reported its last minibatches, or may have reported a round that
        the others repeat.
        """
        with self._lock:
            if self._plan is None:
                return
            for status, expected in zip(self._status.workers, progress.steps, strict=True):
                # Without `exact`, other workers have the updates: the rows count although repeated.
                if status.steps > expected and exact:
                    self.log.discard(status.worker, after_step=expected)
            unreported = unreported_rows(self._plan, progress, self.log.rows())
            for worker, columns in unreported.items():
                self._log_unreported(worker, columns)
            for status, expected in zip(self._status.workers, progress.steps, strict=True):
                if status.steps <= expected or exact:
                    self._change(status.worker, steps=expected)
            validation = [p for p in self._status.validation if p.epoch <= progress.validated]
            self._status = replace(self._status, validation=tuple(validation))
            self._throughput.trained = int(self.log.rows()["examples"].sum())

    def history_forgotten(self) -> None:
        """Clear the log, because training restarts."""
        with self._lock:
            self.log.clear()
            self._logged_s = [-math.inf] * len(self._logged_s)
            self._throughput.clear()
            workers = tuple(replace(w, steps=0, loss=None) for w in self._status.workers)
            self._status = replace(
                self._status, workers=workers, averagings=0, epoch=0, round=0, validation=()
            )

    def averagings_counted(self, averagings: int, *, stopped: bool = False) -> None:
        """Record the run's end, complete or `stopped`, and the exact number of averagings."""
        state: WorkerState = "stopped" if stopped else "done"
        with self._lock:
            workers = tuple(replace(w, state=state) for w in self._status.workers)
            self._status = replace(self._status, averagings=averagings, workers=workers)

    def close(self) -> None:
        """Deliver the remaining events to the listeners, then end their thread."""
        self.times.close()
        self.events.close()

    # -- private ----------------------------------------------------------------------------

    @property
    def _is_sharing(self) -> bool:
        return self._plan is not None and self._plan.kind == "sharing"

    def _change(self, worker: int, **changes: Any) -> None:
        with self._lock:
            workers = list(self._status.workers)
            workers[worker] = replace(workers[worker], **changes)
            self._status = replace(self._status, workers=tuple(workers))

    def _advance(self, block: Mapping[str, Any], now_s: float) -> None:
        status, plan = self._status, self._plan
        epoch, number = int(block["epoch"]), int(block["round"])
        # With gradient sharing, workers average only at the end of an epoch.
        ended = epoch - 1 - (plan.first_epoch if plan is not None else 0)
        averagings = int(block.get("averagings", ended))
        # Rows of a slow worker may arrive after the next round of a fast one.
        epoch, number = max((epoch, number), (status.epoch, status.round))
        if plan is not None and epoch != self._entered:
            self._enter(plan, epoch)
        self._status = replace(
            status,
            epoch=epoch,
            round=number,
            rounds=self._rounds,
            averagings=max(averagings, status.averagings),
        )
        if self.first_loss_s is None:
            self.first_loss_s = now_s - self.began_s
            self._throughput.begin(now_s)
            self.state_changed("training", "training")

    def _enter(self, plan: TrainingPlan, epoch: int) -> None:
        """Enter `epoch` (from 1), and set its number of averagings."""
        self._entered, longest = epoch, max(plan.minibatches, default=0)
        self._rounds = longest if plan.kind == "sharing" else plan.rounds_in(epoch - 1)

    def _log_unreported(self, worker: int, columns: Mapping[str, Any]) -> None:
        """Add rows for minibatches that count but that their worker did not report."""
        count = len(columns["epoch"])
        steps = self._status.workers[worker].steps
        self._logged_s[worker] = time.monotonic() - self.began_s
        self.log.append(
            {
                **columns,
                "worker": np.full(count, worker),
                "step": np.arange(steps + 1, steps + count + 1),
                "loss": np.full(count, np.nan),
                "time_s": np.full(count, self._logged_s[worker]),
                "examples_per_s": np.full(count, np.nan),
            }
        )

    def _rates(self, now_s: float) -> tuple[float, float]:
        """Return the examples per second over the last seconds, and since the first round."""
        times = self.log.rows(max(0, len(self.log) - 1))["time_s"]
        overall = self._throughput.overall(self.began_s + float(times[-1]) if len(times) else None)
        return self._throughput.recent(now_s), overall


def _encoding_of(status: WorkerStatus, further: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status fields of the encoding, from the last of these minibatches."""
    if not len(further.get("threshold", ())):
        return {}
    return {
        "threshold": float(further["threshold"][-1]),
        "sparsity": float(further["sparsity"][-1]),
        "staleness": int(further["staleness"][-1]),
        "sent_bytes": status.sent_bytes + int(further["message_bytes"].sum()),
    }

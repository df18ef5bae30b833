"""Engine of runs with a coordinator on the driver and workers that communicate with each other."""

import threading
import time
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

from sparkwright._open_files import OPEN_FILES, ensure_open_files
from sparkwright.errors import ConfigurationError, RunTimeoutError
from sparkwright.masters import SharedTrainingMaster
from sparkwright.masters.plan import epoch_minibatches
from sparkwright.timeline import PhaseCode
from sparkwright.workers.failure import error_of
from sparkwright.workers.protocol import Failure, Progress

from ._averaging_coordinator import Coordinator
from ._decisions import EndRun
from ._service import RunService
from ._sharing_coordinator import SharingCoordinator
from .begin import RunBeginning
from .launching import Launcher
from .outcome import Outcome, held, tidy
from .poison import place_of, rows_of
from .record import RunRecord
from .run_checkpoints import RunCheckpoints

# Maximum wait for tasks to end after the workers are dismissed.
_TASKS_END_S = 10.0
# Maximum wait of a hard stop for the last average, before the tasks are ended.
_SNAPSHOT_S = 1.0


class PeerEngine:
    """Engine of one run whose workers communicate with each other.

    It stores the data, makes the coordinator, has `RunService` serve the workers to the end of the
    run, and decides with which state and error the run has ended.
    """

    def __init__(self, beginning: RunBeginning, launcher: Launcher) -> None:
        """Prepare without starting anything."""
        self._launcher, self._beginning = launcher, beginning
        self._master, self._callbacks = beginning.master, beginning.callbacks
        self._checkpoints = RunCheckpoints(beginning)
        self._record: RunRecord  # set by `run`
        self._rows: tuple[int, ...] = ()  # of each worker; empty: unknown
        self._service: RunService | None = None
        self._stop_asked = threading.Event()
        self._preparing = True

    def run(self, record: RunRecord) -> Outcome:
        """Train; return the outcome, including an error."""
        self._record = record
        launcher = self._launcher
        relays = self._master.exchange.among == "driver"
        try:
            ensure_open_files(OPEN_FILES + launcher.workers * (4 + relays * launcher.workers))
            # Now, because the user may change the model during the run.
            self._checkpoints.begin()
            self._checkpoints.open(record)
            self._prepare()
            coordinator = self._coordinator()
            if self._stop_asked.is_set():
                return self._outcome(coordinator.progress)
            record.times.enter(PhaseCode.SUBMIT)
            record.noted(launcher.facts)
            if self._rows:
                self._plan(self._rows)
            elif self._checkpoints.resume is not None:
                raise ConfigurationError(
                    "`resume` needs the number of examples per epoch before training. Received: "
                    "TfData(examples=None). Use `TfData(make, examples=…)`."
                )
            self._service = RunService(
                coordinator,
                record,
                beginning=self._beginning,
                launcher=launcher,
                checkpoints=self._checkpoints,
                rows=self._rows,
                gathered=self._gathered,
            )
            if self._stop_asked.is_set():
                self._service.server.stop()
            self._service.until_over()
            record.times.enter(PhaseCode.FINISH)
            tidy(partial(self._end_tasks, self._service.server.present))
            return self._outcome(coordinator.progress)
        except BaseException as error:
            tidy(self._abandon)
            return self._outcome(Progress(), error=error)
        finally:
            finish = partial(record.times.enter, PhaseCode.FINISH)
            port = () if self._service is None else (self._service.close,)
            tidy(finish, self._checkpoints.close, *port, launcher.clean_up)

    def stop(self) -> None:
        """End with the next averaging, or immediately before the first one; non-blocking."""
        self._stop_asked.set()
        if self._preparing:
            self._launcher.cancel()
        if self._service is not None:
            self._service.server.stop()

    def cancel(self) -> None:
        """Fetch the last average, even within a step, then end the tasks immediately."""
        self._stop_asked.set()
        self._abandon()

    def request_histograms(self) -> bool:
        """Request histograms after the next averaging; return False if no worker trains yet."""
        return self._service is not None and self._service.server.request_histograms()

    # -- begin ------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Store the data, and fit the checkpoint to the workers; a stop ends this at once."""
        launcher, rows = self._launcher, None
        try:
            if not self._stop_asked.is_set():
                rows = launcher.prepare(self._record.times.enter)
        except Exception:
            if not self._stop_asked.is_set():
                raise
        self._preparing = False
        if rows is not None:
            self._rows = self._of_all(rows)
            self._checkpoints.fit(self._rows, is_stream=launcher.stream is not None)

    def _of_all(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Extend the `counts` of the required workers with 0 for those that may join."""
        return *counts, *[0] * (self._launcher.workers - len(counts))

    def _gathered(self, rows: tuple[int, ...]) -> None:
        """Plan with the `rows` of the required workers if they were unknown before."""
        if not self._rows:
            self._plan(self._of_all(rows))

    def _plan(self, rows: tuple[int, ...]) -> None:
        self._rows = rows
        plan = self._master.plan(rows, epochs=self._beginning.epochs)
        self._checkpoints.show(self._record, plan)

    def _coordinator(self) -> Coordinator | SharingCoordinator:
        """Return the coordinator, once the data's slots are known."""
        launcher, master, mesh = self._launcher, self._master, self._master.mesh
        common: dict[str, Any] = {
            "workers": launcher.workers,
            "required": launcher.required,
            "slots": launcher.slots,
            "start": self._first_progress(),
            "rendezvous_timeout_s": mesh.rendezvous_timeout_s,
            "queue_timeout_s": mesh.queue_timeout_s,
            "replacement_grace_s": mesh.replacement_grace_s,
            "replacement_timeout_s": mesh.replacement_timeout_s or launcher.replacement_timeout_s,
            "stall_timeout_s": mesh.stall_timeout_s,
            "replace_stalled": mesh.replace_stalled,
            "max_failures": launcher.max_failures,
            "place_of": lambda span: place_of(span, **self._examples()),
            "rows_of": lambda span: rows_of(span, **self._examples()),
            "now_s": time.monotonic(),
        }
        if not isinstance(master, SharedTrainingMaster):
            return Coordinator(**common)
        return SharingCoordinator(
            **common,
            epochs=self._beginning.epochs,
            minibatches=lambda rows: epoch_minibatches(
                rows, master.batch_size_per_worker, master.steps_per_epoch
            ),
            piece_size=master.minibatches_in_piece,
            checkpoints=master.checkpoint,
            copies=True,
            lends=launcher.stream is None,
            callbacks=self._callbacks.given,
        )

    def _examples(self) -> dict[str, Any]:
        """Arguments of `rows_of`: rows may be known only later, and a stream's have no numbers."""
        rows = () if self._launcher.stream else self._rows
        return {"rows": rows, "master": self._master, "earlier": self._checkpoints.earlier}

    def _first_progress(self) -> Progress:
        """Return the initial progress, with the learning rate set by callbacks."""
        beginning = self._beginning
        progress = Progress.first(
            workers=self._launcher.workers,
            iterations=beginning.start.iterations,
            epoch=beginning.initial_epoch,
            thresholds=beginning.start.thresholds,
        )
        if (found := self._checkpoints.resume) is not None:
            progress = found.progress
        if self._stop_asked.is_set():
            return progress
        plan = self._master.plan(self._rows, epochs=beginning.epochs)
        return self._callbacks.begin(progress, steps=sum(plan.minibatches))

    # -- end --------------------------------------------------------------------------------

    def _abandon(self) -> None:
        """Fetch the last average, even within a step, then end the tasks."""
        service = self._service
        if service is not None and not service.over.is_set():
            service.server.snapshot(_SNAPSHOT_S)
        self._launcher.cancel()
        if service is not None:
            service.leave()

    def _end_tasks(self, present: Collection[int]) -> None:
        """Withdraw the tasks of workers that never joined, and wait for all others to end."""
        launcher = self._launcher
        for worker in range(launcher.required, launcher.workers):
            if worker not in present:
                launcher.withdraw(worker)
        if not launcher.finish(_TASKS_END_S):
            launcher.cancel()
            launcher.finish(_TASKS_END_S)

    # -- outcome ----------------------------------------------------------------------------

    def _outcome(self, progress: Progress, *, error: BaseException | None = None) -> Outcome:
        """Return the outcome: the delivered state, or the driver's copy if that is later."""
        service = self._service
        end, result = (None, None) if service is None else (service.end, service.server.result)
        found, is_copy = self._checkpoints.latest(result)
        if found is not None and (is_copy or self._master.exchange.kind == "averaging"):
            progress = found.progress
            if is_copy or end is None:  # the coordinator has not settled this progress
                self._record.progress_settled(progress, exact=True)
        if error is None:
            error = self._error(end, None if found is None else progress)
        return Outcome(
            vector=None if found is None else found.vector,
            counters=None if found is None else found.counters,
            progress=progress,
            stopped=self._stop_asked.is_set() and (end is None or end.stopped),
            error=self._callbacks.explained(error),
        )

    def _error(self, end: EndRun | None, progress: Progress | None) -> BaseException | None:
        """Return the error of the run, including the state of the model; None without an error."""
        server = None if self._service is None else self._service.server
        if end is not None and end.failure is not None:
            failure = end.failure
            return error_of(replace(failure, reason=f"{failure.reason} {held(progress)}".strip()))
        if end is not None and end.timed_out:
            return RunTimeoutError(f"{end.timed_out} {held(progress)}")
        if server is not None and server.rejected and server.result is None:
            reason = f"the delivered state has NaN or infinite values. {held(progress)}"
            return error_of(Failure(worker=-1, host="the driver", kind="non_finite", reason=reason))
        return None

"""What the driver does while workers train: it starts their tasks and keeps the run's record."""

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from sparkwright.cluster.held_slots import holding
from sparkwright.mesh.auth import SECRET_BYTES
from sparkwright.mesh.framing import Message
from sparkwright.timeline import PhaseCode
from sparkwright.workers.failure import failure_of
from sparkwright.workers.histograms import HistogramsTaken
from sparkwright.workers.protocol import Failure

from ._averaging_coordinator import Coordinator
from ._decisions import (
    EndRun,
    KeepCheckpoint,
    LaunchTask,
    MessageReceived,
    Notification,
    ProgressSettled,
    ResetHistory,
    RunCallbacks,
    ShowStalled,
    ShowStandstill,
    WorkerDisconnected,
)
from ._observations import (
    CallbacksAnswered,
    Moment,
    TaskEnded,
    WorkerFailed,
    WorkerRegistered,
    columns_of,
)
from ._server import CoordinatorServer
from ._sharing_coordinator import SharingCoordinator
from .begin import RunBeginning
from .launching import Launcher, train_request
from .record import RunRecord
from .run_checkpoints import RunCheckpoints

# Maximum wait for the remaining messages of disconnected workers.
_DRAIN_S = 1.0
_log = logging.getLogger(__name__)


class RunService:
    """Serves the workers of one run and its coordinator, on the driver."""

    def __init__(
        self,
        coordinator: Coordinator | SharingCoordinator,
        record: RunRecord,
        *,
        beginning: RunBeginning,
        launcher: Launcher,
        checkpoints: RunCheckpoints,  # where workers start; keeps their states
        rows: tuple[int, ...],  # of each worker; empty: unknown
        # With the examples of the required workers, once all have registered.
        gathered: Callable[[tuple[int, ...]], None],
    ) -> None:
        """Open the port; tasks start with `until_over`."""
        self.over = threading.Event()
        self.end: EndRun | None = None
        self._record, self._launcher, self._callbacks = record, launcher, beginning.callbacks
        self._checkpoints, self._gathered = checkpoints, gathered
        # Moments whose callbacks the run's thread must run; None: the run is over.
        self._due: queue.SimpleQueue[Moment | None] = queue.SimpleQueue()
        self._has_gathered = False
        master, secret = beginning.master, os.urandom(SECRET_BYTES)
        mesh, relays = master.mesh, master.exchange.among == "driver"
        self.server = CoordinatorServer(
            coordinator,
            self._notified,
            secret=secret,
            host=launcher.bind_host,
            ports=mesh.ports_from(os.environ),
            peer_timeout_s=mesh.peer_timeout_s,
            start=lambda: checkpoints.start,
            name=f"sparkwright-{beginning.id}",
            encrypt=mesh.encrypt,
            relay_timeout_s=mesh.connect_timeout_s if relays else None,
        )
        record.silence_s = self.server.silence_s
        self._request: Any = None
        self._request_at = partial(
            train_request,
            beginning,
            launcher,
            rows=rows,
            earlier=checkpoints.earlier,
            secret=secret,
        )

    def until_over(self) -> None:
        """Start the tasks of the required workers, and run the callbacks that are due."""
        record, required = self._record, range(self._launcher.required)
        record.state_changed("starting", f"waiting for {len(required)} workers")
        self._request = self._request_at(port=self.server.address[1])
        # Before the launch, because the last registration begins the next phase.
        record.times.enter(PhaseCode.GATHER)
        for worker in required:
            record.times.expected(worker)
        for worker in required:
            self._launch(worker)
        while (moment := self._due.get()) is not None and self._callbacks.error is None:
            self._call_back(moment)
        self.over.wait()

    def leave(self) -> None:
        """End `until_over`, whatever the coordinator awaits."""
        self.over.set()
        self._due.put(None)

    def close(self) -> None:
        """Close the port."""
        if self._record.times.collects:
            self.server.drain(_DRAIN_S)
        self.server.close()
        self._record.silence_s = dict

    # -- callbacks --------------------------------------------------------------------------

    def _call_back(self, moment: Moment) -> None:
        try:
            with self._without_free_slots():
                ends, rate = self._callbacks.called(moment, self._checkpoints.copy, self._record)
            self.server.handle(CallbacksAnswered(moment=moment, ends=ends, learning_rate=rate))
        except Exception as error:
            reason = f"a callback failed: {error}"
            failure = Failure(worker=-1, host="the driver", reason=reason)
            self.server.handle(WorkerFailed(failure=failure))

    def _without_free_slots(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which jobs fail that need slots of this run."""
        claim = self._launcher.claim
        if claim is None:
            return contextlib.nullcontext()
        present = sum(worker.state != "waiting" for worker in self._record.status().workers)
        return holding(claim.place, max(claim.workers, present), claim.slots)

    # -- tasks ------------------------------------------------------------------------------

    def _launch(self, worker: int, *, replaces: bool = False) -> None:
        """Start a task for `worker`; an error of the launcher counts as a failure of the task."""
        ended = partial(self._task_ended, worker)
        try:
            self._launcher.launch(worker, self._request, ended, replaces=replaces)
        except Exception as error:  # for example, the Spark session was stopped
            failure = failure_of(error, worker=worker, host="the driver")
            threading.Thread(target=ended, args=(failure,), daemon=True).start()

    def _task_ended(self, worker: int, failure: Failure | None) -> None:
        if failure is not None and worker >= self._launcher.required and not self.over.is_set():
            _log.warning(
                "the run continues without worker %d on %s: %s",
                *(worker, failure.host, failure.reason),
            )
        self.server.handle(TaskEnded(worker=worker, failure=failure))

    # -- notifications ----------------------------------------------------------------------

    def _notified(self, notification: Notification, message: Message | None) -> None:
        """Process a notification of the server, which holds its lock."""
        record = self._record
        match notification:
            case WorkerRegistered():
                self._worker_registered(notification)
            case WorkerDisconnected(worker=worker):
                record.worker_lost(worker)
            case MessageReceived(worker=worker):
                assert message is not None
                self._take_message(worker, message)
            case ProgressSettled(progress=progress, exact=exact):
                record.progress_settled(progress, exact=exact)
            case ResetHistory():
                record.history_forgotten()
            case KeepCheckpoint(progress=progress, write=write):
                assert message is not None
                self._checkpoints.keep(record, message, progress, write=write)
            case LaunchTask(worker=worker, replaces=replaces):
                self._launch(worker, replaces=replaces)
            case ShowStalled(worker=worker, seconds=seconds):
                record.worker_stalled(worker, seconds)
            case ShowStandstill(seconds=seconds, waits_for=waits_for):
                record.stood_still(seconds, waits_for)
            case RunCallbacks(moment=moment):
                self._due.put(moment)
            case EndRun():
                self.end = notification
                self.leave()

    def _worker_registered(self, event: WorkerRegistered) -> None:
        self._record.worker_joined(
            event.worker, host=event.host, rows=event.rows, device=event.device, pid=event.pid
        )
        required = self._record.status().workers[: self._launcher.required]
        if not self._has_gathered and all(worker.host for worker in required):
            self._has_gathered = True
            self._gathered(tuple(worker.rows for worker in required))
            self._record.times.enter(PhaseCode.TRAIN)

    def _take_message(self, worker: int, message: Message) -> None:
        """Process rows, phases, a validation or a heartbeat of a worker."""
        record, fields = self._record, message.fields
        match message.kind:
            case "rows":
                losses, examples, further = columns_of(message)
                record.rows_trained(worker, fields["blocks"], losses, examples, further)
                if self._callbacks.ends_at(losses):
                    self.server.stop()
            case "phases":
                record.times.add_message(worker, message)
            case "debug":
                _log.info("worker %d, minibatch %d: %s", worker, fields["step"], fields["line"])
            case "stacks":
                host = record.status().workers[worker].host
                _log.warning("stacks of worker %d on %s:\n%s", worker, host, fields["text"])
            case "histograms":
                record.histograms.add(HistogramsTaken.received(message))
            case "validated":
                epoch, loss = int(fields["epoch"]), float(fields["loss"])
                record.validated(epoch=epoch, loss=loss, metrics=fields["metrics"])
            case _:
                record.worker_alive(worker)

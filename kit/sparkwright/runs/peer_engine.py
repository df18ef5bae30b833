"""Engine of runs with a coordinator on the driver and workers that communicate with each other."""

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sparkwright._open_files import ensure_open_files
from sparkwright.cluster.slots import holding
from sparkwright.data import TfData
from sparkwright.errors import (
    ConfigurationError,
    DataError,
    NetworkError,
    NonFiniteLossError,
    RunTimeoutError,
    SparkSessionError,
    WorkerError,
)
from sparkwright.masters import Histograms, SharedTrainingMaster
from sparkwright.masters.plan import epoch_minibatches
from sparkwright.masters.training_master import TrainingMaster
from sparkwright.mesh.auth import SECRET_BYTES
from sparkwright.mesh.framing import Message
from sparkwright.networks import pack_arrays
from sparkwright.partitions import DefaultRepartitioner
from sparkwright.timeline import PhaseCode
from sparkwright.workers.failure import failure_of
from sparkwright.workers.histograms import HistogramsTaken
from sparkwright.workers.protocol import Failure, Progress
from sparkwright.workers.requests import TrainRequest, WorkerSettings

from ._coordinator import Coordinator
from ._decisions import (
    CallbacksAnswered,
    EndRun,
    KeepCheckpoint,
    LaunchTask,
    MessageReceived,
    Moment,
    Notification,
    ProgressSettled,
    ResetHistory,
    RunCallbacks,
    ShowStalled,
    ShowStandstill,
    WorkerDisconnected,
    WorkerRegistered,
)
from ._poison import place_of
from ._queue import Claim
from ._server import CoordinatorServer, order_of, vector_of
from ._sharing_coordinator import SharingCoordinator
from .callbacks import DriverCallbacks
from .engine import Outcome, held, tidy
from .record import RunRecord
from .run_checkpoints import RunCheckpoints

if TYPE_CHECKING:
    from .begin import RunBeginning

# Maximum wait for tasks to end after the workers are dismissed.
_TASKS_END_S = 10.0
# Maximum wait of a hard stop for the last average, before the tasks are ended.
_SNAPSHOT_S = 1.0
# Maximum wait for the remaining messages of disconnected workers.
_DRAIN_S = 1.0

# Free file descriptors that a run needs beside those of its workers: jobs, checkpoints, logs.
_OPEN_FILES = 64

_log = logging.getLogger(__name__)


class Launcher(Protocol):
    """Starts the workers' tasks, on Spark or as processes of this machine.

    Attributes:
        workers: maximum number of workers.
        required: number of workers that hold data and must be present; the others may join.
        max_failures: number of failed tasks of a worker, without a trained minibatch in between,
            that ends the run.
        replacement_timeout_s: default time-out for the replacement of a lost worker.
        slots: number of task slots; None: unknown.
        claim: the slots of Spark that the workers hold; None: without Spark.
        bind_host: address on which the coordinator listens.
        advertised_host: address at which workers connect to the coordinator.
        worker_host: address on which workers listen; empty: that of the connection to the
            coordinator.
        consume: whether a worker's files are used by only one attempt.
        facts: JSON-serializable facts about the data, from `prepare`.
        stream: the data from which workers read their examples; None: `prepare` stores them.
    """

    workers: int
    required: int
    max_failures: int
    replacement_timeout_s: float
    slots: int | None
    claim: Claim | None
    bind_host: str
    advertised_host: str
    worker_host: str
    consume: bool
    facts: dict[str, Any]
    stream: TfData | None

    def prepare(self, enter: Callable[[PhaseCode], None]) -> tuple[int, ...] | None:
        """Store the data for the workers.

        Args:
            enter: called with each phase of the timeline when it begins; the caller ends the last
                one.

        Returns:
            Number of examples of each required worker, or None if not counted yet.
        """
        ...

    def launch(
        self, worker: int, template: Any, ended: Callable[[Failure | None], None], *, replaces: bool
    ) -> None:
        """Start a task for `worker`; non-blocking.

        Args:
            worker: the worker's number.
            template: a `TrainRequest` to complete.
            ended: called once, from any thread, when the task ends: with its failure, or None if
                it returned or was replaced.
            replaces: whether to end the remaining tasks of the worker first.
        """
        ...

    def withdraw(self, worker: int) -> None:
        """End the tasks of a worker, which may wait for a slot, without a failure."""
        ...

    def finish(self, timeout_s: float) -> bool:
        """Wait until no task is left; return whether that was so within `timeout_s`."""
        ...

    def cancel(self) -> None:
        """End the tasks immediately."""
        ...

    def clean_up(self) -> None:
        """Release the resources that `prepare` took."""
        ...


class PeerEngine:
    """Engine of one run whose workers communicate with each other."""

    def __init__(self, beginning: "RunBeginning", launcher: Launcher) -> None:
        """Prepare without starting anything."""
        self._launcher, self._master = launcher, beginning.master
        self._run, self._epochs = beginning.id, beginning.epochs
        self._definition, self._start = beginning.definition, beginning.start
        self._callbacks, self._histograms = beginning.callbacks, beginning.histograms
        self._initial_epoch, self._checkpoints = beginning.initial_epoch, RunCheckpoints(beginning)
        # Moments whose callbacks the run's thread must run; None: the run is over.
        self._due: queue.SimpleQueue[Moment | None] = queue.SimpleQueue()
        self._record: RunRecord  # set by `run`
        self._rows: tuple[int, ...] = ()
        self._ended = threading.Event()
        self._end: EndRun | None = None
        # The latest state that the driver keeps in memory.
        self._copy: Outcome | None = None
        self._request: Any = None
        self._server: CoordinatorServer | None = None
        self._stop_asked = threading.Event()
        self._planned = self._gathered = False
        self._preparing = True

    def run(self, record: RunRecord) -> Outcome:
        """Train; return the outcome, including an error."""
        self._record = record
        launcher, mesh = self._launcher, self._master.mesh
        secret = os.urandom(SECRET_BYTES)
        relays = self._master.exchange.among == "driver"
        try:
            ensure_open_files(_OPEN_FILES + launcher.workers * (4 + relays * launcher.workers))
            # Copied now, because the user may change the model during the run.
            self._beginning = self._beginning_of_run()
            self._checkpoints.open(record)
            rows: tuple[int, ...] | None = None
            try:
                if not self._stop_asked.is_set():
                    rows = launcher.prepare(record.times.enter)
                rows = None if rows is None else self._of_all(rows)
            except Exception:
                if not self._stop_asked.is_set():
                    raise
            self._preparing = False
            # After `prepare`, which determines the number of slots.
            self._rows = rows or ()
            if rows is not None:
                self._checkpoints.fit(rows, is_stream=launcher.stream is not None)
                if self._checkpoints.resume is not None:  # else the model's, copied above
                    self._beginning = self._beginning_of_run()
            coordinator = self._coordinator()
            if self._stop_asked.is_set():
                return self._outcome(coordinator.progress)
            record.times.enter(PhaseCode.SUBMIT)
            record.noted(launcher.facts)
            if rows is not None:
                self._plan(rows)
            elif self._checkpoints.resume is not None:
                raise ConfigurationError(
                    "`resume` needs the number of examples per epoch before training. Received: "
                    "TfData(examples=None). Use `TfData(make, examples=…)`."
                )
            self._server = CoordinatorServer(
                coordinator,
                self._notified,
                secret=secret,
                host=launcher.bind_host,
                ports=mesh.ports_from(os.environ),
                peer_timeout_s=mesh.peer_timeout_s,
                start=lambda: self._beginning,
                name=f"sparkwright-{self._run}",
                encrypt=mesh.encrypt,
                relay_timeout_s=mesh.connect_timeout_s if relays else None,
            )
            record.silence_s = self._server.silence_s
            if self._stop_asked.is_set():
                self._server.stop()
            record.state_changed("starting", f"waiting for {launcher.required} workers")
            self._request = self._template(secret, self._server.address[1])
            # Before the launch, because the last registration begins the next phase.
            record.times.enter(PhaseCode.GATHER)
            for worker in range(launcher.required):
                record.times.expected(worker)
            for worker in range(launcher.required):
                self._launch(worker)
            self._run_callbacks()
            self._ended.wait()
            record.times.enter(PhaseCode.FINISH)
            tidy(partial(self._end_tasks, self._server.present))
            return self._outcome(coordinator.progress)
        except BaseException as error:
            tidy(self._abandon)
            return self._outcome(Progress(), error=error)
        finally:
            tidy(self._close_writer, self._close_server, launcher.clean_up)

    def stop(self) -> None:
        """End with the next averaging, or immediately before the first one; non-blocking."""
        self._stop_asked.set()
        if self._preparing:
            self._launcher.cancel()
        if self._server is not None:
            self._server.stop()

    def cancel(self) -> None:
        """Fetch the last average, even within a step, then end the tasks immediately."""
        self._stop_asked.set()
        self._abandon()

    def request_histograms(self) -> bool:
        """Request histograms after the next averaging; return False if no worker trains yet."""
        return self._server is not None and self._server.request_histograms()

    # -- private ----------------------------------------------------------------------------

    def _abandon(self) -> None:
        """Fetch the last average, even within a step, then end the tasks."""
        if self._server is not None and not self._ended.is_set():
            self._server.snapshot(_SNAPSHOT_S)
        self._launcher.cancel()
        self._over()

    def _end_tasks(self, present: Collection[int]) -> None:
        """Withdraw the tasks of workers that never joined, and wait for all others to end."""
        launcher = self._launcher
        for worker in range(launcher.required, launcher.workers):
            if worker not in present:
                launcher.withdraw(worker)
        if not launcher.finish(_TASKS_END_S):
            launcher.cancel()
            launcher.finish(_TASKS_END_S)

    def _close_writer(self) -> None:
        self._record.times.enter(PhaseCode.FINISH)
        self._checkpoints.close()

    def _close_server(self) -> None:
        if self._server is not None:
            if self._record.times.collects:
                self._server.drain(_DRAIN_S)
            self._server.close()
            self._record.silence_s = dict

    def _coordinator(self) -> Coordinator | SharingCoordinator:
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
            # The numbers of rows may be known only later; a stream's examples have no numbers.
            "place_of": lambda span: place_of(
                span,
                rows=() if launcher.stream else self._rows,
                master=master,
                earlier=self._checkpoints.earlier,
            ),
            "now_s": time.monotonic(),
        }
        if not isinstance(master, SharedTrainingMaster):
            return Coordinator(**common)
        return SharingCoordinator(
            **common,
            epochs=self._epochs,
            minibatches=lambda rows: epoch_minibatches(
                rows, master.batch_size_per_worker, master.steps_per_epoch
            ),
            piece_size=master.minibatches_in_piece,
            checkpoints=master.checkpoint,
            copies=True,
            lends=launcher.stream is None,
            callbacks=self._callbacks.given,
        )

    def _first_progress(self) -> Progress:
        """Return the initial progress, with the learning rate set by callbacks."""
        progress = Progress.first(
            workers=self._launcher.workers,
            iterations=self._start.iterations,
            epoch=self._initial_epoch,
            thresholds=self._start.thresholds,
        )
        if (found := self._checkpoints.resume) is not None:
            progress = found.progress
        if self._stop_asked.is_set():
            return progress
        plan = self._master.plan(self._rows, epochs=self._epochs)
        return self._callbacks.begin(progress, steps=sum(plan.minibatches))

    def _of_all(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Extend the `counts` of the required workers with 0 for those that may join."""
        return *counts, *[0] * (self._launcher.workers - len(counts))

    def _run_callbacks(self) -> None:
        """Run the callbacks of each moment until the run is over."""
        while (moment := self._due.get()) is not None and self._callbacks.error is None:
            assert self._server is not None
            try:
                with self._without_free_slots():
                    ends, rate = self._callbacks.called(moment, self._copy, self._record)
                answer = CallbacksAnswered(moment=moment, ends=ends, learning_rate=rate)
                self._server.callbacks_answered(answer)
            except Exception as error:
                self._server.fail(
                    Failure(worker=-1, host="the driver", reason=f"a callback failed: {error}")
                )

    def _without_free_slots(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which jobs fail that need slots of this run."""
        claim = self._launcher.claim
        if claim is None:
            return contextlib.nullcontext()
        present = sum(worker.state != "waiting" for worker in self._record.status().workers)
        return holding(claim.place, max(claim.workers, present), claim.slots)

    def _over(self) -> None:
        self._ended.set()
        self._due.put(None)

    def _beginning_of_run(self) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """Return the state from which workers start: the model's, or a checkpoint's."""
        checkpoint = self._checkpoints.resume
        if checkpoint is not None:
            vector = checkpoint.vector
            return {"size": int(vector.size)}, (vector, *checkpoint.extras)
        vector = self._start.vector()
        return {"size": int(vector.size)}, (vector, pack_arrays(self._start.extras()))

    def _keep_state(self, message: Message, progress: Progress, *, write: bool) -> None:
        """Keep a received state in case all workers are lost; `write`: also as a checkpoint."""
        vector = vector_of(message)
        extras = bytes(memoryview(message.payload)[vector.nbytes :])
        self._beginning = {"size": int(vector.size)}, (vector, extras)
        counters = extras[: self._start.counter_bytes]
        self._copy = Outcome(vector=vector, counters=counters, progress=progress)
        if write:
            self._checkpoints.write(self._record, progress, vector, extras)

    def _launch(self, worker: int, *, replaces: bool = False) -> None:
        """Start a task for `worker`; an error of the launcher counts as a failure of the task."""
        ended = partial(self._task_ended, worker)
        try:
            self._launcher.launch(worker, self._request, ended, replaces=replaces)
        except Exception as error:  # for example, the Spark session was stopped
            failure = failure_of(error, worker=worker, host="the driver")
            threading.Thread(target=ended, args=(failure,), daemon=True).start()

    def _task_ended(self, worker: int, failure: Failure | None) -> None:
        assert self._server is not None
        if failure is not None and worker >= self._launcher.required and not self._ended.is_set():
            _log.warning(
                "the run continues without worker %d on %s: %s",
                worker,
                failure.host,
                failure.reason,
            )
        self._server.task_ended(worker, failure)

    def _template(self, secret: bytes, port: int) -> Any:
        mesh = self._master.mesh
        settings = settings_of(
            self._master,
            epochs=self._epochs,
            callbacks=self._callbacks,
            histograms=self._histograms,
        )
        settings = replace(settings, rows=self._rows, earlier=self._checkpoints.earlier)
        return TrainRequest(
            definition=self._definition,
            xla=self._master.xla,
            run=self._run,
            controller=(self._launcher.advertised_host, port),
            secret=secret,
            listen_host=self._launcher.worker_host,
            ports=mesh.ports,
            shard="",
            validation="",
            consume=self._launcher.consume,
            settings=settings,
            stream=self._launcher.stream,
            shards=self._launcher.workers,
        )

    def _plan(self, rows: tuple[int, ...]) -> None:
        self._planned, self._rows = True, rows
        self._checkpoints.show(self._record, self._master.plan(rows, epochs=self._epochs))

    def _outcome(self, progress: Progress, *, error: BaseException | None = None) -> Outcome:
        """Return the outcome: the delivered state, or the driver's copy if that is later."""
        end, message, copy = self._end, self._server.result if self._server else None, self._copy
        vector = counters = None
        if message is not None and (copy is None or order_of(message) >= copy.progress.order):
            vector = vector_of(message)
            counters = bytes(memoryview(message.payload)[vector.nbytes :]) or None
            if self._master.exchange.kind == "averaging":
                progress = Progress.from_dict(message.fields["progress"])
                if end is None:  # the coordinator has not settled the progress
                    self._record.progress_settled(progress, exact=True)
        elif copy is not None:
            progress, vector, counters = copy.progress, copy.vector, copy.counters
            self._record.progress_settled(progress, exact=True)
        stopped = self._stop_asked.is_set() and (end is None or end.stopped)
        learned = vector is not None
        if error is None:
            error = self._error(end, progress if learned else None)
        error = self._callbacks.explained(error)
        return Outcome(
            vector=vector, counters=counters, progress=progress, stopped=stopped, error=error
        )

    def _error(self, end: EndRun | None, progress: Progress | None) -> BaseException | None:
        """Return the error of the run, including the state of the model; None without an error."""
        if end is not None and end.failure is not None:
            failure = end.failure
            return error_of(replace(failure, reason=f"{failure.reason} {held(progress)}".strip()))
        if end is not None and end.timed_out:
            return RunTimeoutError(f"{end.timed_out} {held(progress)}")
        if self._server is not None and self._server.rejected and self._server.result is None:
            reason = f"the delivered state has NaN or infinite values. {held(progress)}"
            return error_of(Failure(worker=-1, host="the driver", kind="non_finite", reason=reason))
        return None

    def _notified(self, notification: Notification, message: Message | None = None) -> None:
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
                self._keep_state(message, progress, write=write)
            case LaunchTask(worker=worker, replaces=replaces):
                self._launch(worker, replaces=replaces)
            case ShowStalled(worker=worker, seconds=seconds):
                record.worker_stalled(worker, seconds)
            case ShowStandstill(seconds=seconds, waits_for=waits_for):
                record.stood_still(seconds, waits_for)
            case RunCallbacks(moment=moment):
                self._due.put(moment)
            case EndRun():
                self._end = notification
                self._over()

    def _take_message(self, worker: int, message: Message) -> None:
        """Process rows, phases, a validation or a heartbeat of a worker."""
        record, fields = self._record, message.fields
        match message.kind:
            case "rows":
                count = sum(int(block["count"]) for block in fields["blocks"])
                losses = np.frombuffer(message.payload, np.float32, count)
                examples = np.frombuffer(message.payload, np.int32, count, 4 * count)
                further = {
                    name: np.frombuffer(message.payload, np.float32, count, 4 * count * place)
                    for place, name in enumerate(fields["columns"], start=2)
                }
                record.rows_trained(worker, fields["blocks"], losses, examples, further)
                if self._callbacks.ends_at(losses):
                    assert self._server is not None
                    self._server.stop()
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

    def _worker_registered(self, event: WorkerRegistered) -> None:
        self._record.worker_joined(
            event.worker, host=event.host, rows=event.rows, device=event.device, pid=event.pid
        )
        required = self._record.status().workers[: self._launcher.required]
        if not all(worker.host for worker in required):
            return
        if not self._planned:
            self._plan(self._of_all(tuple(worker.rows for worker in required)))
        if not self._gathered:
            self._gathered = True
            self._record.times.enter(PhaseCode.TRAIN)


def settings_of(
    master: TrainingMaster,
    *,
    epochs: int,
    callbacks: DriverCallbacks | None = None,
    histograms: Histograms | None = None,
) -> Any:
    """Return a template of the workers' settings, which `fill_in` completes."""
    assert master.seed is not None  # set by `seeded`
    if isinstance(master, SharedTrainingMaster):  # workers do not need the user's repartitioner
        master = replace(master, repartitioner=DefaultRepartitioner())
    settings = WorkerSettings(master=master, epochs=epochs, histograms=histograms)
    if callbacks is None or not callbacks.given:
        return settings
    return replace(settings, callbacks=True, callback_frequency=callbacks.frequency)


def fill_in(template: Any, *, worker: int, attempt: int, shard: str, validation: str) -> Any:
    """Complete `template` for one worker."""
    settings = replace(template.settings, worker=worker, attempt=attempt)
    return replace(template, settings=settings, shard=shard, validation=validation)


def error_of(failure: Failure) -> Exception:
    """Return the exception for a worker's failure."""
    if failure.kind == "data":
        return DataError(f"worker {failure.worker} on {failure.host}: {failure.reason}")
    if failure.kind == "configuration":
        return ConfigurationError(failure.reason)
    if failure.kind == "session":
        return SparkSessionError(failure.reason)
    if failure.kind == "network":
        return NetworkError(f"worker {failure.worker} on {failure.host}: {failure.reason}")
    kind = NonFiniteLossError if failure.kind == "non_finite" else WorkerError
    return kind(
        worker=failure.worker,
        host=failure.host,
        reason=failure.reason,
        worker_traceback=failure.traceback,
    )

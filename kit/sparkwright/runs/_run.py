"""A training run: status, waiting, stopping and results."""

import logging
import threading
from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any

from sparkwright.timeline import Timeline
from sparkwright.workers.protocol import Progress

from ._events import RunEvent, RunStatus
from ._history import History
from ._listeners import WarningKeeper, git_revision
from ._progress import ProgressLines
from ._queue import QUEUE, Claim, Place
from ._tracking import RunTracking
from ._waiting import Waiting
from .callbacks import DriverCallbacks
from .extensions import show, write_report
from .histograms import RunHistograms
from .names import NAMES
from .outcome import Engine, Outcome, ending_of, told
from .record import RunRecord

_log = logging.getLogger(__name__)


class TrainingRun:
    """A training run that continues in the background.

    Use `await run` in a notebook, `run.wait()` in a script. `run.stop()` ends it with the next
    averaging and keeps that average. In a notebook the run displays a live panel.

    Attributes:
        id: a short identifier, unique in this session.
        name: a readable name, unique in this session: `name` as given, or random such as
            "brisk-heron".
        title: what is trained, for headings.
        log: the log, one row per worker and minibatch, see `History`.
        started_at: start time, with time zone.
        ended_at: end time, with time zone; None while the run continues.
        code: Python code that repeats the training from scratch, including the data. None
            (default) if unknown; set for runs of an `Experiment`.
    """

    def __init__(
        self,
        *,
        id: str,
        title: str,
        engine: Engine,
        record: RunRecord,
        take_result: Callable[[Outcome], Outcome],
        model: Any,
        configuration: dict[str, Any],
        callbacks: DriverCallbacks | None = None,
        name: str | None = None,
        claim: Claim | None = None,
        lines: ProgressLines | None = None,
        trackings: Sequence[RunTracking] = (),
    ) -> None:
        """Start the run's thread."""
        self.id, self.title, self.name = id, title, name or NAMES.take()
        self._configuration = {**configuration, "revision": git_revision(".")}
        self._warnings = WarningKeeper(f"sparkwright-{id}")
        self.started_at = datetime.now().astimezone()
        self.ended_at: datetime | None = None
        self.code: str | None = None
        self._engine, self._record = engine, record
        self._take_result, self._model = take_result, model
        self._callbacks = callbacks
        self._trackings = trackings
        self._outcome: Outcome | None = None
        self._stop_asked = threading.Event()
        self._place = Place(self.name, claim, record)
        self._waiting = Waiting(self, self._place, cancel=engine.cancel, lines=lines)
        QUEUE.enter(self._place)
        self._thread = threading.Thread(target=self._main, name=f"sparkwright-{id}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        status = self.status
        note = f". {status.note}" if status.note else ""
        return (
            f"<TrainingRun {self.name} ({self.id}): {self.title}, {status.state}, "
            f"epoch {status.epoch}/"
            f"{status.epochs}, {len(self.log)} minibatches, "
            f"{status.examples_per_s:,.0f} examples/s{note}>"
        )

    # -- state ------------------------------------------------------------------------------

    @property
    def status(self) -> RunStatus:
        """A snapshot of the run's status; cheap."""
        return self._record.status()

    @property
    def log(self) -> History:
        """The log so far."""
        return self._record.log

    @property
    def history(self) -> Any:
        """A pandas DataFrame: one row per worker and minibatch, see `History` for its columns."""
        return self._record.log.to_frame()

    @property
    def epoch_history(self) -> Any:
        """Keras' `History` of the complete epochs so far, as `model.fit` returns it.

        `.history` maps names to lists of one number per epoch: "loss", the compiled metrics, their
        validation values with the prefix "val_", and values that callbacks add to their logs.
        `.epoch` numbers the epochs from 0, `.params` has "epochs" and "steps".
        """
        if self._callbacks is None:
            return None
        outcome = self._outcome
        done = self.status.epoch - 1 if outcome is None else outcome.progress.complete_epochs
        return self._callbacks.history(self._record, done)

    @property
    def restored_epoch(self) -> int | None:
        """The epoch (from 1) whose weights `EarlyStopping(restore_best_weights=True)` restored.

        None: it restored none, and the model holds the last average.
        """
        outcome, callbacks = self._outcome, self._callbacks
        is_over = outcome is not None and outcome.error is None and outcome.vector is not None
        return callbacks.restored_epoch if is_over and callbacks is not None else None

    @property
    def events(self) -> Any:
        """A pandas DataFrame of the run's events, one row each: time_s, event, its fields."""
        import pandas as pd

        return pd.DataFrame(self._record.events.rows(self._record.began_s))

    @property
    def timeline(self) -> Timeline:
        """An immutable snapshot of the phases of driver and workers so far.

        The driver's phases are always included, the workers' only if the master has
        `collect_training_stats=True`. Its `time_source` states how their clocks are compared.
        """
        hosts = [worker.host for worker in self.status.workers]
        return self._record.times.timeline(hosts=hosts, name=self.id)

    @property
    def histograms(self) -> RunHistograms:
        """Histograms of the network so far, from `histograms=` or `request_histograms`."""
        return self._record.histograms

    @property
    def thresholds(self) -> tuple[float, ...]:
        """With gradient sharing, the thresholds of a worker's last messages; else empty."""
        return () if self._outcome is None else self._outcome.progress.thresholds

    @property
    def adapted(self) -> dict[str, Any]:
        """JSON-serializable thresholds and settings, from which the next run continues."""
        settings = self.configuration.get("master", {})
        return {"master": settings, "thresholds": list(self.thresholds)}

    @property
    def model(self) -> Any:
        """The trained keras.Model; its weights are the result once the run is over."""
        return self._model

    @property
    def configuration(self) -> dict[str, Any]:
        """JSON-serializable: master, network, seed, versions, settings and counts of the data.

        The counts are added once they are known. `revision` is the commit of the working folder.
        """
        note = {"note": self.note} if self.note else {}
        return {**self._configuration, **self._record.facts, **note}

    @property
    def note(self) -> str:
        """A caveat on the run's scores, shown with them. Default: empty."""
        return self.status.note

    @note.setter
    def note(self, note: str) -> None:
        self._record.annotated(note)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The first 50 warnings that sparkwright logged during this run.

        Warnings from shared threads, such as those that read data, are kept by all runs that are
        active at that time.
        """
        return self._warnings.texts

    @property
    def finished(self) -> bool:
        """Whether the run is over: done, stopped or failed."""
        return self._waiting.over.is_set()

    @property
    def seconds(self) -> float:
        """Seconds since `start`; fixed when the run is over."""
        return self.status.elapsed_s

    @property
    def start_seconds(self) -> float | None:
        """Seconds from `start` to the first loss; None before that."""
        return self._record.first_loss_s

    @property
    def result(self) -> Outcome | None:
        """The outcome of the run; None while it continues."""
        return self._outcome

    # -- actions ----------------------------------------------------------------------------

    def stop(self) -> None:
        """End the run with the next averaging and keep it; non-blocking, from any thread."""
        if not self.finished:
            self._record.state_changed("stopping", "stopping; what has been learned is kept")
            self._stop_asked.set()
            self._engine.stop()

    def request_histograms(self) -> bool:
        """Request histograms from a worker after the next averaging; non-blocking.

        Their kinds are those of `histograms=`, by default weights and updates. They appear in
        `histograms`.

        Returns:
            Whether a worker was asked: False before the first worker connects, and after the end.
        """
        return not self.finished and self._engine.request_histograms()

    def add_listener(self, listener: Callable[[RunEvent], None]) -> Callable[[], None]:
        """Call `listener` with each event, on the run's thread; return a function to remove it."""
        return self._record.events.add_listener(listener)

    def wait(self, timeout_s: float | None = None) -> Any:
        """Wait for the end and return the trained model.

        An interrupt (Ctrl-C, the notebook's ■) stops the run within 5 s and keeps the last average.
        A second interrupt cancels the tasks at once, and also keeps the last average.
        SIGTERM and SIGHUP, and a script or kernel that ends before the run, stop it and write the
        model beside the stored runs.

        Raises:
            RunInterrupted: on an interrupt; a KeyboardInterrupt whose message states what the model
                holds.
            SystemExit: on SIGTERM and SIGHUP, with the exit status 128 + the signal's number.
            RunTimeoutError: if the run is not over after `timeout_s` seconds; the run continues.
            ConfigurationError: in a callback of this run, which would wait for itself.
            WorkerError, DataError, NetworkError, RunTimeoutError: if the run failed.
        """
        self._waiting.until_over(timeout_s)
        return self._finish()

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the run with `await run`, without blocking the event loop."""
        return self._wait_async().__await__()

    async def _wait_async(self) -> Any:
        await self._waiting.until_over_async()
        return self._finish()

    def _finish(self) -> Any:
        outcome = self._outcome
        if outcome is not None and outcome.error is not None:
            raise outcome.error
        return self._model

    def report(
        self,
        url: str,
        *,
        network: Any | None = None,
        evaluations: Any | None = None,
        data: Any | None = None,
        title: str | None = None,
        model_url: str | None = None,
    ) -> None:
        """Write a report of the run to any URL, as one self-contained HTML file.

        Needs `sparkwright[notebook]`. An existing file is replaced atomically.

        Args:
            url: target, such as "reports/lenet.html" or a URL of HDFS; a URL that ends with ".pdf"
                produces a PDF, which needs Chromium.
            network: the SparkNetwork, the keras.Model or the NetworkSpec; default None: the model
                of the run.
            evaluations: results of `network.evaluate` and the like: one, a list, or a dict by name.
                Default None: none.
            data: data sets by name, such as {"train": train, "test": test}; each is read once, to
                describe it. Default None: what is known from training.
            title: default None: the run's title.
            model_url: URL of the saved model, which is read and compared with the model of the run.
                Default None: no comparison.

        Raises:
            ConfigurationError: if the notebook packages or, for a PDF, Chromium are missing.
            OSError: if writing fails, naming the URL.
        """
        options = {"network": network, "evaluations": evaluations, "data": data, "title": title}
        write_report(self, url, {**options, "model_url": model_url})

    # -- the run's thread -------------------------------------------------------------------

    def _main(self) -> None:
        try:
            with self._warnings.listening():
                for each in self._trackings:
                    each.begin(self)
                self._run_to_the_end()
        finally:
            self._waiting.end()

    def _run_to_the_end(self) -> None:
        record = self._record
        try:
            with QUEUE.turn(self._place, is_stopped=self._stop_asked.is_set):
                self._waiting.begin()
                outcome = self._engine.run(record)
        except BaseException as error:
            outcome = Outcome(vector=None, counters=None, progress=Progress(), error=error)
        try:
            outcome = self._take_result(outcome)
        except Exception as error:
            _log.exception("the result of run %s could not be put into the model", self.name)
            outcome = Outcome(vector=None, counters=None, progress=outcome.progress, error=error)
        self._outcome = outcome = told(outcome)
        record.times.leave()
        # Set before the state changes, because listeners may read it.
        self.ended_at = datetime.now().astimezone()
        ended_early = outcome.stopped or outcome.error is not None
        record.averagings_counted(outcome.progress.averagings, stopped=ended_early)
        done = "" if ended_early or self._callbacks is None else self._callbacks.ending()
        state, message, error = ending_of(outcome, done=done, restored_epoch=self.restored_epoch)
        record.state_changed(state, message, error=error)
        record.close()
        for each in self._trackings:
            each.end()
        for each in self._trackings:
            each.wait()

    # -- display ----------------------------------------------------------------------------

    def _ipython_display_(self) -> None:
        """Show the live panel if the notebook extra is installed, else one line of text."""
        show(self)

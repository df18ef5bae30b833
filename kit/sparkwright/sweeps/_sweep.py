"""Sweep: concurrent trials on Spark with hyperparameters that Optuna suggests."""

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from sparkwright._interrupts import TaskInterrupts, interrupts_raise
from sparkwright.cluster.jobs import inheriting_thread
from sparkwright.errors import ConfigurationError, RunTimeoutError
from sparkwright.runs import TrainingRun
from sparkwright.runs.extensions import show
from sparkwright.spark import SparkNetwork

from ._study import DRIVER, RUN, driver_mark, ended, fail, interrupt
from ._trial import EpochReports, Scores, SharedData, TrialMaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SweepState = Literal["running", "stopping", "done", "stopped", "failed"]
# Seconds that an interrupt waits for trials to end with their next averaging.
_STOP_S = 15.0


class Sweep:
    """A hyperparameter sweep that continues in the background; `sw.sweep` starts it.

    Attributes:
        name: the name of the sweep and of its study in the storage.
        study: the `optuna.Study`, for Optuna's plots and importances.
        trials_wanted: total number of trials, including those of earlier sweeps of the study.
        parallel: number of trials that train concurrently.
        monitor: the score of a trial, such as "val_loss".
    """

    def __init__(
        self,
        spark: "SparkSession",
        study: Any,
        maker: TrialMaker,
        data: Any,
        *,
        trials: int,
        distributions: Mapping[str, Any] | None,
        parallel: int,
        monitor: str,
        maximizes: bool,
        prints: bool,
    ) -> None:
        """Start the sweep; use `sw.sweep` instead."""
        self.name, self.study, self.trials_wanted = str(study.study_name), study, trials
        self.parallel, self.monitor = min(parallel, trials), f"val_{monitor}"
        self._spark, self._maker, self._data, self._prints = spark, maker, data, prints
        self._maximizes = maximizes
        self._distributions = distributions
        self._left = trials - ended(study)
        self._shared, self._network = SharedData(), None
        self._runs: dict[int, TrainingRun] = {}
        self._error: BaseException | None = None  # of the last failed trial
        self._broken: BaseException | None = None  # why the sweep cannot continue
        self._has_best = self.best is not None
        self._state: SweepState = "running"
        self._stopping, self._over = threading.Event(), threading.Event()
        # One trial starts at a time, because Keras' names and seeds are global to the process.
        self._lock, self._beginning = threading.RLock(), threading.Lock()
        self._write_line(f"Sweep {self.name}: {trials} trials, {self.parallel} at a time")
        self._start(self._main)

    def __repr__(self) -> str:
        best, count = self.best, ended(self.study)
        found = "" if best is None else f", best {self.monitor} {best.value:.4g} of {best.params}"
        return f"<Sweep {self.name}: {self.state}, {count} of {self.trials_wanted} trials{found}>"

    # -- state ------------------------------------------------------------------------------

    @property
    def state(self) -> SweepState:
        """The state of the sweep: "running", "stopping", "done", "stopped" or "failed"."""
        return self._state

    @property
    def finished(self) -> bool:
        """Whether all trials have ended."""
        return self._over.is_set()

    @property
    def best(self) -> Any:
        """The best complete `optuna.trial.FrozenTrial` of the study; None before the first.

        It has `number`, `value`, `params` and `intermediate_values` by epoch (from 1).
        """
        try:
            return self.study.best_trial
        except ValueError:
            return None

    @property
    def best_network(self) -> SparkNetwork:
        """The trained network of the best trial.

        Raises:
            ConfigurationError: if this sweep has not trained it: no trial is complete, or another
                process trained the best one.
        """
        if self._network is None:
            raise ConfigurationError(
                f"`best_network` needs a best trial that this sweep has trained. Received: {self}. "
                "Wait for a trial, or train a network with `sweep.best.params`."
            )
        return self._network

    @property
    def runs(self) -> dict[int, TrainingRun]:
        """Trial number -> run, of the trials that are training."""
        with self._lock:
            return dict(self._runs)

    @property
    def trials(self) -> Any:
        """A pandas DataFrame with one row per trial: Optuna's `trials_dataframe`.

        Columns: number, value, duration, params_…, user_attrs_run, user_attrs_error, …, state.
        """
        attributes = ("number", "value", "duration", "params", "user_attrs", "state")
        return self.study.trials_dataframe(attrs=attributes)

    # -- actions ----------------------------------------------------------------------------

    def stop(self) -> None:
        """End running trials with their next averaging; non-blocking, from any thread.

        They have no value. A later sweep of the same study repeats them.
        """
        with self._lock:
            if self.finished:
                return
            self._state, runs = "stopping", list(self._runs.values())
            self._stopping.set()
        for run in runs:
            run.stop()

    def wait(self, timeout_s: float | None = None) -> "Sweep":
        """Wait for the end and return the sweep.

        Ctrl-C stops the sweep and returns it with the trials so far; a second one raises
        KeyboardInterrupt immediately.

        Raises:
            RunTimeoutError: if it is not over after `timeout_s` seconds; the sweep continues.
            Exception: of the last trial if all failed, or of the storage.
        """
        with interrupts_raise() as interrupts:
            try:
                interrupts.begin()
                if not self._wait_over(timeout_s):
                    raise RunTimeoutError(
                        f"`wait` waited {timeout_s:g} s for sweep {self.name} to end; it goes on. "
                        "Wait again, or end it with `sweep.stop()`."
                    )
            except KeyboardInterrupt:
                self.stop()
                self._wait_over(_STOP_S)
        return self._finish()

    def __await__(self) -> Generator[Any, None, "Sweep"]:
        """Wait for the sweep with `await sweep`, without blocking the event loop."""
        return self._wait_async().__await__()

    async def _wait_async(self) -> "Sweep":
        interrupts = TaskInterrupts()
        try:
            while not self.finished:
                interrupts.install()
                await asyncio.sleep(0.2)
        except (asyncio.CancelledError, KeyboardInterrupt):
            self.stop()
            await asyncio.to_thread(self._wait_over, _STOP_S)
        finally:
            interrupts.remove()
        return self._finish()

    def _wait_over(self, timeout_s: float | None) -> bool:
        # In short waits: on some platforms a wait without a timeout cannot be interrupted.
        deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while not self._over.wait(max(0.0, min(0.5, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return False
        return True

    def _finish(self) -> "Sweep":
        if self._state == "failed" and (error := self._broken or self._error) is not None:
            raise error
        return self

    # -- the sweep's threads ----------------------------------------------------------------

    def _start(self, target: Callable[[], None]) -> threading.Thread:
        thread = inheriting_thread(target, self._spark)
        thread.name, thread.daemon = f"sparkwright-{self.name}", True
        thread.start()
        return thread

    def _main(self) -> None:
        try:
            for thread in [self._start(self._work) for _ in range(self.parallel)]:
                thread.join()
            self._shared.release()
        finally:
            outcome: SweepState = "stopped" if self._stopping.is_set() else "done"
            failed = self._broken or (self._error and not self._has_best)
            self._state = "failed" if failed else outcome
            self._over.set()

    def _work(self) -> None:
        """Run trials one after another."""
        try:
            while (trial := self._ask()) is not None:
                self._run_trial(trial)
        except Exception as error:  # from the storage
            self._broken = error
            self.stop()

    def _ask(self) -> Any:
        with self._lock:
            if self._stopping.is_set() or self._left <= 0:
                return None
            self._left -= 1
            trial = self.study.ask(self._distributions)
            trial.set_user_attr(DRIVER, driver_mark())
            return trial

    def _run_trial(self, trial: Any) -> None:
        from optuna import TrialPruned
        from optuna.trial import TrialState

        began_s = time.monotonic()
        try:
            outcome = self._train(trial)
        except TrialPruned:
            self.study.tell(trial, state=TrialState.PRUNED)
            outcome = "pruned"
        except Exception as error:
            if self._stopping.is_set():
                interrupt(self.study, trial, "stopped")
                return
            error.add_note(f"This was trial {trial.number} of sweep {self.name}: {trial.params}")
            self._error = error
            fail(self.study, trial, f"{type(error).__name__}: {error}")
            outcome = f"failed: {str(error).partition(chr(10))[0]:.200}"
        finally:
            with self._lock:
                self._runs.pop(trial.number, None)
        best, chosen = self.best, ", ".join(f"{n}={v!r:.20}" for n, v in trial.params.items())
        about = "" if best is None else f" - best: {best.value:.4g} (trial {best.number})"
        seconds = time.monotonic() - began_s
        self._write_line(f"Trial {trial.number} {outcome} - {seconds:.1f}s{about} - {chosen}")

    def _train(self, trial: Any) -> str:
        """Train a trial's network and return a description of the outcome."""
        from optuna import TrialPruned

        scores = Scores()
        with self._beginning:
            if self._stopping.is_set():
                interrupt(self.study, trial, "stopped")
                return "stopped"
            network, options = self._maker.make(self._spark, trial)
            network.shared = self._shared
            reports = EpochReports(trial, self.monitor, scores)
            options["log_to"] = [*options["log_to"], reports]
            run = network.start(
                self._data,
                name=f"{self.name}-{trial.number}",
                display=False,
                hyperparameters=trial.params,
                **options,
            )
        trial.set_user_attr(RUN, run.name)
        with self._lock:
            self._runs[trial.number] = run
            if self._stopping.is_set():
                run.stop()
        run.wait()
        if scores.error is not None:
            raise scores.error
        if scores.is_pruned and run.status.state == "stopped":
            raise TrialPruned
        if run.status.state == "stopped":
            interrupt(self.study, trial, "stopped")
            return "stopped"
        value = scores.value(run)
        with self._lock:
            best, sign = self.best, 1 if self._maximizes else -1
            if best is None or sign * value > sign * best.value:
                network.shared, self._network = None, network
            self.study.tell(trial, value)
            self._has_best = True
        return f"done - {self.monitor}: {value:.4g}"

    def _write_line(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a closed stream
            if self._prints:
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()

    def _ipython_display_(self) -> None:
        """Show the live view if the notebook extra is installed, else one line of text."""
        show(self)

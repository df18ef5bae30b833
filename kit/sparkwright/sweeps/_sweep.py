"""A sweep: concurrent trials on Spark with hyperparameters that Optuna suggests."""

import asyncio
import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, Literal, NoReturn

from sparkwright._interrupts import Ending, TaskInterrupts, interrupts_raise
from sparkwright.cluster.jobs import inheriting_thread
from sparkwright.cluster.session_end import session_error
from sparkwright.errors import ConfigurationError, RunTimeoutError
from sparkwright.runs import TrainingRun
from sparkwright.runs.extensions import end_process, keep_model, show
from sparkwright.spark import SparkNetwork

from ._study import ended, repeat
from ._trial import Objective

SweepState = Literal["running", "stopping", "done", "stopped", "failed"]
# Seconds that an interrupt, and SIGTERM, wait for trials to end with their next averaging.
_STOP_S, _ENDING_S = 15.0, 3.5


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
        self, study: Any, objective: Objective, *, trials: int, parallel: int, prints: bool
    ) -> None:
        """Start the sweep; use `sw.sweep` instead."""
        self.name, self.study, self.trials_wanted = str(study.study_name), study, trials
        self.parallel, self.monitor = min(parallel, trials), objective.monitor
        self._objective, self._prints = objective, prints
        self._turns = iter(range(trials - ended(study)))
        self._runs: dict[int, TrainingRun] = {}
        self._network: SparkNetwork | None = None
        self._error: Exception | None = None  # of the last failed trial
        self._failure: Exception | None = None  # of the sweep
        self._stopping, self._over = threading.Event(), threading.Event()
        self._lock = threading.Lock()
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
        is_stopped = self._stopping.is_set()
        if not self.finished:
            return "stopping" if is_stopped else "running"
        return "failed" if self._failure else "stopped" if is_stopped else "done"

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
        if not self.finished:
            self._stopping.set()
            for run in self.runs.values():
                run.stop()

    def wait(self, timeout_s: float | None = None) -> "Sweep":
        """Wait for the end and return the sweep.

        Ctrl-C stops the sweep and returns it with the trials so far; a second one raises
        KeyboardInterrupt immediately.

        Raises:
            RunTimeoutError: if it is not over after `timeout_s` seconds; the sweep continues.
            Exception: of the last trial if all failed, or of the storage.
        """
        deadline_s = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
        with interrupts_raise(ends=True) as interrupts:
            try:
                interrupts.begin()
                # In short waits: on some platforms a wait without a timeout cannot be interrupted.
                while not self._over.wait(0.2):
                    if time.monotonic() >= deadline_s:
                        raise RunTimeoutError(
                            f"`wait` waited {timeout_s:g} s for sweep {self.name} to end; it goes "
                            "on. Wait again, or end it with `sweep.stop()`."
                        )
            except KeyboardInterrupt:
                self.stop()
                self._over.wait(_STOP_S)
            except Ending as ending:
                self._end_process(ending.number)
        return self._finish()

    def _end_process(self, number: int) -> NoReturn:
        """Stop, write the best network that this sweep has trained, and end the process."""
        self.stop()
        self._over.wait(_ENDING_S)
        text = f"sweep {self.name} was ended by {signal.Signals(number).name} after "
        text += f"{ended(self.study)} of {self.trials_wanted} trials."
        if self._network is not None:
            text += f" The best model is kept. {keep_model(self._network.model, self.name)}"
        print(text, file=sys.stderr, flush=True)
        end_process(number)

    def __await__(self) -> Generator[Any, None, "Sweep"]:
        """Wait for the sweep with `await sweep`, without blocking the event loop."""
        return self._wait_async().__await__()

    async def _wait_async(self) -> "Sweep":
        interrupts = TaskInterrupts(ends=True)
        try:
            while not self.finished:
                interrupts.install()
                await asyncio.sleep(0.2)
        except (asyncio.CancelledError, KeyboardInterrupt):
            if interrupts.ending is not None:
                self._end_process(interrupts.ending)
            self.stop()
            await asyncio.to_thread(self._over.wait, _STOP_S)
        finally:
            interrupts.remove()
        return self._finish()

    def _finish(self) -> "Sweep":
        if self.finished and self._failure is not None:
            raise self._failure
        return self

    # -- the sweep's threads ----------------------------------------------------------------

    # Not `study.optimize(n_jobs=…)`: an interpreter that exits waits for Optuna's threads, they do
    # not inherit Spark's local properties, and only a trial can stop them.

    def _start(self, target: Callable[[], None]) -> threading.Thread:
        thread = inheriting_thread(target, self._objective.spark)
        thread.name, thread.daemon = f"sparkwright-{self.name}", True
        thread.start()
        return thread

    def _main(self) -> None:
        try:
            for thread in [self._start(self._work) for _ in range(self.parallel)]:
                thread.join()
            if self._failure is None and self.best is None:
                self._failure = self._error
            self._objective.release()
        finally:
            self._over.set()

    def _work(self) -> None:
        """Run trials one after another."""
        try:
            for _ in self._turns:
                if self._stopping.is_set():
                    break
                self._run_trial()
        except Exception as error:  # from the storage
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self.stop()

    def _run_trial(self) -> None:
        from optuna import TrialPruned
        from optuna.trial import TrialState

        began_s = time.monotonic()
        trial = self.study.ask(self._objective.distributions)
        try:
            with self._lock:
                if self._stopping.is_set():
                    raise TrialPruned
                network, run = self._objective.start(trial, f"{self.name}-{trial.number}")
                self._runs[trial.number] = run
            if self._stopping.is_set():  # `stop` may not have seen the run
                run.stop()
            value = self._objective.score(trial, run)
        except Exception as error:
            if (end := session_error(self._objective.spark, error)) is not None:
                end.add_note(
                    f"Sweep {self.name} has {ended(self.study)} of {self.trials_wanted} trials; "
                    "a sweep of the same study repeats those that the end of the session stopped."
                )
                self._fail(end)
            if self._stopping.is_set():
                repeat(self.study, trial)
                return
            outcome, state = "pruned", TrialState.PRUNED
            if not isinstance(error, TrialPruned):
                error.add_note(
                    f"This was trial {trial.number} of sweep {self.name}: {trial.params}"
                )
                self._error, state = error, TrialState.FAIL
                outcome = f"failed: {str(error).partition(chr(10))[0]:.200}"
                trial.set_user_attr("error", f"{type(error).__name__}: {error}"[:2000])
            self.study.tell(trial, state=state)
        else:
            outcome = f"done - {self.monitor}: {value:.4g}"
            with self._lock:
                self.study.tell(trial, value)
                if self.best.number == trial.number:
                    self._network = network
        finally:
            self._runs.pop(trial.number, None)
        best, chosen = self.best, ", ".join(f"{n}={v!r:.20}" for n, v in trial.params.items())
        about = "" if best is None else f" - best: {best.value:.4g} (trial {best.number})"
        seconds = time.monotonic() - began_s
        self._write_line(f"Trial {trial.number} {outcome} - {seconds:.1f}s{about} - {chosen}")

    def _write_line(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed stream
            if self._prints:
                print(line, flush=True)

    def _ipython_display_(self) -> None:
        """Show the live view if the notebook extra is installed, else one line of text."""
        show(self)

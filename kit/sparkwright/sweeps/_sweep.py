"""Sweep: trials of a network side by side on Spark, with hyperparameters that Optuna chooses."""

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from sparkwright._interrupts import TaskInterrupts, interrupts_held, interrupts_raise
from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import inheriting_thread
from sparkwright.cluster.slots import check_slots, slots_at_most, task_slots
from sparkwright.data import Normalizer
from sparkwright.errors import ConfigurationError, RunTimeoutError
from sparkwright.masters import MonitoredScore, ParameterAveragingTrainingMaster, TrainingMaster
from sparkwright.options import check_count
from sparkwright.runs import TrainingRun
from sparkwright.runs.extensions import in_notebook, show
from sparkwright.runs.fit_options import checked_options
from sparkwright.runs.names import check_name
from sparkwright.spark import SparkNetwork

from ._study import (
    DRIVER,
    RUN,
    check_optuna,
    distributions_of,
    driver_mark,
    ended,
    fail,
    interrupt,
    open_study,
    repeat_interrupted,
)
from ._trial import EpochReports, Scores, SharedData, TrialMaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Mode = Literal["auto", "min", "max"]
SweepState = Literal["running", "stopping", "done", "stopped", "failed"]
# An interrupt waits so long for trials to end with their next averaging.
_STOP_S = 15.0


@dataclass(frozen=True, kw_only=True, slots=True)
class BestTrial:
    """The best trial that is complete.

    Attributes:
        number: of the trial, from 0.
        value: of the monitored score.
        params: name -> value of its hyperparameters.
        history: epoch, from 1 -> score.
        run: name of its run.
    """

    number: int
    value: float
    params: dict[str, Any]
    history: dict[int, float]
    run: str


class Sweep:
    """Trials that go on while you look at them; `sw.sweep` begins them.

    Attributes:
        name: of the sweep, and of its study in the storage.
        study: the `optuna.Study`, for Optuna's plots and importances.
        trials_wanted: trials in all, those of earlier sweeps of the same study among them.
        parallel: trials that train at a time.
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
        score: MonitoredScore,
        prints: bool,
    ) -> None:
        """Use `sw.sweep`."""
        self.name, self.study, self.trials_wanted = str(study.study_name), study, trials
        self.parallel, self.monitor = min(parallel, trials), f"val_{score.monitor}"
        self._spark, self._maker, self._data, self._prints = spark, maker, data, prints
        self._maximizes = score.maximizes
        self._distributions = distributions
        self._left = trials - ended(study)
        self._shared, self._network = SharedData(), None
        self._runs: dict[int, TrainingRun] = {}
        self._error: BaseException | None = None
        self._state: SweepState = "running"
        self._stopping, self._over = threading.Event(), threading.Event()
        # One trial begins at a time: Keras' names and seeds are those of the process.
        self._lock, self._beginning = threading.RLock(), threading.Lock()
        self._say(f"Sweep {self.name}: {trials} trials, {self.parallel} at a time")
        self._start(self._main)

    def __repr__(self) -> str:
        best, count = self.best, ended(self.study)
        found = "" if best is None else f", best {self.monitor} {best.value:.4g} of {best.params}"
        return f"<Sweep {self.name}: {self.state}, {count} of {self.trials_wanted} trials{found}>"

    # -- look -------------------------------------------------------------------------------

    @property
    def state(self) -> SweepState:
        """Where the sweep is: "running", "stopping", "done", "stopped" or "failed"."""
        return self._state

    @property
    def finished(self) -> bool:
        """Whether no trial goes on or follows."""
        return self._over.is_set()

    @property
    def best(self) -> BestTrial | None:
        """The best complete trial, of earlier sweeps of this study too; None: there is none yet."""
        try:
            trial = self.study.best_trial
        except ValueError:
            return None
        return BestTrial(
            number=trial.number,
            value=trial.value,
            params=trial.params,
            history=dict(trial.intermediate_values),
            run=trial.user_attrs.get(RUN, ""),
        )

    @property
    def best_network(self) -> SparkNetwork:
        """The network of the best trial, trained.

        Raises:
            ConfigurationError: if this sweep has not trained it: no trial is complete, or the best
                one was trained before the sweep went on in another process.
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
        """A pandas DataFrame with a row for each trial: Optuna's `trials_dataframe`.

        Columns: number, value, duration, params_…, user_attrs_run, user_attrs_error, …, state.
        """
        attributes = ("number", "value", "duration", "params", "user_attrs", "state")
        return self.study.trials_dataframe(attrs=attributes)

    # -- act --------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the trials that go on with their next averaging; returns at once, from any thread.

        They have no value, and are repeated by a sweep that goes on with the study.
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

        Ctrl-C stops the sweep and returns it with what has been found; a second one raises
        KeyboardInterrupt at once.

        Raises:
            RunTimeoutError: if it is not over after `timeout_s` seconds; it goes on.
            Exception: of the last trial, if all failed; of the storage.
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
        """`await sweep`: as `wait`, without blocking the notebook's buttons."""
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
        # In slices: a wait without a time-out cannot be interrupted on every platform.
        deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while not self._over.wait(max(0.0, min(0.5, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return False
        return True

    def _finish(self) -> "Sweep":
        if self._state == "failed" and self._error is not None:
            raise self._error
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
            self._state = "failed" if self._error and self.best is None else outcome
            self._over.set()

    def _work(self) -> None:
        """Run one trial after the other."""
        try:
            while (trial := self._ask()) is not None:
                self._run_trial(trial)
        except Exception as error:  # of the storage
            self._error = error
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
            told = self._train(trial)
        except TrialPruned:
            self.study.tell(trial, state=TrialState.PRUNED)
            told = "pruned"
        except Exception as error:
            if self._stopping.is_set():
                interrupt(self.study, trial, "stopped")
                return
            error.add_note(f"This was trial {trial.number} of sweep {self.name}: {trial.params}")
            self._error = error
            fail(self.study, trial, f"{type(error).__name__}: {error}")
            told = f"failed: {str(error).partition(chr(10))[0]:.200}"
        finally:
            with self._lock:
                self._runs.pop(trial.number, None)
        best, chosen = self.best, ", ".join(f"{n}={v!r:.20}" for n, v in trial.params.items())
        about = "" if best is None else f" - best: {best.value:.4g} (trial {best.number})"
        seconds = time.monotonic() - began_s
        self._say(f"Trial {trial.number} {told} - {seconds:.1f}s{about} - {chosen}")

    def _train(self, trial: Any) -> str:
        """Train a trial's network, and return its outcome in words."""
        from optuna import TrialPruned

        scores = Scores()
        with self._beginning:
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
        return f"done - {self.monitor}: {value:.4g}"

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a closed stream
            if self._prints:
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()

    def _ipython_display_(self) -> None:
        """Show the live view if the notebook extra is installed, else one line of text."""
        show(self)


def sweep(
    spark: "SparkSession",
    build: Callable[..., Any],
    data: Any,
    y: Any = None,
    *,
    trials: int,
    space: Mapping[str, Any] | None = None,
    master: TrainingMaster | None = None,
    normalizer: Normalizer | None = None,
    monitor: str = "loss",
    mode: Mode = "auto",
    parallel: int | None = None,
    storage: Any | None = None,
    name: str = "sweep",
    sampler: Any | None = None,
    pruner: Any | None = None,
    seed: int | None = None,
    wait: bool = True,
    display: bool | None = None,
    **options: Any,
) -> Sweep:
    """Train a network with other hyperparameters again and again, to find the best ones.

    Optuna chooses the hyperparameters of each trial. A trial is a run of one worker, and as many
    trials as there are task slots train side by side. If the master has `workers`, a trial has as
    many workers, and fewer trials train at a time. Needs `pip install "sparkwright[sweep]"`.

    Args:
        spark: the session.
        build: returns a compiled keras.Model, or (model, settings): options of the master and of
            `fit` by name, for this trial alone. With `space` it is called with hyperparameters by
            name, without with an `optuna.Trial`; on the driver, one call at a time.
        data: to train on, as for `SparkNetwork.fit`; read once for all trials.
        y: labels of features that are given as `data`. Default None: `data` has them.
        trials: trials in all, those of earlier sweeps with this storage and name among them.
        space: hyperparameter -> a list of choices, (low, high), (low, high, "log"), a `range` or a
            distribution of Optuna. Those that `build` does not take are options of the master or of
            `fit`, such as "batch_size_per_worker". Default None: `build` suggests them.
        master: how to train; one worker unless it has `workers`. Default None: by averaging.
        normalizer: as for `SparkNetwork`; default None.
        monitor: "loss" (default) or a compiled metric, of the validation data: after each epoch
            for the pruner, and at the end the value of the trial.
        mode: "min", "max", or "auto" (default): by the name of the score.
        parallel: trials at a time; default None: as many as have task slots.
        storage: where trials are kept: path of an SQLite file, or of a journal if it ends in .log,
            .journal or .jsonl; a URL of SQLAlchemy; a storage of Optuna. Default None: in memory.
        name: of the sweep and its study; trial 3 is the run "name-3". Default "sweep".
        sampler: Optuna's; default None: TPE.
        pruner: Optuna's; default None: the median pruner. `optuna.pruners.NopPruner()`: none.
        seed: of the default sampler, and of a master without one; default None: drawn.
        wait: whether to wait for the end (default). False: return at once.
        display: show the sweep: a live view in notebooks, elsewhere a line a trial. False:
            neither. Default None: shown.
        **options: of `fit`, for all trials, with `validation` or `validation_split`.

    Raises:
        ConfigurationError: if Optuna is missing, an option is invalid, or another process sweeps
            this study.
        SlotsError: if a trial has more workers than there are task slots.
        OSError: if the storage cannot be opened.
        Exception: of the last trial, if all failed.
    """
    check_optuna()
    check_count("trials", trials)
    check_count("parallel", parallel, optional=True)
    check_name(f"{name}-{trials}")
    checked, score = checked_options(options), MonitoredScore(monitor=monitor, mode=mode)
    if checked["validation"] is None and not checked["validation_split"]:
        raise ConfigurationError(
            "a sweep compares trials by a score of validation data. Received: neither `validation` "
            "nor `validation_split`. Give one of them."
        )
    if given := {"resume", "hyperparameters"} & options.keys():
        raise ConfigurationError(
            "each trial begins with a new network, and with hyperparameters of its own. Received: "
            f"{', '.join(sorted(given))}. Leave them out."
        )
    master = master or ParameterAveragingTrainingMaster()
    workers, own_seed = master.workers or 1, seed if master.seed is None else master.seed
    url, settings = str(context_of(spark).master), context_of(spark).getConf()
    check_slots(workers, slots_at_most(url, settings), url)
    study = open_study(
        *(storage, name),
        maximizes=score.maximizes,
        seed=seed,
        sampler=sampler,
        pruner=pruner,
    )
    repeat_interrupted(study)
    shows = display is not False and in_notebook()
    with interrupts_held():
        made = Sweep(
            spark,
            study,
            TrialMaker(
                build=build,
                takes_trial=space is None,
                master=replace(master, workers=workers, seed=own_seed),
                normalizer=normalizer,
                # With the active run of MLflow that this thread has.
                options={**options, "log_to": checked["log_to"]},
            ),
            data if y is None else (data, y),
            trials=trials,
            distributions=None if space is None else distributions_of(space),
            parallel=parallel or max(1, (task_slots(spark) or 1) // workers),
            score=score,
            prints=display is not False and not shows,
        )
        if shows:
            show(made)
        return made.wait() if wait else made

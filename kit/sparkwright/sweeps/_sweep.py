"""Sweep: trials of a network side by side on Spark, with hyperparameters that Optuna chooses."""

import asyncio
import contextlib
import inspect
import logging
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, fields, replace
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
from sparkwright.trackers import trackers_for_run

from . import _study as studies
from ._trial import EpochReports, Scores, SharedData, TrialNetwork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Mode = Literal["auto", "min", "max"]
SweepState = Literal["running", "stopping", "done", "stopped", "failed"]
_log = logging.getLogger(__name__)
# An interrupt waits so long for trials to end with their next averaging.
_STOP_S = 15.0
# Options of `fit` that belong to the sweep: its trials have data and trackers in common.
_OF_THE_SWEEP = {
    *("label", "features", "validation", "validation_split", "class_weight", "sample_weight"),
    *("name", "display", "resume", "hyperparameters", "log_to"),
}


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
    """Trials that go on while you look at them; begun by `sw.sweep`.

    Attributes:
        name: of the sweep, and of its study in the storage.
        study: Optuna's own, for its plots and importances.
        trials_wanted: trials in all, those of earlier sweeps of the same study among them.
        parallel: trials that train at a time.
        monitor: the score of a trial, such as "val_loss".
    """

    def __init__(
        self,
        spark: "SparkSession",
        build: Callable[..., Any],
        data: Any,
        *,
        trials: int,
        space: Mapping[str, Any] | None,
        master: TrainingMaster,
        normalizer: Normalizer | None,
        score: MonitoredScore,
        parallel: int | None,
        storage: Any,
        name: str,
        sampler: Any,
        pruner: Any,
        seed: int | None,
        save_best: str | None,
        display: bool | None,
        options: dict[str, Any],
    ) -> None:
        """Use `sw.sweep`."""
        self._spark, self._build, self._given = spark, build, data
        self._master, self._normalizer, self._save_best = master, normalizer, save_best
        self._trackers = trackers_for_run(options.pop("log_to", None) or ())
        self._options, self._display = options, display
        self.name, self.trials_wanted = name, trials
        self.monitor, self._maximizes = f"val_{score.monitor}", score.maximizes
        self.parallel = min(_side_by_side(spark, master, parallel), trials)
        self._distributions = None if space is None else studies.distributions_of(space)
        self.study = studies.open_study(
            storage,
            name,
            maximizes=score.maximizes,
            sampler=sampler,
            pruner=pruner,
            seed=seed,
        )
        studies.repeat_interrupted(self.study)
        self._left = trials - studies.ended(self.study)
        self._shared = SharedData()
        self._network: Any = None
        self._runs: dict[int, TrainingRun] = {}
        self._error: BaseException | None = None
        self._state: SweepState = "running"
        self._stopping, self._over = threading.Event(), threading.Event()
        # One trial is begun at a time: models may be built by what Keras has but once.
        self._lock, self._beginning = threading.RLock(), threading.Lock()
        self._say(f"Sweep {name}: {trials} trials, {self.parallel} at a time")
        self._thread = inheriting_thread(self._main, spark)
        self._thread.name, self._thread.daemon = f"sparkwright-{name}", True
        self._thread.start()

    def __repr__(self) -> str:
        best = self.best
        found = "" if best is None else f", best {self.monitor} {best.value:.4g} of {best.params}"
        count = studies.ended(self.study)
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
            run=trial.user_attrs.get(studies.RUN, ""),
        )

    @property
    def best_network(self) -> SparkNetwork:
        """The network of the best trial, trained.

        Raises:
            ConfigurationError: if no trial is complete, or the best one was of an earlier process
                and `save_best` was not given.
        """
        if self._network is not None:
            return self._network
        if self._save_best is None or self.best is None:
            raise ConfigurationError(
                "`best_network` needs a trial that is complete, of this process unless "
                f"`save_best` keeps networks. Received: {self!r}. Give "
                '`save_best="best.keras"`, or train a network with `sweep.best.params`.'
            )
        return SparkNetwork.load(self._spark, self._save_best, self._master)

    @property
    def trials(self) -> Any:
        """A pandas DataFrame with a row for each trial: Optuna's `trials_dataframe`.

        Columns: number, value, duration, params_…, user_attrs_… (run, error), state.
        """
        attributes = ("number", "value", "duration", "params", "user_attrs", "state")
        return self.study.trials_dataframe(attrs=attributes)

    @property
    def runs(self) -> dict[int, TrainingRun]:
        """Trial number -> run, of the trials that go on."""
        with self._lock:
            return dict(self._runs)

    # -- act --------------------------------------------------------------------------------

    def stop(self) -> None:
        """End running trials with their next averaging; returns at once, from any thread.

        Ended trials keep their values. Stopped ones are repeated by a sweep with the same storage.
        """
        with self._lock:
            if self.finished:
                return
            self._state = "stopping"
            self._stopping.set()
            runs = list(self._runs.values())
        for run in runs:
            run.stop()

    def wait(self, timeout_s: float | None = None) -> "Sweep":
        """Wait for the end and return the sweep.

        Ctrl-C stops the trials that go on, and returns the sweep with what has been found; a second
        one raises KeyboardInterrupt at once.

        Raises:
            RunTimeoutError: if it is not over after `timeout_s` seconds; it goes on.
            Exception: of the last trial, if all failed; or of the storage.
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
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._wait_over, _STOP_S)
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

    def _main(self) -> None:
        try:
            threads = [inheriting_thread(self._work, self._spark) for _ in range(self.parallel)]
            for thread in threads:
                thread.daemon = True
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self._shared.release()
            with self._lock:
                failed = self._error is not None and self.best is None
                self._state = (
                    "failed" if failed else "stopped" if self._stopping.is_set() else "done"
                )
                self._over.set()

    def _work(self) -> None:
        """Run one trial after the other."""
        try:
            while (trial := self._ask()) is not None:
                self._run_trial(trial)
        except Exception as error:  # of the storage
            _log.exception("sweep %s ends", self.name)
            self._error = error
            self.stop()

    def _ask(self) -> Any:
        with self._lock:
            if self._stopping.is_set() or self._left <= 0:
                return None
            self._left -= 1
            trial = self.study.ask(self._distributions)
            trial.set_user_attr(studies.DRIVER, studies.driver_mark())
            return trial

    def _run_trial(self, trial: Any) -> None:
        import optuna

        began_s = time.monotonic()
        try:
            told = self._train(trial)
        except optuna.TrialPruned:
            self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            told = "pruned"
        except Exception as error:
            if self._stopping.is_set():
                studies.interrupt(self.study, trial, "stopped")
                return
            error.add_note(f"This was trial {trial.number} of sweep {self.name}: {trial.params}")
            self._error = error
            studies.fail(self.study, trial, f"{type(error).__name__}: {error}"[:2000])
            told = f"failed: {str(error).partition(chr(10))[0]:.200}"
        finally:
            with self._lock:
                self._runs.pop(trial.number, None)
        best, found = self.best, ", ".join(f"{n}={v!r:.20}" for n, v in trial.params.items())
        about = "" if best is None else f" - best: {best.value:.4g} (trial {best.number})"
        seconds = time.monotonic() - began_s
        self._say(f"Trial {trial.number} {told} - {seconds:.1f}s{about} - {found}")

    def _train(self, trial: Any) -> str:
        """Train a trial's network, and return its outcome in words."""
        import optuna

        with self._beginning:
            network, options = self._network_of(trial)
            scores = Scores()
            reports = EpochReports(trial, self.monitor, scores)
            run = network.start(
                self._given,
                name=f"{self.name}-{trial.number}",
                display=False,
                hyperparameters=trial.params,
                log_to=[*self._trackers, reports],
                **options,
            )
        trial.set_user_attr(studies.RUN, run.name)
        with self._lock:
            self._runs[trial.number] = run
            if self._stopping.is_set():
                run.stop()
        run.wait()
        if scores.error is not None:
            raise scores.error
        if run.status.state == "stopped":
            if scores.is_pruned:
                raise optuna.TrialPruned
            studies.interrupt(self.study, trial, "stopped")
            return "stopped"
        value = scores.value(run)
        with self._lock:
            self._keep(network, value)
            self.study.tell(trial, value)
        return f"done - {self.monitor}: {value:.4g}"

    def _network_of(self, trial: Any) -> tuple[TrialNetwork, dict[str, Any]]:
        """The network of a trial, and options of `fit`."""
        settings: dict[str, Any] = {}
        if self._distributions is None:
            made = self._build(trial)
        else:
            taken = _arguments(self._build, trial.params)
            made = self._build(**taken)
            settings = {name: v for name, v in trial.params.items() if name not in taken}
        if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Mapping):
            made, further = made
            settings |= further
        if wrong := sorted(settings.keys() & {*_OF_THE_SWEEP, "workers", "max_workers"}):
            raise ConfigurationError(
                "a trial has settings of the training master and options of `fit`, but not data, "
                f"trackers and workers of its own. Received: {', '.join(wrong)}. Give them to "
                "`sw.sweep`."
            )
        of_master = {field.name for field in fields(self._master)} & settings.keys()
        master = replace(self._master, **{name: settings.pop(name) for name in of_master})
        network = TrialNetwork(self._spark, made, master, normalizer=self._normalizer)
        network.shared = self._shared
        return network, {**self._options, **settings}

    def _keep(self, network: TrialNetwork, value: float) -> None:
        """Keep the network if it is the best so far."""
        best = self.best
        if best is None or (value > best.value if self._maximizes else value < best.value):
            network.shared = None
            self._network = network
            if self._save_best is not None:
                network.save(self._save_best)

    def _say(self, line: str) -> None:
        if self._display is False or (self._display is None and in_notebook()):
            return
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a closed stream
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
    save_best: str | None = None,
    wait: bool = True,
    display: bool | None = None,
    **options: Any,
) -> Sweep:
    """Train a network with other hyperparameters again and again, and find the best ones.

    Optuna chooses the hyperparameters of each trial. A trial is a run of one worker, and as many
    trials as there are task slots train side by side; with `workers` of the master there are fewer,
    of several workers each. Needs `pip install "sparkwright[sweep]"`.

    Args:
        spark: the session.
        build: returns a compiled keras.Model, or (model, settings): settings of the master and
            options of `fit` by name, of this trial alone. With `space` it is called with its
            hyperparameters by name, without with an `optuna.Trial`. On the driver, one at a time.
        data: to train on, as for `SparkNetwork.fit`; read once for all trials.
        y: labels, if `data` has only the features; default None.
        trials: trials in all, those of earlier sweeps with the same storage and name among them.
        space: hyperparameter -> a list of choices, (low, high), (low, high, "log"), a `range` or a
            distribution of Optuna. Those that `build` does not take are settings of the master or
            options of `fit`, such as batch_size_per_worker. Default None: `build` suggests them.
        master: how to train; default None: parameter averaging with one worker. A master without
            `workers` has one.
        normalizer: as for `SparkNetwork`; default None.
        monitor: "loss" (default) or a compiled metric, of the validation data: after each epoch for
            the pruner, and at the end the value of the trial.
        mode: "min", "max", or "auto" (default): by the name of the score.
        parallel: trials side by side; default None: as many as have task slots.
        storage: where trials are kept: path of an SQLite file, or of a journal if it ends with
            .log, .journal or .jsonl; a URL of SQLAlchemy; a storage of Optuna. A sweep with the
            same storage and name goes on with them. Default None: in memory.
        name: of the sweep and its study; runs are called name-number. Default "sweep".
        sampler: Optuna's; default None: TPE.
        pruner: Optuna's; default None: the median pruner. `optuna.pruners.NopPruner()`: none.
        seed: of the default sampler, and of a master without one; default None: drawn.
        save_best: URL for the network of the best trial, written whenever there is a better one;
            default None: kept in memory only.
        wait: wait for the end. False: return at once; `sweep.wait()` or `await sweep` later.
        display: show the sweep: a live view in notebooks, elsewhere a line a trial. False:
            neither. Default None: shown.
        **options: of `fit` for all trials; `validation` or `validation_split` is needed.

    Returns:
        The sweep. After Ctrl-C, too, with what has been found.

    Raises:
        ConfigurationError: if Optuna is missing, an option is invalid, or another process sweeps
            the same study.
        SlotsError: if a trial has more workers than there are task slots.
        OSError: if the storage cannot be opened.
        Exception: of the last trial, if all failed.
    """
    studies.check_optuna()
    check_count("trials", trials)
    check_name(f"{name}-{trials}")
    score = MonitoredScore(monitor=monitor, mode=mode)
    refused = {"resume", "hyperparameters"} & options.keys()
    checked = checked_options({each: v for each, v in options.items() if each not in refused})
    if refused or (checked["validation"] is None and not checked["validation_split"]):
        raise ConfigurationError(
            "a sweep needs `validation` or `validation_split`, and starts each trial from the "
            f"beginning. Received: {', '.join(sorted(options)) or 'no options'}."
        )
    master = master or ParameterAveragingTrainingMaster()
    chosen = {"workers": master.workers or 1, "seed": seed if master.seed is None else master.seed}
    with interrupts_held():
        made = Sweep(
            spark,
            build,
            data if y is None else (data, y),
            trials=trials,
            space=space,
            master=replace(master, **chosen),
            normalizer=normalizer,
            score=score,
            parallel=parallel,
            storage=storage,
            name=name,
            sampler=sampler,
            pruner=pruner,
            seed=seed,
            save_best=save_best,
            display=display,
            options=dict(options),
        )
        if display is not False and in_notebook():
            show(made)
        return made.wait() if wait else made


def _side_by_side(spark: "SparkSession", master: TrainingMaster, parallel: int | None) -> int:
    """Return how many trials train at a time."""
    check_count("parallel", parallel, optional=True)
    url, settings = str(context_of(spark).master), context_of(spark).getConf()
    workers = master.workers or 1
    check_slots(workers, slots_at_most(url, settings), url)
    return parallel or max(1, (task_slots(spark) or 1) // workers)


def _arguments(build: Callable[..., Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the hyperparameters that `build` takes."""
    known = inspect.signature(build).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in known):
        return dict(params)
    names = {each.name for each in known}
    return {name: value for name, value in params.items() if name in names}

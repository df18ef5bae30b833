"""One trial of a sweep: its network with shared data, and its scores."""

import copy
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.jobs import run_job
from sparkwright.data import DistributedDataSet, Normalizer
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.masters import TrainingMaster
from sparkwright.partitions.execute import count_examples
from sparkwright.runs import TrainingRun
from sparkwright.runs.fit_options import CheckedOptions
from sparkwright.spark import SparkNetwork
from sparkwright.trackers import Tracker, Values
from sparkwright.workers.data_checks import check_data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Parts = tuple[Any, DistributedDataSet | None]
# Options that are common to all trials.
_OF_THE_SWEEP = {
    *("label", "features", "validation", "validation_split", "class_weight", "sample_weight"),
    *("name", "display", "resume", "hyperparameters", "log_to", "workers", "max_workers"),
}


class TrialNetwork(SparkNetwork):
    """A network that can share its training data with other trials.

    Attributes:
        shared: the shared data; None: use the data passed to `fit`.
    """

    shared: "SharedData | None" = None

    def _parts(
        self, data: Any, options: CheckedOptions, *, seed: int, checked: bool = True
    ) -> Parts:
        if self.shared is None:
            return super()._parts(data, options, seed=seed, checked=checked)
        read = super()._parts
        train, validation = self.shared.parts(
            lambda: read(data, options, seed=seed, checked=checked)
        )
        if checked:
            check_data(self.model, train, validation)
        return train, validation


class SharedData:
    """Training and validation data of all trials, read once and cached in Spark until `release`."""

    def __init__(self) -> None:
        """Create without reading data."""
        self._lock = threading.Lock()
        self._parts: Parts | None = None
        self._persisted: list[DistributedDataSet] = []

    def parts(self, read: Callable[[], Parts]) -> Parts:
        """Call `read` for the first trial; return its cached and counted data to all trials."""
        with self._lock:
            if self._parts is None:
                found = read()
                for each in found:
                    if not isinstance(each, DistributedDataSet):
                        continue  # workers read a `TfData` themselves
                    if not each.rdd.is_cached:
                        self._persisted.append(each.persist())
                        # Otherwise concurrent trials would each read it.
                        read_all = partial(count_examples, each.rdd)
                        run_job(each.spark, read_all, description="read the data of all trials")
                    each.partition_counts()
                self._parts = found
            return self._parts

    def release(self) -> None:
        """Unpersist the cached data."""
        for each in self._persisted:
            each.unpersist()


@dataclass(frozen=True, kw_only=True)
class TrialMaker:
    """Creates the networks of trials.

    Attributes:
        build: the user's function, see `sw.sweep`.
        takes_trial: whether to pass the trial to `build`: there is no search space.
        master: the training master of all trials.
        normalizer: the normalizer of all trials.
        options: the options of `fit` of all trials.
    """

    build: Callable[..., Any]
    takes_trial: bool
    master: TrainingMaster
    normalizer: Normalizer | None
    options: Mapping[str, Any]

    def make(self, spark: "SparkSession", trial: Any) -> tuple[TrialNetwork, dict[str, Any]]:
        """Return a trial's network and its options of `fit`.

        Raises:
            ConfigurationError: if the trial has settings that only the sweep can set.
            Exception: any exception of `build`.
        """
        settings: dict[str, Any] = {}
        if self.takes_trial:
            made = self.build(trial)
        else:
            known = inspect.signature(self.build).parameters.values()
            takes_all = any(each.kind is each.VAR_KEYWORD for each in known)
            names = trial.params if takes_all else {each.name for each in known}
            made = self.build(**{n: v for n, v in trial.params.items() if n in names})
            settings = {n: v for n, v in trial.params.items() if n not in names}
        if isinstance(made, tuple):
            made, further = made
            settings |= further
        if wrong := sorted(settings.keys() & _OF_THE_SWEEP):
            raise ConfigurationError(
                "a trial cannot set data, workers or trackers, only other options of the training "
                f"master and of `fit`. Received: {', '.join(wrong)}. Pass them to `sw.sweep`."
            )
        of_master = {each.name for each in fields(self.master)} & settings.keys()
        master = replace(self.master, **{name: settings.pop(name) for name in of_master})
        network = TrialNetwork(spark, made, master, normalizer=self.normalizer)
        options = {**self.options, **settings}
        # Trials run at the same time, and callbacks remember scores.
        options["callbacks"] = [copy.copy(each) for each in options.get("callbacks") or ()]
        return network, options


@dataclass
class Scores:
    """The scores of a trial.

    Attributes:
        by_epoch: epoch (from 1) -> score.
        is_pruned: whether Optuna's pruner stopped the run.
        error: why the score is missing; None: no error.
    """

    by_epoch: dict[int, float] = field(default_factory=dict[int, float])
    is_pruned: bool = False
    error: ConfigurationError | None = None

    def value(self, run: TrainingRun) -> float:
        """Return the score of the state that the model holds after the run.

        Raises:
            DataError: if there is no score.
        """
        if not self.by_epoch:
            raise DataError(
                "a trial needs a score of the validation data. Received: none in "
                f"{run.status.epoch} epochs. {' '.join(run.warnings)[:500]}"
            )
        last = self.by_epoch[max(self.by_epoch)]
        return self.by_epoch.get(run.restored_epoch or 0, last)


class EpochReports(Tracker):
    """Reports a score to Optuna after each epoch, and stops the run if Optuna prunes the trial."""

    name = "the sweep"
    every_s = 0.25

    def __init__(self, trial: Any, monitor: str, scores: Scores) -> None:
        """Report `monitor`, such as "val_loss", to an `optuna.Trial`, and add it to `scores`."""
        self._trial, self._monitor, self._scores = trial, monitor, scores

    def begin(self, run: TrainingRun, parameters: Mapping[str, Any]) -> None:
        """See `Tracker`."""
        self._run = run

    def epoch(self, epoch: int, values: Values) -> None:
        """See `Tracker`."""
        known = [name.removeprefix("val_") for name in values if name.startswith("val_")]
        if not known:  # an epoch without validation
            return
        if self._monitor not in values:
            self._scores.error = ConfigurationError(
                f"`monitor` must be one of {', '.join(known)}, the scores of the validation data. "
                f"Received: monitor={self._monitor.removeprefix('val_')!r}. Compile the model with "
                "that metric, or choose another."
            )
            self._run.stop()
            return
        self._scores.by_epoch[epoch] = values[self._monitor]
        self._trial.report(values[self._monitor], epoch)
        if epoch < self._run.status.epochs and self._trial.should_prune():
            self._scores.is_pruned = True
            self._run.stop()

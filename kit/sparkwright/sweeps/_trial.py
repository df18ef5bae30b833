"""One trial of a sweep: its network, on the data of all trials, and its score."""

import copy
import inspect
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.session_end import unless_ended
from sparkwright.data import DistributedDataSet, Normalizer
from sparkwright.data.shuffling import count_examples
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.masters import TrainingMaster
from sparkwright.runs import TrainingRun
from sparkwright.runs.fit_options import CheckedOptions
from sparkwright.spark import SparkNetwork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Options that are common to all trials.
_OF_THE_SWEEP = {
    *("label", "features", "validation", "validation_split", "class_weight", "sample_weight"),
    *("name", "display", "resume", "hyperparameters", "log_to", "workers", "max_workers"),
}
# Options that have taken effect once the data is read.
_OF_THE_DATA: dict[str, Any] = dict.fromkeys(("label", "features", "sample_weight"))
_OF_THE_DATA["validation_split"] = 0.0
_LOOK_S = 0.1


class TrialNetwork(SparkNetwork):
    """A network that can read the data of all trials."""

    def read(self, data: Any, options: CheckedOptions) -> tuple[Any, Any]:
        """Return the training and validation data of `fit`, without class weights."""
        options = {**options, "class_weight": None}  # needs a built model
        return self._parts(
            data,
            options,
            seed=getattr(self.master, "seed", None) or 0,
            checked=self.model.built,
        )


@dataclass(kw_only=True)
class Objective:
    """Trains the networks of trials; the fields are those of all trials."""

    spark: "SparkSession"
    build: Callable[..., Any]
    distributions: Mapping[str, Any] | None  # None: `build` takes the trial
    data: Any
    master: TrainingMaster
    normalizer: Normalizer | None
    monitor: str  # such as "val_loss"
    options: CheckedOptions
    _parts: Any = field(default=None, init=False)
    _persisted: list[Any] = field(default_factory=list[Any], init=False)

    def start(self, trial: Any, name: str) -> tuple[SparkNetwork, TrainingRun]:
        """Start a trial's run. One at a time, because Keras' names and seeds are global."""
        made, settings = self._built(trial)
        if wrong := sorted(settings.keys() & _OF_THE_SWEEP):
            raise ConfigurationError(
                "a trial cannot set data, workers or trackers, only other options of the training "
                f"master and of `fit`. Received: {', '.join(wrong)}. Pass them to `sw.sweep`."
            )
        of_master = {each.name for each in fields(self.master)} & settings.keys()
        master = replace(self.master, **{each: settings.pop(each) for each in of_master})
        network = TrialNetwork(self.spark, made, master, normalizer=self.normalizer)
        self._parts = self._parts or self._cached(*network.read(self.data, self.options))
        train, validation = self._parts
        options: Any = {**self.options, **settings, **_OF_THE_DATA, "validation": validation}
        options |= {"name": name, "display": False, "hyperparameters": trial.params}
        # Trials run at the same time, and callbacks remember scores.
        options["callbacks"] = [copy.copy(each) for each in options["callbacks"] or ()]
        return network, network.start(train, **options)

    def _built(self, trial: Any) -> tuple[Any, dict[str, Any]]:
        """Return the trial's model and its other settings."""
        settings: dict[str, Any] = {}
        if self.distributions is None:
            made = self.build(trial)
        else:
            known = inspect.signature(self.build).parameters.values()
            takes_all = any(each.kind is each.VAR_KEYWORD for each in known)
            names = trial.params if takes_all else {each.name for each in known}
            made = self.build(**{n: v for n, v in trial.params.items() if n in names})
            settings = {n: v for n, v in trial.params.items() if n not in names}
        made, further = made if isinstance(made, tuple) else (made, {})
        return made, {**settings, **further}

    def _cached(self, *parts: Any) -> Any:
        """Read data into Spark's cache, so that concurrent trials do not each read it."""
        for each in parts:
            if not isinstance(each, DistributedDataSet):
                continue  # workers read a `TfData` themselves
            if not each.rdd.is_cached:
                self._persisted.append(each.persist())
                description = "read the data of all trials"
                count_examples(self.spark, each.rdd, description=description)
            each.partition_counts()
        return parts

    def score(self, trial: Any, run: TrainingRun) -> float:
        """Report the score of each epoch to Optuna until the run ends; return that of the model."""
        from optuna import TrialPruned

        scores: dict[int, float] = {}
        try:
            trial.set_user_attr("run", run.name)
            while True:
                is_over = run.finished  # read first, so that no score is left out
                for point in run.status.validation:
                    if point.epoch not in scores:
                        value = self._monitored({"loss": point.loss, **point.metrics})
                        scores[point.epoch] = value
                        trial.report(value, point.epoch)
                        if point.epoch < run.status.epochs and trial.should_prune():
                            run.stop()
                if is_over:
                    break
                time.sleep(_LOOK_S)
        finally:
            run.stop()
            run.wait()
        if run.status.state == "stopped":
            raise TrialPruned
        last = scores[max(scores)] if scores else math.nan
        if math.isnan(score := scores.get(run.restored_epoch or 0, last)):
            raise DataError(
                f"a trial needs a score of the validation data. Received: {self.monitor}={score} "
                f"after {run.status.epoch} epochs. {' '.join(run.warnings)[:500]}"
            )
        return score

    def _monitored(self, found: Mapping[str, float]) -> float:
        name = self.monitor.removeprefix("val_")
        if name not in found:
            raise ConfigurationError(
                f"`monitor` must be one of {', '.join(sorted(found))}, the scores of the "
                f"validation data. Received: monitor={name!r}. Compile the model with that metric, "
                "or choose another."
            )
        return found[name]

    def release(self) -> None:
        with unless_ended(self.spark):
            for each in self._persisted:
                each.unpersist()

"""Preparation and start of a run, shared by training on Spark and on one machine."""

import math
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.masters import Histograms, SharedTrainingMaster
from sparkwright.masters.training_master import TrainingMaster
from sparkwright.networks import ModelDefinition, ModelState
from sparkwright.networks.building import check_steps, prepare
from sparkwright.networks.optimizer_checks import (
    check_summed_updates,
    lost_state,
    rebuild_optimizer,
)
from sparkwright.networks.signature import Shape
from sparkwright.workers.histograms import variable_names

from ._checkpoint import Checkpoint, check_resumable, read_checkpoint
from ._progress import ProgressLines
from ._queue import Claim as Claim
from ._recorder import record_run, reserve_names
from ._run import TrainingRun
from ._run_file import is_off
from ._tracking import RunTracking
from .callbacks import DriverCallbacks
from .comparing import flat_settings
from .driver_model import DriverModel, seeded
from .extensions import in_notebook, show
from .fit_options import CheckedOptions
from .names import NAMES
from .outcome import Engine, Outcome
from .record import RunRecord

# Model -> the last run that trains it.
_runs: "weakref.WeakKeyDictionary[Any, weakref.ref[TrainingRun]]" = weakref.WeakKeyDictionary()
_starting = threading.Lock()


class RunBeginning:
    """The settings and initial state of a run."""

    def __init__(
        self,
        id: str,
        *,
        model: Any,
        master: TrainingMaster,
        layout: Callable[[], Mapping[str, tuple[Any, Shape]]],  # of the data, see `prepare`
        options: CheckedOptions,
        # What trained the model last, as `TrainingRun.adapted` and a saved model have it.
        previous: Mapping[str, Any] | None = None,
    ) -> None:
        """Validate the model and the options; read the checkpoint at `resume`, if given."""
        check_untrained(model)
        epochs = 1 if options["epochs"] is None else options["epochs"]
        resume, self.initial_epoch = options["resume"], options["initial_epoch"]
        if epochs <= self.initial_epoch:
            raise ConfigurationError(
                "`epochs` is the number of the last epoch, so it must exceed `initial_epoch`. "
                f"Received: epochs={epochs}, initial_epoch={self.initial_epoch}."
            )
        changes = {name: options[name] for name in ("shuffle", "steps_per_epoch")}
        master = replace(master, **{n: v for n, v in changes.items() if v is not None})
        self.id, self.epochs, self.model = id, epochs, model
        self._is_recorded: bool = not is_off() if options["record"] is None else options["record"]
        if rebuild_optimizer(model):
            remedy = "`sw.load_model` reads moments, too, if Keras 3 wrote the file."
            warnings.warn(lost_state(model.optimizer, remedy), stacklevel=3)
        validates = options["validation"] is not None or options["validation_split"] > 0
        self._validates = validates
        check_steps(model, validates=validates)
        prepare(model, layout)
        if isinstance(master, SharedTrainingMaster) and master.combine == "sum":
            check_summed_updates(model)
        # None: begin with `start`
        self.resume: Checkpoint | None = None if resume is None else read_checkpoint(resume)
        self.definition, self.start = ModelDefinition.of(model), DriverModel(model, master)
        if isinstance(master, SharedTrainingMaster):
            if previous and _adapt_alike(previous.get("master", {}), master):
                self.start.thresholds = _usable(previous.get("thresholds", ()))
            if self.resume is not None and not _adapt_alike(self.resume.master, master):
                progress = replace(self.resume.progress, thresholds=())
                self.resume = replace(self.resume, progress=progress)
            _refuse_low_precision(self.start.state)
        seed = None if self.resume is None else self.resume.master.get("seed")
        self.master = seeded(master, otherwise=seed)  # with the seed of this run
        self._name = options["name"]
        self.histograms, self._trackers = options["histograms"], options["log_to"]
        given = options["hyperparameters"]
        self._hyperparameters = {"hyperparameters": dict(given)} if given else {}
        _check_layers(model, self.histograms)
        frequency = options["callback_frequency"]
        if frequency is not None and isinstance(master, SharedTrainingMaster):
            raise ConfigurationError(
                "`callback_frequency` counts averagings, and gradient sharing has none within an "
                f"epoch. Received: callback_frequency={frequency}. Leave it out, or use a "
                "ParameterAveragingTrainingMaster."
            )
        self.callbacks = DriverCallbacks(
            options["callbacks"],
            model,
            self.start,
            epochs=epochs,
            frequency=frequency,
            resume=() if self.resume is None else self.resume.callbacks,
        )
        if self.resume is not None:
            self._restore(self.resume)

    def run(
        self,
        engine: Engine,
        *,
        title: str,
        workers: int,
        configuration: dict[str, Any],
        display: bool | None,
        when_begun: Callable[[TrainingRun], None],
        claim: Claim | None = None,
    ) -> TrainingRun:
        """Start the run and, unless `display` is False, show a panel or progress lines."""
        with _starting:  # so that of two threads only one starts
            check_untrained(self.model)
            if self._is_recorded:
                reserve_names()
            record = RunRecord(workers=workers, epochs=self.epochs, name=f"sparkwright-{self.id}")
            if self.master.collect_training_stats:
                record.times.collect(self.master.time_source)
            name = NAMES.take(self._name)
            lines = (
                ProgressLines(record, name=name, title=title, validates=self._validates)
                if display is not False and not in_notebook()
                else None
            )
            parameters = self._parameters(workers) if self._trackers else {}
            run = TrainingRun(
                id=self.id,
                name=name,
                lines=lines,
                claim=claim,
                title=title,
                engine=engine,
                record=record,
                take_result=self._take,
                callbacks=self.callbacks,
                trackings=[
                    RunTracking(each, record, parameters, validates=self._validates)
                    for each in self._trackers
                ],
                model=self.model,
                configuration={
                    "master": self.master.to_dict(),
                    "model": self.model.name,
                    "parameters": self.definition.parameters,
                    "workers": workers,
                    "epochs": self.epochs,
                    "seed": self.master.seed,
                    **_compiled(self.model),
                    **self._hyperparameters,
                    **self._rules(),
                    **configuration,
                },
            )
            _runs[self.model] = weakref.ref(run)
        when_begun(run)
        if self._is_recorded:
            record_run(run, record)
        if display is not False and in_notebook():
            show(run)
        return run

    def _take(self, outcome: Outcome) -> Outcome:
        """Write the result to the model, and call the callbacks unless the run failed."""
        self.start.take(outcome)
        if outcome.error is not None:
            return outcome
        try:
            self.callbacks.end()
        except Exception as error:
            return replace(outcome, error=error)
        return outcome

    def _parameters(self, workers: int) -> dict[str, Any]:
        """Return the settings that trackers log as parameters."""
        settings = self.master.to_dict()
        changed = {name: settings[name] for name in ("name", *self.master.changed())}
        counts = {"epochs": self.epochs, "workers": workers}
        given = {**_compiled(self.model), **self._hyperparameters, "master": changed}
        return flat_settings({**counts, **given})

    def _rules(self) -> dict[str, Any]:
        histograms = None if self.histograms is None else self.histograms.to_dict()
        given = {"callbacks": self.callbacks.described(), "histograms": histograms}
        return {name: each for name, each in given.items() if each}

    def _restore(self, checkpoint: Checkpoint) -> None:
        # Before the model changes; the number of examples is compared later.
        check_resumable(
            checkpoint,
            master=self.master.to_dict(),
            fingerprint=self.definition.architecture,
            rows=checkpoint.rows,
            epochs=self.epochs,
        )
        self.start.restore(checkpoint.vector, b"".join(checkpoint.extras))


def check_untrained(model: Any) -> None:
    """Raise a ConfigurationError if a run trains this model, or variables of it."""
    for other, known in [*_runs.items()]:
        run = known()
        if run is None or run.finished or not (other is model or _overlap(model, other)):
            continue
        what = "which" if other is model else f"which shares variables with {other.name}, which"
        raise ConfigurationError(
            "one run at a time trains a model: two would overwrite each other's result. Received: "
            f"{model.name}, {what} run {run.name} trains. Wait for it: `run.wait()`; or end it: "
            "`run.stop()`; or train a clone (`keras.models.clone_model`)."
        )


def _overlap(one: Any, other: Any) -> bool:
    """Whether training one of the models changes the other."""
    first, second = ({id(each) for each in model.variables} for model in (one, other))
    trained = {id(each) for model in (one, other) for each in model.trainable_variables}
    return not trained.isdisjoint(first & second)


def check_direct(master: TrainingMaster, reason: str) -> None:
    """Raise if options of a master need data in Spark's partitions; `reason` begins the message."""
    for name, refused, instead in (
        ("communication", "spark", '"ring" or "driver"'),
        ("training_approach", "export", '"direct"'),
    ):
        if getattr(master, name, None) == refused:
            raise ConfigurationError(
                f'{reason}, so `{name}` must be {instead}. Received: {name}="{refused}".'
            )


def refuse_joining(master: TrainingMaster) -> None:
    """Raise if workers may join a run with `TfData`, which they could not share."""
    if master.max_workers is not None:
        raise ConfigurationError(
            "workers of a `TfData` cannot give others part of their examples, so none can join. "
            f"Received: max_workers={master.max_workers}. Leave it out."
        )


def _compiled(model: Any) -> dict[str, Any]:
    """Return loss and optimizer for a run's configuration, JSON-serializable."""
    loss, optimizer = getattr(model, "loss", None), getattr(model, "optimizer", None)
    found: dict[str, Any] = {}
    if loss is not None:
        found["loss"] = _names(loss)
    if optimizer is not None:
        options = optimizer.get_config()
        simple = (bool, int, float, str, dict, type(None))  # a schedule is a dict
        known = {name: value for name, value in options.items() if isinstance(value, simple)}
        found["optimizer"] = {**known, "name": type(optimizer).__name__}
    return found


def _names(losses: Any) -> Any:
    """Replace losses by their names, in nested structures."""
    if isinstance(losses, Mapping):
        return {name: _names(loss) for name, loss in losses.items()}
    if isinstance(losses, list | tuple):
        return [_names(loss) for loss in losses]
    if losses is None or isinstance(losses, str):
        return losses
    return getattr(losses, "name", None) or getattr(losses, "__name__", type(losses).__name__)


def _check_layers(model: Any, histograms: Histograms | None) -> None:
    """Raise if `histograms` names layers that the model does not have."""
    if histograms is None or histograms.layers is None:
        return
    known = {layer.name: None for layer in model.layers}
    known |= dict.fromkeys(name.rpartition("/")[0] for name in variable_names(model))
    if unknown := [name for name in histograms.layers if name not in known]:
        raise ConfigurationError(
            f"`layers` of histograms must be layers of the network: {', '.join(known)}. "
            f"Received: {', '.join(unknown)}."
        )


def _adapt_alike(before: Mapping[str, Any], master: SharedTrainingMaster) -> bool:
    """Whether a run with settings `before` adapts its thresholds in the same way as `master`."""
    given = master.to_dict()
    return all(before.get(n) == given[n] for n in ("threshold", "per_variable_thresholds"))


def _usable(thresholds: Any) -> tuple[float, ...]:
    """Return thresholds of a run or a file; empty if they are none."""
    found: list[Any] = [*thresholds] if isinstance(thresholds, list | tuple) else []  # pyright: ignore[reportUnknownArgumentType]
    numbers = [float(each) for each in found if isinstance(each, int | float)]
    usable = len(numbers) == len(found) and all(0 < each < math.inf for each in numbers)
    return tuple(numbers) if usable else ()


def _refuse_low_precision(state: ModelState) -> None:
    """Raise for variables that gradient sharing cannot or must not update."""
    for variable in state.averaged[: state.trainable]:
        if str(variable.dtype) in ("float16", "bfloat16"):  # too little precision for small steps
            raise ConfigurationError(
                "gradient sharing needs variables of float32 or float64. Received: "
                f"{variable.path!r} of {variable.dtype}. Compute in half precision with the policy "
                '"mixed_float16" or "mixed_bfloat16", which keeps variables in float32.'
            )
        if getattr(variable, "overwrite_with_gradient", False):  # has no additive updates
            raise ConfigurationError(
                "float8 networks need parameter averaging. Received: a SharedTrainingMaster for "
                f"{variable.path!r}. Use a ParameterAveragingTrainingMaster."
            )

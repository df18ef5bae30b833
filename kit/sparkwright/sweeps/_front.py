"""`sw.sweep`: check the options, open the study, and start the sweep."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import util
from typing import TYPE_CHECKING, Any, Literal

from sparkwright._interrupts import interrupts_held
from sparkwright.cluster.connect import context_of
from sparkwright.cluster.slots import check_slots, slots_at_most, task_slots
from sparkwright.data import Normalizer
from sparkwright.errors import ConfigurationError
from sparkwright.evaluation.comparison import direction_of
from sparkwright.masters import ParameterAveragingTrainingMaster, TrainingMaster
from sparkwright.options import check_count
from sparkwright.runs.extensions import in_notebook, show
from sparkwright.runs.fit_options import checked_options
from sparkwright.runs.names import check_name

from ._study import distributions_of, open_study
from ._sweep import Sweep
from ._trial import Objective

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    mode: Literal["auto", "min", "max"] = "auto",
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
    """Train a network repeatedly with different hyperparameters, to find the best ones.

    Optuna suggests the hyperparameters of each trial. A trial is a run with one worker, and there
    are as many concurrent trials as task slots. If the master has `workers`, each trial uses that
    many, and fewer trials train concurrently. Needs `pip install "sparkwright[sweep]"`.

    Args:
        spark: the session.
        build: returns a compiled keras.Model, or (model, settings), where settings are options of
            the master and of `fit` for this trial, by name. It is called with hyperparameters by
            name if `space` is given, else with an `optuna.Trial`; on the driver, one call at a
            time.
        data: training data, as for `SparkNetwork.fit`; read once for all trials.
        y: labels if `data` contains only features. Default None: `data` contains the labels.
        trials: total number of trials, including those of earlier sweeps with this storage and
            name.
        space: hyperparameter -> a list of choices, (low, high), (low, high, "log"), a `range` or an
            Optuna distribution. Hyperparameters that `build` does not take are options of the
            master or of `fit`, such as "batch_size_per_worker". Default None: `build` suggests
            them.
        master: the training master; one worker unless it has `workers`. Default None: parameter
            averaging.
        normalizer: as for `SparkNetwork`; default None.
        monitor: "loss" (default) or a compiled metric, of the validation data. It is reported to
            the pruner after each epoch; the final value is the value of the trial.
        mode: "min", "max", or "auto" (default): depends on the name of the score.
        parallel: number of concurrent trials; default None: as many as fit into the task slots.
        storage: where trials are stored: path of an SQLite file, or of a journal if it ends in
            .log, .journal or .jsonl; an SQLAlchemy URL; an Optuna storage. Default None: in memory.
        name: name of the sweep and its study; the run of trial 3 is "name-3". Default "sweep".
        sampler: an Optuna sampler; default None: TPE.
        pruner: an Optuna pruner; default None: the median pruner. `optuna.pruners.NopPruner()`
            disables pruning.
        seed: seed of the default sampler, and of a master without one; default None: random.
        wait: wait for the end (default). False: return immediately.
        display: show the sweep: a live view in notebooks, elsewhere a line per trial. False:
            neither. Default None: show it.
        **options: options of `fit` for all trials; `validation` or `validation_split` is required.

    Raises:
        ConfigurationError: if Optuna is missing, an option is invalid, or another process is
            running a sweep of this study.
        SlotsError: if a trial has more workers than there are task slots.
        OSError: if the storage cannot be opened.
        Exception: of the last trial, if all trials failed.
    """
    if util.find_spec("optuna") is None:
        raise ConfigurationError(
            "`sw.sweep` needs the package optuna. Received: none is installed. "
            'Install it: `pip install "sparkwright[sweep]"`.'
        )
    check_count("trials", trials)
    check_count("parallel", parallel, optional=True)
    check_name(f"{name}-{trials}")
    checked, maximizes = checked_options(options), _maximizes(monitor, mode)
    if checked["validation"] is None and not checked["validation_split"]:
        raise ConfigurationError(
            "a sweep compares trials by a score of validation data. Received: neither `validation` "
            "nor `validation_split`. Give one of them."
        )
    if given := {"resume", "hyperparameters"} & options.keys():
        raise ConfigurationError(
            "each trial begins with a new network and its own hyperparameters. Received: "
            f"{', '.join(sorted(given))}. Leave them out."
        )
    master = master or ParameterAveragingTrainingMaster()
    workers, own_seed = master.workers or 1, seed if master.seed is None else master.seed
    url, settings = str(context_of(spark).master), context_of(spark).getConf()
    check_slots(workers, slots_at_most(url, settings), url)
    objective = Objective(
        spark=spark,
        build=build,
        distributions=None if space is None else distributions_of(space),
        data=data if y is None else (data, y),
        master=replace(master, workers=workers, seed=own_seed),
        normalizer=normalizer,
        monitor=f"val_{monitor.removeprefix('val_')}",
        options=checked,
    )
    samples = {"seed": seed, "sampler": sampler, "pruner": pruner}
    study = open_study(storage, name, maximizes=maximizes, **samples)
    shows = display is not False and in_notebook()
    with interrupts_held():
        made = Sweep(
            study,
            objective,
            trials=trials,
            parallel=parallel or max(1, (task_slots(spark) or 1) // workers),
            prints=display is not False and not shows,
        )
        if shows:
            show(made)
        return made.wait() if wait else made


def _maximizes(monitor: str, mode: str) -> bool:
    """Whether higher scores are better."""
    direction = {"min": -1, "max": 1, "auto": direction_of(monitor)}.get(mode, 0)
    if not direction:
        raise ConfigurationError(
            '`mode` must be "min" or "max", or "auto" for a metric whose name says which. '
            f'Received: mode={mode!r}, monitor={monitor!r}. Set `mode="max"` or `mode="min"`.'
        )
    return direction > 0

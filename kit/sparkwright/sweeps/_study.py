"""What a sweep needs of Optuna: distributions, a study in a storage, trials to be repeated."""

import os
from collections.abc import Mapping
from datetime import timedelta
from importlib import util
from pathlib import Path
from typing import Any

from sparkwright.errors import ConfigurationError

# Marks of a trial, among Optuna's user attributes.
INTERRUPTED, REPEATS, DRIVER, ERROR, RUN = "interrupted", "repeats", "driver", "error", "run"
_JOURNALS = (".log", ".journal", ".jsonl")


def check_optuna() -> None:
    """Raise a ConfigurationError unless Optuna is installed."""
    if util.find_spec("optuna") is None:
        raise ConfigurationError(
            "`sw.sweep` needs the package optuna. Received: none is installed. "
            'Install it: `pip install "sparkwright[sweep]"`.'
        )


def distributions_of(space: Mapping[str, Any]) -> dict[str, Any]:
    """Return Optuna's distributions of a space, by name.

    Args:
        space: name -> a list of choices; (low, high) of integers or floats, both included, with
            "log" as a third element for a logarithmic scale; a `range`; or a distribution.

    Raises:
        ConfigurationError: naming the entry that is none of these.

    Example:
        >>> distributions_of({"units": (8, 64), "layers": range(1, 4)})["layers"]
        IntDistribution(high=3, log=False, low=1, step=1)
    """
    from optuna import distributions as optuna

    found: dict[str, Any] = {}
    for name, given in space.items():
        try:
            match given:
                case optuna.BaseDistribution():
                    found[name] = given
                case list() if given:
                    found[name] = optuna.CategoricalDistribution(given)
                case range():
                    found[name] = optuna.IntDistribution(given[0], given[-1], step=given.step)
                case (int() as low, int() as high, *scale) if scale in ([], ["log"]):
                    found[name] = optuna.IntDistribution(low, high, log=bool(scale))
                case (int() | float() as low, int() | float() as high, *scale) if scale in (
                    [],
                    ["log"],
                ):
                    found[name] = optuna.FloatDistribution(low, high, log=bool(scale))
                case _:
                    raise ValueError("none of these")
        except (ValueError, IndexError) as error:
            raise ConfigurationError(
                "each value of `space` must be a list of choices, (low, high), "
                '(low, high, "log"), a `range` or a distribution of Optuna. '
                f"Received: {name}={given!r:.200} ({error})."
            ) from None
    return found


def open_study(
    storage: Any,
    name: str,
    *,
    maximizes: bool,
    sampler: Any | None = None,
    pruner: Any | None = None,
    seed: int | None = None,
) -> Any:
    """Return the `optuna.Study` called `name`, new or as it was left.

    Args:
        storage: path of an SQLite file, or of a journal (".log", ".journal", ".jsonl"); a URL of
            SQLAlchemy; a storage of Optuna; None: in memory.
        name: of the study in the storage.
        maximizes: whether higher values are better.
        sampler: default None: TPE.
        pruner: default None: Optuna's median pruner.
        seed: of the default sampler; default None: drawn.

    Raises:
        ConfigurationError: if the study that is there has another direction.
        OSError: if the storage cannot be opened.
    """
    import optuna

    direction = "maximize" if maximizes else "minimize"
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(level, optuna.logging.WARNING))  # it announces the study
    try:
        study = optuna.create_study(
            storage=_storage_of(storage),
            study_name=name,
            direction=direction,
            load_if_exists=True,
            sampler=sampler,
            pruner=pruner,
        )
    finally:
        optuna.logging.set_verbosity(level)
    if study.direction.name.lower() != direction:
        raise ConfigurationError(
            f"study {name!r} must be one that is to {direction} its value. Received: a study that "
            f"is to {study.direction.name.lower()} it. Use another `name`, or `mode`."
        )
    if sampler is None:
        # A sweep that goes on must not draw the first trials again.
        found = None if seed is None else (seed + len(study.trials)) % 2**32
        study.sampler = optuna.samplers.TPESampler(seed=found)
    return study


def _storage_of(given: Any) -> Any:
    import optuna
    from optuna.storages import journal

    if not isinstance(given, str | os.PathLike):
        return given
    text = os.fspath(given)
    try:
        if "://" in text:
            return optuna.storages.RDBStorage(text)
        Path(text).absolute().parent.mkdir(parents=True, exist_ok=True)
        if text.endswith(_JOURNALS):
            return optuna.storages.JournalStorage(journal.JournalFileBackend(text))
        return optuna.storages.RDBStorage(f"sqlite:///{Path(text).absolute()}")
    except OSError:
        raise
    except Exception as error:  # SQLAlchemy's
        raise OSError(f"the storage of a sweep cannot be opened: {text}. {error!s:.300}") from error


def driver_mark() -> list[Any]:
    """Return what identifies this process among the drivers of a study: host, id, start."""
    import socket

    import psutil

    return [socket.gethostname(), os.getpid(), psutil.Process().create_time()]


def repeat_interrupted(study: Any) -> int:
    """Have trials repeated that ended with their driver, or were stopped; returns how many.

    Raises:
        ConfigurationError: if the driver of a running trial still works.
    """
    import optuna

    trials = study.get_trials(deepcopy=False)
    states = optuna.trial.TrialState
    running = [trial for trial in trials if trial.state == states.RUNNING]
    for trial in running:
        if _works(trial.user_attrs.get(DRIVER)):
            host, process, _ = trial.user_attrs[DRIVER]
            raise ConfigurationError(
                f"a study must have one sweep at a time. Received: study {study.study_name!r}, "
                f"whose trial {trial.number} runs in process {process} on {host}. Wait for that "
                "sweep, stop it, or use another `name`."
            )
    for trial in running:
        interrupt(study, optuna.Trial(study, trial._trial_id), "the driver ended")
    repeated = {trial.user_attrs.get(REPEATS) for trial in trials}
    waiting = [
        trial
        for trial in study.get_trials(deepcopy=False)
        if INTERRUPTED in trial.user_attrs and trial.params and trial.number not in repeated
    ]
    for trial in waiting:
        study.enqueue_trial(trial.params, user_attrs={REPEATS: trial.number})
    return len(waiting)


def _works(driver: Any) -> bool:
    import psutil

    if not driver or driver[0] != driver_mark()[0] or driver == driver_mark():
        return False
    try:
        return psutil.Process(driver[1]).create_time() == driver[2]
    except psutil.Error:
        return False


def interrupt(study: Any, trial: Any, reason: str) -> None:
    """End a trial without a result; the next sweep repeats it."""
    trial.set_user_attr(INTERRUPTED, True)
    fail(study, trial, reason)


def fail(study: Any, trial: Any, reason: str) -> None:
    """End a trial as failed."""
    import optuna

    trial.set_user_attr(ERROR, reason)
    study.tell(trial, state=optuna.trial.TrialState.FAIL)


def ended(study: Any) -> int:
    """Return how many trials have ended, without those that are to be repeated."""
    return sum(
        trial.state.is_finished() and INTERRUPTED not in trial.user_attrs
        for trial in study.get_trials(deepcopy=False)
    )


def seconds_of(trial: Any) -> float:
    """Return how long a trial took; 0 while it runs."""
    return (trial.duration or timedelta()).total_seconds()

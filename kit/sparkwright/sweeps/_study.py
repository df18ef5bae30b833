"""Optuna helpers of sweeps: distributions, studies in a storage, interrupted trials."""

import os
import socket
from collections.abc import Mapping
from importlib import util
from pathlib import Path
from typing import Any

import psutil

from sparkwright.errors import ConfigurationError

# User attributes of trials.
DRIVER, ERROR, INTERRUPTED, REPEATS, RUN = "driver", "error", "interrupted", "repeats", "run"
_JOURNALS = (".log", ".journal", ".jsonl")


def check_optuna() -> None:
    """Raise a ConfigurationError unless Optuna is installed."""
    if util.find_spec("optuna") is None:
        raise ConfigurationError(
            "`sw.sweep` needs the package optuna. Received: none is installed. "
            'Install it: `pip install "sparkwright[sweep]"`.'
        )


def distributions_of(space: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a `space` of `sw.sweep` to Optuna's distributions.

    Raises:
        ConfigurationError: naming the invalid entry.

    Example:
        >>> distributions_of({"layers": range(1, 4)})
        {'layers': IntDistribution(high=3, log=False, low=1, step=1)}
    """
    from optuna import distributions as optuna

    found: dict[str, Any] = {}
    for name, given in space.items():
        try:
            match given:
                case optuna.BaseDistribution():
                    found[name] = given
                case list():
                    found[name] = optuna.CategoricalDistribution(given)
                case range():
                    found[name] = optuna.IntDistribution(given[0], given[-1], step=given.step)
                case (int() | float() as low, int() | float() as high, *scale) if scale in (
                    [],
                    ["log"],
                ):
                    whole = isinstance(low, int) and isinstance(high, int)
                    make: Any = optuna.IntDistribution if whole else optuna.FloatDistribution
                    found[name] = make(low, high, log=bool(scale))
                case _:
                    raise ValueError("none of these")
        except (ValueError, IndexError) as error:
            raise ConfigurationError(
                "each value of `space` must be a list of choices, (low, high), "
                '(low, high, "log"), a `range` or a distribution of Optuna. '
                f"Received: {name}={given!r:.200} ({error})."
            ) from None
    return found


def open_study(storage: Any, name: str, *, maximizes: bool, seed: int | None, **given: Any) -> Any:
    """Create or load the `optuna.Study` called `name`.

    Args:
        storage: the `storage` of `sw.sweep`.
        name: name of the study.
        maximizes: whether higher values are better.
        seed: seed of the default sampler; None: random.
        **given: sampler and pruner; None: Optuna's defaults.

    Raises:
        ConfigurationError: if the existing study has another direction.
        OSError: if the storage cannot be opened.
    """
    import optuna

    direction = "maximize" if maximizes else "minimize"
    level = optuna.logging.get_verbosity()
    # Suppress the message about the new study.
    optuna.logging.set_verbosity(max(level, optuna.logging.WARNING))
    try:
        study = optuna.create_study(
            storage=_storage_of(storage),
            study_name=name,
            direction=direction,
            load_if_exists=True,
            **given,
        )
    finally:
        optuna.logging.set_verbosity(level)
    if study.direction.name.lower() != direction:
        raise ConfigurationError(
            f"the study must {direction} its score. Received: study {name!r}, which exists to "
            f"{study.direction.name.lower()} it. Use another `name`, `monitor` or `mode`."
        )
    if given.get("sampler") is None and seed is not None:
        # A resumed sweep must not draw its first trials a second time.
        study.sampler = optuna.samplers.TPESampler(seed=(seed + len(study.trials)) % 2**32)
    return study


def _storage_of(given: Any) -> Any:
    """Return an Optuna storage, or None for one in memory."""
    from optuna import storages
    from optuna.storages.journal import JournalFileBackend

    if not isinstance(given, str | os.PathLike):
        return given
    text = os.fspath(given)
    try:
        if "://" in text:
            return storages.RDBStorage(text)
        path = Path(text).absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in _JOURNALS:
            return storages.JournalStorage(JournalFileBackend(str(path)))
        return storages.RDBStorage(f"sqlite:///{path}")
    except Exception as error:  # SQLAlchemy has its own exceptions
        raise OSError(f"the storage of a sweep cannot be opened: {text}. {error!s:.300}") from error


def driver_mark() -> list[Any]:
    """Identify this driver process: host, process id, start time."""
    return [socket.gethostname(), os.getpid(), psutil.Process().create_time()]


def _is_alive(driver: Any) -> bool:
    try:
        return driver[0] == socket.gethostname() and (
            psutil.Process(driver[1]).create_time() == driver[2]
        )
    except (psutil.Error, TypeError):
        return False


def repeat_interrupted(study: Any) -> None:
    """Enqueue trials again that were stopped, or that ended with their driver.

    Raises:
        ConfigurationError: if the driver of a running trial is alive.
    """
    import optuna

    for trial in study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.RUNNING]):
        if _is_alive(driver := trial.user_attrs.get(DRIVER)):
            raise ConfigurationError(
                f"a study can have one sweep at a time. Received: study {study.study_name!r}, with "
                f"trial {trial.number} running in process {driver[1]}. Wait for that sweep, stop "
                "it, or use another `name`."
            )
        interrupt(study, optuna.Trial(study, trial._trial_id), "the driver ended")
    trials = study.get_trials(deepcopy=False)
    repeated = {trial.user_attrs.get(REPEATS) for trial in trials}
    for trial in trials:
        if INTERRUPTED in trial.user_attrs and trial.params and trial.number not in repeated:
            study.enqueue_trial(trial.params, user_attrs={REPEATS: trial.number})


def interrupt(study: Any, trial: Any, reason: str) -> None:
    """End a trial without a result; a later sweep of the study repeats it."""
    trial.set_user_attr(INTERRUPTED, True)
    fail(study, trial, reason)


def fail(study: Any, trial: Any, reason: str) -> None:
    """Mark a trial as failed."""
    from optuna.trial import TrialState

    trial.set_user_attr(ERROR, reason[:2000])
    study.tell(trial, state=TrialState.FAIL)


def ended(study: Any) -> int:
    """Return the number of ended trials, without those to be repeated."""
    trials = study.get_trials(deepcopy=False)
    return sum(t.state.is_finished() and INTERRUPTED not in t.user_attrs for t in trials)

"""Studies of Optuna: their storages, search spaces and interrupted trials."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparkwright._process import Process
from sparkwright.errors import ConfigurationError

# User attributes: of the study, the process that runs its trials; of a trial, the one it repeats.
_DRIVER, _REPEATS = "driver", "repeats"
_JOURNALS = (".log", ".journal", ".jsonl")


def distributions_of(space: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a `space` of `sw.sweep` to Optuna's distributions.

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
                case (low, high) | (low, high, "log"):
                    whole = isinstance(low, int) and isinstance(high, int)
                    make: Any = optuna.IntDistribution if whole else optuna.FloatDistribution
                    found[name] = make(low, high, log=len(given) == 3)
                case _:
                    raise ValueError("none of these")
        except (TypeError, ValueError, IndexError) as error:
            raise ConfigurationError(
                "each value of `space` must be a list of choices, (low, high), "
                '(low, high, "log"), a `range` or a distribution of Optuna. '
                f"Received: {name}={given!r:.200} ({error})."
            ) from None
    return found


def open_study(storage: Any, name: str, *, maximizes: bool, seed: int | None, **given: Any) -> Any:
    """Create or load the `optuna.Study` called `name`; its lost trials are enqueued again."""
    import optuna

    direction = "maximize" if maximizes else "minimize"
    level = optuna.logging.get_verbosity()
    # Suppress the message about the new study.
    optuna.logging.set_verbosity(max(level, optuna.logging.WARNING))
    try:
        options = {"study_name": name, "direction": direction, "load_if_exists": True}
        study = optuna.create_study(storage=_storage_of(storage), **options, **given)
    except Exception as error:  # SQLAlchemy has its own exceptions
        problem = f"the storage of a sweep cannot be opened: {storage}. {error!s:.300}"
        raise OSError(problem) from error
    finally:
        optuna.logging.set_verbosity(level)
    if study.direction.name.lower() != direction:
        raise ConfigurationError(
            f"the study must {direction} its score. Received: study {name!r}, which exists to "
            f"{study.direction.name.lower()} it. Use another `name`, `monitor` or `mode`."
        )
    _take(study)
    if given.get("sampler") is None and seed is not None:
        # A resumed sweep must not draw its first trials a second time.
        study.sampler = optuna.samplers.TPESampler(seed=(seed + len(study.trials)) % 2**32)
    return study


def _storage_of(given: Any) -> Any:
    """Return the `storage` of `optuna.create_study`."""
    from optuna.storages import JournalStorage, journal

    if not isinstance(given, str | os.PathLike) or "://" in str(given):
        return given
    path = Path(given).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in _JOURNALS:
        return JournalStorage(journal.JournalFileBackend(str(path)))
    return f"sqlite:///{path}"


def _take(study: Any) -> None:
    """Make this process the driver of the study, and repeat the trials of a driver that ended."""
    from optuna.trial import TrialState

    # Optuna's heartbeats would do so for databases only, and after a time-out.
    driver = study.user_attrs.get(_DRIVER)
    for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        # Silence says nothing about drivers on other machines.
        if driver is not None and Process(*driver).is_alive(silent_s=math.inf):
            raise ConfigurationError(
                f"a study can have one sweep at a time. Received: study {study.study_name!r}, with "
                f"trial {trial.number} running in process {driver[1]}. Wait for that sweep, stop "
                "it, or use another `name`."
            )
        repeat(study, trial)
    study.set_user_attr(_DRIVER, Process.this())


def repeat(study: Any, trial: Any) -> None:
    """End a trial without a result, and enqueue its hyperparameters."""
    from optuna.trial import TrialState

    study.enqueue_trial(trial.params, user_attrs={_REPEATS: trial.number})
    study.tell(trial.number, state=TrialState.FAIL)


def ended(study: Any) -> int:
    """Return the number of ended trials, without those that others repeat."""
    trials = study.get_trials(deepcopy=False)
    return sum(t.state.is_finished() - (_REPEATS in t.user_attrs) for t in trials)

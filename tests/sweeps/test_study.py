import re
import subprocess
import sys

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState
from tests.cases import cases

from sparkwright.errors import ConfigurationError
from sparkwright.sweeps import _study as studies


def opened(storage, **options):
    return studies.open_study(storage, "s", **{"maximizes": False, "seed": 3, **options})


def test_space_is_serialized_as_plain_values():
    given = FloatDistribution(0, 1, step=0.25)
    assert studies.distributions_of(
        {
            "units": (8, 64),
            "layers": range(1, 6, 2),
            "rate": (1e-4, 1, "log"),
            "width": (8, 512, "log"),
            "activation": ["relu", None, 2],
            "own": given,
        }
    ) == {
        "units": IntDistribution(8, 64),
        "layers": IntDistribution(1, 5, step=2),
        "rate": FloatDistribution(1e-4, 1.0, log=True),
        "width": IntDistribution(8, 512, log=True),
        "activation": CategoricalDistribution(("relu", None, 2)),
        "own": given,
    }


@cases("value", 3, "relu", [], range(0), (1,), (1, 2, "linear"), (2, 1), (0, 1, "log"), ("a", "b"))
def test_invalid_range_is_rejected_by_name(value):
    with pytest.raises(ConfigurationError, match=re.escape(f"Received: units={value!r} (")):
        studies.distributions_of({"units": value})


@pytest.mark.thorough(but=["a/trials.log"])
@cases("file", "a/trials.log", "sqlite:///{}/x.db")
def test_study_resumes_where_it_stopped(tmp_path, file):
    storage = file.format(tmp_path) if "://" in file else tmp_path / file
    first = opened(storage)
    done, stopped = (first.ask({"x": FloatDistribution(0, 1)}) for _ in range(2))
    first.tell(done, 1.0)
    studies.repeat(first, stopped)
    again = opened(storage)
    assert studies.ended(again) == 1, "the stopped trial does not count"
    repeat, new = (again.ask({"x": FloatDistribution(0, 1)}).params for _ in range(2))
    assert repeat == stopped.params
    assert new not in (done.params, stopped.params), "the seed does not repeat them"
    with pytest.raises(ConfigurationError, match=r"must maximize.*exists to minimize"):
        opened(storage, maximizes=True)


def test_storage_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(OSError, match=r"cannot be opened: nonsense://x"):
        opened("nonsense://x")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file/trials"):
        opened(tmp_path / "file" / "trials.sqlite")


# As a driver that is killed: without a chance to end its trial.
_KILLED = """
import os, sys
from optuna.distributions import FloatDistribution
from sparkwright.sweeps import _study as studies
study = studies.open_study(sys.argv[1], "s", maximizes=False, seed=1)
study.tell(study.ask({"x": FloatDistribution(0, 1)}), 0.5)
trial = study.ask({"x": FloatDistribution(0, 1)})
trial.report(0.7, 1)
os.kill(os.getpid(), 9)
"""


@pytest.mark.thorough
def test_trials_of_a_killed_driver_fail_and_are_repeated(tmp_path):
    path = str(tmp_path / "trials.sqlite")
    killed = subprocess.run([sys.executable, "-c", _KILLED, path], check=False, timeout=60)
    assert killed.returncode == -9
    for _ in range(2):
        study = opened(path)
        _, lost, repeat = study.trials
        assert (lost.state, repeat.state) == (TrialState.FAIL, TrialState.WAITING)
        assert studies.ended(study) == 1, "the lost trial does not count"
    trial = study.ask({"x": FloatDistribution(0, 1)})
    assert (trial.number, trial.params) == (repeat.number, lost.params)


def test_study_has_one_sweep_at_a_time():
    storage = optuna.storages.InMemoryStorage()
    opened(storage).ask({"x": FloatDistribution(0.0, 1.0)})
    with pytest.raises(ConfigurationError, match=r"trial 0 running in process \d+"):
        opened(storage)


def test_opening_a_study_prints_nothing(capfd):
    opened(None)
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == optuna.logging.INFO, "as it was"

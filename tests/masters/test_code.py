"""Settings as Python: what is executed here is our own output, in a test."""

from typing import Any

from hypothesis import given
from tests.masters.test_shared_training import masters as sharing_masters

import sparkwright as sw
from sparkwright.masters import SharedTrainingMaster
from sparkwright.masters._code import settings_to_code


@given(sharing_masters)
def test_executed_code_makes_the_same_master(master: SharedTrainingMaster) -> None:
    made: dict[str, Any] = {"sw": sw}
    exec(f"master = {settings_to_code(master)}", made)
    assert made["master"] == master


def test_only_what_differs_from_the_defaults_is_written() -> None:
    assert settings_to_code(sw.ParameterAveragingTrainingMaster()) == (
        "sw.ParameterAveragingTrainingMaster()"
    )
    assert settings_to_code(sw.EarlyStopping(patience=3)) == "sw.EarlyStopping(patience=3)"


def test_hooks_are_left_out() -> None:
    class Hook:
        def pre_update(self, minibatch: Any, model: Any) -> None: ...

        def post_update(self, minibatch: Any, model: Any) -> None: ...

    master = sw.ParameterAveragingTrainingMaster(seed=1).with_hooks(Hook())
    assert settings_to_code(master) == "sw.ParameterAveragingTrainingMaster(seed=1)"


def test_floats_of_numpy_are_written_as_numbers():
    import numpy as np

    assert settings_to_code((np.float64(0.3), {"a": np.float64(2)})) == "(0.3, {'a': 2.0})"

import dataclasses
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.masters.helpers import (
    COMMON_DEFAULTS,
    COMMON_REFUSED,
    COMMON_VALUES,
    NOT_COUNTS,
    NOT_FLAGS,
    CountingHook,
    chosen_options,
)

from sparkwright.errors import ConfigurationError
from sparkwright.masters import MeshConfig, ParameterAveragingTrainingMaster

Master = ParameterAveragingTrainingMaster

DEFAULTS = {
    **COMMON_DEFAULTS,
    "averaging_frequency": 5,
    "aggregation_depth": 2,
    "save_updater": True,
    "communication": "ring",
    "share_work": False,
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **COMMON_VALUES,
    "averaging_frequency": st.integers(1, 1000),
    "aggregation_depth": st.integers(1, 9),
    "save_updater": st.booleans(),
    "communication": st.sampled_from(["ring", "spark"]),
    "share_work": st.booleans(),
}
masters = chosen_options(VALUES).map(lambda chosen: Master(**chosen))


# -- options --------------------------------------------------------------------------------


def test_the_defaults_are_the_documented_ones() -> None:
    found = {f.name: getattr(Master(), f.name) for f in dataclasses.fields(Master)}
    assert found == DEFAULTS


@pytest.mark.parametrize("option", DEFAULTS)
def test_every_option_is_documented(option: str) -> None:
    assert f"\n        {option}: " in str(Master.__doc__)


REFUSED: dict[str, list[Any]] = {
    **COMMON_REFUSED,
    "averaging_frequency": [*NOT_COUNTS, None],
    "aggregation_depth": [*NOT_COUNTS, None],
    "save_updater": NOT_FLAGS,
    "communication": ["http", None],
    "share_work": NOT_FLAGS,
}


def test_every_option_has_values_to_refuse() -> None:
    assert set(REFUSED) == set(DEFAULTS)


@pytest.mark.parametrize(("option", "value"), [(o, v) for o, vs in REFUSED.items() for v in vs])
def test_a_refusal_names_the_option_and_what_it_received(option: str, value: Any) -> None:
    options = {option: value}
    if option == "export_directory":
        options["training_approach"] = "export"
    with pytest.raises(ConfigurationError) as refused:
        Master(**options)
    text = str(refused.value)
    assert text.startswith(f"`{option}` must be ")
    assert f"Received: {option}={value!r}." in text


def test_a_choice_is_refused_with_all_choices() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Master(training_approach="paths")  # pyright: ignore[reportArgumentType]
    assert str(refused.value) == (
        "`training_approach` must be one of 'direct', 'export'. "
        "Received: training_approach='paths'."
    )


def test_an_export_directory_needs_the_export_approach() -> None:
    Master(training_approach="export", export_directory="hdfs://name/exports")
    with pytest.raises(ConfigurationError) as refused:
        Master(export_directory="hdfs://name/exports")
    assert str(refused.value) == (
        '`export_directory` is used only with `training_approach="export"`. Received: '
        "export_directory='hdfs://name/exports', training_approach='direct'."
    )


def test_a_hook_without_both_methods_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must have `pre_update` and `post_update`"):
        Master(hooks=[object()])  # pyright: ignore[reportArgumentType]


def test_a_master_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Master().workers = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_options_must_be_named() -> None:
    with pytest.raises(TypeError):
        Master(2)  # pyright: ignore[reportCallIssue]


# -- hooks ----------------------------------------------------------------------------------


def test_hooks_are_added_and_removed_in_copies() -> None:
    one, other = CountingHook(), CountingHook()
    plain = Master(workers=3)
    both = plain.with_hooks(one).with_hooks(other)
    assert (plain.hooks, both.hooks) == ((), (one, other))
    assert both.without_hooks(one).hooks == (other,)
    assert both.without_hooks(CountingHook()).hooks == (one, other)
    assert both.workers == 3


def test_hooks_are_no_part_of_equality_or_of_settings() -> None:
    hooked = Master().with_hooks(CountingHook())
    assert hooked == Master()
    assert "hooks" not in hooked.to_dict()
    assert Master.from_json(hooked.to_json()).hooks == ()


def test_hooks_may_come_as_a_list_and_become_a_tuple() -> None:
    hook = CountingHook()
    assert Master(hooks=[hook]).hooks == (hook,)  # pyright: ignore[reportArgumentType]


# -- JSON and YAML --------------------------------------------------------------------------


@given(master=masters)
def test_json_and_yaml_give_an_equal_master(master: ParameterAveragingTrainingMaster) -> None:
    assert Master.from_json(master.to_json()) == master
    assert Master.from_yaml(master.to_yaml()) == master
    assert Master.from_dict(master.to_dict()) == master


def test_json_names_the_class_and_holds_every_option_but_hooks() -> None:
    settings = json.loads(Master().to_json())
    assert settings.pop("name") == "ParameterAveragingTrainingMaster"
    assert set(settings) == set(DEFAULTS) - {"hooks"}
    assert set(settings["mesh"]) == {field.name for field in dataclasses.fields(MeshConfig)}


def test_options_left_out_take_their_defaults() -> None:
    assert Master.from_dict({}) == Master()
    assert Master.from_dict({"mesh": {"ports": 9}}) == Master(mesh=MeshConfig(ports=9))
    assert Master.from_yaml("workers: 4\nmesh: {peer_timeout_s: 60}") == Master(
        workers=4, mesh=MeshConfig(peer_timeout_s=60)
    )


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"batch_size": 3, "worker": 1},
            "unknown options ['batch_size', 'worker'] for ParameterAveragingTrainingMaster. "
            "Known are ['aggregation_depth', ",
        ),
        ({"mesh": {"port": 3}}, "unknown options ['port'] for MeshConfig. Known are ["),
        (
            {"name": "SharedTrainingMaster"},
            "`name` must be 'ParameterAveragingTrainingMaster' here. "
            "Received: name='SharedTrainingMaster'.",
        ),
        ({"workers": "4"}, "Received: workers='4'."),
        ({"mesh": "loopback"}, "`mesh` must be a MeshConfig. Received: mesh='loopback'."),
        ({"mesh": {"ports": "x"}}, "Received: ports='x'."),
        ([], "settings must be a dict. Received: []."),
        (None, "settings must be a dict. Received: None."),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: Any, text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Master.from_dict(settings)
    assert text in str(refused.value)


def test_yaml_holds_no_objects() -> None:
    with pytest.raises(Exception, match="could not determine a constructor"):
        Master.from_yaml("workers: !!python/object/apply:os.getpid []")

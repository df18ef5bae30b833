import dataclasses
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sparkwright.errors import ConfigurationError
from sparkwright.masters import MeshConfig, ParameterAveragingTrainingMaster

Master = ParameterAveragingTrainingMaster

DEFAULTS = {
    "workers": None,
    "batch_size_per_worker": 16,
    "averaging_frequency": 5,
    "aggregation_depth": 2,
    "prefetch_batches": 2,
    "save_updater": True,
    "repartition": "always",
    "repartition_strategy": "balanced",
    "storage_level": "MEMORY_ONLY",
    "storage_level_paths": "MEMORY_ONLY",
    "training_approach": "direct",
    "export_directory": None,
    "seed": None,
    "shuffle": True,
    "communication": "ring",
    "non_finite": "stop",
    "xla": "auto",
    "collect_training_stats": False,
    "hooks": (),
    "mesh": MeshConfig(),
    "checkpoint": None,
    "share_work": False,
}
LEVELS = [
    f"{level}{copies}"
    for level in (
        "MEMORY_ONLY",
        "MEMORY_ONLY_SER",
        "MEMORY_AND_DISK",
        "MEMORY_AND_DISK_SER",
        "DISK_ONLY",
    )
    for copies in ("", "_2")
]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "workers": st.none() | st.integers(1, 100),
    "batch_size_per_worker": st.integers(1, 10_000),
    "averaging_frequency": st.integers(1, 1000),
    "aggregation_depth": st.integers(1, 9),
    "prefetch_batches": st.integers(0, 100),
    "save_updater": st.booleans(),
    "repartition": st.sampled_from(["always", "never", "num_partitions_workers_differs"]),
    "repartition_strategy": st.sampled_from(["balanced", "approximate_balanced", "spark_default"]),
    "storage_level": st.sampled_from([None, *LEVELS]),
    "storage_level_paths": st.sampled_from([None, *LEVELS]),
    "seed": st.none() | st.integers(0, 2**63),
    "shuffle": st.booleans(),
    "communication": st.sampled_from(["ring", "spark"]),
    "non_finite": st.sampled_from(["stop", "continue"]),
    "xla": st.sampled_from(["auto", "on", "off", "measure"]),
    "collect_training_stats": st.booleans(),
    "mesh": st.builds(
        MeshConfig,
        network_mask=st.sampled_from([None, "10.0.0.0/16", "192.168.1.7/24"]),
        controller_address=st.sampled_from([None, "driver.example"]),
        ports=st.sampled_from([None, 50_000, "50000", "50000-50100"]),
        peer_timeout_s=st.floats(2, 1e6),
    ),
}
masters = st.fixed_dictionaries({}, optional=VALUES).map(lambda options: Master(**options))


class CountingHook:
    def pre_update(self, minibatch: Any, model: Any) -> None: ...

    def post_update(self, minibatch: Any, model: Any) -> None: ...


# -- options --------------------------------------------------------------------------------


def test_the_defaults_are_the_documented_ones() -> None:
    found = {f.name: getattr(Master(), f.name) for f in dataclasses.fields(Master)}
    assert found == DEFAULTS


@pytest.mark.parametrize("option", DEFAULTS)
def test_every_option_is_documented(option: str) -> None:
    assert f"\n        {option}: " in str(Master.__doc__)


NOT_COUNTS = [0, -1, 1.0, "3", True]
REFUSED: dict[str, list[Any]] = {
    "workers": NOT_COUNTS,
    "batch_size_per_worker": [*NOT_COUNTS, None],
    "averaging_frequency": [*NOT_COUNTS, None],
    "aggregation_depth": [*NOT_COUNTS, None],
    "prefetch_batches": [-1, 1.0, "3", True, None],
    "save_updater": [1, 0, "yes", None],
    "repartition": ["sometimes", None, ["always"]],
    "repartition_strategy": ["Balanced", None],
    "storage_level": ["memory_only", "NONE", {}],
    "storage_level_paths": ["memory_only", 1],
    "training_approach": ["indirect", None],
    "export_directory": [5, b"/tmp"],
    "seed": [-1, 1.0, "3", True],
    "shuffle": [1, None],
    "communication": ["http", None],
    "non_finite": ["raise", True],
    "xla": [True, None],
    "collect_training_stats": [1, None],
    "hooks": [5, CountingHook()],
    "mesh": [None, {"ports": 5}],
    "checkpoint": ["/data/runs/7", {"url": "/data/runs/7"}, 60],
    "share_work": [1, None],
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

import dataclasses
import json
import math
import pickle
import re
from typing import Any

import hypothesis.strategies as st
import numpy as np
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
from sparkwright.masters import Checkpointing, MeshConfig, SharedTrainingMaster
from sparkwright.masters._shared_training import automatic_workers, expected_sparsity
from sparkwright.partitions import DefaultRepartitioner, NoRepartitioner
from sparkwright.updates import (
    AdaptiveThreshold,
    FixedThreshold,
    ResidualClipping,
    TargetSparsity,
    ThresholdState,
)

Master = SharedTrainingMaster

DEFAULTS = {
    **COMMON_DEFAULTS,
    "workers_per_node": None,
    "threshold": AdaptiveThreshold(initial=1e-4, min_sparsity=1e-4, max_sparsity=1e-2),
    "residual_clipping": ResidualClipping(multiple=5.0, every=5),
    "minibatches_per_message": None,
    "per_variable_thresholds": False,
    "combine": "sum",
    "max_staleness": None,
    "repartitioner": DefaultRepartitioner(max_partitions=5000),
    "piece_minibatches": None,
    "periodic_gc": True,
    "periodic_gc_interval_s": 5.0,
    "encoding_debug_mode": False,
}
small = st.floats(1e-9, 1.0)
decays = st.floats(0.5, 0.999)
thresholds = (
    st.builds(FixedThreshold, threshold=small)
    | st.builds(
        AdaptiveThreshold,
        initial=small,
        min_sparsity=st.floats(1e-9, 1e-3),
        max_sparsity=st.floats(1e-3, 1.0),
        decay=decays,
    )
    | st.builds(TargetSparsity, initial=small, target=st.floats(1e-9, 0.06), decay=decays)
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **COMMON_VALUES,
    "threshold": thresholds,
    "residual_clipping": st.none()
    | st.builds(ResidualClipping, multiple=st.floats(1, 1e6), every=st.integers(1, 1000)),
    "per_variable_thresholds": st.booleans(),
    "combine": st.sampled_from(["sum", "mean"]),
    "max_staleness": st.none() | st.integers(0, 10**6),
    "repartitioner": st.builds(NoRepartitioner)
    | st.builds(DefaultRepartitioner, st.integers(1, 10**6)),
    "piece_minibatches": st.none() | st.integers(1, 10**6),
    "minibatches_per_message": st.none() | st.integers(1, 10**6),
    "periodic_gc": st.booleans(),
    "periodic_gc_interval_s": st.floats(1e-3, 1e6),
    "encoding_debug_mode": st.booleans(),
}
PER_NODE = {key: values for key, values in VALUES.items() if key != "workers"} | {
    "workers_per_node": st.none() | st.integers(1, 100)
}
masters = (chosen_options(VALUES) | chosen_options(PER_NODE)).map(lambda chosen: Master(**chosen))


class HalvingThreshold:
    def init(self) -> ThresholdState:
        return ThresholdState(1.0)

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        return ThresholdState(state.threshold / 2, sparsity)

    def to_dict(self) -> dict[str, Any]:
        return {"name": "halving", "configuration": {}}


class Thirds:
    def partitions(self, total: int, batch_size: int) -> int:
        return 3


# -- options --------------------------------------------------------------------------------


def test_the_defaults_are_the_documented_ones() -> None:
    found = {f.name: getattr(Master(), f.name) for f in dataclasses.fields(Master)}
    assert found == DEFAULTS


@pytest.mark.parametrize("option", DEFAULTS)
def test_every_option_is_documented_with_its_default(option: str) -> None:
    attributes = str(Master.__doc__).split("Attributes:")[1].split("Example:")[0]
    described = attributes.split(f"\n        {option}: ")[1]
    entry = re.split(r"\n        (?=\w)", described)[0]
    if option != "hooks":  # none, as everybody expects
        assert "efault" in entry


REFUSED: dict[str, list[Any]] = {
    **COMMON_REFUSED,
    "workers_per_node": [*NOT_COUNTS, -1],
    "threshold": [None, 1e-3, "adaptive", {"name": "fixed"}, AdaptiveThreshold, Thirds()],
    "residual_clipping": [5.0, True, {"multiple": 5.0}, ResidualClipping],
    "per_variable_thresholds": NOT_FLAGS,
    "combine": ["max", None, True],
    "max_staleness": [-1, 1.0, "3", True, math.inf],
    "repartitioner": [None, 5000, "balanced", DefaultRepartitioner, {"name": "default"}],
    "piece_minibatches": NOT_COUNTS,
    "minibatches_per_message": NOT_COUNTS,
    "periodic_gc": NOT_FLAGS,
    "periodic_gc_interval_s": [0, -1.0, math.nan, math.inf, "5", None, True],
    "encoding_debug_mode": NOT_FLAGS,
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


def test_a_class_in_place_of_its_instance_is_refused_with_what_it_should_be() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Master(threshold=AdaptiveThreshold)  # pyright: ignore[reportArgumentType]
    assert str(refused.value) == (
        "`threshold` must be a ThresholdAlgorithm, an object with `init` and `update` and "
        f"`to_dict`. Received: threshold={AdaptiveThreshold!r}."
    )


def test_workers_are_counted_in_one_way_only() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Master(workers=4, workers_per_node=2)
    assert str(refused.value) == (
        "`workers_per_node` and `workers` both say how many workers there are. Received: "
        "workers_per_node=2, workers=4. Give one."
    )


def test_an_export_directory_needs_the_export_approach() -> None:
    Master(training_approach="export", export_directory="hdfs://name/exports")
    with pytest.raises(ConfigurationError, match=r"^`export_directory` is used only with "):
        Master(export_directory="hdfs://name/exports")


def test_a_threshold_and_a_repartitioner_may_be_the_users_own() -> None:
    master = Master(threshold=HalvingThreshold(), repartitioner=Thirds())
    assert isinstance(master.threshold, HalvingThreshold)
    assert isinstance(master.repartitioner, Thirds)


def test_hooks_are_added_and_removed_in_copies() -> None:
    one, other = CountingHook(), CountingHook()
    plain = Master(max_staleness=3)
    both = plain.with_hooks(one, other)
    assert (plain.hooks, both.hooks) == ((), (one, other))
    assert both.without_hooks(one).hooks == (other,)
    assert both == plain
    assert "hooks" not in both.to_dict()


def test_a_master_travels_to_workers() -> None:
    master = Master(workers=3, threshold=FixedThreshold(), mesh=MeshConfig(mode="mesh"))
    assert pickle.loads(pickle.dumps(master)) == master


# -- JSON and YAML --------------------------------------------------------------------------


@given(master=masters)
def test_json_and_yaml_give_an_equal_master(master: SharedTrainingMaster) -> None:
    assert Master.from_json(master.to_json()) == master
    assert Master.from_yaml(master.to_yaml()) == master
    assert Master.from_dict(master.to_dict()) == master


def test_json_names_the_class_and_holds_every_option_but_hooks() -> None:
    settings = json.loads(Master(checkpoint=Checkpointing("/data")).to_json())
    assert settings.pop("name") == "SharedTrainingMaster"
    assert set(settings) == set(DEFAULTS) - {"hooks"}
    assert settings["threshold"]["name"] == "adaptive"
    assert settings["residual_clipping"] == {"multiple": 5.0, "every": 5}
    assert settings["repartitioner"] == {
        "name": "default",
        "configuration": {"max_partitions": 5000},
    }
    assert settings["checkpoint"]["url"] == "/data"


def test_thresholds_may_be_written_by_hand() -> None:
    # PyYAML alone takes 1e-3 for text.
    text = "threshold: {name: fixed, configuration: {threshold: 1e-3}}\nresidual_clipping: null"
    master = Master.from_yaml(text)
    assert master == Master(threshold=FixedThreshold(threshold=1e-3), residual_clipping=None)


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    master = Master(periodic_gc_interval_s=np.float64(2.5))
    assert Master.from_yaml(master.to_yaml()).periodic_gc_interval_s == 2.5


def test_of_the_users_own_repartitioner_only_the_name_is_kept() -> None:
    settings = Master(repartitioner=Thirds()).to_dict()
    assert settings["repartitioner"] == {"name": "Thirds", "configuration": {}}
    with pytest.raises(ConfigurationError, match=r"dataclasses\.replace\(master, repartitioner"):
        Master.from_dict(settings)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"staleness": 1}, "unknown options ['staleness'] for SharedTrainingMaster. Known are ["),
        ({"name": "ParameterAveragingTrainingMaster"}, "must be 'SharedTrainingMaster' here"),
        ({"threshold": {"name": "magic"}}, "'magic'"),
        ({"threshold": {"name": "fixed", "configuration": {"t": 1}}}, "'t'"),
        ({"threshold": "fixed"}, "Received: threshold='fixed'."),
        ({"residual_clipping": {"multiple": 0.5}}, "Received: multiple=0.5."),
        ({"repartitioner": {"name": "equal"}}, "Received: name='equal'."),
        (
            {"repartitioner": {"name": "default", "configuration": {"most": 3}}},
            "knows the options ['max_partitions']",
        ),
        (
            {"repartitioner": {"name": "none", "configuration": {"max_partitions": 3}}},
            "knows the options []",
        ),
        ({"checkpoint": {"every_s": 5}}, "Received: url=None."),
        ({"checkpoint": {"url": "/data", "each": 5}}, "unknown options ['each'] for Checkpointing"),
        ({"mesh": {"mode": "ring"}}, "Received: mode='ring'."),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: Any, text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Master.from_dict(settings)
    assert text in str(refused.value)


# -- how many workers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "workers"), [(1, 1), (3, 1), (7, 1), (8, 2), (15, 3), (24, 6), (28, 6), (96, 6)]
)
def test_a_machine_without_gpus_gets_a_worker_for_four_cores(cores: int, workers: int) -> None:
    assert automatic_workers(cores=cores) == workers


@pytest.mark.parametrize("gpus", [1, 4, 8])
def test_a_machine_with_gpus_gets_a_worker_for_each(gpus: int) -> None:
    assert automatic_workers(cores=64, gpus=gpus) == gpus


@given(
    executors=st.none() | st.integers(1, 50),
    cores=st.integers(1, 128),
    gpus=st.integers(0, 8),
    slots=st.none() | st.integers(1, 1000),
)
def test_automatic_workers_are_at_least_one_and_fit_into_the_slots(
    executors: int | None, cores: int, gpus: int, slots: int | None
) -> None:
    found = Master().worker_count(
        slots=slots, executors=executors, cores_per_executor=cores, gpus_per_executor=gpus
    )
    assert found >= 1
    assert slots is None or found <= slots
    if executors is not None and slots is None:
        assert found == executors * automatic_workers(cores=cores, gpus=gpus)


def test_workers_that_were_asked_for_are_not_cut_to_the_slots() -> None:
    # Too many are refused later, with a message that says how to get more slots.
    assert Master(workers=7).worker_count(slots=2, executors=2) == 7
    assert Master(workers_per_node=3).worker_count(slots=2, executors=2) == 6
    assert Master(workers_per_node=3).worker_count(slots=8, executors=None) == 3


def test_within_the_driver_all_slots_are_used() -> None:
    assert Master().worker_count(slots=3, executors=None, cores_per_executor=3) == 3
    assert Master().worker_count(slots=None, executors=None) == 1


# -- plan -----------------------------------------------------------------------------------


@given(rows=st.lists(st.integers(0, 500), max_size=6), batch_size=st.integers(1, 40))
def test_an_epoch_of_sharing_is_one_round(rows: list[int], batch_size: int) -> None:
    plan = Master(batch_size_per_worker=batch_size).plan(rows, epochs=3)
    assert (plan.kind, plan.epochs, plan.batch_size) == ("sharing", 3, batch_size)
    assert plan.rounds == (1 if any(rows) else 0)
    assert plan.minibatches_in_round(0) == plan.minibatches
    assert json.loads(json.dumps(plan.to_dict())) == plan.to_dict()


def test_the_size_of_messages_is_estimated_from_the_threshold() -> None:
    def estimate(threshold: Any) -> int:
        plan = Master(threshold=threshold).plan([160, 160, 160], vector_bytes=4_000_000)
        assert plan.bytes_per_round == 10 * 2 * plan.bytes_per_minibatch
        return plan.bytes_per_minibatch

    assert estimate(AdaptiveThreshold()) == 40_000
    assert estimate(TargetSparsity(target=2e-3)) == 8_000
    assert estimate(FixedThreshold()) == 250_000  # a bitmap's, which nothing exceeds
    assert estimate(AdaptiveThreshold(max_sparsity=0.5)) == 250_000
    assert estimate(HalvingThreshold()) == 250_000


@given(threshold=thresholds)
def test_no_message_is_expected_to_exceed_a_bitmap(threshold: Any) -> None:
    assert 0 < expected_sparsity(threshold) <= 1 / 16


def test_uneven_data_leaves_no_worker_idle_when_work_is_dealt_out() -> None:
    assert Master(batch_size_per_worker=10).plan([100, 20]).idle_fraction == 0
    assert Master(batch_size_per_worker=10).plan([20, 10]).idle_fraction == pytest.approx(1 / 4)
    assert Master().plan([]).idle_fraction == 0


def test_work_is_dealt_out_in_pieces() -> None:
    rows = [1_600_000, 1_600_000]
    assert Master().minibatches_in_piece(rows) == 40
    assert Master(piece_minibatches=7).minibatches_in_piece(rows) == 7
    assert Master(repartitioner=NoRepartitioner()).minibatches_in_piece(rows) == 200_000 // 32

"""The picker holds any master exactly, says what is wrong where it is wrong, and shows the plan."""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from ipywidgets.widgets.widget import _instances
from tests.configurations import configurations

from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    Checkpointing,
    MeshConfig,
    ParameterAveragingTrainingMaster,
    SharedTrainingMaster,
    TrainingMaster,
)
from sparkwright.networks import LayerSpec, NetworkSpec, OutputSpec
from sparkwright.updates import FixedThreshold
from sparkwright.workers.step_time import StepTime
from sparkwright_widgets._master_picker import TrainingMasterPicker, _picker
from sparkwright_widgets._master_picker._forecast_section import Surroundings
from sparkwright_widgets._workbench._summaries import master_summary

pytestmark = pytest.mark.usefixtures("comms")

KINDS = [ParameterAveragingTrainingMaster, SharedTrainingMaster]
MASTERS: st.SearchStrategy[TrainingMaster] = (
    st.sampled_from(KINDS)
    .flatmap(configurations)
    .map(lambda master: replace(master, workers=master.workers and master.workers % 99 + 1))
)


class Hook:
    def pre_update(self, minibatch: Any, model: Any) -> None: ...

    def post_update(self, minibatch: Any, model: Any) -> None: ...


class OwnThreshold:
    """A threshold algorithm of the user's own."""

    def init(self) -> Any:
        return FixedThreshold().init()

    def update(self, state: Any, *, sparsity: float) -> Any:
        return state

    def to_dict(self) -> dict[str, Any]:
        return {"name": "somebody's", "configuration": {}}


def network(units: int = 3) -> NetworkSpec:
    return NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="features", options={"shape": [4]}),
            LayerSpec(kind="Dense", name="out", options={"units": units}),
        ),
        outputs=(OutputSpec(layer="out", loss="mse"),),
        task="regression",
    )


def field(picker: TrainingMasterPicker, *path: str) -> Any:
    """The field of an option, whose fold is opened if need be."""
    return picker.form.field(*path)


@pytest.mark.parametrize("own", ["hooks", "threshold"])
def test_hooks_and_custom_objects_are_kept(own: str) -> None:
    given = {"hooks": [Hook()], "threshold": OwnThreshold()}[own]
    master = SharedTrainingMaster(**{own: given})
    picker = TrainingMasterPicker(master)
    for group in picker.form.groups.values():
        group.set_opened(True)
    field(picker, "workers").control.value = "3"
    assert getattr(picker.master, own) == getattr(master, own)
    assert picker.master.workers == 3


def test_custom_object_can_be_selected_again() -> None:
    picker = TrainingMasterPicker(SharedTrainingMaster(threshold=OwnThreshold()))
    own = picker.master.threshold
    field(picker, "threshold").control.value = "fixed"
    assert picker.master.threshold == FixedThreshold()
    field(picker, "threshold").control.value = "own"
    assert picker.master.threshold is own


def test_master_of_another_class_raises() -> None:
    class Mine(ParameterAveragingTrainingMaster):
        pass

    with pytest.raises(ConfigurationError, match="Received: Mine"):
        TrainingMasterPicker(Mine())


# --- the widget


def test_typed_values_are_stored_and_reported() -> None:
    picker = TrainingMasterPicker()
    told: list[Any] = []
    picker.on_change(lambda part: told.append(part.master))
    field(picker, "averaging_frequency").control.value = "10"
    field(picker, "mesh", "peer_timeout_s").control.value = "20"
    field(picker, "checkpoint").control.value = True
    assert picker.problem.startswith("`url` must be")
    field(picker, "checkpoint", "url").control.value = "/data/runs/7"
    assert picker.problem is None
    assert picker.master == ParameterAveragingTrainingMaster(
        averaging_frequency=10,
        mesh=MeshConfig(peer_timeout_s=20),
        checkpoint=Checkpointing("/data/runs/7", every_s=None),
    )
    assert told[-1] == picker.master


def test_frequency_by_epoch_is_shown_and_typed() -> None:
    picker = TrainingMasterPicker(
        ParameterAveragingTrainingMaster(averaging_frequency={1: 1, 3: 5})
    )
    frequency = field(picker, "averaging_frequency")
    assert frequency.control.value == "1: 1, 3: 5"
    field(picker, "workers").control.value = "3"
    assert picker.master.averaging_frequency == {1: 1, 3: 5}
    assert (
        (master_summary(picker.master, parallel=False)[1])
        == "parameter averaging every 1 minibatches, from epoch 3 every 5, batch size 16"
    )
    frequency.control.value = "1: 1, 2: 10"
    assert picker.master.averaging_frequency == {1: 1, 2: 10}
    frequency.control.value = "2: 10"
    assert frequency.problem.startswith("`averaging_frequency` must be an integer, or integers by")
    assert picker.master.averaging_frequency == {1: 1, 2: 10}


@pytest.mark.parametrize(
    ("path", "typed", "said"),
    [
        (("workers",), "0", "`workers` must be an integer of at least 1"),
        (("workers",), "many", "Received: workers='many'"),
        (("export_directory",), "/tmp", "`export_directory` is used only with `training_approach"),
        (("mesh", "network_mask"), "10.0", "`network_mask` must be an IPv4 network"),
        (("mesh", "max_pending_bytes"), "2048", "`max_pending_bytes` must be at least"),
    ],
)
def test_errors_are_shown_at_their_field(path: Any, typed: str, said: str) -> None:
    picker = TrainingMasterPicker()
    before = picker.master
    wrong = field(picker, *path)
    good = wrong.control.value
    wrong.control.value = typed
    assert said in picker.problem
    assert said in wrong.problem
    assert 'role="alert"' in wrong.alert.value
    assert picker.master == before
    wrong.control.value = good
    assert picker.problem is None
    assert wrong.problem == ""


def test_contradictory_thresholds_are_rejected_at_the_field() -> None:
    picker = TrainingMasterPicker(SharedTrainingMaster())
    field(picker, "threshold", "min_sparsity").control.value = "0.5"
    assert "must not be above" in field(picker, "threshold", "min_sparsity").problem
    field(picker, "threshold").control.value = "fixed"
    assert picker.problem is None
    assert picker.master.threshold == FixedThreshold()
    field(picker, "threshold", "threshold").control.value = "0.01"
    assert picker.master.threshold == FixedThreshold(threshold=0.01)


def test_local_training_rejects_options_that_need_spark() -> None:
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(communication="spark"))
    assert picker.problem is None
    picker.place.value = True
    assert picker.parallel
    assert "has no Spark" in picker.problem
    assert picker.form.groups["Messages between workers"].opened
    assert "has no Spark" in field(picker, "communication").problem
    field(picker, "communication").control.value = "ring"
    assert picker.problem is None


@pytest.mark.thorough
@settings(max_examples=10)
@given(MASTERS)
def test_switching_the_kind_and_back_loses_nothing(master: TrainingMaster) -> None:
    picker = TrainingMasterPicker(master)
    told: list[Any] = []
    picker.on_change(told.append)
    picker.kind.value = next(kind for kind in KINDS if kind is not type(master))
    assert type(picker.master) is picker.kind.value
    assert picker.master.batch_size_per_worker == master.batch_size_per_worker
    assert picker.master.mesh == master.mesh
    assert len(told) == 1
    picker.kind.value = type(master)
    assert picker.master == master
    picker.close()


@pytest.mark.parametrize(
    ("averaging", "sharing"), [("ring", "mesh"), ("driver", "driver"), ("spark", "mesh")]
)
def test_switching_the_kind_keeps_an_equivalent_communication_option(
    averaging: Any, sharing: str
) -> None:
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(communication=averaging))
    picker.kind.value = SharedTrainingMaster
    assert picker.problem is None
    assert picker.master == SharedTrainingMaster(communication=sharing)
    picker.kind.value = ParameterAveragingTrainingMaster
    assert picker.master == ParameterAveragingTrainingMaster(communication=averaging)
    picker.close()


def test_closing_frees_the_widgets_of_both_kinds() -> None:
    before = set(_instances)
    picker = TrainingMasterPicker()
    for kind in (SharedTrainingMaster, ParameterAveragingTrainingMaster):
        picker.kind.value = kind
        for group in picker.form.groups.values():
            group.set_opened(True)
    picker.kind.value = SharedTrainingMaster
    field(picker, "threshold").control.value = "fixed"
    assert len(_instances) > len(before) + 300
    picker.close()
    assert set(_instances) == before


# --- the plan


def test_plan_follows_data_network_and_form() -> None:
    picker = TrainingMasterPicker()
    assert "The number of workers is not known" in picker.forecast
    picker.set_context(rows=[1000, 0, 510], slots=2)
    assert "Workers: 2" in picker.forecast
    assert "Rounds per epoch: 10" in picker.forecast
    assert "Examples per round: 160" in picker.forecast
    assert "measure it" in picker.forecast
    field(picker, "averaging_frequency").control.value = "24"
    assert "Rounds per epoch: 2" in picker.forecast
    picker.set_context(rows=[1000, 0, 510], slots=2, network=network())
    assert "Sent per round and worker: 180 B" in picker.forecast  # 15 parameters with Adam
    assert "More workers pay off if one minibatch takes" in picker.forecast
    picker.assumptions.fields["step_ms"].control.value = "200"
    assert "Scales well. 24 minibatches of 200 ms take 4.8 s" in picker.forecast
    assert "Speed-up over one worker: 2.0 times" in picker.forecast
    assert "200 ms" in picker.plan.value


def test_additional_notes_are_shown() -> None:
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(workers=4, repartition="never"))
    picker.set_context(rows=[100, 100], slots=2)
    assert "Spark has 2 task slots, fewer than the 4 workers" in picker.forecast
    assert "2 workers have no data" in picker.forecast
    assert (
        "The last minibatch of 2 workers is smaller: 4 examples instead of 16." in picker.forecast
    )
    picker.parallel = True
    assert "task slots" not in picker.forecast
    assert "have no data" not in picker.forecast  # there the data is always balanced
    field(picker, "workers").control.value = "999"
    assert "999 workers share the" in picker.forecast


def note_buttons(picker: TrainingMasterPicker) -> dict[str, Any]:
    """The buttons in the notes, by their text."""
    notes = picker.notes_box.children
    return {button.description: button for note in notes for button in note.children[1:]}


@pytest.mark.parametrize(
    ("options", "rows", "label", "solved"),
    [
        ({"workers": 50}, [100, 100], "Use 2 workers", "task slots"),
        ({"workers": 2, "repartition": "never"}, [100, 0], "Repartition: balanced", "no data"),
        ({"workers": 2, "repartition": "never"}, [100, 0], "Use 1 worker", "no data"),
        ({"workers": 2, "repartition": "never"}, [900, 100], "Repartition: balanced", "wait"),
        ({"averaging_frequency": 99}, [640, 640], "Average after 4 minibatches", "only once"),
    ],
)
def test_plan_problems_are_solved_by_a_button(
    options: Any, rows: Any, label: str, solved: str
) -> None:
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(**options))
    told: list[Any] = []
    picker.on_change(lambda part: told.append(part.master))
    picker.set_context(rows=rows, slots=2)
    assert solved in picker.forecast
    note_buttons(picker)[label].click()
    assert solved not in picker.forecast
    assert told == [picker.master]
    assert label not in note_buttons(picker)


def test_settings_that_do_not_solve_a_problem_are_not_offered() -> None:
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(workers=2))
    picker.set_context(rows=[1, 0], slots=2)  # one example for two workers
    assert list(note_buttons(picker)) == ["Use 1 worker"]


def test_plan_is_drawn_with_a_lane_per_worker() -> None:
    picker = TrainingMasterPicker(
        ParameterAveragingTrainingMaster(workers=10, repartition="never", averaging_frequency=10)
    )
    assert "sparkwright-lane" not in picker.plan.value
    picker.set_context(rows=[1600, 800, *[160] * 8], slots=10, network=network())
    lanes = picker.plan.value
    assert lanes.count('"sparkwright-lane"') == 8
    assert "width:100.00%" in lanes
    assert "width:50.00%" in lanes
    assert "2 more workers are not drawn" in lanes
    assert "10 rounds" in lanes
    picker.assumptions.fields["step_ms"].control.value = "20"
    assert "One round: 10 minibatches 200 ms, averaging" in picker.plan.value


@given(
    MASTERS,
    st.none() | st.lists(st.integers(0, 10_000), max_size=30),
    st.none() | st.integers(1, 64),
    st.none() | st.floats(1e-5, 10),
    st.none() | st.integers(0, 10**9),
    st.booleans(),
)
def test_any_environment_produces_a_forecast(
    master: Any, rows: Any, slots: Any, step_s: Any, size: Any, parallel: bool
) -> None:
    around = Surroundings(
        rows=None if rows is None else tuple(rows), slots=slots, step_s=step_s, vector_bytes=size
    )
    found = around.prospect(master, parallel=parallel)
    forecast = _picker.ForecastSection(found=found, slots=slots, cores=2 if parallel else None)
    assert forecast.verdict[-1].endswith(".")
    for label, value in forecast.figures:
        assert label in forecast.html()
        assert value in forecast.text()


def test_measurement_requires_a_network() -> None:
    picker = TrainingMasterPicker()
    assert picker.measure_button.disabled
    assert "Choose a network" in picker.measure_reason.value
    picker.set_context(network=NetworkSpec())
    assert picker.measure_button.disabled
    assert "cannot be trained yet" in picker.measure_reason.value
    picker.set_context(network=network())
    assert not picker.measure_button.disabled


def measured(seconds: float) -> StepTime:
    return StepTime(
        seconds=seconds,
        batch_size=16,
        steps=9,
        vector_bytes=60,
        updater_bytes=120,
        cores=1,
        device="CPU",
    )


def test_measured_step_fills_in_the_field(monkeypatch: pytest.MonkeyPatch) -> None:
    picker = TrainingMasterPicker()
    asked, may_end = [], threading.Event()

    def measure_step(model: Any, batch_size: int, *, xla: str) -> StepTime:
        asked.append((model, batch_size, xla))
        assert may_end.wait(20)
        return measured(0.0123456)

    monkeypatch.setattr(_picker, "measure_step", measure_step)
    monkeypatch.setattr(NetworkSpec, "build", lambda self: "a model")
    picker.set_context(network=network(), slots=2)
    picker.measure_button.click()
    assert picker.measure_button.disabled
    assert "Measuring one step" in picker.doing.value
    may_end.set()
    assert picker.settle(20)
    assert asked == [("a model", 16, "auto")]
    assert picker.assumptions.values["step_ms"] == 12.35
    assert "5 minibatches of 12.3 ms" in picker.forecast
    assert "the CPU, with 1 thread: 9 minibatches, 1,296 examples/s" in picker.measure_reason.value
    assert not picker.measure_button.disabled
    field(picker, "batch_size_per_worker").control.value = "64"
    assert picker.assumptions.values["step_ms"] is None  # that was another minibatch
    assert "Measured" not in picker.measure_reason.value
    assert "workers pay off if" in picker.forecast


def test_failed_measurement_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_step(*_: Any, **__: Any) -> StepTime:
        raise ConfigurationError("<b>no</b> step")

    picker = TrainingMasterPicker()
    monkeypatch.setattr(_picker, "measure_step", measure_step)
    monkeypatch.setattr(NetworkSpec, "build", lambda self: "a model")
    picker.set_context(network=network(), slots=2)
    picker.measure_button.click()
    assert picker.settle(20)
    assert "&lt;b&gt;no" in picker.error.value
    assert not picker.measure_button.disabled


# --- text, and what stays


def test_text_is_written_read_and_rejected_if_invalid() -> None:
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(hooks=[Hook()]))
    picker.text_fold.button.click()
    assert "averaging_frequency: 5" in picker.text.text.value
    picker.text.text.value = picker.text.text.value.replace("frequency: 5", "frequency: 9")
    told: list[Any] = []
    picker.on_change(told.append)
    picker.text.apply_button.click()
    assert picker.master.averaging_frequency == 9
    assert len(picker.master.hooks) == 1
    assert len(told) == 1
    picker.text.form.value = "json"
    settings = json.loads(picker.text.text.value)
    assert settings["averaging_frequency"] == 9
    picker.text.text.value = '{"name": "SharedTrainingMaster", "workers": 3}'
    picker.text.apply_button.click()
    assert picker.master == SharedTrainingMaster(workers=3, hooks=picker.master.hooks)
    assert picker.kind.value is SharedTrainingMaster
    for wrong, said in (("{", "must be JSON"), ('{"workers": 0}', "`workers` must be")):
        picker.text.text.value = wrong
        picker.text.apply_button.click()
        assert said in picker.text.alert.value
        assert "The value is unchanged." in picker.text.alert.value
        assert picker.master.workers == 3
    picker.text.drop_button.click()
    assert json.loads(picker.text.text.value)["workers"] == 3
    picker.text.form.value = "yaml"
    picker.text.text.value = "a: [1"
    picker.text.apply_button.click()
    assert "must be YAML" in picker.text.alert.value


def test_user_text_stays_while_the_form_changes() -> None:
    picker = TrainingMasterPicker()
    picker.text_fold.button.click()
    picker.text.text.value = "workers: 5"
    field(picker, "averaging_frequency").control.value = "8"
    assert picker.text.text.value == "workers: 5"


def test_saved_notebook_shows_the_selected_options() -> None:
    picker = TrainingMasterPicker(
        ParameterAveragingTrainingMaster(
            workers=2, checkpoint=Checkpointing("/data/<b>7</b>", every_rounds=3)
        )
    )
    bundle = picker._repr_mimebundle_()
    assert "Parameter averaging on Spark." in bundle["text/plain"]
    assert "checkpoint.every_rounds" in bundle["text/html"]
    assert "/data/&lt;b&gt;7" in bundle["text/html"]
    assert "<b>7" not in bundle["text/html"]


def test_recommended_settings_are_shown_and_applied() -> None:
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(seed=7))
    picker.set_context(network=network(30_000), slots=2)
    assert picker.recommend_button.disabled
    assert "Advice" not in picker.forecast
    picker.assumptions.set({"step_ms": 10.0, "bandwidth_gbit": 1.0})
    picker._assumed("step_ms")
    assert 'Advice: Set `updater="local"' in picker.forecast
    assert "Alternatives, the safest first" in picker.plan.value
    picker.recommend_button.click()
    assert isinstance(picker.master, ParameterAveragingTrainingMaster)
    assert (picker.master.updater, picker.master.seed) == ("local", 7)
    # The recommended settings need no further change.
    assert picker.recommend_button.disabled
    assert "Advice: Keep the settings" in picker.forecast


def test_more_workers_than_slots_are_reported_at_the_field() -> None:
    picker = TrainingMasterPicker()
    picker.set_context(slots=2)
    field(picker, "workers").control.value = "50"
    assert "50 workers need one task slot each" in field(picker, "workers").alert.value
    assert "50 workers" in (picker.problem or "")
    assert picker.master.workers == 50
    field(picker, "batch_size_per_worker").control.value = "8"
    assert "50 workers" in field(picker, "workers").alert.value
    picker.set_context(slots=50)
    assert picker.problem is None
    assert field(picker, "workers").alert.value == ""
    picker.set_context(slots=2)
    picker.parallel = True  # processes need no slots
    assert picker.problem is None


def test_seed_field_refers_to_the_seed_of_the_experiment() -> None:
    picker = TrainingMasterPicker()
    picker.set_context(seed=7)
    assert field(picker, "seed").control.placeholder == "the experiment's: 7"
    picker.kind.value = SharedTrainingMaster
    assert field(picker, "seed").control.placeholder == "the experiment's: 7"
    picker.set_context()
    assert "random for each run" in field(picker, "seed").control.placeholder

import json
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from ipywidgets.widgets.widget import _instances
from tests.cases import cases
from tests.configurations import configurations

from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    Checkpointing,
    MeshConfig,
    ParameterAveragingTrainingMaster,
    SharedTrainingMaster,
)
from sparkwright.networks import LayerSpec, NetworkSpec, OutputSpec
from sparkwright.updates import FixedThreshold
from sparkwright.workers.step_time import StepTime
from sparkwright_widgets._master_picker import TrainingMasterPicker, _picker
from sparkwright_widgets._master_picker._forecast_section import Surroundings
from sparkwright_widgets._workbench._summaries import master_summary

pytestmark = pytest.mark.usefixtures("comms")

KINDS = [ParameterAveragingTrainingMaster, SharedTrainingMaster]
MASTERS = (
    st.sampled_from(KINDS)
    .flatmap(configurations)
    .map(lambda master: replace(master, workers=master.workers and master.workers % 99 + 1))
)


class Hook:
    def pre_update(self, minibatch, model): ...

    def post_update(self, minibatch, model): ...


class OwnThreshold:
    """A threshold algorithm of the user's own."""

    def init(self):
        return FixedThreshold().init()

    def update(self, state, *, sparsity):
        return state

    def to_dict(self):
        return {"name": "somebody's", "configuration": {}}


def network(units=3):
    return NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="features", options={"shape": [4]}),
            LayerSpec(kind="Dense", name="out", options={"units": units}),
        ),
        outputs=(OutputSpec(layer="out", loss="mse"),),
        task="regression",
    )


def test_hooks_and_custom_objects_are_kept():
    master = SharedTrainingMaster(hooks=[Hook()], threshold=OwnThreshold())
    picker = TrainingMasterPicker(master)
    for group in picker.form.groups.values():
        group.set_opened(True)
    picker.form.field("workers").control.value = "3"
    assert picker.master == replace(master, workers=3)
    picker.form.field("threshold").control.value = "fixed"
    assert picker.master.threshold == FixedThreshold()
    picker.form.field("threshold").control.value = "own"
    assert picker.master.threshold is master.threshold


def test_master_of_another_class_raises():
    class Mine(ParameterAveragingTrainingMaster):
        pass

    with pytest.raises(ConfigurationError, match="Received: Mine"):
        TrainingMasterPicker(Mine())


def test_typed_values_are_stored_and_reported():
    picker = TrainingMasterPicker()
    told = []
    picker.on_change(lambda part: told.append(part.master))
    picker.form.field("averaging_frequency").control.value = "10"
    picker.form.field("mesh", "peer_timeout_s").control.value = "20"
    picker.form.field("checkpoint").control.value = True
    assert picker.problem.startswith("`url` must be")
    picker.form.field("checkpoint", "url").control.value = "/data/runs/7"
    assert picker.problem is None
    assert picker.master == ParameterAveragingTrainingMaster(
        averaging_frequency=10,
        mesh=MeshConfig(peer_timeout_s=20),
        checkpoint=Checkpointing("/data/runs/7", every_s=None),
    )
    assert told[-1] == picker.master


def test_frequency_by_epoch_is_shown_and_typed():
    picker = TrainingMasterPicker(
        ParameterAveragingTrainingMaster(averaging_frequency={1: 1, 3: 5})
    )
    frequency = picker.form.field("averaging_frequency")
    assert frequency.control.value == "1: 1, 3: 5"
    picker.form.field("workers").control.value = "3"
    assert picker.master.averaging_frequency == {1: 1, 3: 5}
    _, summary = master_summary(picker.master, parallel=False)
    expected = "parameter averaging every 1 minibatches, from epoch 3 every 5, batch size 16"
    assert summary == expected
    frequency.control.value = "1: 1, 2: 10"
    assert picker.master.averaging_frequency == {1: 1, 2: 10}
    frequency.control.value = "2: 10"
    assert frequency.problem.startswith("`averaging_frequency` must be an integer, or integers by")
    assert picker.master.averaging_frequency == {1: 1, 2: 10}


def test_local_training_rejects_options_that_need_spark():
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(communication="spark"))
    assert picker.problem is None
    picker.place.value = True
    assert picker.parallel
    assert "has no Spark" in picker.problem
    assert picker.form.groups["Messages between workers"].opened
    assert "has no Spark" in picker.form.field("communication").problem
    picker.form.field("communication").control.value = "ring"
    assert picker.problem is None


@pytest.mark.thorough
@settings(max_examples=10)
@given(MASTERS)
def test_switching_the_kind_and_back_loses_nothing(master):
    picker = TrainingMasterPicker(master)
    told = []
    picker.on_change(told.append)
    picker.kind.value = next(kind for kind in KINDS if kind is not type(master))
    assert type(picker.master) is picker.kind.value
    assert picker.master.batch_size_per_worker == master.batch_size_per_worker
    assert picker.master.mesh == master.mesh
    assert len(told) == 1
    picker.kind.value = type(master)
    assert picker.master == master
    picker.close()


@cases("averaging, sharing", ("ring", "mesh"), ("driver", "driver"), ("spark", "mesh"))
def test_switching_the_kind_keeps_an_equivalent_communication_option(averaging, sharing):
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(communication=averaging))
    picker.kind.value = SharedTrainingMaster
    assert picker.problem is None
    assert picker.master == SharedTrainingMaster(communication=sharing)


def test_closing_frees_the_widgets_of_both_kinds():
    before = set(_instances)
    picker = TrainingMasterPicker()
    for kind in (SharedTrainingMaster, ParameterAveragingTrainingMaster):
        picker.kind.value = kind
        for group in picker.form.groups.values():
            group.set_opened(True)
    picker.kind.value = SharedTrainingMaster
    picker.form.field("threshold").control.value = "fixed"
    assert len(_instances) > len(before) + 300
    picker.close()
    assert set(_instances) == before


def test_plan_follows_data_network_and_form():
    picker = TrainingMasterPicker()
    assert "The number of workers is not known" in picker.forecast
    picker.set_context(rows=[1000, 0, 510], slots=2)
    assert "Workers: 2" in picker.forecast
    assert "Rounds per epoch: 10" in picker.forecast
    assert "Examples per round: 160" in picker.forecast
    assert "measure it" in picker.forecast
    picker.form.field("averaging_frequency").control.value = "24"
    assert "Rounds per epoch: 2" in picker.forecast
    picker.set_context(rows=[1000, 0, 510], slots=2, network=network())
    assert "Sent per round and worker: 180 B" in picker.forecast  # 15 parameters with Adam
    assert "More workers pay off if one minibatch takes" in picker.forecast
    picker.assumptions.fields["step_ms"].control.value = "200"
    assert "Scales well. 24 minibatches of 200 ms take 4.8 s" in picker.forecast
    assert "Speed-up over one worker: 2.0 times" in picker.forecast
    assert "200 ms" in picker.plan.value


def test_additional_notes_are_shown():
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
    picker.form.field("workers").control.value = "999"
    assert "999 workers share the" in picker.forecast


def note_buttons(picker):
    """The buttons in the notes, by their text."""
    notes = picker.notes_box.children
    return {button.description: button for note in notes for button in note.children[1:]}


@cases(
    "options, rows, label, solved",
    ({"workers": 50}, [100, 100], "Use 2 workers", "task slots"),
    ({"workers": 2, "repartition": "never"}, [100, 0], "Repartition: balanced", "no data"),
    ({"workers": 2, "repartition": "never"}, [100, 0], "Use 1 worker", "no data"),
    ({"workers": 2, "repartition": "never"}, [900, 100], "Repartition: balanced", "wait"),
    ({"averaging_frequency": 99}, [640, 640], "Average after 4 minibatches", "only once"),
)
def test_plan_problems_are_solved_by_a_button(options, rows, label, solved):
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(**options))
    told = []
    picker.on_change(lambda part: told.append(part.master))
    picker.set_context(rows=rows, slots=2)
    assert solved in picker.forecast
    note_buttons(picker)[label].click()
    assert solved not in picker.forecast
    assert told == [picker.master]
    assert label not in note_buttons(picker)


def test_settings_that_do_not_solve_a_problem_are_not_offered():
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(workers=2))
    picker.set_context(rows=[1, 0], slots=2)  # one example for two workers
    assert list(note_buttons(picker)) == ["Use 1 worker"]


def test_plan_is_drawn_with_a_lane_per_worker():
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
def test_any_environment_produces_a_forecast(master, rows, slots, step_s, size, parallel):
    around = Surroundings(
        rows=None if rows is None else tuple(rows), slots=slots, step_s=step_s, vector_bytes=size
    )
    found = around.advice(master, parallel=parallel)
    forecast = _picker.ForecastSection(found=found, slots=slots, cores=2 if parallel else None)
    assert forecast.verdict[-1].endswith(".")
    for label, value in forecast.figures:
        assert label in forecast.html()
        assert value in forecast.text()


def test_measured_step_fills_in_the_field(monkeypatch):
    picker = TrainingMasterPicker()
    asked, may_end = [], threading.Event()

    def measure_step(model, batch_size, *, xla):
        asked.append((model, batch_size, xla))
        assert may_end.wait(20)
        sizes = {"vector_bytes": 60, "updater_bytes": 120}
        return StepTime(seconds=0.0123456, batch_size=16, steps=9, cores=1, device="CPU", **sizes)

    monkeypatch.setattr(_picker, "measure_step", measure_step)
    monkeypatch.setattr(NetworkSpec, "build", lambda self: "a model")
    assert picker.measure_button.disabled
    assert "Choose a network" in picker.measure_reason.value
    picker.set_context(network=NetworkSpec())
    assert picker.measure_button.disabled
    assert "cannot be trained yet" in picker.measure_reason.value
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
    picker.form.field("batch_size_per_worker").control.value = "64"
    assert picker.assumptions.values["step_ms"] is None  # that was another minibatch
    assert "Measured" not in picker.measure_reason.value
    assert "workers pay off if" in picker.forecast


@pytest.fixture
def typing():
    """A picker whose text is shown."""
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(hooks=[Hook()]))
    picker.text_fold.button.click()
    return picker


def apply(picker, text):
    picker.text.text.value = text
    picker.text.apply_button.click()


def test_applied_text_changes_the_options_it_names(typing):
    told = []
    typing.on_change(told.append)
    apply(
        typing, typing.text.text.value.replace("averaging_frequency: 5", "averaging_frequency: 9")
    )
    assert typing.master.averaging_frequency == 9
    assert len(typing.master.hooks) == 1
    assert len(told) == 1
    typing.text.form.value = "json"
    assert json.loads(typing.text.text.value)["averaging_frequency"] == 9
    apply(typing, '{"name": "SharedTrainingMaster", "workers": 3}')
    assert typing.master == SharedTrainingMaster(workers=3, hooks=typing.master.hooks)
    assert typing.kind.value is SharedTrainingMaster


@cases(
    "form, text, said",
    ("json", "{", "must be JSON"),
    ("json", '{"name": "SharedTrainingMaster", "workers": 0}', "`workers` must be"),
    ("yaml", "a: [1", "must be YAML"),
)
def test_invalid_text_stays_until_it_is_dropped(typing, form, text, said):
    before = typing.master
    typing.text.form.value = form
    shown = typing.text.text.value
    apply(typing, text)
    assert said in typing.text.alert.value
    assert "The value is unchanged." in typing.text.alert.value
    assert typing.master == before
    typing.form.field("seed").control.value = "8"  # does not overwrite it either
    assert typing.text.text.value == text
    typing.form.field("seed").control.value = ""
    typing.text.drop_button.click()
    assert typing.text.text.value == shown


def test_saved_notebook_shows_the_selected_options():
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


def test_recommended_settings_are_shown_and_applied():
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(seed=7))
    picker.set_context(network=network(30_000), slots=2)
    assert picker.recommend_button.disabled
    assert "Advice" not in picker.forecast
    picker.assumptions.set({"step_ms": 10.0, "bandwidth_gbit": 1.0})
    picker._assumed("step_ms")
    assert 'Advice: Set `updater="local"' in picker.forecast
    assert "Alternatives, the safest first" in picker.plan.value
    assert "Memory of a worker's process: about" in picker.forecast
    picker.recommend_button.click()
    assert isinstance(picker.master, ParameterAveragingTrainingMaster)
    assert (picker.master.updater, picker.master.seed) == ("local", 7)
    # The recommended settings need no further change.
    assert picker.recommend_button.disabled
    assert "Advice: Keep the settings" in picker.forecast


def test_more_workers_than_slots_are_reported_at_the_field():
    picker = TrainingMasterPicker()
    picker.set_context(slots=2)
    picker.form.field("workers").control.value = "50"
    assert "50 workers need one task slot each" in picker.form.field("workers").alert.value
    assert "50 workers" in (picker.problem or "")
    assert picker.master.workers == 50
    picker.form.field("batch_size_per_worker").control.value = "8"
    assert "50 workers" in picker.form.field("workers").alert.value
    picker.set_context(slots=50)
    assert picker.problem is None
    assert picker.form.field("workers").alert.value == ""
    picker.set_context(slots=2)
    picker.parallel = True  # processes need no slots
    assert picker.problem is None


def test_seed_field_refers_to_the_seed_of_the_experiment():
    picker = TrainingMasterPicker()
    picker.set_context(seed=7)
    assert picker.form.field("seed").control.placeholder == "the experiment's: 7"
    picker.kind.value = SharedTrainingMaster
    assert picker.form.field("seed").control.placeholder == "the experiment's: 7"
    picker.set_context()
    assert "random for each run" in picker.form.field("seed").control.placeholder

"""The picker holds any master exactly, says what is wrong where it is wrong, and shows the plan."""

import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sparkwright.configuration import nested_options, plain_options
from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    Checkpointing,
    MeshConfig,
    ParameterAveragingTrainingMaster,
    SharedTrainingMaster,
    TrainingMaster,
)
from sparkwright.networks import LayerSpec, NetworkSpec, OutputSpec
from sparkwright.partitions import DefaultRepartitioner, NoRepartitioner
from sparkwright.updates import (
    AdaptiveThreshold,
    FixedThreshold,
    ResidualClipping,
    TargetSparsity,
)
from sparkwright.workers._step_time import StepTime
from sparkwright_widgets._master_picker import TrainingMasterPicker, _picker
from sparkwright_widgets._master_picker._draft import Draft
from sparkwright_widgets._master_picker._outlook import Surroundings
from sparkwright_widgets._master_picker._words import AVERAGING, SHARING

pytestmark = pytest.mark.usefixtures("comms")

COMMON: dict[str, st.SearchStrategy[Any]] = {
    "workers": st.none() | st.integers(1, 99),
    "batch_size_per_worker": st.integers(1, 4096),
    "repartition": st.sampled_from(["always", "never", "num_partitions_workers_differs"]),
    "storage_level": st.sampled_from([None, "MEMORY_AND_DISK_2"]),
    "seed": st.none() | st.integers(0, 2**63),
    "shuffle": st.booleans(),
    "mesh": st.builds(
        MeshConfig,
        network_mask=st.sampled_from([None, "10.0.0.0/16"]),
        ports=st.sampled_from([None, 50_000, "50000-50100", "env:TRAINING_PORT"]),
        peer_timeout_s=st.floats(2, 1e6),
        mode=st.sampled_from(["plain", "mesh"]),
    ),
    "checkpoint": st.none()
    | st.builds(
        Checkpointing,
        st.sampled_from(["/data/runs/7", "s3://bucket/ü"]),
        every_rounds=st.none() | st.integers(1, 100),
        every_s=st.none() | st.floats(0.1, 1e6),
    ),
}
sizes = st.floats(1e-6, 1e-2)
MASTERS: st.SearchStrategy[TrainingMaster] = st.one_of(
    st.builds(
        ParameterAveragingTrainingMaster,
        averaging_frequency=st.integers(1, 500),
        save_updater=st.booleans(),
        communication=st.sampled_from(["ring", "spark"]),
        **COMMON,
    ),
    st.builds(
        SharedTrainingMaster,
        threshold=st.one_of(
            st.builds(FixedThreshold, threshold=sizes),
            st.builds(TargetSparsity, initial=sizes, target=sizes),
            st.builds(AdaptiveThreshold, initial=sizes, decay=st.floats(0.5, 0.99)),
        ),
        residual_clipping=st.none() | st.builds(ResidualClipping, multiple=st.floats(1, 99)),
        repartitioner=st.just(NoRepartitioner())
        | st.builds(DefaultRepartitioner, st.integers(1, 9999)),
        max_staleness=st.none() | st.integers(0, 99),
        combine=st.sampled_from(["sum", "mean"]),
        **COMMON,
    ),
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
    form = picker.form
    if len(path) == 1 and path[0] in form.usual.fields:
        return form.usual.fields[path[0]]
    for group in form.groups.values():
        group.set_opened(True)
        if len(path) == 1 and path[0] in group.form.fields:
            return group.form.fields[path[0]]
        nested = group.nested.get(path[0])
        if nested is not None:
            return (nested.kind if len(path) == 1 else nested.form).fields[path[-1]]
    raise KeyError(path)


# --- drafts


@given(MASTERS)
def test_a_draft_makes_the_master_that_it_was_made_of(master: TrainingMaster) -> None:
    assert Draft.of(master).examined() == (master, {})


@given(MASTERS)
def test_a_draft_set_value_by_value_makes_the_same_master(master: TrainingMaster) -> None:
    wanted, draft = Draft.of(master), Draft.of(type(master)())
    for option in plain_options(type(master)):
        draft = draft.with_value((option.name,), wanted.value((option.name,)))
    for nested in nested_options(type(master)):
        kind = wanted.value((nested.name,))
        draft = draft.with_value((nested.name,), kind)
        for option in plain_options(nested.kinds[kind]) if kind else ():
            path = (nested.name, option.name)
            draft = draft.with_value(path, wanted.value(path))
    assert draft.examined()[0] == master


@given(MASTERS)
def test_changing_the_kind_and_back_loses_nothing(master: TrainingMaster) -> None:
    draft = Draft.of(master)
    kinds = [ParameterAveragingTrainingMaster, SharedTrainingMaster]
    other = next(kind for kind in kinds if kind is not type(master))
    there = draft.as_kind(other.__name__)
    found = there.examined()[0]
    assert type(found) is other
    assert found.batch_size_per_worker == master.batch_size_per_worker
    assert found.mesh == master.mesh
    assert there.as_kind(type(master).__name__, draft.settings).examined()[0] == master


def test_hooks_and_objects_of_ones_own_are_kept() -> None:
    master = SharedTrainingMaster(threshold=OwnThreshold(), hooks=[Hook()])
    found, problems = Draft.of(master).with_value(("workers",), 3).examined()
    assert not problems
    assert found.hooks == master.hooks
    assert found.threshold is master.threshold
    assert found.workers == 3


def test_changed_options_are_those_that_are_not_default() -> None:
    assert Draft.of(SharedTrainingMaster()).changed() == {}
    master = SharedTrainingMaster(
        workers=2, threshold=TargetSparsity(target=0.01), residual_clipping=None
    )
    assert Draft.of(master).changed() == {
        ("workers",): 2,
        ("threshold",): "target",
        ("threshold", "target"): 0.01,
        ("residual_clipping",): None,
    }


def test_a_master_of_another_class_is_refused() -> None:
    class Mine(ParameterAveragingTrainingMaster):
        pass

    with pytest.raises(ConfigurationError, match="Received: Mine"):
        TrainingMasterPicker(Mine())


# --- the widget


@settings(max_examples=15)
@given(MASTERS)
def test_the_picker_holds_any_master_exactly(master: TrainingMaster) -> None:
    picker = TrainingMasterPicker()
    told: list[Any] = []
    picker.on_change(told.append)
    picker.master = master
    assert picker.master == master
    assert picker.problem is None
    assert told == []
    for group in picker.form.groups.values():
        group.set_opened(True)
    picker.form.usual.fields["workers"].control.value = "98"
    assert picker.master.workers == 98
    picker.form.usual.fields["workers"].control.value = str(master.workers or "")
    assert picker.master == master
    picker.close()


def test_what_is_typed_is_held_and_told() -> None:
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
def test_what_is_wrong_is_said_at_its_field(path: Any, typed: str, said: str) -> None:
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


def test_a_problem_of_two_options_goes_away_by_mending_either() -> None:
    picker = TrainingMasterPicker(SharedTrainingMaster(workers=2))
    field(picker, "workers_per_node").control.value = "1"
    assert "both say" in field(picker, "workers_per_node").problem
    field(picker, "workers").control.value = ""
    assert picker.problem is None
    assert field(picker, "workers_per_node").problem == ""
    assert picker.master == SharedTrainingMaster(workers_per_node=1)


def test_thresholds_that_contradict_each_other_are_refused_at_the_field() -> None:
    picker = TrainingMasterPicker(SharedTrainingMaster())
    field(picker, "threshold", "min_sparsity").control.value = "0.5"
    assert "must not be above" in field(picker, "threshold", "min_sparsity").problem
    field(picker, "threshold").control.value = "fixed"
    assert picker.problem is None
    assert picker.master.threshold == FixedThreshold()
    field(picker, "threshold", "threshold").control.value = "0.01"
    assert picker.master.threshold == FixedThreshold(threshold=0.01)


def test_this_machine_refuses_what_needs_spark() -> None:
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(communication="spark"))
    assert picker.problem is None
    picker.place.value = True
    assert picker.parallel
    assert "has no Spark" in picker.problem
    assert picker.form.groups["Messages between workers"].opened
    assert "has no Spark" in field(picker, "communication").problem
    field(picker, "communication").control.value = "ring"
    assert picker.problem is None


def test_the_kind_is_changed_and_changed_back() -> None:
    picker = TrainingMasterPicker(
        ParameterAveragingTrainingMaster(averaging_frequency=7, batch_size_per_worker=32)
    )
    told: list[Any] = []
    picker.on_change(told.append)
    picker.kind.value = "SharedTrainingMaster"
    assert picker.master == SharedTrainingMaster(batch_size_per_worker=32)
    assert len(told) == 1
    picker.kind.value = "ParameterAveragingTrainingMaster"
    assert picker.master.averaging_frequency == 7


@pytest.mark.parametrize("hidden", [AVERAGING, SHARING])
def test_closing_closes_the_fields_of_both_kinds(comms: Any, hidden: str) -> None:
    picker = TrainingMasterPicker()
    for kind in (AVERAGING, SHARING, *({AVERAGING, SHARING} - {hidden})):
        picker.kind.value = kind
    form = picker._forms[hidden]
    assert form is not picker.form
    field, group = form.usual.fields["batch_size_per_worker"].control, next(iter(form.groups))
    freed = [field, field.layout, form.usual, form.groups[group], form.groups[group].layout]
    assert all(widget.comm is not None for widget in freed)
    picker.close()
    assert all(widget.comm is None for widget in freed)


def test_folds_say_how_many_options_are_changed() -> None:
    picker = TrainingMasterPicker()
    group = picker.form.groups["Data and partitions"]
    assert group.button.description == "▸ Data and partitions"
    field(picker, "shuffle").control.value = False
    assert group.button.description == "▾ Data and partitions (1 changed)"


def test_fields_in_folds_are_made_when_somebody_looks() -> None:
    picker = TrainingMasterPicker()
    assert all(not group.box.children for group in picker.form.groups.values())


# --- the plan


def test_the_plan_follows_data_network_and_form() -> None:
    picker = TrainingMasterPicker()
    assert "How many workers there are is not known" in picker.outlook
    picker.set_context(rows=[1000, 0, 510], slots=2)
    assert "Workers: 2" in picker.outlook
    assert "Rounds an epoch: 10" in picker.outlook
    assert "Examples a round: 160" in picker.outlook
    assert "measure it" in picker.outlook
    field(picker, "averaging_frequency").control.value = "24"
    assert "Rounds an epoch: 2" in picker.outlook
    picker.set_context(rows=[1000, 0, 510], slots=2, network=network())
    assert "Sent a round, by each: 180 B" in picker.outlook  # 15 parameters, thrice with Adam's
    assert "It pays if one minibatch takes" in picker.outlook
    picker.assumptions.fields["step_ms"].control.value = "200"
    assert "Scales well. 24 minibatches of 200 ms take 4.8 s" in picker.outlook
    assert "Beside one worker: 2.0 times as fast" in picker.outlook
    assert "200 ms" in picker.plan.value


def test_what_else_to_know_is_said() -> None:
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(workers=4, repartition="never"))
    picker.set_context(rows=[100, 100], slots=2)
    assert "Spark has 2 task slots, fewer than the 4 workers" in picker.outlook
    assert "2 workers have no data" in picker.outlook
    assert "The last minibatch of 2 workers is smaller: 4 examples instead of 16." in picker.outlook
    picker.parallel = True
    assert "task slots" not in picker.outlook
    assert "have no data" not in picker.outlook  # there the data is always balanced
    field(picker, "workers").control.value = "999"
    assert "999 workers share the" in picker.outlook


@given(
    MASTERS,
    st.none() | st.lists(st.integers(0, 10_000), max_size=30),
    st.none() | st.integers(1, 64),
    st.none() | st.floats(1e-5, 10),
    st.none() | st.integers(0, 10**9),
    st.booleans(),
)
def test_any_surroundings_give_an_outlook(
    master: Any, rows: Any, slots: Any, step_s: Any, size: Any, parallel: bool
) -> None:
    around = Surroundings(
        rows=None if rows is None else tuple(rows), slots=slots, step_s=step_s, vector_bytes=size
    )
    found = around.prospect(master, parallel=parallel)
    outlook = _picker.Outlook.of(found, slots=slots, cores=2 if parallel else None)
    assert outlook.sentence.endswith(".")
    for label, value in outlook.figures:
        assert label in outlook.html()
        assert value in outlook.text()


def test_measuring_needs_a_network_and_says_so() -> None:
    picker = TrainingMasterPicker()
    assert picker.measure_button.disabled
    assert "no network" in picker.measure_reason.value
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


def test_a_measured_step_fills_in_the_field(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "5 minibatches of 12.3 ms" in picker.outlook
    assert "the CPU, with 1 thread: 9 minibatches, 1,296 examples/s" in picker.measure_reason.value
    assert not picker.measure_button.disabled
    field(picker, "batch_size_per_worker").control.value = "64"
    assert picker.assumptions.values["step_ms"] is None  # that was another minibatch
    assert "Measured" not in picker.measure_reason.value
    assert "It pays if" in picker.outlook


def test_a_measurement_that_fails_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_text_is_written_read_and_refused() -> None:
    picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(hooks=[Hook()]))
    picker.text_fold.button.click()
    assert "averaging_frequency: 5" in picker.text.text.value
    picker.text.text.value = picker.text.text.value.replace("frequency: 5", "frequency: 9")
    told: list[Any] = []
    picker.on_change(told.append)
    picker.text.take_over.click()
    assert picker.master.averaging_frequency == 9
    assert len(picker.master.hooks) == 1
    assert len(told) == 1
    picker.text.form.value = "json"
    settings = json.loads(picker.text.text.value)
    assert settings["averaging_frequency"] == 9
    picker.text.text.value = '{"name": "SharedTrainingMaster", "workers": 3}'
    picker.text.take_over.click()
    assert picker.master == SharedTrainingMaster(workers=3, hooks=picker.master.hooks)
    assert picker.kind.value == "SharedTrainingMaster"
    for wrong, said in (("{", "must be JSON"), ('{"workers": 0}', "`workers` must be")):
        picker.text.text.value = wrong
        picker.text.take_over.click()
        assert said in picker.text.alert.value
        assert "The form is as it was." in picker.text.alert.value
        assert picker.master.workers == 3
    picker.text.drop.click()
    assert json.loads(picker.text.text.value)["workers"] == 3
    picker.text.form.value = "yaml"
    picker.text.text.value = "a: [1"
    picker.text.take_over.click()
    assert "must be YAML" in picker.text.alert.value


def test_a_person_s_text_stays_while_the_form_changes() -> None:
    picker = TrainingMasterPicker()
    picker.text_fold.button.click()
    picker.text.text.value = "workers: 5"
    field(picker, "averaging_frequency").control.value = "8"
    assert picker.text.text.value == "workers: 5"


def test_a_saved_notebook_tells_what_was_chosen() -> None:
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

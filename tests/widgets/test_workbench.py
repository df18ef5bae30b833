import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.cases import cases
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.data import DataSource
from sparkwright.experiments import EarlyStoppingOptions
from sparkwright.networks import PRESETS
from sparkwright_widgets import Workbench
from sparkwright_widgets._workbench._actions import first_step, next_action
from sparkwright_widgets._workbench._bench import Bench
from sparkwright_widgets._workbench._state import BenchState, Measured, Trained, contexts


class FakeSpark:
    version = "4.3"
    sparkContext = SimpleNamespace(master="local[2]")


@pytest.fixture
def loaded(monkeypatch):
    """Loading takes no Spark: the data is only counted."""
    asked = []

    def load(bench, *, reload=False, tell=None):
        asked.append(reload)
        bench.change(
            lambda state: replace(
                state,
                spark=state.spark or FakeSpark(),
                slots=2,
                source=state.experiment.data,
                data={"train": [60, 30], "test": [10]},
                rows={"train": 90, "test": 10},
                counts=(60, 30),
            )
        )

    monkeypatch.setattr(Bench, "load", load)
    return asked


@pytest.fixture
def begun(monkeypatch, fake, loaded):
    """Beginning a run gives a fake one, each a network of its own."""
    asked = []

    def begin(bench, *, resume=None, keep_weights=False):
        bench.load()
        run = fake.FakeRun()
        run.id = f"run-{len(asked) + 1}"
        asked.append((bench.state.experiment, resume, keep_weights))
        last = Trained(
            network=f"network {len(asked)}",
            origin=run.id,
            spec=bench.state.experiment.network,
            run=run,
            experiment=bench.state.experiment,
        )
        bench.change(lambda state: replace(state, last=last, last_taken=False))
        return run

    monkeypatch.setattr(Bench, "begin", begin)
    return asked


@pytest.fixture
def bench(comms, keras_loaded):
    bench = Workbench()
    yield bench
    bench.close()


def settle(bench):
    """Wait for a thread that refreshes the widgets; it then shows the last change, too."""
    wait_until(lambda: not bench._refresher._running)


def text_of(bench, name):
    settle(bench)
    return bench.sections[name].summary.value


def test_workbench_opens_before_keras_is_loaded(comms, keras_loaded, monkeypatch):
    ready = threading.Event()
    inside = "sparkwright_widgets._workbench._workbench"
    for module in ("sparkwright.networks.analysis", inside):
        monkeypatch.setattr(f"{module}.is_loaded", ready.is_set)
    monkeypatch.setattr(f"{inside}.load", ready.wait)
    bench = Workbench()
    assert "Keras is loading" in bench.problem
    ready.set()
    assert bench._keras.wait(10)
    assert "431,080 parameters" in text_of(bench, "network")
    bench.close()


def test_one_step_is_shown_and_its_widget_is_created_on_opening(bench):
    sections = bench.sections
    assert bench.step == "data"
    assert sections["network"].made is None
    bench.rail._handle_custom_msg({"open": "network"}, [])
    assert sections["network"].made is not None
    for name in sections:
        bench.open_step(name)
        assert [n for n, section in sections.items() if section.opened] == [bench.step] == [name]
    assert [step["name"] for step in bench.rail.steps] == list(sections)
    assert "every 5 minibatches" in text_of(bench, "master")
    still = bench._still()
    assert "431,080 parameters" in still.text
    assert "name: Experiment" in still.html


def press(bench):
    """Press the primary button; returns what it read."""
    bench._refresh(wait=True)  # Keras, which is loaded meanwhile, refreshes on its own thread
    label = bench.header.action.description
    bench.header.action.click()
    return label


def test_primary_button_leads_from_the_data_to_a_saved_model(bench, begun, monkeypatch):
    monkeypatch.setattr("sparkwright_widgets._workbench._header._MOST_POINTS", 1)
    assert press(bench) == "Load data"
    bench.sections["data"].part.settle(5)
    pressed = [press(bench) for _ in range(4)]
    assert pressed == [
        f"Next: {name}" for name in ("network", "training master", "partitions", "train")
    ]
    assert press(bench) == "Start"
    bench.sections["train"].part.settle(5)
    assert bench.header.start.layout.display == "none"
    bench.open_step("network")
    assert (bench.header.action.description, bench.header.action.button_style) == ("Stop", "danger")
    press(bench)
    assert bench.run.stop_calls == 1
    assert bench.header.action.description == "Stopping"
    assert bench.header.action.disabled
    bench.open_step("train")
    for step in (1, 2):
        bench.run.report(0, step, 0.5 / step, round=step)
    bench.run.set(state="stopped", epoch=2)
    assert bench.sections["train"].part.live.wait(5)
    wait_until(lambda: bench.header.action.description == "Next: evaluate")
    assert "<b>0.2500</b>" in bench.header.facts.value
    assert 'to 0.2500"' in bench.header.facts.value  # the sparkline ends there, too
    press(bench)
    assert bench.header.action.description == "Evaluate"
    assert bench.sections["evaluate"].part.evaluate_button.button_style == ""


STATES = dict.fromkeys(("data", "network", "master", "partitions", "train", "evaluate"), "ok")
STATES |= dict.fromkeys(("models", "file"), "ok")
TITLES = {name: name for name in STATES}


@cases(
    "here, changed, known, label, is_enabled",
    ("data", {"data": "todo"}, {}, "Load data", True),
    ("data", {"data": "problem"}, {"reason": "no file"}, "Load data", False),
    ("network", {"data": "problem"}, {"reason": "no file"}, "Next: data", True),
    ("data", {"network": "problem"}, {"reason": "shape"}, "Next: network", True),
    ("network", {"network": "problem"}, {"reason": "shape"}, "Next: master", False),
    ("train", {"train": "problem", "network": "problem"}, {}, "Next: network", True),
    ("train", {"train": "problem"}, {"reason": "epochs"}, "Start", False),
    ("train", {"train": "problem"}, {}, "Start", True),  # the last run failed
    ("data", {"train": "todo"}, {"seen": STATES}, "Next: train", True),
    ("data", {"train": "todo"}, {"seen": ["data"]}, "Next: network", True),
    ("evaluate", {"evaluate": "todo"}, {}, "Next: train", True),
    ("evaluate", {"evaluate": "todo"}, {"current": True}, "Evaluate", True),
    ("models", {"models": "todo"}, {"current": True}, "Save model", True),
    ("file", {}, {}, "Save experiment", True),
    ("data", {"train": "running"}, {"running": True}, "Stop", True),
    ("data", {"train": "running"}, {"running": True, "stopping": True}, "Stopping", False),
)
def test_step_states_determine_one_next_action(here, changed, known, label, is_enabled):
    action = next_action(here, STATES | changed, TITLES, **known)
    assert (action.label, not action.reason) == (label, is_enabled)


def test_step_that_needs_work_is_shown_first():
    assert first_step(STATES | {"data": "todo", "train": "todo"}) == "data"
    assert first_step(STATES | {"train": "todo", "models": "todo"}) == "train"
    assert first_step(STATES | {"data": "todo", "network": "problem"}) == "network"


def test_loaded_workbench_opens_the_next_step(bench, loaded, monkeypatch):
    monkeypatch.setattr("IPython.display.display", lambda *_given, **_options: None)
    bench.load_data()
    bench._ipython_display_()
    assert bench.step == "train"
    bench.open_step("network")
    bench._ipython_display_()
    assert bench.step == "network"


def test_selections_of_a_part_update_the_experiment(bench):
    bench.sections["master"].part.kind.value = sw.SharedTrainingMaster
    bench.sections["master"].part.form.field("batch_size_per_worker").control.value = "7"
    assert bench.experiment.master == sw.SharedTrainingMaster(batch_size_per_worker=7)
    assert "gradient sharing" in text_of(bench, "master")
    bench.sections["network"].part.spec = PRESETS["mlp"].make()
    assert bench.experiment.network == PRESETS["mlp"].make()
    file = bench.sections["file"].part.editor.text
    bench.sections["train"].part.run_form.field("epochs").control.value = "9"
    assert bench.experiment.epochs == 9
    settle(bench)
    assert "epochs: 9" in file.value
    bench.header.title.value = "Mine"
    assert bench.experiment.title == "Mine"


@pytest.mark.thorough
def test_new_experiment_is_shown_in_every_created_widget(bench):
    for name in bench.sections:
        bench.open_step(name)
    other = sw.Experiment(
        title="other",
        data=DataSource(format="csv", url="a.csv", label="y"),
        normalize="standardize",
        network=PRESETS["mlp"].make(),
        master=sw.SharedTrainingMaster(workers=3),
        spark=sw.SparkSettings(workers=3),
        epochs=2,
        validate=False,
        early_stopping=EarlyStoppingOptions(patience=4),
    )
    bench.experiment = other
    bench.sections["data"].part.picker.settle(10)
    assert bench.experiment == other
    assert bench.sections["data"].part.normalize == "standardize"
    assert bench.sections["network"].part.spec == other.network
    assert bench.sections["master"].part.master == other.master
    assert bench.sections["train"].part.experiment == other


def test_invalid_network_disables_start_with_a_reason(bench):
    start = bench.sections["train"].part.start_button
    assert not start.disabled
    spec = bench.experiment.network
    layers = tuple(layer for layer in spec.layers if layer.kind != "Flatten")
    bench.sections["network"].part.spec = type(spec)(layers=layers[1:], outputs=spec.outputs)
    assert "problem" in text_of(bench, "train")
    assert start.disabled
    assert "Row 1" in bench.sections["train"].part.why.value


def test_form_names_the_validation_data(bench):
    panel = bench.sections["train"].part
    assert panel.validation_note.value == ""
    bench.sections["data"].part.picker.split.field("validation").control.value = "0"
    settle(bench)
    assert "No validation:" in panel.validation_note.value
    panel.run_form.field("validate_on").control.value = "test"
    assert bench.experiment.validate_on == "test"
    settle(bench)
    note = panel.validation_note.value
    assert "Validation: the test set; its scores are not independent." in note
    panel.run_form.field("validate").control.value = False
    settle(bench)
    assert panel.validation_note.value == ""
    bench.experiment = sw.Experiment(validate_on="test")
    settle(bench)
    assert panel.run_form.value.validate_on == "test"
    assert "the test set" in panel.validation_note.value


def test_loading_counts_the_partitions(bench, loaded):
    assert "not loaded yet" in text_of(bench, "data")
    bench.load_data()
    assert "90 train, 10 test" in text_of(bench, "data")
    assert "2 partitions" in text_of(bench, "partitions")
    bench.experiment = sw.Experiment(data=DataSource(partitions=5))
    assert "not loaded yet" in text_of(bench, "data")


def test_run_starts_with_the_experiment_and_reports_its_end(bench, begun):
    ended = threading.Event()
    run = bench.start()
    bench.sections["train"].part.on_end(lambda _run: ended.set())
    assert begun == [(bench.experiment, None, False)]
    assert bench.run is run
    assert "running" in text_of(bench, "train")
    assert bench.network is None
    run.set(state="done", epoch=5)
    assert ended.wait(5)
    assert "done after epoch 5 of 5" in text_of(bench, "train")
    assert bench.network == "network 1"


def test_start_waits_until_the_builder_has_the_network(comms, keras_loaded, begun, monkeypatch):
    ready = threading.Event()
    inside = "sparkwright_widgets._network_builder"
    for module in ("sparkwright.networks.analysis", f"{inside}._editing_pane"):
        monkeypatch.setattr(f"{module}.is_loaded", ready.is_set)
    monkeypatch.setattr(f"{inside}._editing_pane.load", ready.wait)
    bench = Workbench()
    bench.open_step("network")
    bench.open_step("train")
    assert "Keras is loading" in bench.problem
    later = threading.Timer(0.2, ready.set)
    later.start()
    bench.start()
    assert len(begun) == 1
    bench.close()


def test_network_of_a_run_is_current_when_it_ends_unless_it_failed(bench, begun):
    for state, number in (("done", 1), ("stopped", 2), ("failed", 2)):
        bench.start().set(state=state)
        # Before the live panel has seen the end.
        assert bench.network == f"network {number}"
        assert bench.sections["train"].part.live.wait(5)


def test_network_loaded_during_a_run_is_replaced_at_its_end(bench, begun, monkeypatch):
    monkeypatch.setattr("sparkwright_widgets._workbench._bench.describe_model", lambda _model: None)
    run = bench.start()
    bench._bench.hold(SimpleNamespace(model=None), origin="old.keras")
    assert bench.network is bench._bench.state.current.network
    run.set(state="done")
    assert bench.network == "network 1"


def test_load_reads_the_data_again_and_a_run_does_not(bench, begun, loaded):
    bench.sections["data"].part.load_button.click()
    bench.sections["data"].part.settle(5)
    run = bench.start()
    assert loaded[0] is True
    assert True not in loaded[1:]
    run.set(state="done")


def test_partition_step_sets_and_follows_the_repartition_of_the_master(bench, loaded):
    preview = bench.sections["partitions"].part
    preview.form.field("mode").control.value = "never"
    assert bench.experiment.master.repartition == "never"
    assert bench.experiment.master.workers is None
    bench.sections["master"].part.form.field("repartition").control.value = "always"
    settle(bench)
    assert preview.mode == "always"
    bench.load_data()
    assert bench.experiment.master.repartition == "always"


def test_more_workers_than_slots_are_a_problem_in_every_heading(bench, loaded):
    bench.load_data()
    for opened in (False, True):
        if opened:
            bench.open_step("master")
        bench.experiment = sw.Experiment(master=sw.SharedTrainingMaster(workers=64))
        assert "64 workers need one task slot each" in bench.problem
        for name in ("master", "train"):
            assert "problem:" in text_of(bench, name)
        assert bench.header.start.disabled
        bench.experiment = sw.Experiment(master=sw.SharedTrainingMaster(workers=2))
        assert bench.problem is None
        assert "ready:" in text_of(bench, "master")


def test_more_workers_than_executors_are_rejected_at_both_fields(bench):
    bench.open_step("train")
    bench.open_step("master")
    bench.sections["master"].part.form.field("workers").control.value = "3"
    executors = bench.sections["train"].part.spark_form.field("workers")
    settle(bench)
    assert "needs 3 workers" in executors.alert.value
    assert "3 workers" in bench.problem
    executors.control.value = "3"
    settle(bench)
    assert executors.alert.value == ""
    assert bench.problem is None


def test_invalid_path_is_a_problem_of_data_and_training(bench):
    picker = bench.sections["data"].part.picker
    picker.format.value = "csv"
    picker.place.url.value = "/nowhere/iris.csv"
    picker.settle(10)
    assert "ready" not in text_of(bench, "data") + text_of(bench, "train")
    for name in ("data", "train"):
        assert "/nowhere/iris.csv does not exist" in text_of(bench, name)
    assert bench.header.start.disabled


def test_finished_run_does_not_hide_that_no_other_can_start(bench, begun):
    bench.start().set(state="done", epoch=5)
    assert bench.sections["train"].part.live.wait(5)
    bench.experiment = replace(bench.experiment, network=PRESETS["regression"].make())
    assert "problem:" in text_of(bench, "train")
    assert "labels are classes, but the network predicts a number" in bench.experiment.reason


def test_values_that_are_not_sessions_raise_immediately(comms):
    with pytest.raises(sw.ConfigurationError, match="Pass an experiment as"):
        Workbench(sw.Experiment())


def trained(origin="run-1", **more):
    return Trained(network=object(), origin=origin, **more)


def test_saved_metrics_belong_to_the_current_network_and_name_the_result():
    one, other = trained("run-1"), trained("run-2")
    state = BenchState(
        experiment=sw.Experiment(),
        current=other,
        measured=(
            Measured(name="test", of=one, figures={"accuracy": 0.7}),
            Measured(name="test (2)", of=other, figures={"accuracy": 0.9}),
        ),
    )
    assert state.metrics == {"accuracy (test (2))": 0.9}
    assert replace(state, current=one).metrics == {"accuracy (test)": 0.7}
    assert replace(state, current=trained("run-3")).metrics == {}


def test_parts_get_the_current_network_and_held_out_data_first():
    hand = trained(spec=PRESETS["mlp"].make())
    state = BenchState(
        experiment=sw.Experiment(), current=hand, data={"train": "t", "test": "e"}, slots=3
    )
    told = contexts(state, seen=None, problem="why")
    evaluating = told["evaluate", "set_context"]
    assert evaluating["network"] is hand.network
    assert list(evaluating["data"]) == ["test", "train"]
    assert told["models", "network"] is hand.network
    assert told["train", "set_ready"] == {"reason": "why"}
    assert told["partitions", "set_context"]["workers"] == 3
    assert "differ from the step Network" in told["train", "set_weights"]["source"]


def test_file_step_applies_yaml_and_keeps_everything_on_an_error(bench):
    editor = bench.sections["file"].part.editor
    for text in (editor.text.value.replace("epochs: 5", "epochs: 6"), "epochs: [1"):
        editor.text.value = text
        editor.apply_button.click()
        assert bench.experiment.epochs == 6
    assert "must be YAML" in editor.alert.value


def test_saving_edited_text_is_rejected_and_overwriting_asks_again(bench, tmp_path):
    file, path = bench.sections["file"].part, tmp_path / "mine.yaml"
    file.where.fields["url"].control.value = str(path)
    file.editor.text.value = file.editor.text.value.replace("epochs: 5", "epochs: 9")
    file.save_button.click()
    assert "unapplied" in file.doing.value
    assert not path.exists()
    bench.header.title.value = "mine"
    file.editor.apply_button.click()
    assert "has changed since" in file.doing.value
    assert bench.experiment.epochs == 5
    file.editor.apply_button.click()
    assert (bench.experiment.epochs, bench.experiment.title) == (9, "experiment")


def test_file_is_replaced_only_after_a_second_save(bench, tmp_path):
    file, path = bench.sections["file"].part, tmp_path / "mine.yaml"
    path.write_text("precious")
    file.where.fields["url"].control.value = str(path)
    file.save_button.click()
    assert file.settle(10)
    assert path.read_text() == "precious"
    assert "exists already" in file.doing.value
    for button in (file.save_button, file.export_button):
        button.click()
        assert file.settle(10)
    assert sw.Experiment.load(str(path)) == bench.experiment
    assert (tmp_path / "mine.ipynb").exists()
    assert 'download="mine.ipynb"' in file.link.value


def test_closing_frees_every_widget(comms):
    from ipywidgets.widgets.widget import _instances

    before = len(_instances)
    bench = Workbench()
    for name in bench.sections:
        bench.open_step(name)
    bench.sections["data"].part.picker.settle(10)
    bench.close()
    assert len(_instances) == before


def test_evaluate_waits_until_the_step_has_the_network(bench, begun, monkeypatch):
    panel = bench.sections["evaluate"].part
    found = []
    monkeypatch.setattr(panel, "evaluate", lambda data: found.append((data, panel.problem)))
    run, show = bench.start(), bench._refresher._show
    monkeypatch.setattr(bench._refresher, "_show", lambda: (time.sleep(0.2), show()))
    run.set(state="done", epoch=5)
    wait_until(lambda: bench._refresher._running)  # on the thread of the panel
    bench.evaluate("test")
    assert found == [("test", None)]

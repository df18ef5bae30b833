import threading
from types import SimpleNamespace

import pytest

import sparkwright as sw
from sparkwright.data import DataSource
from sparkwright.networks import PRESETS
from sparkwright_widgets import Workbench
from sparkwright_widgets._workbench._bench import Bench


class FakeSpark:
    version = "4.3"
    sparkContext = SimpleNamespace(master="local[2]")


@pytest.fixture
def loaded(monkeypatch):
    """Loading takes no Spark: the data is only counted."""

    def load(bench, experiment):
        bench.spark = bench.spark or FakeSpark()
        bench.source = experiment.data
        bench.rows, bench.counts = {"train": 90, "test": 10}, (60, 30)
        return bench.data

    monkeypatch.setattr(Bench, "load", load)


@pytest.fixture
def begun(monkeypatch, run, loaded):
    """Beginning a run gives the fake one."""
    asked = []

    def begin(bench, experiment, *, resume=None, keep_weights=False):
        bench.load(experiment)
        asked.append((experiment, resume, keep_weights))
        return run

    monkeypatch.setattr(Bench, "begin", begin)
    return asked


@pytest.fixture
def bench(comms):
    bench = Workbench()
    yield bench
    bench.close()


def text_of(bench, name):
    return bench.sections[name].summary.value


def test_parts_are_made_when_they_are_opened(bench):
    assert bench.sections["data"].opened
    assert bench.sections["network"].made is None
    bench.sections["network"].button.click()
    assert bench.sections["network"].made is not None
    assert bench.sections["network"].opened
    bench.sections["network"].button.click()
    assert not bench.sections["network"].opened


def test_all_steps_open_and_sum_up(bench):
    for name in bench.sections:
        bench.open_step(name)
        assert bench.sections[name].opened
    assert "431,080 parameters" in text_of(bench, "network")
    assert "every 5 minibatches" in text_of(bench, "master")


def test_what_is_chosen_in_a_part_becomes_the_experiment(bench):
    bench.sections["master"].part.master = sw.SharedTrainingMaster(batch_size_per_worker=7)
    bench.sections["master"].part._changed()  # as after a person's edit
    assert bench.experiment.master == sw.SharedTrainingMaster(batch_size_per_worker=7)
    assert "gradient sharing" in text_of(bench, "master")
    bench.sections["network"].part.spec = PRESETS["mlp"].make()
    assert bench.experiment.network == PRESETS["mlp"].make()
    bench.sections["train"].part.run_form.fields["epochs"].control.value = "9"
    assert bench.experiment.epochs == 9
    bench.title_field.value = "Mine"
    assert bench.experiment.title == "Mine"


def test_another_experiment_is_shown_in_every_part_that_was_made(bench):
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
        early_stopping=sw.EarlyStopping(patience=4),
    )
    bench.experiment = other
    bench.sections["data"].part.picker.settle(10)
    assert bench.experiment == other
    assert bench.sections["data"].part.normalize == "standardize"
    assert bench.sections["network"].part.spec == other.network
    assert bench.sections["master"].part.master == other.master
    assert bench.sections["train"].part.settings == other.spark
    assert bench.sections["train"].part.early_stopping == other.early_stopping


def test_a_broken_network_keeps_start_from_being_pressed_and_says_why(bench):
    start = bench.sections["train"].part.start_button
    assert not start.disabled
    spec = bench.experiment.network
    layers = tuple(layer for layer in spec.layers if layer.kind != "Flatten")
    bench.sections["network"].part.spec = type(spec)(layers=layers[1:], outputs=spec.outputs)
    assert start.disabled
    assert "Row 1" in bench.sections["train"].part.why.value
    assert "problem" in text_of(bench, "train")


def test_loading_counts_the_parts(bench, loaded):
    assert "not loaded yet" in text_of(bench, "data")
    bench.load_data()
    assert "90 train, 10 test" in text_of(bench, "data")
    assert "2 partitions" in text_of(bench, "partitions")
    bench.experiment = sw.Experiment(data=DataSource(partitions=5))
    assert "not loaded yet" in text_of(bench, "data")


def test_a_run_is_begun_with_the_experiment_and_its_end_is_told(bench, begun, run):
    ended = threading.Event()
    assert bench.start() is run
    bench.sections["train"].part.on_end(lambda _run: ended.set())
    assert begun == [(bench.experiment, None, False)]
    assert bench.run is run
    assert "running" in text_of(bench, "train")
    run.set(state="done", epoch=5)
    assert ended.wait(5)
    assert "done after epoch 5 of 5" in text_of(bench, "train")


def test_the_partition_step_sets_the_masters_repartition(bench):
    preview = bench.sections["partitions"].part
    preview.mode = "never"
    bench._repartition_chosen(preview)
    assert bench.experiment.master.repartition == "never"
    assert bench.experiment.master.workers is None


def test_the_file_step_applies_yaml_and_keeps_everything_on_a_mistake(bench):
    file = bench.sections["file"].part
    file.text.value = bench.experiment.to_yaml().replace("epochs: 5", "epochs: 6")
    file.apply_button.click()
    assert bench.experiment.epochs == 6
    file.text.value = "epochs: [1"
    file.apply_button.click()
    assert file.error.value
    assert bench.experiment.epochs == 6


def test_a_file_is_replaced_only_when_asked_twice(bench, tmp_path):
    file = bench.sections["file"].part
    path = tmp_path / "mine.yaml"
    path.write_text("precious")
    file.where.fields["url"].control.value = str(path)
    file.save_button.click()
    assert file.settle(10)
    assert path.read_text() == "precious"
    assert "exists already" in file.doing.value
    file.save_button.click()
    assert file.settle(10)
    assert sw.Experiment.load(str(path)) == bench.experiment
    file.export_button.click()
    assert file.settle(10)
    assert (tmp_path / "mine.ipynb").exists()
    assert 'download="mine.ipynb"' in file.link.value


def test_what_stays_in_a_notebook_says_where_each_step_stands(bench):
    still = bench._still()
    assert "431,080 parameters" in still.text
    assert "name: Experiment" in still.html


def test_closing_frees_every_widget(comms):
    from ipywidgets.widgets.widget import _instances

    before = len(_instances)
    bench = Workbench()
    for name in bench.sections:
        bench.open_step(name)
    bench.sections["data"].part.picker.settle(10)
    bench.close()
    assert len(_instances) == before

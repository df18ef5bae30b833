import ast
from dataclasses import replace
from types import SimpleNamespace

import keras
import pytest
from hypothesis import given, settings, strategies as st
from tests.cases import cases
from tests.configurations import configurations

import sparkwright as sw
from sparkwright.data import DataSource, DataSplit
from sparkwright.experiments import (
    EarlyStoppingOptions,
    PreparedExperiment,
    ReduceLROnPlateauOptions,
)
from sparkwright.experiments._code import steps
from sparkwright.networks import PRESETS, CosineSchedule, LayerSpec, NetworkSpec, OutputSpec

CSV = DataSource(format="csv", url="a.csv", label="y")
experiments = st.builds(
    sw.Experiment,
    title=st.text(max_size=20),
    data=st.builds(
        DataSource, format=st.just("csv"), url=st.text(min_size=1, max_size=9), label=st.just("y")
    )
    | st.just(DataSource()),
    normalize=st.sampled_from([None, "standardize", "min_max"]),
    network=st.sampled_from([preset.make() for preset in PRESETS.values()]),
    master=configurations(sw.SharedTrainingMaster)
    | st.just(sw.ParameterAveragingTrainingMaster(averaging_frequency=7)),
    parallel=st.booleans(),
    spark=st.builds(sw.SparkSettings, workers=st.integers(1, 9)),
    epochs=st.integers(1, 99),
    validate=st.booleans(),
    validate_on=st.sampled_from(["validation", "test"]),
    early_stopping=st.none() | configurations(EarlyStoppingOptions),
    reduce_lr_on_plateau=st.none() | configurations(ReduceLROnPlateauOptions),
    histograms=st.none() | configurations(sw.Histograms),
    seed=st.integers(0, 2**31),
)


@settings(max_examples=10)
@given(experiments)
def test_experiment_round_trips_through_yaml_and_json(experiment):
    assert sw.Experiment.from_yaml(experiment.to_yaml()) == experiment
    assert sw.Experiment.from_json(experiment.to_json()) == experiment


def test_notebook_contains_the_code_and_the_yaml(tmp_path):
    import nbformat

    url = str(tmp_path / "experiment.ipynb")
    experiment = sw.Experiment(title="Digits", epochs=3)
    experiment.save(url)
    notebook = nbformat.read(url, as_version=4)
    nbformat.validate(notebook)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    for words in ("network.start(train, epochs=epochs, validation=validation)", "await run"):
        assert words in code
    assert experiment.to_yaml() in notebook.cells[-1].source


@given(experiments)
@settings(max_examples=10)
def test_text_of_an_experiment_is_two_short_lines(experiment):
    url = "hdfs://host/" + "a" * 500
    long = replace(experiment, title="t\n" * 500, data=replace(CSV, url=url))
    for each in (experiment, long):
        lines = repr(each).split("\n")
        assert len(lines) == 2
        assert max(map(len, lines)) < 250


class Named(ast.NodeTransformer):
    """Puts values in place of names, and takes out the statements that set these."""

    def __init__(self, values):
        self.values = values

    def visit_Name(self, node):
        return ast.Constant(self.values[node.id]) if node.id in self.values else node

    def visit_Call(self, node):
        # Defaults are written only where they have names; they then stand in another order.
        usual = {"batch_size_per_worker": "16"}
        if ast.unparse(node.func) == "sw.start_spark":
            usual = {"workers": "2"}
        self.generic_visit(node)
        kept = [each for each in node.keywords if usual.get(each.arg) != ast.unparse(each.value)]
        node.keywords = sorted(kept, key=lambda each: each.arg)
        return node


def parameters_cell(experiment):
    (cell,) = (
        each
        for each in experiment.to_notebook()["cells"]
        if "parameters" in each["metadata"].get("tags", ())
    )
    return "".join(cell["source"])


@pytest.mark.thorough
@settings(max_examples=20)
@given(experiments)
def test_notebook_with_its_parameters_equals_the_script(experiment):
    names = {}
    exec(parameters_cell(experiment), {}, names)
    code = [step.code for step in steps(experiment, in_notebook=True)][1:]
    nodes = [node for each in code for node in ast.walk(ast.parse(each))]
    assert set(names) <= {node.id for node in nodes if isinstance(node, ast.Name)}
    script = [step.code for step in steps(experiment, in_notebook=False)]
    for mine, its in zip(code[:-1], script[:-1], strict=True):
        with_values = Named(names).visit(ast.parse(mine))
        plain = Named({}).visit(ast.parse(its.replace("run.wait()", "await run")))
        assert ast.unparse(with_values) == ast.unparse(plain)


def test_parameter_cell_contains_commonly_varied_values():
    source = replace(CSV, url='a "b"/*.csv')
    master = sw.SharedTrainingMaster(workers=2, seed=5, batch_size_per_worker=8)
    experiment = sw.Experiment(data=source, master=master, epochs=4)
    assert parameters_cell(experiment).splitlines() == [
        "data_url = 'a \"b\"/*.csv'",
        "split_seed = 0",
        "workers = 2",
        "network_seed = 42",
        "batch_size = 8",
        "training_seed = 5",
        "epochs = 4",
    ]


def test_executors_and_workers_have_separate_names_if_counts_differ():
    spark = sw.SparkSettings(workers=2, cores_per_worker=2)
    experiment = sw.Experiment(spark=spark, master=sw.SharedTrainingMaster(workers=4))
    assert "executors = 2\nworkers = 4\n" in parameters_cell(experiment)
    code = "\n".join(step.code for step in steps(experiment, in_notebook=True))
    assert "sw.start_spark(workers=executors, cores_per_worker=2)" in code
    on_cluster = replace(experiment, spark=sw.SparkSettings(master="yarn"))
    assert "executors" not in parameters_cell(on_cluster)


def test_invalid_experiment_raises_before_anything_starts():
    network = PRESETS["lenet"].make()
    broken = sw.Experiment(network=type(network)(layers=network.layers[1:]))
    assert broken.reason is not None
    with pytest.raises(sw.ConfigurationError, match="network cannot be built"):
        broken.prepare()
    with pytest.raises(sw.ConfigurationError, match="data cannot be loaded"):
        sw.Experiment(data=DataSource(format="csv")).prepare()


class Run:
    """Of nothing."""

    code = None
    note = ""


def prepared(experiment):
    """An experiment whose network begins runs of nothing."""
    network = SimpleNamespace(start=lambda data, **options: Run())
    data = dict.fromkeys(experiment.data.split.shares)
    return PreparedExperiment(experiment=experiment, spark=None, data=data, network=network)


WITHOUT_VALIDATION = sw.Experiment(data=DataSource(split=DataSplit(validation=0.0, test=0.2)))
TEST_VALIDATES = "Validation: the test set; its scores are not independent."


def test_test_set_validates_only_on_request():
    asked = replace(WITHOUT_VALIDATION, validate_on="test")
    for experiment, part, note in (
        (sw.Experiment(), "validation", ""),
        (WITHOUT_VALIDATION, None, ""),
        (asked, "test", TEST_VALIDATES),
        (sw.Experiment(validate_on="test"), "test", TEST_VALIDATES),
        (replace(asked, validate=False), None, ""),
    ):
        assert (experiment.validation, experiment.note) == (part, note)
        assert prepared(experiment).start().note == note
        assert (f"# {TEST_VALIDATES}" in experiment.to_code()) == bool(note)
        text = list(steps(experiment, in_notebook=True))[-1].text
        assert ("not independent" in text) == bool(note)


@cases(
    "options",
    {"early_stopping": EarlyStoppingOptions()},
    {"reduce_lr_on_plateau": ReduceLROnPlateauOptions()},
)
def test_callbacks_do_not_use_the_test_set_by_default(options):
    with pytest.raises(sw.ConfigurationError, match="`val_loss` is a score of validation data"):
        prepared(replace(WITHOUT_VALIDATION, **options)).start()


def test_options_make_keras_callbacks_and_a_plateau_needs_a_constant_rate():
    rules = EarlyStoppingOptions(monitor="val_f1", mode="max", patience=1, start_from_epoch=2)
    made = rules.to_keras()
    found = made.monitor, made.mode, made.patience, made.start_from_epoch
    assert (*found, made.restore_best_weights) == ("val_f1", "max", 1, 2, True)
    for options in (EarlyStoppingOptions(), rules, ReduceLROnPlateauOptions(factor=0.5, min_lr=1)):
        again = eval(options.to_call(), {"keras": keras})
        kept = {n: v for n, v in vars(options.to_keras()).items() if not n.startswith("_")}
        assert {name: vars(again)[name] for name in kept} == kept
    experiment = sw.Experiment(reduce_lr_on_plateau=ReduceLROnPlateauOptions(patience=2))
    call = "keras.callbacks.ReduceLROnPlateau(patience=2, factor=0.2)"
    assert f"callbacks=[{call}]," in experiment.to_code()
    network = experiment.network
    falling = replace(network.optimizer, schedule=CosineSchedule())
    both = replace(experiment, network=replace(network, optimizer=falling))
    assert "Leave out one of the two" in str(both.reason)
    assert sw.Experiment.from_yaml(both.to_yaml()) == both


def test_resumed_run_notes_that_its_code_trains_from_the_beginning():
    experiment = sw.Experiment(epochs=2)
    note, _, code = prepared(experiment).start(resume="ch\nk").code.partition("\n")
    assert note == "# The run went on from 'ch\\nk'; this trains from the very beginning."
    assert code == experiment.to_code()


def test_run_that_continues_from_trained_weights_has_no_code():
    made = prepared(sw.Experiment())
    assert made.start().code == made.experiment.to_code()
    assert made.start().code is None


@cases("url", "s3://ann:abc@host/x.csv", "https://host/x.csv?token=abc")
def test_run_on_data_with_a_secret_url_has_no_code(url):
    assert prepared(sw.Experiment(data=replace(CSV, url=url))).start().code is None


@cases("text", "{", "title: &a [*a]", "[" * 100_000, "seed: 0b_")
@cases("read", sw.Experiment.from_json, sw.Experiment.from_yaml)
def test_text_that_is_not_an_experiment_is_rejected(read, text):
    with pytest.raises(sw.ConfigurationError, match="Received: "):
        read(text)


def test_layer_names_do_not_shadow_script_names():
    names = ["data", "train", "test", "spark", "sw", "network", "master", "model", "run", "print"]
    image = LayerSpec(kind="Input", name="image", options={"shape": [28, 28, 1]})
    softmax = {"units": 10, "activation": "softmax"}
    layers = (
        image,
        *(LayerSpec(kind="Dropout", name=name, options={"rate": 0.1}) for name in names),
        LayerSpec(kind="Add", name="validation", inputs=("print", "image")),
        LayerSpec(kind="Flatten", name="evaluation"),
        LayerSpec(kind="Dense", name="keras", options=softmax),
    )
    output = OutputSpec(layer="keras", loss="sparse_categorical_crossentropy")
    code = sw.Experiment(network=NetworkSpec(layers=layers, outputs=(output,))).to_code()
    body = code[code.index("# Task") : code.index("model.compile")]
    inside, around = names_in(body), names_in(code.replace(body, "\n"))
    stored = {node.id for node in inside if isinstance(node.ctx, ast.Store)}
    assert stored & {node.id for node in around} == {"model"}
    assert {node.id for node in inside} & {"keras", "layers"}


def names_in(code):
    return [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]


def test_seed_of_the_master_takes_precedence():
    assert sw.Experiment(seed=5).seeded_master.seed == 5
    master = sw.ParameterAveragingTrainingMaster(seed=2)
    assert sw.Experiment(seed=5, master=master).seeded_master.seed == 2

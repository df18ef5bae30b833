import cloudpickle
import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import weights
from tests.support import own_models
from tests.support.in_process import InProcessPool, fit
from tests.support.own_models import (
    Late,
    Nested,
    OwnLoss,
    OwnTestStep,
    OwnTrainStep,
    Pair,
    Plain,
    Stepped,
    compiled,
    gan,
    undescribed,
)

import sparkwright as sw
from sparkwright.data import DataSet
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.networks import ModelDefinition
from sparkwright.networks.building import complete, model_of
from sparkwright.networks.signature import example_from, input_shapes, output_types, signature_of
from sparkwright.workers._batch_layout import BatchLayout
from sparkwright.workers._replica import make_replica


@pytest.fixture(autouse=True)
def _in_process(monkeypatch):
    monkeypatch.setattr("sparkwright.local.TrainerPool", InProcessPool)
    cloudpickle.register_pickle_by_value(own_models)


def examples(rows=60):
    """4 features, 3 classes."""
    random = np.random.default_rng(0)
    labels = np.arange(rows, dtype=np.int32) % 3
    features = random.normal(size=(3, 4))[labels] + 0.5 * random.normal(size=(rows, 4))
    return DataSet(features.astype(np.float32), labels)


def without_labels(rows=60):
    return DataSet(examples(rows).features)


def master(workers=1, **options):
    return sw.ParameterAveragingTrainingMaster(
        workers=workers, batch_size_per_worker=10, shuffle=False, **options
    )


def sharing(workers=2):
    threshold = sw.FixedThreshold(threshold=1e-3)
    return sw.SharedTrainingMaster(
        workers=workers, batch_size_per_worker=10, seed=1, threshold=threshold
    )


def fit_here(model, data, epochs=1):
    """Keras' own `fit`, eagerly: tracing takes longer than these few steps."""
    model.run_eagerly = True
    x, y = (list(group.values()) for group in (data.features, data.labels))
    arrays = (x[0], y[0]) if y else (x[0],)
    return model.fit(*arrays, batch_size=10, epochs=epochs, shuffle=False, verbose=0)


KINDS = {
    "undescribed": (undescribed, examples()),
    "nested": (lambda: compiled(Nested()), examples()),
    "late": (lambda: compiled(Late()), examples()),
    "train_step": (lambda: compiled(OwnTrainStep()), examples()),
    "compute_loss": (lambda: compiled(OwnLoss()), DataSet(examples().features, np.eye(60)[:, :5])),
    "test_step": (lambda: compiled(OwnTestStep()), examples()),
    "gan": (gan, without_labels()),
}


@pytest.mark.thorough
@cases("build, data", *KINDS.values(), ids=KINDS)
def test_one_worker_trains_like_keras(build, data):
    model, local = build(), build()
    # Keras decides what a model without `get_config` is, and else is rebuilt from its description.
    run = fit(build if build in (undescribed, gan) else model, master(), data, epochs=2)
    history = fit_here(local, data, epochs=2).history
    np.testing.assert_allclose(weights(run.model), weights(local), atol=1e-6)
    name = "loss" if "loss" in history else "d_loss"
    losses = run.history.groupby("epoch")["loss"].mean()
    np.testing.assert_allclose(losses, history[name], rtol=1e-4)
    if "largest" in history:  # what else a `train_step` returns is a metric of the run
        largest = run.history.groupby("epoch")["largest"].last()
        np.testing.assert_allclose(largest, history["largest"], rtol=1e-5)


@pytest.mark.thorough
@cases(
    "how, kind",
    (master(2, averaging_frequency=2), "late"),
    *((sharing(), kind) for kind in ("nested", "gan")),
    ids=["late", "nested", "gan"],
)
def test_two_workers_train_all_variables(how, kind):
    build, data = KINDS[kind]
    run = fit(build, how, data, epochs=2)
    start = ModelDefinition.of(run.model).build()  # seeded
    for old, new in zip(start.trainable_variables, run.model.trainable_variables, strict=True):
        assert np.isfinite(new.numpy()).all()
        assert np.abs(new.numpy() - old.numpy()).max() > 1e-4
    assert run.status.state == "done"


@pytest.mark.thorough
def test_averaging_each_step_averages_the_state_of_all_optimizers():
    data = without_labels(40)
    run = fit(gan, master(2, averaging_frequency=1), data)
    halves = [data.take(slice(0, 20)), data.take(slice(20, 40))]
    locals_ = [gan(), gan()]
    for number in (0, 10):
        for model, half in zip(locals_, halves, strict=True):
            fit_here(model, half.take(slice(number, number + 10)))
        states = [_floats(model) for model in locals_]
        for variables in zip(*states, strict=True):
            mean = np.mean([v.numpy() for v in variables], 0)
            for variable in variables:
                variable.assign(mean)
    for ours, theirs in zip(_floats(run.model), _floats(locals_[0]), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-6)
    assert int(run.model.d_optimizer.iterations) == 2
    assert int(run.model.g_optimizer.iterations) == 4


def _floats(model):
    optimizers = (model.d_optimizer, model.g_optimizer)
    found = [*model.trainable_variables, *(v for each in optimizers for v in each.variables)]
    return [variable for variable in found if "float" in str(variable.dtype)]


@pytest.mark.thorough
def test_train_step_builds_a_model_without_call():
    model = Stepped()  # which Keras' own `fit` cannot build
    model.compile(keras.optimizers.Adam(0.01))
    losses = fit(model, master(), examples(), epochs=4).history.groupby("epoch")["loss"].mean()
    assert losses.iloc[-1] < losses.iloc[0]


@pytest.mark.thorough
def test_validation_calls_test_step_and_sums_metrics_over_workers():
    model = compiled(OwnTestStep())
    run = fit(model, master(2, averaging_frequency=2), examples(), validation=examples(50))
    found = run.status.validation[-1]
    data = examples(50)
    likely = model.predict(data.features["features"], verbose=0)[
        np.arange(50), data.labels["labels"]
    ]
    assert found.loss == pytest.approx(2 * np.mean(1 - likely), rel=1e-4)
    assert found.metrics["distance"] == pytest.approx(np.mean(1 - likely), rel=0.05)


def test_keras_test_step_validates_a_model_with_custom_metrics():
    class Counting(OwnTrainStep):
        @property
        def metrics(self):
            return [self.largest]

    data = examples()
    model = compiled(Counting())
    run = fit(model, master(), data, validation=data)
    predicted = model.predict(data.features["features"], verbose=0)
    expected = keras.losses.sparse_categorical_crossentropy(data.labels["labels"], predicted)
    assert run.status.validation[-1].loss == pytest.approx(np.mean(expected), rel=1e-4)


@pytest.mark.thorough
def test_training_resumes_from_a_checkpoint_of_a_built_model(tmp_path):
    url = str(tmp_path / "checkpoints")
    how = master(checkpoint=sw.Checkpointing(url, every_rounds=1))
    fit(undescribed, how, examples(), epochs=1)
    # Another function, as in another process: what counts is the network.
    run = fit(lambda: undescribed(), how, examples(), epochs=2, resume=url)
    straight = fit(undescribed, master(), examples(), epochs=2)
    np.testing.assert_allclose(weights(run.model), weights(straight.model), atol=1e-6)


def test_builder_code_is_not_written_to_files_and_required_for_reading(tmp_path):
    how = master(checkpoint=sw.Checkpointing(str(tmp_path / "checkpoints"), every_rounds=1))
    model = fit(undescribed, how, examples()).model
    url = str(tmp_path / "model.keras")
    sw.save_model(model, url)
    assert ModelDefinition.of(model).builder
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"cloudpickle" not in path.read_bytes()
    with pytest.raises(DataError, match="Pass it as `build_model`"):
        sw.load_model(url)


@pytest.mark.thorough
def test_features_and_outputs_are_matched_by_name():
    random = np.random.default_rng(0)
    data = DataSet(
        {"wide": random.random((30, 3), np.float32), "narrow": random.random((30, 2), np.float32)},
        {"kind": random.integers(0, 2, 30), "size": random.random((30, 1), np.float32)},
    )

    def build():
        model = Pair()
        losses = {"size": "mse", "kind": "sparse_categorical_crossentropy"}
        model.compile(keras.optimizers.SGD(0.1), losses)
        return model

    model, local = build(), build()
    fit(model, master(), data)
    for batch in data.batches(10):
        local.train_on_batch(batch.features, batch.labels)
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-6)
    assert input_shapes(model) == {"wide": (3,), "narrow": (2,)}
    assert list(output_types(model)) == ["kind", "size"]
    replica = make_replica(ModelDefinition.of(model))
    replica.model.set_weights(model.get_weights())
    columns = {name: array for name, array in data.columns().items() if "features" in name}
    outputs = replica.predict(BatchLayout(replica.model, columns), columns)
    expected = local.predict(data.features, verbose=0)
    for name, output in zip(output_types(model), outputs, strict=True):
        np.testing.assert_allclose(output, expected[name], atol=1e-5)


def test_list_of_features_takes_the_names_of_the_data():
    class Sum(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x):
            first, second = x
            return self.dense(first + second), self.dense(first)

    model = Sum()
    columns = {"features/a": ("float32", (3,)), "features/b": ("float32", (3,))}
    complete(model, example_from(model, columns), traced=False)
    found = signature_of(model)
    assert (found.input_form, list(found.inputs)) == ("list", ["a", "b"])
    assert dict(found.outputs) == {"output_1": ("float32", (2,)), "output_2": ("float32", (2,))}


def test_shapes_of_a_built_model_are_known_without_data():
    model = Plain()
    model(keras.Input((4,)))
    assert input_shapes(model) == {"features": (4,)}
    assert output_types(model) == {"output": ("float32", (3,))}
    assert len(model._inbound_nodes) == 1  # the user's call


class Numbered(Plain):
    made = 0

    def __init__(self, activation):
        Numbered.made += 1
        super().__init__(units=5 + Numbered.made)


class Careless(Plain):
    """Its description leaves out what it was made with."""

    def get_config(self):
        return {}


class Several(Plain):
    def call(self, x, y, training=False):
        return super().call(x + y, training=training)


class Untraceable(keras.Model):
    def __init__(self):
        super().__init__()
        self.kinds = keras.layers.Dense(3)

    def train_step(self, data):
        raise RuntimeError("out of order")

    def call(self, x):
        return self.kinds(x)


class NoCall(keras.Model):
    def __init__(self):
        super().__init__()
        self.kinds = keras.layers.Dense(3)


def several():
    model = compiled(Several())
    model(np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32))
    return model


def misplaced():
    model = Plain()
    model.compile("sgd", "mse", ["accuracy"])
    return model


def untraceable():
    model = Untraceable()
    model.compile("sgd", "mse")
    model.other = keras.optimizers.SGD()
    return model


@cases(
    "given, said",
    (lambda: compiled(own_models.Undescribed(abs)), "Keras cannot serialize it"),
    (lambda: compiled(Careless(units=5)), "its trained variables: .* pass a function"),
    (lambda: several(), "must take its inputs as one argument"),
    (lambda: untraceable(), "fails: out of order"),
    (lambda: compiled(NoCall()), "must implement `call` or `train_step`"),
    (lambda: Plain(), "must be compiled with an optimizer"),
    (lambda: misplaced(), r"Received: \['accuracy'\]. .* metrics=\[…\]"),
    ids=[
        *("undescribed", "careless", "several", "untraceable", "no call", "not compiled"),
        "metrics as loss weights",
    ],
)
def test_model_that_workers_cannot_build_is_rejected(given, said, monkeypatch):
    monkeypatch.setattr("sparkwright.local.LocalLauncher", None)  # which would begin the run
    with pytest.raises(ConfigurationError, match=said):
        fit(given(), master(), examples())


def test_function_must_build_the_same_model_each_time():
    with pytest.raises(ConfigurationError, match="second model differs: its trained variables"):
        fit(lambda: compiled(Numbered(abs)), master(), examples())
    for given in (3, lambda: 3):
        with pytest.raises(ConfigurationError, match="a NetworkSpec, or a function"):
            model_of(given)


def test_validation_requires_test_step_or_a_loss():
    with pytest.raises(ConfigurationError, match=r"or `test_step`.*leave `validation`"):
        fit(gan, master(), without_labels(), validation=without_labels())

import inspect
from dataclasses import replace

import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import weights
from tests.support.in_process import fit
from tests.workers.test_callbacks import blobs, master_of, network

import sparkwright as sw
from sparkwright.data.classes import weighted, weighted_by_class
from sparkwright.masters.plan import epoch_order
from sparkwright.runs.fit_options import checked_options

__all__ = ["blobs"]  # the fixture


pytestmark = pytest.mark.usefixtures("in_process")


def here(build, x, y, **options):
    model = build()
    model.fit(x, y, **{"batch_size": 10, "epochs": 2, "shuffle": False, "verbose": 0, **options})
    return model


SAMPLE = np.linspace(0, 2, 60, dtype=np.float32)


@pytest.mark.thorough
@cases(
    "kind, options",
    ("averaging", {"class_weight": {0: 3.0, 2: 0.25}}),
    ("sharing", {"sample_weight": SAMPLE}),
    ("sharing", {"validation_split": 0.25, "class_weight": {1: 2.0}}),
    ("averaging", {"validation_split": 0.25, "sample_weight": SAMPLE}),
    ids=["class", "sample", "split", "split of weighted"],
)
def test_weights_and_splits_equal_keras(blobs, kind, options):
    x, y = blobs.features["features"], blobs.labels["labels"]
    local, model = here(network, x, y, **options), network()
    run = fit(model, master_of(kind), blobs, epochs=2, **options)
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-6)
    assert list(run.epoch_history.history) == list(local.history.history)
    for name, values in local.history.history.items():
        np.testing.assert_allclose(run.epoch_history.history[name], values, atol=1e-6)


def test_fit_returns_what_keras_returns(blobs):
    x, y = blobs.features["features"], blobs.labels["labels"]
    with sw.ParallelWrapper(network(), master_of("averaging"), workers=2) as wrapper:
        found, local = wrapper.fit(x, y, epochs=2), here(network, x, y)
        assert found.model is wrapper.model
    assert (found.epoch, found.params["epochs"]) == (local.history.epoch, 2)
    assert found.history.keys() == local.history.history.keys()


def test_seed_of_keras_makes_runs_repeatable(blobs):
    def trained(seed):
        keras.utils.set_random_seed(seed)
        model = network()
        run = fit(model, replace(master_of("averaging"), seed=None), blobs, epochs=1)
        return run.configuration["seed"], weights(model)

    first, again, other = trained(3), trained(3), trained(4)
    assert first[0] == again[0] != other[0]
    np.testing.assert_array_equal(first[1], again[1])


def two_outputs():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    one = keras.layers.Dense(3, activation="softmax", name="one")(inputs)
    two = keras.layers.Dense(1, name="two")(inputs)
    model = keras.Model(inputs, [one, two])
    model.compile(keras.optimizers.SGD(0.05), ["sparse_categorical_crossentropy", "mse"])
    return model


@pytest.mark.thorough
def test_weights_of_each_output_equal_keras(blobs):
    x, y = blobs.features["features"], blobs.labels["labels"]
    labels, by_output = {"one": y, "two": x[:, :1]}, {"one": SAMPLE, "two": SAMPLE[::-1].copy()}
    local = here(two_outputs, x, [y, x[:, :1]], sample_weight=[by_output["one"], by_output["two"]])
    model = two_outputs()
    data = sw.DataSet(x, labels)
    fit(model, master_of("averaging"), data, epochs=2, sample_weight=by_output)
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-6)
    with pytest.raises(sw.ConfigurationError, match=r"one output.*'one', 'two'.*sample_weight"):
        fit(model, master_of("averaging"), data, class_weight={0: 2.0})


def test_data_column_becomes_the_weights(blobs):
    features = {**blobs.features, "trust": SAMPLE[:, None]}
    found = weighted(sw.DataSet(features, blobs.labels, weights=SAMPLE), sample_weight="trust")
    assert list(found.features) == ["features"]
    np.testing.assert_allclose(found.columns()["weights"], SAMPLE**2)


def test_weights_multiply_step_masks():
    mask = np.array([[1, 1, 0], [1, 0, 0]], np.float32)
    data = sw.DataSet(np.zeros((2, 3, 1)), np.zeros((2, 3)), labels_masks=mask)
    for given, expected in (
        (np.array([[1, 2, 3], [4, 5, 6]]), [[1, 2, 0], [4, 0, 0]]),
        ({"labels": np.array([2, 3])}, [[2, 2, 0], [3, 0, 0]]),
    ):
        assert weighted(data, sample_weight=given).labels_masks["labels"].tolist() == expected
    per_example = weighted(data, sample_weight=[0.5, 2]).columns()["weights"]
    assert per_example.tolist() == [0.5, 2]


@cases("labels", [2, 0, 1], [[2], [0], [1]], np.eye(3, dtype="f4")[[2, 0, 1]])
def test_class_weights_accept_class_numbers_and_one_hot_labels(labels):
    given = sw.DataSet(np.zeros((3, 1)), labels, weights=[2, 3, 4])
    found = weighted_by_class(given, class_weight={2: 5, 1: 0.5})
    assert found.columns()["weights"].tolist() == [10, 3, 2]


@cases(
    "weight, problem",
    (np.ones(3), r"shape \(3,\).*for 2 examples"),
    ({"other": np.ones(2)}, r"other of shape.*labels \['labels'\]"),
    ("nothing", r"sample_weight='nothing'; the data has \['features'\]"),
    ("features", "in addition to those of the network"),
    (["a", "b"], "dtype"),
)
def test_invalid_weights_are_rejected(weight, problem):
    with pytest.raises(sw.DataError, match=problem):
        weighted(sw.DataSet(np.zeros((2, 1)), np.zeros(2)), sample_weight=weight)


@pytest.mark.thorough
@cases("kind", "averaging", "sharing")
def test_epoch_of_steps_continues_where_the_last_one_ended(blobs, kind):
    x, y = blobs.features["features"], blobs.labels["labels"]
    local, model = network(), network()
    # Four of six minibatches an epoch: one and a half epochs are a pass.
    run = fit(model, master_of(kind, shuffle=True), blobs, epochs=3, steps_per_epoch=4)
    order = np.concatenate(
        [epoch_order(60, seed=1, epoch=number, worker=0, shuffle=True) for number in (0, 1)]
    )
    local.fit(x[order], y[order], batch_size=10, shuffle=False, verbose=0)
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-6)
    assert run.history.groupby("epoch").size().tolist() == [4, 4, 4]
    assert run.epoch_history.params["steps"] == 4
    assert run.configuration["master"]["steps_per_epoch"] == 4


@pytest.mark.thorough
def test_steps_are_distributed_over_the_workers(blobs):
    run = fit(network(), master_of("averaging", 2), blobs, epochs=2, steps_per_epoch=5)
    counts = run.history.groupby(["epoch", "worker"]).size()
    assert sorted(counts[1]) == [2, 3]
    assert run.history.groupby("epoch").size().tolist() == [5, 5]


@pytest.mark.thorough
def test_first_epoch_has_the_given_number(blobs):
    seen = []
    begins = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: seen.append(epoch))
    options = {"callbacks": begins, "validation": blobs}
    run = fit(network(), master_of("averaging"), blobs, epochs=4, initial_epoch=2, **options)
    assert seen == run.epoch_history.epoch == [2, 3]
    assert run.history["epoch"].unique().tolist() == [3, 4]
    assert [point.epoch for point in run.status.validation] == [3, 4]
    assert run.status.averagings == 12


@pytest.mark.thorough
def test_shuffle_overrides_the_master(blobs):
    models = [network() for _ in range(3)]
    for model, shuffle in zip(models, (None, False, True), strict=True):
        fit(model, master_of("averaging", shuffle=False), blobs, shuffle=shuffle)
    np.testing.assert_array_equal(weights(models[0]), weights(models[1]))
    assert not np.array_equal(weights(models[0]), weights(models[2]))


@cases(
    "options, problem",
    ({"validation_split": 1.0}, "from 0 to below 1"),
    ({"validation_split": 0.5, "validation": ()}, "exclude each other"),
    ({"initial_epoch": -1}, "`initial_epoch` must be"),
    ({"initial_epoch": 1, "resume": "a"}, "without `resume`"),
    ({"steps_per_epoch": 0}, "`steps_per_epoch` must be"),
    ({"shuffle": "batch"}, "`shuffle` must be True or False"),
    ({"class_weight": [1, 2]}, r"must map class numbers.*class_weight=\[1, 2\]"),
    ({"class_weight": {0: -1}}, "weights of at least 0"),
)
def test_invalid_options_are_rejected(options, problem):
    with pytest.raises(sw.ConfigurationError, match=problem):
        checked_options(options)


def test_epochs_must_exceed_the_initial_epoch(blobs):
    with pytest.raises(sw.ConfigurationError, match=r"epochs=2, initial_epoch=2"):
        fit(network(), master_of("averaging"), blobs, epochs=2, initial_epoch=2)


@cases(
    "name, remedy",
    ("batch_size", "`batch_size_per_worker`"),
    ("validation_data", "`validation`"),
    ("validation_freq", "each epoch"),
    ("x", r"`fit\(x, y\)`"),
    ("x1", "x1="),
)
def test_unknown_argument_error_suggests_the_right_name(name, remedy):
    with pytest.raises(TypeError, match=remedy):
        checked_options({name: 1})


def test_signatures_name_all_options():
    wrapper, network = sw.ParallelWrapper, sw.SparkNetwork
    for method in (wrapper.fit, wrapper.start, network.fit, network.start, network.fit_paths):
        parameters = inspect.signature(method).parameters
        assert {"epochs", "callbacks", "class_weight", "sample_weight", "shuffle"} < set(parameters)
        assert parameters["initial_epoch"].default == 0
        assert "options" not in parameters

import random
from functools import partial

import numpy as np
import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.workers.step_time import _random_batch, measure_step

keras = pytest.importorskip("keras")


def compiled(inputs, outputs, loss, optimizer="adam"):
    model = keras.Model(inputs, outputs)
    model.compile(optimizer=optimizer, loss=loss, metrics=[])
    return model


def classifier(loss):
    x = keras.Input((6,))
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(8)(x))
    return compiled(x, keras.layers.Dense(3, activation="softmax")(hidden), loss)


def reader():
    words = keras.Input((None,), dtype="int32", name="words")
    encoded = keras.layers.GRU(4)(keras.layers.Embedding(10, 4)(words))
    return compiled(
        words, keras.layers.Dense(1, activation="sigmoid")(encoded), "binary_crossentropy"
    )


def two_headed():
    left, right = keras.Input((3,), name="left"), keras.Input((2,), name="right")
    both = keras.layers.Concatenate()([left, right])
    kind = keras.layers.Dense(4, activation="softmax", name="kind")(both)
    size = keras.layers.Dense(1, name="size")(both)
    loss = {"kind": "sparse_categorical_crossentropy", "size": "mse"}
    return compiled([left, right], {"kind": kind, "size": size}, loss, "sgd")


@pytest.mark.thorough(but=["one-hot", "two inputs and outputs"])
@pytest.mark.parametrize(
    "make",
    [lambda: classifier("categorical_crossentropy"), reader, two_headed],
    ids=["one-hot", "sequences", "two inputs and outputs"],
)
def test_step_is_timed_and_the_network_is_unchanged(make):
    model = make()
    weights = [weight.copy() for weight in model.get_weights()]
    variables = len(model.optimizer.variables)
    random.seed(7)
    np.random.seed(7)
    expected = (random.Random(7).random(), np.random.RandomState(7).rand())
    found = measure_step(model, 4, budget_s=0.02)
    assert (random.random(), np.random.rand()) == expected
    assert found.seconds > 0
    assert found.examples_per_s == pytest.approx(4 / found.seconds)
    assert found.steps >= 1
    assert found.vector_bytes == 4 * model.count_params()
    for before, after in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    assert int(model.optimizer.iterations.numpy()) == 0
    assert len(model.optimizer.variables) == variables


def mean_squares(labels, outputs):
    return keras.ops.mean(keras.ops.square(labels - outputs), axis=-1)


def of_class_numbers(labels, outputs):
    assert len(labels.shape) == 1, "class numbers are wanted"
    return -keras.ops.log(keras.ops.take_along_axis(outputs, labels[:, None], axis=-1)[:, 0])


def no_loss(labels, outputs):
    raise ValueError("takes no labels at all")


@pytest.mark.parametrize(
    ("loss", "shape"),
    [
        ("sparse_categorical_crossentropy", (4,)),
        (keras.losses.sparse_categorical_crossentropy, (4,)),
        (keras.losses.SparseCategoricalCrossentropy(name="error"), (4,)),
        (keras.losses.MeanSquaredError(name="sparse_data"), (4, 3)),
        (partial(keras.losses.sparse_categorical_crossentropy, from_logits=True), (4,)),
        (mean_squares, (4, 3)),
    ],
)
def test_random_labels_match_the_loss_whatever_its_name(loss, shape):
    batch = _random_batch(classifier(loss), 4)
    assert [a.shape for name, a in batch.items() if name.startswith("labels")] == [shape]


def test_alternative_labels_are_tried_if_the_loss_rejects_the_first():
    with keras.saving.custom_object_scope({"of_class_numbers": of_class_numbers}):
        assert measure_step(classifier(of_class_numbers), 4, budget_s=0.001).seconds > 0


def test_networks_that_cannot_be_trained_are_rejected():
    with (
        keras.saving.custom_object_scope({"no_loss": no_loss}),
        pytest.raises(ConfigurationError, match=r"'no_loss', which failed with both .takes no"),
    ):
        measure_step(classifier(no_loss), 4)
    with pytest.raises(ConfigurationError, match="`batch_size` must be"):
        measure_step(reader(), 0)
    x = keras.Input((2,))
    with pytest.raises(ConfigurationError, match="not compiled"):
        measure_step(keras.Model(x, keras.layers.Dense(1)(x)), 4)

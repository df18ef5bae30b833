"""Means are over what label masks mark: in training, validation and its metrics, by hand."""

import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.support.in_process import fit

import sparkwright as sw

pytestmark = pytest.mark.usefixtures("in_process")
ROWS, STEPS, BATCH = 150, 4, 10
CHANCE = np.random.default_rng(0)
NUMBERS = CHANCE.normal(size=(ROWS, STEPS, 2)).astype(np.float32)
KINDS = CHANCE.integers(0, 3, (ROWS, STEPS))
ROW_WEIGHTS = CHANCE.uniform(0, 2, ROWS).astype(np.float32)
# Few in the last batch of validation, and none at all in one minibatch.
STEP_MASK = CHANCE.random((ROWS, STEPS)) < np.where(np.arange(ROWS) < 128, 0.7, 0.1)[:, None]
STEP_MASK[20:30] = False
ROW_MASK = STEP_MASK[:, 0]


def network(loss, *, steps=True, outputs=1):
    """A network that does not learn."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((STEPS, 2) if steps else (2,))
    layers = [keras.layers.Dense(3, "softmax", name=f"out{n}") for n in range(outputs)]
    found = [layer(inputs) for layer in layers]
    model = keras.Model(inputs, found[0] if outputs == 1 else found)
    model.compile(keras.optimizers.SGD(0.0), loss, metrics=["accuracy"] if outputs == 1 else None)
    return model


def crossentropy(outputs, kinds):
    return -np.log(np.take_along_axis(outputs, kinds[..., None], -1)[..., 0])


def squares(outputs, labels):
    return ((outputs - labels) ** 2).mean(-1)


def trained(model, data):
    """(losses of minibatches, loss and metrics of validation) of one epoch."""
    master = sw.ParameterAveragingTrainingMaster(
        workers=1, batch_size_per_worker=BATCH, shuffle=False, seed=1
    )
    run = fit(model, master, data, validation=data)
    return run.history["loss"].to_numpy(), run.status.validation[-1]


def assert_means(found, values, counts, *, weights=1.0):
    """`values` (n, …) are means over `counts`, of each minibatch and of all."""
    losses, validated = found
    parts = [
        ((values * weights * counts)[at : at + BATCH].sum(), counts[at : at + BATCH].sum())
        for at in range(0, ROWS, BATCH)
    ]
    expected = [total / count if count else 0.0 for total, count in parts]
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-6)
    mean = (values * weights * counts).sum() / counts.sum()
    assert validated.loss == pytest.approx(mean, rel=1e-4)


@cases("weighted", False, True)
def test_steps_that_count_are_averaged(weighted):
    model = network("sparse_categorical_crossentropy")
    data = sw.DataSet(
        NUMBERS, KINDS, labels_masks=STEP_MASK, weights=ROW_WEIGHTS if weighted else None
    )
    outputs = np.asarray(model.predict(NUMBERS, verbose=0))
    found = trained(model, data)
    weights = ROW_WEIGHTS[:, None] if weighted else 1.0
    assert_means(found, crossentropy(outputs, KINDS), STEP_MASK, weights=weights)
    right = (outputs.argmax(-1) == KINDS)[STEP_MASK]
    assert found[1].metrics["accuracy"] == pytest.approx(right.mean(), rel=1e-4)


@cases("steps", False, True)
def test_examples_that_count_are_averaged(steps):
    features = NUMBERS if steps else NUMBERS[:, 0]
    labels = np.eye(3, dtype=np.float32)[KINDS if steps else KINDS[:, 0]]
    model = network("mean_squared_error", steps=steps)
    outputs = np.asarray(model.predict(features, verbose=0))
    found = trained(model, sw.DataSet(features, labels, labels_masks=ROW_MASK))
    counts = np.broadcast_to(ROW_MASK[:, None], (ROWS, STEPS)) if steps else ROW_MASK
    assert_means(found, squares(outputs, labels), counts)


def test_weights_of_examples_are_those_of_all_their_steps():
    model = network("sparse_categorical_crossentropy")
    outputs = np.asarray(model.predict(NUMBERS, verbose=0))
    found = trained(model, sw.DataSet(NUMBERS, KINDS, weights=ROW_WEIGHTS))
    everything = np.ones((ROWS, STEPS))
    assert_means(found, crossentropy(outputs, KINDS), everything, weights=ROW_WEIGHTS[:, None])


def test_weights_of_steps_are_weights_and_zero_marks_none():
    model = network("sparse_categorical_crossentropy")
    outputs = np.asarray(model.predict(NUMBERS, verbose=0))
    weights = (STEP_MASK * CHANCE.uniform(0.5, 2, STEP_MASK.shape)).astype(np.float32)
    found = trained(model, sw.DataSet(NUMBERS, KINDS, labels_masks=weights))
    assert_means(found, crossentropy(outputs, KINDS), STEP_MASK, weights=weights)


def test_each_output_has_the_mean_over_its_own_labels():
    model = network(["mean_squared_error"] * 2, steps=False, outputs=2)
    features, labels = NUMBERS[:, 0], np.eye(3, dtype=np.float32)[KINDS[:, 0]]
    outputs = model.predict(features, verbose=0)
    data = sw.DataSet(features, {"out0": labels, "out1": labels}, labels_masks={"out1": ROW_MASK})
    losses, _ = trained(model, data)
    one, two = (squares(np.asarray(each), labels) for each in outputs)
    for number, loss in enumerate(losses):
        part = slice(number * BATCH, (number + 1) * BATCH)
        counted = two[part][ROW_MASK[part]]
        assert loss == pytest.approx(
            one[part].mean() + (counted.mean() if counted.size else 0), rel=1e-4
        )


def test_a_custom_train_step_gets_weights_whose_mean_is_over_what_counts():
    class Own(keras.Model):
        def train_step(self, data):
            return super().train_step(data)

    plain = network("sparse_categorical_crossentropy")
    model = Own(plain.inputs, plain.outputs)
    model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy")
    outputs = np.asarray(model.predict(NUMBERS, verbose=0))
    losses, _ = trained(model, sw.DataSet(NUMBERS, KINDS, labels_masks=STEP_MASK))
    values = crossentropy(outputs, KINDS)
    for number, loss in enumerate(losses):
        part = slice(number * BATCH, (number + 1) * BATCH)
        counted = values[part][STEP_MASK[part]]
        assert loss == pytest.approx(counted.mean() if counted.size else 0, rel=1e-4, abs=1e-6)

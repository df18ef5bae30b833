import keras
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tests.support.in_process import fit

import sparkwright as sw
from sparkwright.workers.metric_values import as_keras_logs, numbers_of

VALUES = st.one_of(
    st.floats(-9, 9),
    arrays(np.float64, array_shapes(max_dims=3, max_side=3), elements=st.floats(-9, 9)),
)


@given(st.dictionaries(st.text("ab/_ ", min_size=1).filter(lambda n: n[-1] != "/"), VALUES))
def test_arrays_become_numbers_and_arrays_again(results):
    numbers = dict(numbers_of(results))
    assert all(np.ndim(number) == 0 for number in numbers.values())
    found = as_keras_logs(numbers)
    assert list(found) == list(results)
    for name, value in results.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("names", [["top/5"], ["a/0", "a/0/0"], ["a/1", "a/2"]])
def test_names_that_only_look_like_parts_of_an_array_are_kept(names):
    logs = dict.fromkeys(["loss", *names], 0.5)
    assert as_keras_logs(logs) == logs


@keras.saving.register_keras_serializable()
class Counted(keras.metrics.Metric):
    """A dict: how often each class is predicted, given each class, and the number of examples."""

    def __init__(self, name="counted", **options):
        super().__init__(name=name, **options)
        self.counts = self.add_weight(name="counts", shape=(3, 3), initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        given = keras.ops.one_hot(keras.ops.reshape(y_true, [-1]), 3)
        predicted = keras.ops.one_hot(keras.ops.argmax(y_pred, axis=-1), 3)
        self.counts.assign_add(keras.ops.transpose(given) @ predicted)

    def result(self):
        return {"table": self.counts + 0.0, "examples": keras.ops.sum(self.counts)}


@keras.saving.register_keras_serializable()
class OwnStep(keras.Sequential):
    """A step of its own, with Keras' results."""

    def train_step(self, data):
        return super().train_step(data)


class Kept(keras.callbacks.Callback):
    """The logs of each epoch."""

    def __init__(self):
        super().__init__()
        self.logs = []

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append(dict(logs))


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep])
def test_metrics_that_are_arrays_and_dicts_are_those_of_keras(blobs, kind):
    labels = np.eye(3, dtype=np.float32)[blobs.labels["labels"]]

    def build():
        model = kind(
            [keras.Input((4,)), keras.layers.Dense(3, "softmax", kernel_initializer="ones")]
        )
        metrics = [keras.metrics.F1Score(name="f1")]
        model.compile("sgd", "categorical_crossentropy", metrics=metrics)
        return model

    x, kept, seen = blobs.features["features"], Kept(), Kept()
    options = {"validation_data": (x, labels), "epochs": 2, "batch_size": 10, "verbose": 0}
    expected = build().fit(x, labels, shuffle=False, callbacks=[kept], **options).history
    data = sw.DataSet(x, labels)
    master = sw.ParameterAveragingTrainingMaster(workers=1, batch_size_per_worker=10, shuffle=False)
    run = fit(build(), master, data, validation=data, epochs=2, callbacks=[seen])
    history = run.epoch_history.history
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, atol=1e-5, err_msg=name)
        found = [logs[name] for logs in seen.logs]
        np.testing.assert_allclose(found, [logs[name] for logs in kept.logs], atol=1e-5)
    assert run.history["f1/2"].notna().any()


@pytest.mark.usefixtures("in_process")
def test_validation_adds_the_tables_of_all_workers(blobs):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=[Counted()])
    master = sw.SharedTrainingMaster(workers=2, batch_size_per_worker=10)
    history = fit(model, master, blobs, validation=blobs, epochs=1).epoch_history.history
    predicted = model.predict(blobs.features["features"], verbose=0).argmax(axis=1)
    expected = np.zeros((3, 3))
    np.add.at(expected, (blobs.labels["labels"], predicted), 1)
    np.testing.assert_array_equal(history["val_table"], [expected])
    assert history["val_examples"] == [120]

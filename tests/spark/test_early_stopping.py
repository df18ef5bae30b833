import threading

import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import weights
from tests.spark.test_checkpoints import averaging, model_of, sharing

import sparkwright as sw

pytestmark = pytest.mark.usefixtures("in_process")
# Scores of more epochs than any test trains.
_PLACES = 16


def falls(y_true, y_pred):
    """A loss whose gradient is 1 everywhere: each step lowers every weight by the learning rate."""
    import tensorflow as tf

    del y_true
    return tf.reduce_sum(y_pred, axis=-1)


def scripted(y_true, y_pred):
    """A metric that says, after epoch n, what stands at place n of the labels."""
    import tensorflow as tf

    place = tf.cast(tf.round(-y_pred[:, :1]), tf.int32) % _PLACES
    return tf.gather(y_true, place, batch_dims=1)


def clock():
    """A network whose weights are minus the number of its epochs."""
    layer = keras.layers.Dense(_PLACES, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), layer], name="clock")
    model.compile(keras.optimizers.SGD(0.25), falls, metrics=[scripted])
    return model


def script(*scores):
    """40 examples: 4 minibatches of 5 for each of 2 workers."""
    labels = np.resize(np.array([0.0, *scores], np.float32), _PLACES)
    return sw.DataSet(np.ones((40, 1), np.float32), np.tile(labels, (40, 1)))


def epoch_of(model):
    """How many epochs the clock's weights have seen."""
    found = np.unique(-model.get_weights()[0])
    assert found.size == 1
    return float(found[0])


def stopping(**options):
    settings = {"monitor": "val_scripted", "mode": "min", "patience": 2, **options}
    return keras.callbacks.EarlyStopping(restore_best_weights=True, **settings)


@pytest.fixture(scope="module")
def two():
    """Two workers, threads of this process, that keep their networks warm."""
    with sw.ParallelWrapper(clock(), averaging(), workers=2) as wrapper:
        yield wrapper


def trained(wrapper, scores, callbacks, **options):
    """A finished run of the clock, whose weights are 0 at the beginning."""
    wrapper.model.set_weights([np.zeros((1, _PLACES))])
    wrapper.model.optimizer.iterations.assign(0)
    data, epochs = script(*scores), len(scores)
    options = {"epochs": epochs, "validation": data, "callbacks": callbacks, **options}
    run = wrapper.start(data, display=False, **options)
    run.wait(60)
    return run


def test_training_ends_after_the_expected_epoch_with_the_best_weights(two):
    run = trained(two, [3, 1, 2, 2, 2, 2], [stopping()])
    assert (run.status.epoch, run.status.state, run.restored_epoch) == (4, "done", 2)
    assert epoch_of(two.model) == 2
    assert run.status.message == (
        "a callback ended training in epoch 4; the model holds the weights of epoch 2"
    )
    assert run.configuration["callbacks"] == [
        "EarlyStopping(monitor='val_scripted', patience=2, mode='min', restore_best_weights=True)"
    ]
    whole = trained(two, [3, 2, 1], [stopping()])
    assert (whole.restored_epoch, epoch_of(two.model), whole.status.epoch) == (3, 3, 3)
    last = trained(two, [3, 1, 2], [])
    assert (last.restored_epoch, last.status.message, epoch_of(two.model)) == (None, "done", 3)


def test_stopped_run_reports_which_weights_the_model_holds(two):
    class Stops(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 3:
                runs[0].stop()

    runs = []
    data = script(3, 1, 2, 2, 2, 2, 2, 2)
    two.model.set_weights([np.zeros((1, _PLACES))])
    two.model.optimizer.iterations.assign(0)
    go = threading.Event()
    waits = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: go.wait(30))
    callbacks = [waits, stopping(patience=9), Stops()]
    runs.append(two.start(data, epochs=8, validation=data, callbacks=callbacks, display=False))
    go.set()
    runs[0].wait(60)
    assert runs[0].status.state == "stopped"
    assert (runs[0].restored_epoch, epoch_of(two.model)) == (2, 2)
    assert runs[0].status.message == "stopped; the model holds the weights of epoch 2"


def test_gradient_sharing_ends_after_the_expected_epoch_with_the_best_weights():
    # Each step lowers each weight by just what a message carries, so both masters keep time alike.
    model = clock()
    model.optimizer.learning_rate.assign(0.125)
    master = sharing(threshold=sw.FixedThreshold(threshold=0.125), minibatches_per_message=1)
    with sw.ParallelWrapper(model, master, workers=2) as wrapper:
        run = trained(wrapper, [3, 1, 2, 2, 2, 2], [stopping()])
    assert (run.status.epoch, run.restored_epoch, epoch_of(model)) == (4, 2, 2)


@cases("patience, ends", (2, 5), (4, 7), ids=["same-rules", "more-patience"])
def test_resumed_run_ends_where_the_undisturbed_one_would(two, tmp_path, patience, ends):
    """The checkpoint has the best score, the epochs since, and the best weights."""
    scores = [3, 2, 1, 2, 2, 2, 2, 2, 2]
    master = averaging(checkpoint=sw.Checkpointing(str(tmp_path), every_rounds=1))
    with sw.ParallelWrapper(clock(), master, workers=2) as wrapper:
        trained(wrapper, scores, [stopping()], epochs=4)
    run = trained(two, scores, [stopping(patience=patience)], resume=str(tmp_path))
    assert (run.status.epoch, run.restored_epoch, epoch_of(two.model)) == (ends, 3, 3)


def test_resumed_run_lowers_the_learning_rate_where_the_undisturbed_one_would(blobs, tmp_path):
    def plateau():
        return keras.callbacks.ReduceLROnPlateau(
            "val_loss", patience=3, factor=0.5, min_delta=9.0, cooldown=1
        )

    master = averaging(checkpoint=sw.Checkpointing(str(tmp_path), every_rounds=1))
    rates = []
    for parts in ([9], [5, 9]):
        for place, epochs in enumerate(parts):
            resume = {"resume": str(tmp_path)} if place else {}
            with sw.ParallelWrapper(model_of(), master, workers=2) as wrapper:
                run = wrapper.start(
                    blobs, epochs=epochs, validation=blobs, callbacks=[plateau()], display=False,
                    **resume,
                )  # fmt: skip
                run.wait(60)
        rates.append(run.history.groupby("epoch")["learning_rate"].max().tolist())
    assert rates[0] == rates[1]
    assert len(set(rates[0])) == 3


def test_best_weights_equal_those_of_their_epoch_bit_for_bit(spark, blobs, leaves_nothing):
    """The highest accuracy, against a second run which trains just as many epochs."""
    model, same = model_of(), model_of()
    train, validation = blobs.take(slice(0, 80)), blobs.take(slice(80, 120))
    callback = keras.callbacks.EarlyStopping("val_accuracy", patience=2, restore_best_weights=True)
    network = sw.SparkNetwork(spark, model, averaging())
    run = network.start(train, epochs=40, validation=validation, callbacks=[callback])
    run.wait(120)
    scores = {point.epoch: point.metrics["accuracy"] for point in run.status.validation}
    best = run.restored_epoch
    assert best is not None
    assert scores[best] == max(scores.values())
    assert run.status.epoch == best + 2
    assert network.evaluate(validation).accuracy == pytest.approx(scores[best], abs=1e-3)
    sw.SparkNetwork(spark, same, averaging()).fit(train, epochs=best, validation=validation)
    np.testing.assert_array_equal(weights(model), weights(same))

import json

import h5py
import keras
import numpy as np
import pytest
from tests.spark.helpers import dense

import sparkwright as sw

AVERAGING = sw.ParameterAveragingTrainingMaster(
    workers=2, batch_size_per_worker=10, averaging_frequency=2, seed=3
)


def network():
    """With all kinds of state: moments, a schedule by iterations, BatchNormalization, Dropout."""
    layers = keras.layers
    start = [keras.initializers.GlorotUniform(seed=seed) for seed in (1, 2)]
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(8, activation="tanh", kernel_initializer=start[0]),
            layers.BatchNormalization(),
            layers.Dropout(0.3, seed=5),
            layers.Dense(3, activation="softmax", kernel_initializer=start[1]),
        ],
        name="stateful",
    )
    rates = keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.8)
    model.compile(keras.optimizers.Adam(rates), "sparse_categorical_crossentropy")
    return model


def assert_equal(first, second):
    ours, theirs = ((*model.variables, *model.optimizer.variables) for model in (first, second))
    for expected, found in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_averaging_continues_after_loading_as_without_interruption(spark, blobs, tmp_path):
    url = f"file://{tmp_path}/models/model.keras"
    straight = sw.SparkNetwork(spark, network(), AVERAGING)
    straight.fit(blobs, epochs=1)
    straight.save(url)
    loaded = sw.SparkNetwork.load(spark, url, AVERAGING)
    assert_equal(straight.model, loaded.model)
    straight.fit(blobs, epochs=1)
    loaded.fit(blobs, epochs=1)
    assert_equal(straight.model, loaded.model)
    assert int(loaded.model.optimizer.iterations) == 12
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["model.keras"]


@pytest.mark.thorough
def test_training_configuration_is_saved_with_the_network(spark, blobs, tmp_path):
    url = str(tmp_path / "model.keras")
    trained = sw.SparkNetwork(spark, dense(), AVERAGING)
    trained.save(url, saved_by=None)
    info = sw.model_info(url)
    assert (info.training, info.saved_by) == ({"master": AVERAGING.to_dict()}, None)
    run = trained.start(blobs, validation=blobs, display=False)
    run.wait()
    trained.save(url, metrics={"accuracy": trained.evaluate(blobs).accuracy}, comment="one epoch")
    info = sw.model_info(url)
    assert info.comment == "one epoch"
    assert 0 < info.metrics["accuracy"] <= 1
    assert info.training is not None
    history = run.history
    assert info.training == {
        "master": AVERAGING.to_dict(),
        "run": run.id,
        "state": "done",
        "epochs": 1,
        "examples": 120,
        "averagings": run.status.averagings,
        "seconds": pytest.approx(run.seconds, abs=1e-3),
        "loss": pytest.approx(np.average(history["loss"], weights=history["examples"])),
        "validation_loss": run.status.validation[-1].loss,
    }
    assert sw.masters.TrainingMaster.from_dict(info.training["master"]) == AVERAGING
    trained.save(url, save_updater=False)
    assert sw.model_info(url).has_updater is False


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_deeplearning4j_file_includes_its_training_master(spark, tmp_path):
    url = str(tmp_path / "model.h5")
    dense().save(url)
    assert sw.SparkNetwork.load(spark, url).master is None
    config = {"mode": "asynchronous", "num_workers": 2, "batch_size": 16}
    with h5py.File(url, "a") as file:
        file.attrs["distributed_config"] = json.dumps({"config": config})
    loaded = sw.SparkNetwork.load(spark, url)
    assert loaded.master == sw.SharedTrainingMaster(
        workers=2, batch_size_per_worker=16, prefetch_batches=0, threshold=sw.FixedThreshold()
    )
    assert sw.SparkNetwork.load(spark, url, AVERAGING).master is AVERAGING


def test_code_in_a_file_is_executed_only_on_request(spark, tmp_path):
    url = str(tmp_path / "model.keras")
    double = keras.layers.Lambda(lambda x: 2 * x)
    sw.save_model(keras.Sequential([keras.Input((2,)), double]), url)
    with pytest.raises(sw.DataError, match="must not contain code unless you allow it"):
        sw.SparkNetwork.load(spark, url)
    loaded = sw.SparkNetwork.load(spark, url, safe_mode=False)
    assert np.asarray(loaded.model(np.ones((1, 2)))).tolist() == [[2, 2]]

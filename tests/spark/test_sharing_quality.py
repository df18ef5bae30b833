"""Gradient sharing learns as well as one process does, with a small part of the traffic."""

from typing import Any

import pytest

import sparkwright as sw

# With the cores to itself: beside other tests updates arrive late, which costs accuracy.
pytestmark = [pytest.mark.spark, pytest.mark.cluster]
EPOCHS = 10


@pytest.fixture(scope="module")
def digits(spark: Any) -> tuple[Any, Any]:
    train, test = sw.data.digits(spark).random_split([0.8, 0.2], seed=7)
    return train, test.collect()


def lenet() -> Any:
    import keras

    keras.utils.set_random_seed(3)
    return sw.networks.lenet()


def accuracy(model: Any, test: Any) -> float:
    images, labels = test.features["features"], test.labels["labels"]
    return float((model.predict(images, verbose=0).argmax(-1) == labels).mean())


def test_sharing_is_as_accurate_as_one_process_and_sends_little(
    spark: Any, digits: tuple[Any, Any]
) -> None:
    train, test = digits
    examples, alone = train.collect(), lenet()
    alone.fit(
        examples.features["features"],
        examples.labels["labels"],
        batch_size=32,
        epochs=EPOCHS,
        verbose=0,
    )
    model = lenet()
    master = sw.SharedTrainingMaster(
        workers=4,
        batch_size_per_worker=32,
        threshold=sw.AdaptiveThreshold(initial=1e-3),
        seed=1,
    )
    run = sw.SparkNetwork(spark, model, master).start(train, epochs=EPOCHS)
    run.wait(120)
    assert accuracy(model, test) >= accuracy(alone, test) - 0.01
    assert 4 * model.count_params() / run.history["message_bytes"].mean() >= 20

"""Gradient sharing learns as well as one process does, with a small part of the traffic."""

from typing import Any

import pytest

import sparkwright as sw

pytestmark = pytest.mark.spark
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


@pytest.fixture(scope="module")
def alone(digits: tuple[Any, Any]) -> float:
    """Accuracy of `model.fit` in this process."""
    train, test = digits
    examples, model = train.collect(), lenet()
    model.fit(
        examples.features["features"],
        examples.labels["labels"],
        batch_size=32,
        epochs=EPOCHS,
        verbose=0,
    )
    return accuracy(model, test)


@pytest.mark.parametrize(("workers", "per_message"), [(2, None), (4, 1)])
def test_sharing_is_as_accurate_as_one_process_and_sends_little(
    spark: Any, digits: tuple[Any, Any], alone: float, workers: int, per_message: int | None
) -> None:
    train, test = digits
    model = lenet()
    master = sw.SharedTrainingMaster(
        workers=workers,
        batch_size_per_worker=32,
        threshold=sw.AdaptiveThreshold(initial=1e-3),
        minibatches_per_message=per_message,
        seed=1,
    )
    run = sw.SparkNetwork(spark, model, master).start(train, epochs=EPOCHS)
    run.wait(120)
    found = accuracy(model, test)
    dense_bytes = 4 * model.count_params()
    times_smaller = dense_bytes / run.history["message_bytes"].mean()
    print(f"{workers} workers: {found:.4f}, alone {alone:.4f}; {times_smaller:.0f} times smaller")
    assert found >= alone - 0.01
    assert times_smaller >= 20

import keras
import numpy as np
import pytest
from tests.spark.helpers import dense

import sparkwright as sw
from sparkwright.data import Standardize, from_arrays


@pytest.mark.thorough
def test_worst_examples_have_the_highest_loss_for_any_partitioning(spark, blobs):
    network = sw.SparkNetwork(spark, dense(regularizer="l2"))
    x, y = blobs.features["features"], blobs.labels["labels"]
    data = from_arrays(spark, x, y, partitions=5)
    losses = np.array(network.score_examples(data, regularization=False).collect())
    starts = np.concatenate([[0], np.cumsum(data.partition_counts())])
    predictions = network.predict(x)
    worst = network.worst_examples(data, 7)
    rows = [starts[example.partition] + example.row for example in worst]
    assert rows == np.argsort(-losses, kind="stable")[:7].tolist()
    assert worst.scored == 120
    for row, example in zip(rows, worst, strict=True):
        assert example.score == pytest.approx(losses[row], rel=1e-5)
        np.testing.assert_array_equal(example.features["features"], x[row])
        assert example.labels["labels"] == y[row]
        (said,) = example.predictions.values()
        np.testing.assert_allclose(said, predictions[row], rtol=1e-5)
    with pytest.raises(sw.DataError, match=r"needs labels.*Scored from row 0 of partition 0"):
        network.worst_examples(from_arrays(spark, x, partitions=2))


@pytest.mark.thorough
def test_features_are_in_data_units_and_predictions_in_label_units(spark):
    random = np.random.default_rng(3)
    x = 50 + 10 * random.normal(size=(60, 2))
    y = 1000 + 100 * x[:, :1]
    y[17] += 1e5
    data = from_arrays(spark, x, y, partitions=3)
    normalizer = Standardize.fit(data, labels=True)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", loss="mse")
    network = sw.SparkNetwork(spark, model, normalizer=normalizer)
    worst = network.worst_examples(data, 1).examples[0]
    np.testing.assert_array_equal(worst.features["features"], x[17])
    assert worst.labels["labels"] == y[17]
    np.testing.assert_allclose(
        next(iter(worst.predictions.values())), network.predict(x[17:18])[0], rtol=1e-4
    )

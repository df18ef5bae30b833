"""Time series of different lengths, with masks: does a noisy measurement rise or fall?

python docs/examples/masked_series.py
"""

import keras
import numpy as np

import sparkwright as sw

LONGEST = 30


def series(examples, seed):
    """Series of 8 to LONGEST steps; what follows the last step is padding, here noise.

    Returns:
        (examples, LONGEST, 1) values, (examples, LONGEST) masks, (examples,) labels: 1 if it rises.
    """
    random = np.random.default_rng(seed)
    rises = random.integers(0, 2, examples)
    steps = np.arange(LONGEST)
    mask = steps < random.integers(8, LONGEST + 1, (examples, 1))
    slope = np.where(rises, 1, -1)[:, None] * random.uniform(0.05, 0.15, (examples, 1))
    values = slope * steps + random.normal(0, 0.5, mask.shape)
    padding = random.normal(0, 5, mask.shape)
    return np.where(mask, values, padding)[..., None].astype(np.float32), mask, rises


def build():
    """A recurrent network: it reads the steps that the mask marks, and no others."""
    model = keras.Sequential(
        [
            keras.Input((None, 1)),
            keras.layers.GRU(16),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    return model


def main(spark=None, epochs=6):
    """Train and evaluate with masks; return the accuracies with masks and without."""
    spark = spark or sw.start_spark(workers=2)
    keras.utils.set_random_seed(1)
    values, mask, rises = series(800, seed=1)
    train = sw.data.from_arrays(spark, values, rises, features_masks=mask)
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=16, seed=1)
    network = sw.SparkNetwork(spark, build(), master)
    network.fit(train, epochs=epochs)

    values, mask, rises = series(300, seed=2)
    masked = sw.data.from_arrays(spark, values, rises, features_masks=mask)
    unmasked = sw.data.from_arrays(spark, values, rises)
    found = {
        "with masks": network.evaluate(masked).accuracy,
        "without": network.evaluate(unmasked).accuracy,
    }
    for name, accuracy in found.items():
        print(f"{name}: accuracy {accuracy:.3f}")
    return found


if __name__ == "__main__":
    main()

"""Trains a small network on handwritten digits, on the cluster that spark-submit names.

spark-submit --master MASTER train_digits.py [--epochs 3] [--model URL]
"""

import argparse

import keras

import sparkwright as sw


class Centered(keras.layers.Layer):
    """Brings gray values from 0…1 to -1…1: a layer of one's own, defined in the script."""

    def call(self, inputs):
        """Computed on the executors."""
        return 2.0 * inputs - 1.0


def build():
    """A compiled network."""
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            Centered(),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    """Train, evaluate, save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--model", help="where to save the trained network")
    options = parser.parse_args()

    spark = sw.start_spark()  # the options of spark-submit apply
    train, test = sw.data.digits(spark).random_split([0.8, 0.2], seed=7)
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32)
    network = sw.SparkNetwork(spark, build(), master)
    network.fit(train, epochs=options.epochs)
    print(f"accuracy: {network.evaluate(test).accuracy:.3f}")
    if options.model:
        network.save(options.model)
    spark.stop()


if __name__ == "__main__":
    main()

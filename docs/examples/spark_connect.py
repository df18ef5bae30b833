"""Trains a small network on a cluster that is reached by Spark Connect.

python spark_connect.py sc://host:15002 [--communication ring]
"""

import argparse

import keras
from pyspark.sql import SparkSession

import sparkwright as sw


def build():
    """A compiled network."""
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    optimizer = keras.optimizers.Adam(0.005)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main(spark, communication="spark"):
    """Train, evaluate, predict; return the accuracy."""
    keras.utils.set_random_seed(1)  # with the master's seed, each run gives the same result
    train, test = sw.data.digits(spark).random_split([0.8, 0.2], seed=7)
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=32, communication=communication, seed=1
    )
    network = sw.SparkNetwork(spark, build(), master)
    network.fit(train, epochs=8)
    accuracy = network.evaluate(test).accuracy
    found = next(iter(network.predict(test).collect().features.values()))
    print(f"accuracy: {accuracy:.3f}; the first predictions: {found[:5].argmax(axis=1)}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url", help="of the server of Spark Connect")
    parser.add_argument("--communication", default="spark", help="ring: workers reach this machine")
    options = parser.parse_args()
    main(SparkSession.builder.remote(options.url).getOrCreate(), options.communication)

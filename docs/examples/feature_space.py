"""Trains on a table of numbers and texts with a `keras.utils.FeatureSpace` inside the network.

python docs/examples/feature_space.py [--people 4000] [--epochs 3]
"""

import argparse

import keras
import numpy as np

import sparkwright as sw

COLUMNS = ["age", "hours", "work", "town"]


def people(count, seed=0):
    """Rows (age, hours, work, town, label)."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        age, hours = random.uniform(18, 65), random.uniform(5, 60)
        work = str(random.choice(["office", "shop", "farm"]))
        town = int(random.integers(100, 110))
        score = hours / 20 + (work == "office") + (town % 2) - 2.5
        rows.append((age, hours, work, town, int(score + random.normal(0, 0.3) > 0)))
    return rows


def build(space):
    """A compiled network that takes the table's columns as they are."""
    hidden = keras.layers.Dense(16, activation="relu")(space.get_encoded_features())
    output = keras.layers.Dense(1, activation="sigmoid", name="rich")(hidden)
    model = keras.Model(inputs=space.get_inputs(), outputs=output)
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy"])
    return model


def run(spark, *, count=4000, epochs=3):
    """Adapt all features in one pass, train, and evaluate; returns the accuracy."""
    frame = spark.createDataFrame(
        people(count), "age double, hours double, work string, town int, label int"
    )
    train, test = frame.randomSplit([0.8, 0.2], seed=1)
    space = keras.utils.FeatureSpace(
        features={
            "age": keras.utils.FeatureSpace.float_discretized(num_bins=8),
            "hours": keras.utils.FeatureSpace.float_normalized(),
            "work": keras.utils.FeatureSpace.string_categorical(num_oov_indices=1),
            "town": keras.utils.FeatureSpace.integer_categorical(num_oov_indices=1),
        },
        crosses=[keras.utils.FeatureSpace.cross(("work", "town"), crossing_dim=32)],
        output_mode="concat",
    )
    sw.adapt(space, train)

    def data_of(part):
        inputs = {name: [name] for name in COLUMNS}
        return sw.data.from_dataframe(part, features=inputs, labels="label")

    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, workers=2, seed=1)
    network = sw.SparkNetwork(spark, build(space), master)
    network.fit(data_of(train), epochs=epochs)
    return network.do_evaluation(data_of(test), sw.EvaluationBinary())


def main():
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    spark = sw.start_spark(workers=2)
    print(run(spark, count=options.people, epochs=options.epochs))
    spark.stop()


if __name__ == "__main__":
    main()

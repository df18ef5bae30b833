"""Quantization: a trained network with int8 weights evaluates and predicts on the executors.

python docs/examples/quantization.py
"""

import tempfile
from pathlib import Path

import keras

import sparkwright as sw


def build():
    """A classifier of handwritten digits."""
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main(spark=None, epochs=5):
    """Train in float32, quantize, compare; return accuracies and sizes of the saved networks."""
    spark = spark or sw.start_spark(workers=2)
    keras.utils.set_random_seed(1)
    train, test = sw.data.digits(spark).random_split([0.8, 0.2], seed=7)
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=32, seed=1)
    network = sw.SparkNetwork(spark, build(), master)
    network.fit(train, epochs=epochs)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("float32", "int8"):
            if kind == "int8":
                network.model.quantize("int8", filters="dense")  # in place, layers of this name
            path = Path(folder) / f"{kind}.keras"
            network.save(str(path), save_updater=False)
            loaded = sw.SparkNetwork.load(spark, str(path))
            found[kind] = loaded.evaluate(test).accuracy, path.stat().st_size
    for kind, (accuracy, size) in found.items():
        print(f"{kind}: accuracy {accuracy:.3f}, {size:,} bytes")
    return found


if __name__ == "__main__":
    main()

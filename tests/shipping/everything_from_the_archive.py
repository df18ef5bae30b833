"""Driver of a session whose executors have no engine of their own; prints what it saw as JSON.

python everything_from_the_archive.py ENVIRONMENT.tar.gz FOLDER
"""

import io
import json
import sys
from pathlib import Path

import keras
import numpy as np
import pandas as pd

import sparkwright as sw


class Centered(keras.layers.Layer):
    """A layer that only this script knows."""

    def call(self, inputs):
        return inputs - shift()


def shift():
    return 0.5


def build(name, layer):
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layer,
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.Dense(3, activation="softmax"),
        ],
        name=name,
    )
    model.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy")
    return model


def load_numbers(file):
    """A loader of the user's own."""
    table = np.load(io.BytesIO(file.read()))
    return sw.DataSet(table[:, :4].astype(np.float32), table[:, 4].astype(np.int32))


def written(folder):
    """Three kinds that can be told apart, as CSV and as arrays."""
    random = np.random.default_rng(0)
    labels = np.arange(240) % 3
    features = random.normal(size=(3, 4))[labels] * 3 + random.normal(size=(240, 4))
    names = ["a", "b", "c", "d"]
    table = pd.DataFrame(features, columns=names)
    table["kind"] = labels
    table.to_csv(folder / "table.csv", index=False)
    for number, part in enumerate(np.array_split(table.to_numpy(), 4)):
        np.save(folder / f"part-{number}.npy", part)
    return folder


def main(environment, folder):
    spark = sw.start_spark(
        workers=2,
        settings={
            "spark.archives": f"{environment}#environment",
            "spark.pyspark.python": "./environment/bin/python",
        },
    )
    context, seen = spark.sparkContext, {}
    folder = written(Path(folder))
    data = sw.data.from_csv(spark, str(folder / "table.csv"), labels="kind", classes=3)
    files = sw.data.from_minibatches(spark, str(folder / "part-*.npy"), loader=load_numbers)
    averaging = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=20)
    # As large as a step of this optimizer: with the usual first threshold, which is a fiftieth,
    # little would be learned in so few minibatches.
    threshold = sw.FixedThreshold(threshold=0.02)
    sharing = sw.SharedTrainingMaster(batch_size_per_worker=20, threshold=threshold)
    for master, trained in ((averaging, data), (sharing, files)):
        network = sw.SparkNetwork(spark, build("own", Centered()), master)
        network.fit(trained, epochs=12)
        seen[type(master).__name__] = network.evaluate(trained).accuracy
    seen["predicted"] = network.predict(data).count()

    # A module that Spark is given when trainers are at work already.
    (folder / "later_layers.py").write_text(
        "import keras\n\n\nclass Halved(keras.layers.Layer):\n"
        "    def call(self, inputs):\n        return 0.5 * inputs\n"
    )
    context.addPyFile(str(folder / "later_layers.py"))
    import later_layers

    network = sw.SparkNetwork(spark, build("later", later_layers.Halved()), averaging)
    network.fit(data, epochs=1)
    seen["later"] = network.score(data)

    seen["where"] = context.parallelize(range(2), 2).map(where).collect()
    seen["driver"] = [sw.__file__, [p for p in sys.path if "sparkwright-" in p]]
    spark.stop()
    print(json.dumps(seen))


def where(_):
    import importlib.util

    import sparkwright

    widgets = importlib.util.find_spec("sparkwright_widgets")
    return sparkwright.__file__, sys.executable, widgets is not None


if __name__ == "__main__":
    main(*sys.argv[1:])

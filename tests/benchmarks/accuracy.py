"""Accuracy after equal epochs with options for slow networks: two data sets, three seeds.

    python -m tests.benchmarks.accuracy           both data sets, and the picture of docs
    python -m tests.benchmarks.accuracy digits    one of them, without

The second data set is generated: a network with random weights labels points, which are sorted by
label. So each worker has two or three of eight labels, and replicas drift apart so far that plain
averaging every 50 minibatches loses accuracy.
"""

import statistics
import sys

import numpy as np
from tests.benchmarks._harness import ROOT, dense, row, show, trained_here

import sparkwright as sw

WORKERS, SEEDS = 4, (1, 2, 3)
_LOCAL = {"updater": "local"}
_SELDOM = {"averaging_frequency": {1: 1, 2: 50}}
_OUTER = {"outer_optimizer": sw.OuterOptimizer()}
PICTURE = ROOT / "docs" / "images" / "accuracy.png"
_FAST = {**_LOCAL, "exchange_precision": "int8", "averaging_delay": 4}
MASTERS = {
    "every 5, the default": {},
    "every minibatch, local moments": {**_LOCAL, "averaging_frequency": 1},
    "every 5, local moments": _LOCAL,
    "every 5, bfloat16": {**_LOCAL, "exchange_precision": "bfloat16"},
    "every 5, int8": {**_LOCAL, "exchange_precision": "int8"},
    "every 5, delay 4": {**_LOCAL, "averaging_delay": 4},
    "every 5, int8, delay 4": _FAST,
    "every 50": {"averaging_frequency": 50},
    "every 50, local moments": {**_LOCAL, "averaging_frequency": 50},
    "every 50, outer optimizer": {**_LOCAL, **_OUTER, "averaging_frequency": 50},
    "every 50, int8, delay 4": {**_FAST, "averaging_frequency": 50},
    "every 50, all": {**_FAST, **_OUTER, **_SELDOM, "averaging_delay": 5},
}


def digits():
    """Training and test data, the minibatch size and epochs: scikit-learn's digits."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.images))
    x = (bunch.data[order] / 16).astype(np.float32)
    y = bunch.target[order].astype(np.int32)
    return sw.DataSet(x[:1437], y[:1437]), sw.DataSet(x[1437:], y[1437:]), 8, 8


def teacher():
    """Likewise: points in 30 dimensions, labeled by a random network of two hidden layers.

    Those for training are in the order of their labels.
    """
    random = np.random.default_rng(7)
    x = random.normal(size=(20_000, 30)).astype(np.float32)
    values = x
    for width in (64, 64):
        values = np.tanh(values @ random.normal(size=(values.shape[1], width)) / 3)
    y = np.argmax(values @ random.normal(size=(64, 8)), axis=1).astype(np.int32)
    order = np.argsort(y[:16_000], kind="stable")
    return sw.DataSet(x[order], y[order]), sw.DataSet(x[16_000:], y[16_000:]), 16, 6


DATA = {"digits": digits, "teacher": teacher}


def _network(inputs, classes, seed):
    import keras

    keras.utils.set_random_seed(seed)
    model = dense(inputs, 128, 128, classes, activation="relu", top="softmax")
    model.compile(
        keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model


def accuracy(only=""):
    """Mean accuracy over the seeds on test data, beside that of the default."""
    for name, load in DATA.items():
        if only not in name:
            continue
        train, test, batch_size, epochs = load()
        x, y = train.features["features"], train.labels["labels"]
        shape = x.shape[1], int(y.max()) + 1
        default = 0.0
        with sw.ParallelWrapper(
            _network(*shape, seed=0),
            sw.ParameterAveragingTrainingMaster(batch_size_per_worker=batch_size),
            workers=WORKERS,
            cores_per_worker=1,
        ) as wrapper:
            wrapper.fit(train)  # so that all that follow reuse its processes
            for what, options in MASTERS.items():
                found = []
                for seed in SEEDS:
                    master = sw.ParameterAveragingTrainingMaster(
                        batch_size_per_worker=batch_size, seed=seed, **options
                    )
                    model = _network(*shape, seed=seed)
                    trained_here(model, master, train, workers=WORKERS, epochs=epochs)
                    _, score = model.evaluate(
                        test.features["features"], test.labels["labels"], verbose=0
                    )
                    found.append(100 * score)
                mean = statistics.mean(found)
                default = default or mean
                yield row(f"{name}: {what}", mean, "%", default, runs=found, target=_spread(found))


def _spread(values):
    return f"± {statistics.stdev(values):.1f}"


def draw(rows):
    """The means as bars, the seeds' values as dots; a panel for each data set."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(DATA), figsize=(10, 4), sharey=True, layout="constrained")
    for panel, name in zip(panels, DATA, strict=True):
        mine = [each for each in rows if each["what"].startswith(f"{name}:")][::-1]
        labels = [each["what"].partition(": ")[2] for each in mine]
        panel.barh(labels, [each["value"] for each in mine], color="#9dc3e6", height=0.6)
        for place, each in enumerate(mine):
            panel.plot(each["runs"], [place] * len(each["runs"]), "o", color="#1f4e79", ms=4)
        values = [value for each in mine for value in each["runs"]]
        margin = (max(values) - min(values)) / 4
        panel.set(title=name, xlabel="accuracy on test data, %")
        panel.set_xlim(min(values) - margin, max(values) + margin)
    figure.savefig(PICTURE, dpi=100)


if __name__ == "__main__":
    found = show(accuracy(*sys.argv[1:]))
    if len(sys.argv) == 1:
        draw(found)

"""Gradient sharing: throughput against averaging, a large network's steps against dense ones."""

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.benchmarks._harness import Row, compared, digits_arrays, row, show, steady, trained

import sparkwright as sw

REPEATS = 3
# 25 million parameters: one dense layer between 5,000 inputs and 5,000 outputs.
WIDTH = 5_000


def sharing() -> Iterator[Row]:
    """Steady examples/s for LeNet, then milliseconds a step for 25 million parameters."""
    yield from _lenet()
    yield from _large()
    yield from adam()


def _lenet() -> Iterator[Row]:
    images, labels = digits_arrays(12_000)
    data = sw.DataSet(images, labels)
    masters = {
        "averaging": sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1),
        "sharing": sw.SharedTrainingMaster(
            batch_size_per_worker=32, threshold=sw.AdaptiveThreshold(initial=1e-3), seed=1
        ),
    }
    found: dict[str, list[float]] = {name: [] for name in masters}
    sent = 0.0
    model = sw.networks.lenet()
    for _ in range(REPEATS):
        for name, master in masters.items():
            with sw.ParallelWrapper(model, master, workers=2, cores_per_worker=1) as wrapper:
                run = trained(wrapper, data)
            found[name].append(steady(run))
            if name == "sharing":
                sent = float(run.history.query("epoch > 1").message_bytes.mean())
    yield compared(
        "LeNet, 2 workers: sharing against averaging",
        *("examples/s", found["sharing"], found["averaging"]),
        target=">= 1",
        runs=found,
    )
    what = "LeNet: bytes sent for a minibatch, against dense updates"
    yield row(what, sent, "bytes", 4 * model.count_params(), target="<= 0.05")


def _large() -> Iterator[Row]:
    import keras

    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(WIDTH)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    random = np.random.default_rng(0)
    x = random.normal(size=(2_048, WIDTH)).astype(np.float32)
    data = sw.DataSet(x, (x[:, ::-1] * 0.5).copy())
    masters: dict[str, Any] = {
        "dense updates (averaging every minibatch)": sw.ParameterAveragingTrainingMaster(
            batch_size_per_worker=32, averaging_frequency=1, seed=1
        ),
        "sharing": sw.SharedTrainingMaster(
            batch_size_per_worker=32,
            threshold=sw.TargetSparsity(initial=1e-5, target=1e-3),
            seed=1,
        ),
        "no exchange (averaging once an epoch)": sw.ParameterAveragingTrainingMaster(
            batch_size_per_worker=32, averaging_frequency=64, seed=1
        ),
    }
    step_ms: dict[str, list[float]] = {name: [] for name in masters}
    for _ in range(REPEATS):
        for name, master in masters.items():
            with sw.ParallelWrapper(model, master, workers=2, cores_per_worker=1) as wrapper:
                history = trained(wrapper, data, epochs=3).history
            later = history[(history.epoch == 3) & (history.worker == 0)]
            before = history[(history.epoch == 2) & (history.worker == 0)].time_s.max()
            step_ms[name].append(1e3 * (later.time_s.max() - before) / len(later))
    medians = {name: statistics.median(values) for name, values in step_ms.items()}
    dense, shared, alone = medians.values()
    for name, baseline in zip(masters, (None, dense, dense), strict=True):
        what = f"25 M parameters, a step: {name}"[:72]
        yield row(what, medians[name], "ms", baseline, runs=step_ms[name])
    what = "25 M parameters: exchange's part of a step, sharing/dense"
    yield row(what, shared - alone, "ms", dense - alone)


def adam() -> Iterator[Row]:
    """A step of 25 million parameters with Adam and small minibatches, against training alone."""
    import keras

    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(WIDTH)])
    model.compile(keras.optimizers.Adam(1e-4), "mse")
    random = np.random.default_rng(0)
    x = random.normal(size=(768, WIDTH)).astype(np.float32)
    data = sw.DataSet(x, (x[:, ::-1] * 0.5).copy())
    masters: dict[str, Any] = {
        "alone": sw.ParameterAveragingTrainingMaster(
            batch_size_per_worker=16, averaging_frequency=1_000, seed=1
        ),
        "sharing": sw.SharedTrainingMaster(batch_size_per_worker=16, seed=1),
    }
    step_ms: dict[str, list[float]] = {name: [] for name in masters}
    for _ in range(REPEATS):
        for name, master in masters.items():
            with sw.ParallelWrapper(model, master, workers=2, cores_per_worker=1) as wrapper:
                history = trained(wrapper, data, epochs=3).history
            last = history[history.epoch == 3].groupby("worker").time_s
            step_ms[name].append(
                float(1e3 * ((last.max() - last.min()) / (last.count() - 1)).mean())
            )
    yield compared(
        "25 M parameters, Adam, batch 16: sharing against training alone",
        *("ms", step_ms["sharing"], step_ms["alone"]),
        target="<= 1.25",
        runs=step_ms,
    )


if __name__ == "__main__":
    show(adam())

"""Gradient sharing: throughput against averaging, a large network's steps against dense ones."""

import statistics

import numpy as np
from tests.benchmarks._harness import compared, dense, digits_arrays, row, steady, trained_here

import sparkwright as sw

REPEATS = 3
# 25 million parameters: one dense layer between 5,000 inputs and 5,000 outputs.
WIDTH = 5_000


def sharing():
    """Steady examples/s for LeNet, then milliseconds a step for 25 million parameters."""
    yield from _lenet()
    yield from _large()


def _lenet():
    masters = {
        "averaging": sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1),
        "sharing": sw.SharedTrainingMaster(
            batch_size_per_worker=32, threshold=sw.AdaptiveThreshold(initial=1e-3), seed=1
        ),
    }
    model, data = sw.networks.lenet(), sw.DataSet(*digits_arrays(12_000))
    runs = _in_turn(model, data, masters, lambda run: run, epochs=4)
    found = {name: list(map(steady, each)) for name, each in runs.items()}
    history = runs["sharing"][-1].history
    sent_bytes = float(history[history.epoch > 1].message_bytes.mean())
    yield compared(
        "LeNet, 2 workers: sharing against averaging",
        *("examples/s", found["sharing"], found["averaging"]),
        target=">= 1",
        runs=found,
    )
    what = "LeNet: bytes sent for a minibatch, against dense updates"
    yield row(what, sent_bytes, "bytes", 4 * model.count_params(), target="<= 0.05")


def _large():
    import keras

    masters = {
        "dense updates (averaging every minibatch)": sw.ParameterAveragingTrainingMaster(
            batch_size_per_worker=32, averaging_frequency=1, seed=1
        ),
        "sharing": sw.SharedTrainingMaster(
            batch_size_per_worker=32, threshold=sw.TargetSparsity(initial=1e-5, target=1e-3), seed=1
        ),
        "no exchange (averaging once an epoch)": sw.ParameterAveragingTrainingMaster(
            batch_size_per_worker=32, averaging_frequency=64, seed=1
        ),
    }

    def step_ms(run):
        """From the end of the epoch before, so that its averaging counts."""
        history = run.history[run.history.worker == 0]
        later, before = history[history.epoch == 3], history[history.epoch == 2]
        return 1e3 * (later.time_s.max() - before.time_s.max()) / len(later)

    model = dense(WIDTH, WIDTH)
    model.compile(keras.optimizers.SGD(0.01), "mse")
    x = np.random.default_rng(0).normal(size=(2_048, WIDTH)).astype(np.float32)
    data = sw.DataSet(x, (x[:, ::-1] * 0.5).copy())
    found = _in_turn(model, data, masters, step_ms, epochs=3)
    medians = {name: statistics.median(values) for name, values in found.items()}
    each_minibatch, shared, alone = medians.values()
    for name, baseline in zip(masters, (None, each_minibatch, each_minibatch), strict=True):
        what = f"25 M parameters, a step: {name}"[:72]
        yield row(what, medians[name], "ms", baseline, runs=found[name])
    what = "25 M parameters: exchange's part of a step, sharing/dense"
    yield row(what, shared - alone, "ms", each_minibatch - alone)


def _in_turn(model, data, masters, measure, *, epochs):
    """Master -> what `measure` finds in its runs of two workers; the masters take turns."""
    found = {name: [] for name in masters}
    for _ in range(REPEATS):
        for name, master in masters.items():
            found[name].append(measure(trained_here(model, master, data, epochs=epochs)))
    return found

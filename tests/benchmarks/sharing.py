"""Gradient sharing: throughput against averaging, a large network's steps against dense ones."""

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.benchmarks._harness import (
    Row,
    compared,
    digits_arrays,
    row,
    show,
    steady,
    trained_here,
)

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


def _large() -> Iterator[Row]:
    import keras

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

    def step_ms(run: Any) -> float:
        """From the end of the epoch before, so that its averaging counts."""
        history = run.history[run.history.worker == 0]
        later, before = history[history.epoch == 3], history[history.epoch == 2]
        return 1e3 * (later.time_s.max() - before.time_s.max()) / len(later)

    found = _in_turn(*_wide(keras.optimizers.SGD(0.01), 2_048), masters, step_ms, epochs=3)
    medians = {name: statistics.median(values) for name, values in found.items()}
    dense, shared, alone = medians.values()
    for name, baseline in zip(masters, (None, dense, dense), strict=True):
        what = f"25 M parameters, a step: {name}"[:72]
        yield row(what, medians[name], "ms", baseline, runs=found[name])
    what = "25 M parameters: exchange's part of a step, sharing/dense"
    yield row(what, shared - alone, "ms", dense - alone)


def adam() -> Iterator[Row]:
    """A step of 25 million parameters with Adam and small minibatches, against training alone."""
    import keras

    masters: dict[str, Any] = {
        "alone": sw.ParameterAveragingTrainingMaster(
            batch_size_per_worker=16, averaging_frequency=1_000, seed=1
        ),
        "sharing": sw.SharedTrainingMaster(batch_size_per_worker=16, seed=1),
    }

    def step_ms(run: Any) -> float:
        last = run.history[run.history.epoch == 3].groupby("worker").time_s
        return float(1e3 * ((last.max() - last.min()) / (last.count() - 1)).mean())

    found = _in_turn(*_wide(keras.optimizers.Adam(1e-4), 768), masters, step_ms, epochs=3)
    yield compared(
        "25 M parameters, Adam, batch 16: sharing against training alone",
        *("ms", found["sharing"], found["alone"]),
        target="<= 1.25",
        runs=found,
    )


def _wide(optimizer: Any, rows: int) -> tuple[Any, sw.DataSet]:
    """One dense layer of 25 million parameters, and data for it."""
    import keras

    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(WIDTH)])
    model.compile(optimizer, "mse")
    x = np.random.default_rng(0).normal(size=(rows, WIDTH)).astype(np.float32)
    return model, sw.DataSet(x, (x[:, ::-1] * 0.5).copy())


def _in_turn(
    model: Any, data: sw.DataSet, masters: dict[str, Any], measure: Any, *, epochs: int
) -> Any:
    """Master -> what `measure` finds in its runs of two workers; the masters take turns."""
    found: dict[str, list[Any]] = {name: [] for name in masters}
    for _ in range(REPEATS):
        for name, master in masters.items():
            found[name].append(measure(trained_here(model, master, data, epochs=epochs)))
    return found


if __name__ == "__main__":
    show(adam())

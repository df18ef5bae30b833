"""Averaging 25 million parameters over a slow network: the share of the time that is training.

    python -m tests.benchmarks.slow_network            1 Gbit/s for each of two workers
    python -m tests.benchmarks.slow_network 200mbit    what both get together, as `tc` names it

It needs root: a network namespace of its own, whose loopback device is limited. Minibatches take a
fixed time, so that two cores are enough for two workers.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.benchmarks._harness import Row, row, show, trained

import sparkwright as sw

# Above what a minibatch of one example takes with two workers on two cores, about 0.39 s.
PACE_S = 0.6
_MINIBATCHES, _EPOCHS, _WIDTH = 50, 2, 5_000
_SHAPED = "SPARKWRIGHT_SHAPED"
_OUTER = sw.OuterOptimizer()
MASTERS: dict[str, dict[str, Any]] = {
    "moments averaged, every 5": {"averaging_frequency": 5},
    "local moments, every 5": {"averaging_frequency": 5, "updater": "local"},
    "local moments, every 5, bfloat16": {
        "averaging_frequency": 5,
        "updater": "local",
        "exchange_precision": "bfloat16",
    },
    "local moments, every 5, int8": {
        "averaging_frequency": 5,
        "updater": "local",
        "exchange_precision": "int8",
    },
    "local moments, every 50, int8, outer optimizer": {
        "averaging_frequency": 50,
        "updater": "local",
        "exchange_precision": "int8",
        "outer_optimizer": _OUTER,
    },
}


class Paced:
    """Makes each minibatch take as long as the others."""

    def __init__(self) -> None:
        self._began_s = 0.0

    def pre_update(self, minibatch: Any, model: Any) -> None:
        """Look at the clock."""
        del minibatch, model
        self._began_s = time.monotonic()

    def post_update(self, minibatch: Any, model: Any) -> None:
        """Sleep for the rest of the time."""
        del minibatch, model
        time.sleep(max(0.0, self._began_s + PACE_S - time.monotonic()))


def slow_network() -> Iterator[Row]:
    """Milliseconds of a minibatch, the averagings included, beside those of training alone."""
    import keras

    random = np.random.default_rng(0)
    rows = 2 * _MINIBATCHES
    data = sw.DataSet(
        random.normal(size=(rows, _WIDTH)).astype(np.float32),
        random.integers(0, 2, rows).astype(np.int32),
    )
    for name, options in MASTERS.items():
        model = keras.Sequential(
            [
                keras.Input((_WIDTH,)),
                keras.layers.Dense(_WIDTH, "relu", use_bias=False),
                keras.layers.Dense(2, "softmax"),
            ]
        )
        model.compile(keras.optimizers.Adam(1e-4), "sparse_categorical_crossentropy")
        master = sw.ParameterAveragingTrainingMaster(
            batch_size_per_worker=1, seed=1, collect_training_stats=True, **options
        ).with_hooks(Paced())
        with sw.ParallelWrapper(model, master, workers=2, cores_per_worker=1) as wrapper:
            run = trained(wrapper, data, epochs=_EPOCHS)
        history = run.history
        first, last = (history[history.epoch == epoch].time_s.max() for epoch in (1, _EPOCHS))
        minibatch_s = float(last - first) / (_EPOCHS - 1) / _MINIBATCHES
        print("\n".join(str(t) for t in run.timeline.totals()))
        what = f"25 M parameters, {os.environ[_SHAPED]}, {name}: a minibatch"
        ratio = PACE_S / minibatch_s
        yield row(what, 1e3 * minibatch_s, "ms", 1e3 * PACE_S, ratio=ratio)


def main(rate: str = "2gbit") -> int:
    """Run in a namespace whose loopback device is limited to `rate`."""
    if _SHAPED in os.environ:
        show(slow_network())
        return 0
    limit = f"tc qdisc add dev lo root tbf rate {rate} burst 2mb latency 400ms"
    again = f"exec {sys.executable} -m tests.benchmarks.slow_network"
    command = ["unshare", "-n", "sh", "-c", f"ip link set lo up && {limit} && {again}"]
    return subprocess.run(command, env={**os.environ, _SHAPED: rate}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

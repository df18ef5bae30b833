"""Averaging 25 million parameters over a slow network, beside what the cost model predicts.

    python -m tests.benchmarks.slow_network            1 Gbit/s for each of two workers
    python -m tests.benchmarks.slow_network 200mbit    what both get together, as `tc` names it
    python -m tests.benchmarks.slow_network 2gbit delay     only the masters named so

It needs root: a network namespace of its own, whose loopback device is limited. Minibatches take a
fixed time, so that two cores are enough for two workers. Copies of the state to the driver are
left out: they take 1/150 of a long run, but much of one as short as this.
"""

import os
import re
import subprocess
import sys
import time

import numpy as np
from tests.benchmarks._harness import row, show, trained_here

import sparkwright as sw
from sparkwright.advice import predict
from sparkwright.timeline import PhaseCode
from sparkwright.timeline.summary import hidden_share

# Above what a minibatch of one example takes with two workers on two cores, about 0.39 s.
PACE_S = 0.6
_MINIBATCHES, _EPOCHS, _WIDTH = 50, 2, 5_000
_SHAPED, _ONLY = "SPARKWRIGHT_SHAPED", "SPARKWRIGHT_ONLY"
_SHARING = "gradient sharing"
_EVERY_5 = {"averaging_frequency": 5, "updater": "local"}
_EVERY_50 = {
    **{"averaging_frequency": 50, "updater": "local", "exchange_precision": "int8"},
    "outer_optimizer": sw.OuterOptimizer(),
}
MASTERS = {
    "moments averaged, every 5": {"averaging_frequency": 5},
    "local moments, every 5": _EVERY_5,
    **{
        f"local moments, every 5, {precision}": {**_EVERY_5, "exchange_precision": precision}
        for precision in ("bfloat16", "int8")
    },
    **{
        f"local moments, every 5, {precision}, delay 4": _EVERY_5
        | {"averaging_delay": 4, "exchange_precision": precision}
        for precision in ("float32", "bfloat16", "int8")
    },
    "local moments, every 50, int8, outer optimizer": _EVERY_50,
    "local moments, every 50, int8, outer optimizer, delay 4": {**_EVERY_50, "averaging_delay": 4},
    _SHARING: {},
}


class Paced:
    """Makes each minibatch take as long as the others."""

    def __init__(self):
        self._began_s = 0.0

    def pre_update(self, minibatch, model):
        """Look at the clock."""
        self._began_s = time.monotonic()

    def post_update(self, minibatch, model):
        """Sleep for the rest of the time."""
        time.sleep(max(0.0, self._began_s + PACE_S - time.monotonic()))


def slow_network():
    """Milliseconds of a minibatch, the averagings included, beside those of training alone."""
    import keras

    random = np.random.default_rng(0)
    rows = 2 * _MINIBATCHES
    data = sw.DataSet(
        random.normal(size=(rows, _WIDTH)).astype(np.float32),
        random.integers(0, 2, rows).astype(np.int32),
    )
    for name, options in MASTERS.items():
        if os.environ[_ONLY] not in name:
            continue
        model = keras.Sequential(
            [
                keras.Input((_WIDTH,)),
                keras.layers.Dense(_WIDTH, "relu", use_bias=False),
                keras.layers.Dense(2, "softmax"),
            ]
        )
        model.compile(keras.optimizers.Adam(1e-4), "sparse_categorical_crossentropy")
        kind = sw.ParameterAveragingTrainingMaster
        if name == _SHARING:
            kind = sw.SharedTrainingMaster
        master = kind(
            batch_size_per_worker=1, seed=1, collect_training_stats=True, **options
        ).with_hooks(Paced())
        run = trained_here(model, master, data, epochs=_EPOCHS)
        totals = run.timeline.totals()
        spent = {total.phase.code: total for total in totals if total.place == "workers"}
        step_s = spent[PhaseCode.COMPUTE].seconds / spent[PhaseCode.COMPUTE].count
        what = f"25 M parameters, {os.environ[_SHAPED]}, {name}"
        if name == _SHARING:
            measured_s = _within_epochs_s(run.history)
            yield row(f"{what}: a minibatch", 1e3 * measured_s, "ms", runs={"step_s": step_s})
            yield row(f"{what}: training", 100 * PACE_S / measured_s, "%", 100)
            continue
        codes = (PhaseCode.WAIT, PhaseCode.AVERAGE, PhaseCode.APPLY)
        round_s = sum(spent[code].seconds for code in codes) / spent[PhaseCode.APPLY].count
        measured_s = step_s + round_s / master.averaging_frequency
        predicted_s = predicted(master, step_s, model.count_params())
        runs = {"step_s": step_s, "round_s": round_s}
        yield row(f"{what}: a minibatch", 1e3 * measured_s, "ms", 1e3 * predicted_s, runs=runs)
        yield row(f"{what}: training", 100 * PACE_S / measured_s, "%", 100)
        if (hidden := hidden_share(totals)) is not None:
            yield row(f"{what}: averaging that is hidden", 100 * hidden, "%", 100)


def _within_epochs_s(history):
    """Seconds of a minibatch, without the meeting at an epoch's end: epochs here are too short."""
    times = (
        history[history.epoch > 1].groupby(["epoch", "worker"]).time_s.agg(["min", "max", "size"])
    )
    return float(((times["max"] - times["min"]) / (times["size"] - 1)).mean())


def predicted(master, step_s, size):
    """Seconds of a minibatch by the cost model, of two workers that share the device's rate."""
    bits, unit = re.fullmatch(r"(\d+)([mg])bit", os.environ[_SHAPED]).groups()
    bandwidth = int(bits) * {"m": 1e6, "g": 1e9}[unit] / 8 / 2
    found = predict(
        master,
        step_s=step_s,
        vector_bytes=4 * size,
        updater_bytes=8 * size,
        workers=2,
        costs=sw.masters.ScalingCosts().with_network(bandwidth, latency_s=5e-5),
    )
    return found.at(2).interval_s / master.averaging_frequency


def main(rate="2gbit", only=""):
    """Run in a namespace whose loopback device is limited to `rate`."""
    if _SHAPED in os.environ:
        show(slow_network())
        return 0
    limit = f"tc qdisc add dev lo root tbf rate {rate} burst 2mb latency 400ms"
    again = f"exec {sys.executable} -m tests.benchmarks.slow_network"
    command = ["unshare", "-n", "sh", "-c", f"ip link set lo up && {limit} && {again}"]
    return subprocess.run(
        command, env={**os.environ, _SHAPED: rate, _ONLY: only}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

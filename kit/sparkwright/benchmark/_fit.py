"""`model.fit` on one executor in a separate process: the baseline for distributed training.

The task starts the process, sends the network and the data to its standard input, and reads one
line of JSON from its standard output.
"""

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import run_job
from sparkwright.data import DataSet
from sparkwright.errors import WorkerError
from sparkwright.networks import ModelDefinition
from sparkwright.spark.gpus import device_of, on_gpus
from sparkwright.workers.gpus import device_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START_S = 120.0  # time for the start of Keras and the compilation of the first step
_LEAST_S = 3.0  # of training, for an accurate step time
_TOLD_LINES = 5


class FitOrders(NamedTuple):
    """Settings of the training, which ends when the metric reaches its target or time is up."""

    definition: ModelDefinition
    weights: list[Any]
    train: DataSet
    validation: DataSet | None
    batch_size: int
    metric: str
    target: float | None
    budget_s: float


def fit_on_an_executor(spark: "SparkSession", orders: FitOrders) -> dict[str, Any]:
    """Run `model.fit` in a task, with the task's cores or GPU; see `BenchmarkResult.fit`.

    Raises:
        WorkerError: if the process fails, with the end of its output.
    """
    one: Any = context_of(spark).parallelize([0], 1)
    task = partial(_task, content=pickle.dumps(orders), timeout_s=orders.budget_s + _START_S)
    action = on_gpus(one.mapPartitions(task)).collect
    (found,) = run_job(spark, action, description="model.fit on one executor")
    if isinstance(found, str):
        raise WorkerError(worker=-1, host="an executor", reason=found)
    return found


def _task(_: Iterable[Any], *, content: bytes, timeout_s: float) -> list[dict[str, Any] | str]:
    """Return the result, or the failure as text: Spark would retry a task that raises."""
    from pyspark import TaskContext

    device = device_of(TaskContext.get())
    environment = {
        **os.environ,
        **device_environment(device["device"]),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OMP_NUM_THREADS": str(device["cores"]),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, "-m", __name__, str(device["cores"])]
    try:
        done = subprocess.run(
            command, input=content, capture_output=True, env=environment, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        return [f"`model.fit` was not over after {timeout_s:g} s."]
    if done.returncode:
        told = done.stderr.decode(errors="replace").splitlines()[-_TOLD_LINES:]
        return ["`model.fit` failed: " + " ".join(told)]
    found = json.loads(done.stdout.splitlines()[-1])
    return [{**found, "cores": device["cores"], "device": device["device"].partition("-")[0]}]


def main(cores: int) -> None:
    """Train by the settings from standard input; write the result to standard output."""
    # Trusted input: a pipe from the task that started this process.
    orders: FitOrders = pickle.load(sys.stdin.buffer)
    os.environ["KERAS_BACKEND"] = orders.definition.backend
    import keras

    if orders.definition.backend == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    model = orders.definition.build()
    model.set_weights(orders.weights)
    target = inf if orders.target is None else orders.target
    epochs_s, scores, reached_s = list[float](), list[float](), list[float]()
    began_s = time.perf_counter()

    class Watch(keras.callbacks.Callback):
        """Time epochs without validation; stop when the target is reached or time is up."""

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.began_s = time.perf_counter()

        def on_test_begin(self, logs: Any = None) -> None:
            epochs_s.append(time.perf_counter() - self.began_s)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            spent_s = time.perf_counter() - began_s
            if orders.validation is None:
                self.on_test_begin()
            elif (score := (logs or {}).get(f"val_{orders.metric}")) is not None:
                scores.append(float(score))
                reached_s.extend([spent_s] if score >= target else [])
            is_done = epoch > 0 and spent_s > _LEAST_S and (reached_s or orders.target is None)
            model.stop_training = spent_s > orders.budget_s or bool(is_done)

    validation = None if orders.validation is None else _arrays(orders.validation)
    model.fit(
        *_arrays(orders.train),
        batch_size=orders.batch_size,
        epochs=10_000,
        verbose=0,
        callbacks=[Watch()],
        validation_data=validation,
    )
    found = {
        # The first epoch includes compilation.
        "step_s": min(epochs_s[1:] or epochs_s) / -(-len(orders.train) // orders.batch_size),
        "epochs": len(epochs_s),
        "seconds": time.perf_counter() - began_s,
        "reached_s": min(reached_s, default=None),
        "best": max(scores, default=None),
    }
    sys.stdout.write(f"\n{json.dumps(found)}\n")


def _arrays(data: DataSet) -> tuple[Any, ...]:
    """Return features and labels: a single array, or several in a dict by name."""
    both = (dict(data.features), dict(data.labels))
    return tuple(each if len(each) > 1 else next(iter(each.values())) for each in both)


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""`model.fit` on one executor, in a process of its own: what distributed training is compared with.

The task starts the process, gives it the network and the data by its standard input, and reads one
line of JSON from its standard output.
"""

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkwright.cluster.jobs import run_job
from sparkwright.data import DataSet
from sparkwright.errors import WorkerError
from sparkwright.networks import ModelDefinition
from sparkwright.spark.gpus import device_of, on_gpus
from sparkwright.workers.gpus import device_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START_S = 120.0  # Keras starts within it, and the first step is compiled
_LEAST_S = 3.0  # of training, so that the step is timed well
_TOLD_LINES = 5


class FitOrders(NamedTuple):
    """What is trained until the metric reaches its target, if there is one, or time is up."""

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
        WorkerError: if the process fails, with the end of what it wrote.
    """
    one: Any = spark.sparkContext.parallelize([0], 1)
    task = _task(pickle.dumps(orders), orders.budget_s + _START_S)
    action = on_gpus(one.mapPartitions(task)).collect
    (found,) = run_job(spark, action, description="model.fit on one executor")
    if "problem" in found:
        raise WorkerError(worker=-1, host="an executor", reason=found["problem"])
    return found


def _task(content: bytes, timeout_s: float) -> Callable[[Iterable[Any]], list[dict[str, Any]]]:
    def task(_: Iterable[Any]) -> list[dict[str, Any]]:
        from pyspark import TaskContext

        device = device_of(TaskContext.get())
        cores, kind = device["cores"], device["device"].partition("-")[0]
        environment = {
            **os.environ,
            **device_environment(device["device"]),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OMP_NUM_THREADS": str(cores),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        command = [sys.executable, "-m", __name__, str(cores)]
        try:
            done = subprocess.run(
                command, input=content, capture_output=True, env=environment, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            return [{"problem": f"`model.fit` was not over after {timeout_s:g} s."}]
        if done.returncode:
            told = done.stderr.decode(errors="replace").splitlines()[-_TOLD_LINES:]
            return [{"problem": "`model.fit` failed: " + " ".join(told)}]
        found = json.loads(done.stdout.splitlines()[-1])
        return [{**found, "cores": cores, "device": kind}]

    return task


def main(cores: int) -> None:
    """Train as told by standard input; write the result to standard output."""
    # From the task that started this process, by a pipe.
    orders: FitOrders = pickle.load(sys.stdin.buffer)
    os.environ["KERAS_BACKEND"] = orders.definition.backend
    import keras

    if orders.definition.backend == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    model = orders.definition.build()
    model.set_weights(orders.weights)
    epochs_s, scores, reached_s = list[float](), list[float](), list[float]()
    began_s = time.perf_counter()

    class Watch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.began_s = time.perf_counter()

        def on_test_begin(self, logs: Any = None) -> None:
            epochs_s.append(time.perf_counter() - self.began_s)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            spent_s = time.perf_counter() - began_s
            if orders.validation is None:
                epochs_s.append(time.perf_counter() - self.began_s)
            elif (score := (logs or {}).get(f"val_{orders.metric}")) is not None:
                scores.append(float(score))
                if orders.target is not None and score >= orders.target and not reached_s:
                    reached_s.append(spent_s)
            is_done = epoch > 0 and spent_s > _LEAST_S and (reached_s or orders.target is None)
            model.stop_training = spent_s > orders.budget_s or bool(is_done)

    validation = orders.validation
    model.fit(
        *_arrays(orders.train),
        batch_size=orders.batch_size,
        epochs=10_000,
        verbose=0,
        callbacks=[Watch()],
        validation_data=None if validation is None else _arrays(validation),
    )
    found = {
        # The first epoch compiles.
        "step_s": min(epochs_s[1:] or epochs_s) / -(-len(orders.train) // orders.batch_size),
        "epochs": len(epochs_s),
        "seconds": time.perf_counter() - began_s,
        "reached_s": reached_s[0] if reached_s else None,
        "best": max(scores, default=None),
    }
    sys.stdout.write(f"\n{json.dumps(found)}\n")


def _arrays(data: DataSet) -> tuple[Any, Any]:
    """Features and labels: one array as it is, several by name."""
    found = (dict(data.features), dict(data.labels))
    features, labels = (next(iter(each.values())) if len(each) == 1 else each for each in found)
    return features, labels


if __name__ == "__main__":
    main(int(sys.argv[1]))

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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


@dataclass(frozen=True, kw_only=True, slots=True)
class FitOrders:
    """What is trained, and for how long.

    Attributes:
        definition: of the network.
        weights: with which it begins.
        train: what is trained.
        validation: what is evaluated after each epoch; None: nothing.
        batch_size: examples of a minibatch.
        monitor: name of a compiled metric.
        target: the value of the metric at which training ends; None: it goes on.
        budget_s: seconds after which training ends.
    """

    definition: ModelDefinition
    weights: list[Any]
    train: DataSet
    validation: DataSet | None
    batch_size: int
    monitor: str
    target: float | None
    budget_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class FitTime:
    """What `model.fit` took on one executor.

    Attributes:
        step_s: seconds of one minibatch, in the fastest epoch.
        epochs: that it trained.
        seconds: from the call of `fit` to its end, compiling included.
        reached_s: seconds until the metric was as good as the target; None: it was not.
        best: the best value of the metric; None: not evaluated.
        cores: threads of the process.
        device: "cpu" or "gpu".
    """

    step_s: float
    epochs: int
    seconds: float
    reached_s: float | None
    best: float | None
    cores: int
    device: str


def fit_on_an_executor(spark: "SparkSession", orders: FitOrders) -> FitTime:
    """Run `model.fit` in a task, with the task's cores or GPU.

    Raises:
        WorkerError: if the process fails, with the end of what it wrote.
    """
    content = pickle.dumps(orders)
    one: Any = spark.sparkContext.parallelize([0], 1)
    tasks = on_gpus(one.mapPartitions(_task(content, orders.budget_s + _START_S)))
    (found,) = run_job(spark, tasks.collect, description="model.fit on one executor")
    if "problem" in found:
        raise WorkerError(worker=-1, host="an executor", reason=found["problem"])
    return FitTime(**found)


def _task(content: bytes, timeout_s: float) -> Callable[[Iterable[Any]], list[dict[str, Any]]]:
    def task(_: Iterable[Any]) -> list[dict[str, Any]]:
        from pyspark import TaskContext

        device = device_of(TaskContext.get())
        environment = {
            **os.environ,
            **device_environment(device["device"]),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OMP_NUM_THREADS": str(device["cores"]),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        command = [sys.executable, "-m", "sparkwright.benchmark._fit", str(device["cores"])]
        try:
            done = subprocess.run(
                command, input=content, capture_output=True, env=environment, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            return [{"problem": f"`model.fit` was not over after {timeout_s:g} s."}]
        lines = done.stdout.decode(errors="replace").splitlines()
        if done.returncode or not lines:
            told = done.stderr.decode(errors="replace").splitlines()[-_TOLD_LINES:]
            return [{"problem": "`model.fit` failed: " + " ".join(told)}]
        return [{**json.loads(lines[-1]), **device, "device": device["device"].partition("-")[0]}]

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
    began_s = time.perf_counter()
    ends_s, scores, reached_s = [began_s], list[float](), list[float]()

    class Watch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.began_s = time.perf_counter()

        def on_test_begin(self, logs: Any = None) -> None:
            self.trained_s = time.perf_counter() - self.began_s

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            now_s = time.perf_counter()
            ends_s.append(getattr(self, "trained_s", now_s - self.began_s))
            if (score := (logs or {}).get(f"val_{orders.monitor}")) is not None:
                scores.append(float(score))
                if orders.target is not None and score >= orders.target and not reached_s:
                    reached_s.append(now_s - began_s)
            spent_s = now_s - began_s
            is_done = epoch > 0 and spent_s > _LEAST_S and (reached_s or orders.target is None)
            model.stop_training = spent_s > orders.budget_s or bool(is_done)

    x, y = orders.train.features, orders.train.labels
    validation = orders.validation
    model.fit(
        _alone(x),
        _alone(y),
        batch_size=orders.batch_size,
        epochs=10_000,
        verbose=0,
        callbacks=[Watch()],
        validation_data=None
        if validation is None
        else (_alone(validation.features), _alone(validation.labels)),
    )
    steps = -(-len(orders.train) // orders.batch_size)
    epochs_s = ends_s[1:]
    found = {
        "step_s": min(epochs_s[1:] or epochs_s) / steps,
        "epochs": len(epochs_s),
        "seconds": time.perf_counter() - began_s,
        "reached_s": reached_s[0] if reached_s else None,
        "best": max(scores, default=None),
    }
    sys.stdout.write(f"\n{json.dumps(found)}\n")


def _alone(arrays: Any) -> Any:
    """One array as it is, several by name."""
    return next(iter(arrays.values())) if len(arrays) == 1 else dict(arrays)


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""Trains on fake GPUs of a real cluster; prints who computed on what, and the error of too few.

    python gpu_clusters.py standalone|yarn

Run by its path, in a process of its own: Spark learns of GPUs only when it starts.
"""

import json
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import sparkwright as sw
from sparkwright.errors import SlotsError
from sparkwright.testing import StandaloneCluster, fake_gpus
from sparkwright.workers._gpus import script_text


@contextmanager
def standalone() -> Generator[dict[str, Any]]:
    """One Worker, with the script in its own configuration, for one executor with two GPUs."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "discover_gpus.sh"
        script.write_text(script_text())
        script.chmod(0o700)
        settings = {
            "spark.worker.resource.gpu.amount": "2",
            "spark.worker.resource.gpu.discoveryScript": str(script),
        }
        with StandaloneCluster(workers=("one",), cores=4, settings=settings) as cluster:
            # A second executor would need GPUs that nobody has.
            yield {
                "workers": 2,
                "cores_per_worker": 4,
                "gpus_per_executor": 2,
                "master": cluster.url,
                "settings": cluster.driver_settings,
            }


@contextmanager
def yarn() -> Generator[dict[str, Any]]:
    """Two executors of one machine without isolation: each of them sees both GPUs."""
    from sparkwright.testing import YarnCluster

    gpu = "yarn.io/gpu"
    settings = {"yarn.resource-types": gpu, f"yarn.nodemanager.resource-type.{gpu}": "2"}
    with YarnCluster(memory_mb=(6144,), settings=settings) as cluster:
        os.environ["HADOOP_CONF_DIR"] = str(cluster.configuration_folder)
        yield {
            "workers": 2,
            "gpus_per_executor": 1,
            "master": "yarn",
            "settings": {**cluster.driver_settings, "spark.executor.memoryOverhead": "1536m"},
        }


def train(spark: Any, workers: int) -> Any:
    import keras

    labels = (np.arange(80) % 3).astype(np.int32)
    features = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    master = sw.ParameterAveragingTrainingMaster(workers=workers, batch_size_per_worker=10)
    data = sw.data.from_arrays(spark, features, labels, partitions=2)
    run = sw.SparkNetwork(spark, model, master).start(data)
    run.wait(150.0)
    return run


def main(kind: str) -> None:
    """Everything; prints one line of JSON."""
    with fake_gpus(2), {"standalone": standalone, "yarn": yarn}[kind]() as options:
        settings = {**options.pop("settings"), "spark.sparkwright.slotTimeout": 3}
        spark = sw.start_spark(**options, memory_per_worker_mb=512, settings=settings)
        run = train(spark, 2)
        devices = [worker.device for worker in run.status.workers]
        error = ""
        try:
            train(spark, 4)
        except SlotsError as problem:
            error = str(problem)
        print(json.dumps({"devices": devices, "error": error}))
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

"""Trains many times on fake GPUs, two runs at a time; prints who was given and who used which.

    python gpu_trial.py FOLDER

The cluster is a real standalone one: one Worker, which finds four GPUs by the kit's script in its
own configuration. Run by its path, in a process of its own: Spark learns of GPUs only when it
starts.
"""

import json
import os
import sys
import time
from pathlib import Path

import cloudpickle
import numpy as np
import pyspark.cloudpickle

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.fake_gpus import fake_gpus
from tests.support.standalone import StandaloneCluster

import sparkwright as sw
from sparkwright.errors import SlotsError
from sparkwright.workers.gpus import script_text

ROUNDS, WORKERS, GPUS = 6, 2, 4
MASTERS = (
    lambda **o: sw.ParameterAveragingTrainingMaster(averaging_frequency=9, **o),
    lambda **o: sw.SharedTrainingMaster(mesh=sw.MeshConfig(mode="mesh"), **o),
    lambda **o: sw.ParameterAveragingTrainingMaster(
        averaging_frequency=9, communication="spark", storage_level=None, **o
    ),
)


def append(path, **facts):
    with path.open("a") as file:
        file.write(json.dumps({**facts, "at_s": time.time()}) + "\n")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def given(folder, run):
    """Writes down, in the task that trains, what Spark has given it."""

    def record(index, chunks):
        from pyspark import TaskContext

        resources = TaskContext.get().resources()
        addresses = list(resources["gpu"].addresses) if "gpu" in resources else []
        append(folder / f"given-{run}", worker=index, addresses=addresses, python=os.getpid())
        return chunks

    return record


class Used:
    """Writes down, in the trainer and beside its computing, what this process can see."""

    def __init__(self, path):
        self.path = path

    def pre_update(self, minibatch, model):
        del minibatch, model

    def post_update(self, minibatch, model):
        visible = os.environ["CUDA_VISIBLE_DEVICES"]
        # As the process was born: what TensorFlow has read.
        born = Path("/proc/self/environ").read_bytes().split(b"\0")
        assert f"CUDA_VISIBLE_DEVICES={visible}".encode() in born
        append(self.path, pid=os.getpid(), visible=visible)


def network(spark, master):
    import keras

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    return sw.SparkNetwork(spark, model, master)


def start(spark, folder, number, *, workers=WORKERS):
    """Begin a run whose data records what its tasks are given."""
    labels = (np.arange(40 * workers) % 3).astype(np.int32)
    features = np.random.default_rng(number).normal(size=(len(labels), 4)).astype(np.float32)
    plain = sw.data.from_arrays(spark, features, labels, partitions=workers)
    data = plain.derive(
        plain.rdd.mapPartitionsWithIndex(given(folder, str(number))),
        step=f"given {number}",
        counts=(40,) * workers,
    )
    master = MASTERS[number % len(MASTERS)](
        workers=workers,
        batch_size_per_worker=10,
        repartition="never",
        hooks=(Used(folder / f"used-{number}"),),
    )
    return network(spark, master).start(data)


def worker_settings(folder):
    """The Worker's own configuration of its GPUs."""
    script = folder / "discover_gpus.sh"
    script.write_text(script_text())
    script.chmod(0o700)
    gpu = "spark.worker.resource.gpu"
    return {f"{gpu}.amount": str(GPUS), f"{gpu}.discoveryScript": str(script)}


def error_of_too_many(spark, folder):
    """What a run says that needs six GPUs."""
    try:
        start(spark, folder, 100, workers=6).wait(60.0)
    except SlotsError as error:
        return str(error)
    return ""


def main(folder):
    """Everything; prints one line of JSON."""
    for module in (cloudpickle, pyspark.cloudpickle):
        module.register_pickle_by_value(sys.modules[__name__])
    settings = worker_settings(folder)
    with (
        fake_gpus(GPUS),
        StandaloneCluster(workers=("one",), cores=4, memory_mb=2048, settings=settings) as cluster,
    ):
        spark = sw.start_spark(
            workers=2,
            cores_per_worker=2,
            gpus_per_executor=2,
            gpu_tasks="networks",
            master=cluster.url,
            settings=cluster.driver_settings,
        )
        print(json.dumps(trial(spark, folder)))
        spark.stop()


def trial(spark, folder):
    """What was seen."""
    spark.range(64).repartition(8).rdd.mapPartitionsWithIndex(given(folder, "etl")).count()
    runs = []
    for number in range(0, 2 * ROUNDS, 2):
        pair = [start(spark, folder, number), start(spark, folder, number + 1)]
        for each, run in enumerate(pair, number):
            run.wait(120.0)
            tasks = lines(folder / f"given-{each}")
            used = {line["pid"]: line for line in lines(folder / f"used-{each}")}  # the last one
            runs.append(
                {
                    "run": each,
                    "workers": [
                        {
                            "given": [t["addresses"] for t in tasks if t["worker"] == index],
                            "python": [t["python"] for t in tasks if t["worker"] == index],
                            "pid": worker.pid,
                            "device": worker.device,
                            "visible": used[worker.pid]["visible"],
                            # Between the two it was at work for certain.
                            "began_s": max(t["at_s"] for t in tasks if t["worker"] == index),
                            "ended_s": used[worker.pid]["at_s"],
                        }
                        for index, worker in enumerate(run.status.workers)
                    ],
                    "computed": sorted(used),
                }
            )
    too_many = error_of_too_many(spark, folder)
    return {"runs": runs, "etl": lines(folder / "given-etl"), "too_many": too_many}


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Trains on a YARN of its own, and has a container killed for its memory; prints what was seen.

Both NodeManagers have two fake GPUs each.

Run by its path, in a process of its own: Java learns of a cluster only when it starts.
"""

import contextlib
import json
import logging
import os
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.spark.helpers import dense, weights
from tests.support.fake_gpus import fake_gpus
from tests.support.yarn import YarnCluster

import sparkwright as sw
from sparkwright.storage.listing import list_entries

LABEL = "labeled"
GPU = "yarn.io/gpu"


def data_on(spark):
    """120 examples of 3 classes."""
    random = np.random.default_rng(0)
    labels = np.arange(120, dtype=np.int32) % 3
    features = random.normal(size=(3, 4))[labels] * 2 + random.normal(size=(120, 4))
    return sw.data.from_arrays(spark, features.astype(np.float32), labels, partitions=2)


class Slow:
    """YARN looks at a container every half second, and at what has come since twice."""

    def pre_update(self, minibatch, model):
        time.sleep(0.05)

    def post_update(self, minibatch, model):
        del minibatch, model


def train(spark, master, *, epochs=2):
    """The finished run."""
    run = sw.SparkNetwork(spark, dense(), master).start(data_on(spark), epochs=epochs)
    run.wait(120)
    return run


def containers(yarn):
    """Containers by label of their machine; "" is none."""
    return {",".join(node.get("nodeLabels") or [""]): node["numContainers"] for node in yarn.nodes}


def left_over(yarn):
    """Containers, and processes that work in the cluster's folder, once these have had time."""
    deadline_s = time.monotonic() + 20
    while True:
        processes = [
            line.replace(b"\0", b" ").decode()[:200]
            for _, line in read_of_processes(yarn.folder, "cmdline")
        ]
        found = {"containers": sum(containers(yarn).values()), "processes": processes}
        if not any(found.values()) or time.monotonic() > deadline_s:
            return found
        time.sleep(0.2)


def read_of_processes(folder, file):
    """(where it works, that file of /proc) for each process that works in `folder`."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may end at any time
            place = (process / "cwd").readlink()
            if place.is_relative_to(folder):
                yield place, (process / file).read_bytes()


def resident_mib(yarn):
    """What each container takes, as YARN counts: pages that processes share count for each."""
    pages = Counter()
    for place, sizes in read_of_processes(yarn.folder, "statm"):
        pages[place.name] += int(sizes.split()[1])
    return sorted(count * os.sysconf("SC_PAGESIZE") >> 20 for count in pages.values())


def training(yarn):
    """Both masters on a GPU per executor, and a model on HDFS; Spark's jars are sent once."""
    settings = dict(yarn.driver_settings)
    del settings["spark.yarn.jars"]
    spark = sw.start_spark(
        master="yarn",
        workers=2,
        memory_per_worker_mb=512,
        gpus_per_executor=1,
        app_name="train",
        settings=settings,
    )
    conf = spark.sparkContext.getConf()
    home = f"{yarn.hdfs.url}/user"
    (user,) = list_entries(home)
    found = {
        "archive": conf.get("spark.yarn.archive"),
        "archives": list_entries(f"{home}/{user}.sparkwright"),
        "overhead": conf.get("spark.executor.memoryOverhead"),
        "containers": containers(yarn),
    }
    options = {"workers": 2, "batch_size_per_worker": 8, "seed": 1}
    averaged = train(spark, sw.ParameterAveragingTrainingMaster(averaging_frequency=2, **options))
    shared = train(spark, sw.SharedTrainingMaster(**options))
    found["finite"] = [bool(np.isfinite(weights(one.model)).all()) for one in (averaged, shared)]
    found["devices"] = [[w.device for w in one.status.workers] for one in (averaged, shared)]
    found["resident_mib"] = resident_mib(yarn)
    url = f"{yarn.hdfs.url}/models/dense.keras"
    sw.save_model(averaged.model, url)
    loaded = sw.load_model(url)
    found["loaded_equals_saved"] = bool(np.array_equal(weights(loaded), weights(averaged.model)))
    spark.stop()
    found["left"] = left_over(yarn)
    return found


def too_small(yarn):
    """On the labeled machine, with less room than TensorFlow takes."""
    small = {"spark.executor.memoryOverhead": "384m", "spark.task.maxFailures": "1"}
    spark = sw.start_spark(
        master="yarn",
        workers=1,
        memory_per_worker_mb=512,
        node_label=LABEL,
        app_name="too small",
        settings={**yarn.driver_settings, **small},
    )
    found = {"containers": containers(yarn)}
    try:
        master = sw.ParameterAveragingTrainingMaster(workers=1, batch_size_per_worker=8)
        train(spark, master.with_hooks(Slow()), epochs=50)
    except sw.SparkwrightError as error:
        found["error"] = f"{type(error).__name__}: {error}"
    spark.stop()
    found["left"] = left_over(yarn)
    return found


def no_room(yarn):
    """Its application master is to run on a machine with a label, and asks for all and more."""
    settings = {
        "spark.yarn.am.memory": "5g",
        "spark.yarn.am.nodeLabelExpression": LABEL,
        "spark.sparkwright.yarnTimeout": "3",
    }
    found = {}
    try:
        sw.start_spark(
            master="yarn", app_name="no room", settings={**yarn.driver_settings, **settings}
        )
    except sw.SparkwrightError as error:
        found["error"] = f"{type(error).__name__}: {error}"
    found["left"] = left_over(yarn)
    return found


def main():
    warnings = []
    handler = logging.Handler()
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("sparkwright").addHandler(handler)
    gpus = {"yarn.resource-types": GPU, f"yarn.nodemanager.resource-type.{GPU}": "2"}
    with (
        fake_gpus(2),
        YarnCluster(memory_mb=(6144, 3072), labels={1: LABEL}, settings=gpus) as yarn,
    ):
        os.environ["HADOOP_CONF_DIR"] = str(yarn.configuration_folder)
        found = {"training": training(yarn), "too_small": too_small(yarn), "no_room": no_room(yarn)}
        found["warnings"] = warnings
    found["folder_is_gone"] = not yarn.folder.exists()
    print(json.dumps(found))


if __name__ == "__main__":
    main()

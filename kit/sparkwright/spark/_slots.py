"""How many tasks Spark can run at once."""

import os
import re
from typing import TYPE_CHECKING, Any

from sparkwright.errors import SlotsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# With dynamic allocation only executors that are started to train have GPUs: how many each.
GPUS_OF_TRAINING = "spark.sparkwright.gpusPerExecutor"


def task_slots(spark: "SparkSession") -> int | None:
    """Tasks that can train at once; None where that can still change (dynamic allocation)."""
    conf = spark.sparkContext.getConf()
    cpus = int(conf.get("spark.task.cpus", "1") or 1)
    cores = _cores(str(spark.sparkContext.master))
    if cores is None:
        if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
            return None
        cores = spark.sparkContext.defaultParallelism
    slots = cores // cpus
    # Where executors have GPUs, each task that trains needs one.
    gpus = gpus_of_executor(conf)
    executors = int(conf.get("spark.executor.instances", "0") or 0) or executor_count(spark)
    return min(slots, executors * gpus) if gpus and executors else slots


def gpus_of_executor(conf: Any) -> int:
    """GPUs that Spark gives each executor that trains."""
    names = ("spark.executor.resource.gpu.amount", GPUS_OF_TRAINING)
    return max(int(conf.get(name, "0") or 0) for name in names)


def executor_count(spark: "SparkSession") -> int:
    """Executors that are there, or that a master on this machine will start."""
    master = str(spark.sparkContext.master)
    if match := re.match(r"local-cluster\[\s*(\d+)", master):
        return int(match[1])
    if master.startswith("local"):
        return 1
    context: Any = spark.sparkContext
    # The driver has a block manager as well.
    return context._jsc.sc().getExecutorMemoryStatus().size() - 1


def _cores(master: str) -> int | None:
    """Cores that a local master's URL promises; None for other masters."""
    if match := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        return int(match[1]) * int(match[2])
    if match := re.fullmatch(r"local\[\s*(\d+|\*)\s*(?:,.*)?\]", master):
        return (os.cpu_count() or 1) if match[1] == "*" else int(match[1])
    return 1 if master == "local" else None


def executor_resources(spark: "SparkSession") -> dict[str, Any]:
    """What `SharedTrainingMaster.worker_count` wants to know of the executors."""
    conf, master = spark.sparkContext.getConf(), str(spark.sparkContext.master)
    if match := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        executors, cores = int(match[1]), int(match[2])
    elif master.startswith("local"):
        return {"executors": None}
    else:
        wanted = int(conf.get("spark.executor.instances", "0") or 0)
        executors = wanted or max(1, executor_count(spark))
        cores = int(conf.get("spark.executor.cores", "1") or 1)
    gpus = gpus_of_executor(conf)
    return {"executors": executors, "cores_per_executor": cores, "gpus_per_executor": gpus}


def check_slots(workers: int, slots: int | None, master: str) -> None:
    """Refuse more workers than can run at once: they would wait for one another for ever.

    Raises:
        SlotsError: naming both numbers and the settings to change.
    """
    if slots is not None and workers > slots:
        raise SlotsError(
            "all workers of a run must have a task slot at the same time: a core, and a GPU where "
            "executors have any. Received: "
            f"workers={workers}, slots={slots} (master {master}). Use `workers={slots}`, or start "
            f"Spark with more: `start_spark(workers={workers})`, or `spark.executor.instances` "
            "and `spark.executor.cores` on a cluster."
        )


def is_local(spark: "SparkSession") -> bool:
    """Whether all of Spark runs on this machine."""
    return str(spark.sparkContext.master).startswith("local")

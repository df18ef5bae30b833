"""Count Spark's task slots, and wait for the executors of a run."""

import logging
import os
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sparkwright.errors import SlotsError

from .connect import context_of, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# With dynamic allocation: GPUs of each training executor. Other executors have none.
GPUS_OF_TRAINING = "spark.sparkwright.gpusPerExecutor"
_DYNAMIC = "spark.dynamicAllocation.enabled"
_INSTANCES = "spark.executor.instances"
# Spark's default number of executors on YARN and Kubernetes.
_DEFAULT_EXECUTORS = 2
TIMEOUT_SETTING = "spark.sparkwright.slotTimeout"
_TIMEOUT_S = 120.0
_LOOK_AGAIN_S = 0.2
_log = logging.getLogger(__name__)


class Settings(Protocol):
    """Settings by name: a mapping or a SparkConf."""

    def get(self, key: str, /) -> str | None:
        """Return the value; None if unset."""
        ...


class LocalCluster(NamedTuple):
    """Number of workers, and cores of each, in a master URL such as "local-cluster[2,1,1024]"."""

    workers: int
    cores: int


def local_cluster(master: str) -> LocalCluster | None:
    """Parse a local-cluster URL; None for other masters."""
    match = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master)
    return None if match is None else LocalCluster(int(match[1]), int(match[2]))


def is_dynamic(settings: Settings) -> bool:
    """Return whether dynamic allocation is enabled."""
    return settings.get(_DYNAMIC) == "true"


def gpus_of_executor(settings: Settings) -> int:
    """Return the number of GPUs of each training executor."""
    names = ("spark.executor.resource.gpu.amount", GPUS_OF_TRAINING)
    return max(_number(settings, name, 0) for name in names)


def slots_at_most(master: str, settings: Settings) -> int | None:
    """Return the maximum number of concurrent tasks by these settings; None if unbounded.

    Example:
        >>> slots_at_most("local-cluster[2,3,1024]", {"spark.task.cpus": "2"})
        2
        >>> slots_at_most("spark://master:7077", {"spark.cores.max": "4"})
        4
    """
    cpus, gpus = _number(settings, "spark.task.cpus", 1), gpus_of_executor(settings)
    cores, dynamic = _number(settings, "spark.executor.cores", 0), is_dynamic(settings)
    if (local := local_cluster(master)) is not None:
        cores = cores or local.cores
        executors = local.workers * (local.cores // cores)
    elif master.startswith("local"):
        found = re.fullmatch(r"local\[\s*(\d+|\*)\s*(?:,.*)?\]", master)
        all_cores = (os.cpu_count() or 1) if found and found[1] == "*" else 0
        return (all_cores or int(found[1] if found else 1)) // cpus
    elif master.startswith(("yarn", "k8s:")):
        name = "spark.dynamicAllocation.maxExecutors" if dynamic else _INSTANCES
        cores, executors = cores or 1, _number(settings, name, 0 if dynamic else _DEFAULT_EXECUTORS)
        if not executors:
            return None
    else:
        most = _number(settings, "spark.cores.max", 0)
        if not master.startswith("spark:") or dynamic or not most:
            return None
        if not cores:
            return most // cpus
        executors = most // cores
    return executors * (min(cores // cpus, gpus) if gpus else cores // cpus)


def slots_now(spark: "SparkSession", *, counted: bool = True) -> int:
    """Return the number of training slots of the registered executors, including busy ones.

    Over Spark Connect a job counts them; with `counted=False`, only if none has counted yet.
    """
    found, gpus = _tasks_now(spark, counted=counted), gpus_of_executor(context_of(spark).getConf())
    # Training tasks need a GPU even if other tasks do not.
    return min(found, gpus * executor_count(spark)) if gpus else found


def task_slots(spark: "SparkSession") -> int | None:
    """Return the number of training slots; None with dynamic allocation, where it varies."""
    master, settings = str(context_of(spark).master), context_of(spark).getConf()
    if master.startswith("local"):
        return slots_at_most(master, settings)
    if is_dynamic(settings):
        return None
    return slots_now(spark, counted=False) or slots_at_most(master, settings) or 1


def tasks_to_reach_all(spark: "SparkSession") -> int:
    """Return the number of tasks that reaches all executors of an otherwise idle cluster."""
    master, settings = str(context_of(spark).master), context_of(spark).getConf()
    # A local cluster's session is ready before its executors are.
    found = slots_at_most(master, settings) if is_local(spark) else _tasks_now(spark)
    return found or 1


def executor_count(spark: "SparkSession") -> int:
    """Return the number of registered executors; for a local master, of those it will start."""
    master = str(context_of(spark).master)
    if (local := local_cluster(master)) is not None:
        return local.workers
    if master.startswith("local"):
        return 1
    if is_connect(spark):
        return 1  # a lower bound: the server does not expose the number
    context: Any = context_of(spark)
    # The driver also has a block manager.
    return context._jsc.sc().getExecutorMemoryStatus().size() - 1


def executor_resources(spark: "SparkSession") -> dict[str, Any]:
    """Return the arguments of `SharedTrainingMaster.worker_count` about executors."""
    settings, master = context_of(spark).getConf(), str(context_of(spark).master)
    if (local := local_cluster(master)) is not None:
        executors, cores = local.workers, local.cores
    elif master.startswith("local"):
        return {"executors": None}
    else:
        # Standalone clusters ignore `spark.executor.instances`.
        wanted = 0 if master.startswith("spark:") else _number(settings, _INSTANCES, 0)
        executors = wanted or max(1, executor_count(spark))
        cores = _number(settings, "spark.executor.cores", 1)
    gpus = gpus_of_executor(settings)
    return {"executors": executors, "cores_per_executor": cores, "gpus_per_executor": gpus}


def check_slots(workers: int, slots: int | None, master: str) -> None:
    """Raise if there are more workers than task slots: they would wait for each other forever."""
    if slots is not None and workers > slots:
        raise SlotsError(
            "all workers of a run need a task slot at the same time: a core, and a GPU if "
            "executors have GPUs. Received: "
            f"workers={workers}, slots={slots} (master {master}). Use `workers={slots}`, or start "
            f"Spark with more slots: `start_spark(workers={workers})`, or on a cluster "
            "`spark.executor.instances` and `spark.executor.cores`."
        )


def is_local(spark: "SparkSession") -> bool:
    """Return whether all of Spark runs on this machine."""
    context: Any = context_of(spark)
    if is_connect(spark) and context.address() != "127.0.0.1":
        return False  # a remote server, even if its executors are local to it
    return str(context.master).startswith("local")


def _tasks_now(spark: "SparkSession", *, counted: bool = True) -> int:
    """Return the concurrent tasks of the session's default resource profile."""
    context: Any = context_of(spark)
    if is_connect(spark):
        return context.count_cores() if counted else context.defaultParallelism
    scala = context._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    return int(scala.maxNumConcurrentTasks(profile))


def _number(settings: Settings, name: str, default: int) -> int:
    return int(settings.get(name) or default)


def wait_for_slots(
    spark: "SparkSession", workers: int, *, cancelled: Callable[[], bool] = lambda: False
) -> int | None:
    """Wait until the executors can run `workers` tasks at once; Spark itself would wait forever.

    Spark itself would wait forever for executors that the cluster cannot provide.
    """
    conf = context_of(spark).getConf()
    if is_dynamic(conf):
        return None
    timeout_s = float(conf.get(TIMEOUT_SETTING) or _TIMEOUT_S)
    deadline_s, told = time.monotonic() + timeout_s, False
    while (slots := slots_now(spark)) < workers:
        if cancelled():
            raise SlotsError(f"cancelled with {slots} of {workers} task slots available.")
        if time.monotonic() > deadline_s:
            gpus = gpus_of_executor(conf)
            place, size, remedy = "", "", ", or use fewer workers."
            if gpus:
                place, size = ", with a GPU", f" of {gpus} GPUs"
                remedy = (
                    " and its machines find their GPUs, use fewer workers, or train on CPUs: "
                    "`start_spark(gpus_per_executor=0)`."
                )
            raise SlotsError(
                f"each worker of a run needs its own task slot{place}. Received: "
                f"workers={workers}; the driver waited {timeout_s:g} s for Spark "
                f"({context_of(spark).master}) and has {slots} slots in {executor_count(spark)} "
                f"executors{size}. Check that the cluster has free resources{remedy}"
            )
        if not told:
            _log.info("waiting for Spark's executors: %d of %d slots available", slots, workers)
            told = True
        time.sleep(_LOOK_AGAIN_S)
    return slots

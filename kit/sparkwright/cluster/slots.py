"""Count the tasks that Spark can run at once, and wait for the executors that a run needs."""

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

# With dynamic allocation only executors that are started to train have GPUs: how many each.
GPUS_OF_TRAINING = "spark.sparkwright.gpusPerExecutor"
_DYNAMIC = "spark.dynamicAllocation.enabled"
_INSTANCES = "spark.executor.instances"
# What YARN and Kubernetes start if no setting says how many.
_DEFAULT_EXECUTORS = 2
TIMEOUT_SETTING = "spark.sparkwright.slotTimeout"
_TIMEOUT_S = 120.0
_LOOK_AGAIN_S = 0.2
_log = logging.getLogger(__name__)


class Settings(Protocol):
    """Settings by name: a mapping, or a SparkConf."""

    def get(self, key: str, /) -> str | None:
        """The value; None if it is not set."""
        ...


class LocalCluster(NamedTuple):
    """What "local-cluster[2,1,1024]" says: Workers, and the cores of each."""

    workers: int
    cores: int


def local_cluster(master: str) -> LocalCluster | None:
    """The cluster on this machine that a master's URL describes; None for other masters."""
    match = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master)
    return None if match is None else LocalCluster(int(match[1]), int(match[2]))


def is_dynamic(settings: Settings) -> bool:
    """Whether executors come and go as stages need them."""
    return settings.get(_DYNAMIC) == "true"


def gpus_of_executor(settings: Settings) -> int:
    """GPUs that Spark gives each executor that trains."""
    names = ("spark.executor.resource.gpu.amount", GPUS_OF_TRAINING)
    return max(_number(settings, name, 0) for name in names)


def slots_at_most(master: str, settings: Settings) -> int | None:
    """Tasks that can ever run at once by these settings; None if they set no bound.

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


def slots_now(spark: "SparkSession") -> int:
    """Slots to train in, of the executors that have come; busy ones among them."""
    found, gpus = _tasks_now(spark), gpus_of_executor(context_of(spark).getConf())
    # Tasks of other kinds may need no GPU; those that train do.
    return min(found, gpus * executor_count(spark)) if gpus else found


def task_slots(spark: "SparkSession") -> int | None:
    """Tasks that can train at once; None where that can still change (dynamic allocation)."""
    master, settings = str(context_of(spark).master), context_of(spark).getConf()
    if master.startswith("local"):
        return slots_at_most(master, settings)
    if is_dynamic(settings):
        return None
    return slots_now(spark) or slots_at_most(master, settings) or 1


def tasks_to_ask(spark: "SparkSession") -> int:
    """Tasks that reach all executors, if there are no others in their way."""
    master, settings = str(context_of(spark).master), context_of(spark).getConf()
    # A cluster on this machine has a session before it has executors.
    found = slots_at_most(master, settings) if is_local(spark) else _tasks_now(spark)
    return found or 1


def executor_count(spark: "SparkSession") -> int:
    """Executors that are there, or that a master on this machine will start."""
    master = str(context_of(spark).master)
    if (local := local_cluster(master)) is not None:
        return local.workers
    if master.startswith("local"):
        return 1
    if is_connect(spark):
        return 1  # at least; the server does not tell
    context: Any = context_of(spark)
    # The driver has a block manager as well.
    return context._jsc.sc().getExecutorMemoryStatus().size() - 1


def executor_resources(spark: "SparkSession") -> dict[str, Any]:
    """What `SharedTrainingMaster.worker_count` wants to know of the executors."""
    settings, master = context_of(spark).getConf(), str(context_of(spark).master)
    if (local := local_cluster(master)) is not None:
        executors, cores = local.workers, local.cores
    elif master.startswith("local"):
        return {"executors": None}
    else:
        # A standalone cluster does not know the first of these settings.
        wanted = 0 if master.startswith("spark:") else _number(settings, _INSTANCES, 0)
        executors = wanted or max(1, executor_count(spark))
        cores = _number(settings, "spark.executor.cores", 1)
    gpus = gpus_of_executor(settings)
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
    context: Any = context_of(spark)
    if is_connect(spark) and context.address() != "127.0.0.1":
        return False  # a server's executors may be on its machine, which is another one
    return str(context.master).startswith("local")


def _tasks_now(spark: "SparkSession") -> int:
    """Tasks of the session's own profile that its executors can run at once."""
    context: Any = context_of(spark)
    if is_connect(spark):
        return context.defaultParallelism
    scala = context._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    return int(scala.maxNumConcurrentTasks(profile))


def _number(settings: Settings, name: str, default: int) -> int:
    return int(settings.get(name) or default)


def wait_for_slots(
    spark: "SparkSession", workers: int, *, cancelled: Callable[[], bool] = lambda: False
) -> int | None:
    """Wait until the executors that have come can run `workers` tasks at once.

    Spark itself would wait for ever for executors that no machine can give it.

    Raises:
        SlotsError: after the seconds of `spark.sparkwright.slotTimeout`, default 120, or when
            `cancelled`; with what was asked for and found.
    """
    conf = context_of(spark).getConf()
    if is_dynamic(conf):
        return None
    timeout_s = float(conf.get(TIMEOUT_SETTING) or _TIMEOUT_S)
    deadline_s, told = time.monotonic() + timeout_s, False
    while (slots := slots_now(spark)) < workers:
        if cancelled():
            raise SlotsError(f"cancelled while {slots} of {workers} task slots had come.")
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
                f"each worker of a run must have a task slot of its own{place}. Received: "
                f"workers={workers}; the driver waited {timeout_s:g} s for Spark "
                f"({context_of(spark).master}) and has {slots} slots in {executor_count(spark)} "
                f"executors{size}. See whether the cluster has so much free{remedy}"
            )
        if not told:
            _log.info("waiting for Spark's executors: %d of %d slots are there", slots, workers)
            told = True
        time.sleep(_LOOK_AGAIN_S)
    return slots

"""GPUs on Spark: resource settings, discovery scripts, and assignment to tasks."""

import atexit
import json
import logging
import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.slots import GPUS_OF_TRAINING, gpus_of_executor, is_dynamic, local_cluster
from sparkwright.errors import ConfigurationError
from sparkwright.options import check_choice, check_count
from sparkwright.workers.folders import own_folder, remove
from sparkwright.workers.gpus import (
    CLAIM_VARIABLE,
    FAKE_VARIABLE,
    FALLBACK_VARIABLE,
    find_gpus,
    leave_gpus_to_workers,
    script_text,
)

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

GpuTasks = Literal["all", "networks"]

EXECUTOR_AMOUNT = "spark.executor.resource.gpu.amount"
TASK_AMOUNT = "spark.task.resource.gpu.amount"
_EXECUTOR_SCRIPT = "spark.executor.resource.gpu.discoveryScript"
_EXECUTOR_VENDOR = "spark.executor.resource.gpu.vendor"
_WORKER_SCRIPT = "spark.worker.resource.gpu.discoveryScript"
_SHIPPED_NAME = "sparkwright_discover_gpus.sh"
# Each local Spark worker takes the next set of GPU addresses. Otherwise, each would take the
# machine's first GPU.
_DEALER = """\
#!/bin/sh
folder=$(dirname "$0")
for hand in "$folder"/hand-*; do
    if mv "$hand" "$folder/dealt-${hand##*/}" 2>/dev/null; then
        cat "$folder/dealt-${hand##*/}"
        exit 0
    fi
done
echo "all GPUs are assigned" >&2
exit 1
"""
_log = logging.getLogger(__name__)
# By SparkContext, whose settings are constant. Spark does not merge equal profiles, and a stage
# must not contain two.
_profiles: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def gpu_settings(
    gpus: int,
    chosen: Mapping[str, str],
    *,
    tasks: GpuTasks = "all",
    cpu_fallback: bool = False,
) -> dict[str, str]:
    """Return Spark settings for executors with GPUs, and write their discovery scripts."""
    check_count("gpus_per_executor", gpus, minimum=0)
    check_choice("gpu_tasks", tasks, get_args(GpuTasks))
    if gpus == 0:
        return {}
    master = chosen.get("spark.master", "")
    settings = {EXECUTOR_AMOUNT: str(gpus)}
    if tasks == "all":
        settings[TASK_AMOUNT] = "1"
    elif is_dynamic(chosen):  # Spark adds executors per stage: only training executors need GPUs
        settings = {EXECUTOR_AMOUNT: "0", GPUS_OF_TRAINING: str(gpus)}
    if master.startswith("local-cluster"):
        try:
            settings.update(_local_cluster(gpus, chosen))
        except ConfigurationError as error:
            if not cpu_fallback:
                raise
            _log.warning("training on CPUs, as `cpu_fallback=True` allows: %s", error)
            return {}
        leave_gpus_to_workers()
    elif master.startswith("local"):
        raise ConfigurationError(
            "a local master has no executors, and so no GPUs. Received: "
            f"gpus_per_executor={gpus}, master={master!r}. Omit `master` to run executors "
            "as separate processes on this machine."
        )
    elif master == "yarn":
        settings.update(_yarn(gpus, chosen))
    elif master.startswith("k8s:"):
        settings.update(_kubernetes(gpus, chosen))
    # Otherwise it is a standalone cluster, whose workers have their own discovery scripts.
    if fake := os.environ.get(FAKE_VARIABLE):
        settings[f"spark.executorEnv.{FAKE_VARIABLE}"] = fake
    if cpu_fallback:
        settings[f"spark.executorEnv.{FALLBACK_VARIABLE}"] = "1"
    return settings


def _local_cluster(gpus: int, chosen: Mapping[str, str]) -> dict[str, str]:
    """Write one set of GPU addresses for each worker of a local cluster."""
    local = local_cluster(chosen["spark.master"])
    executors = local.workers if local else 1
    found = find_gpus(chosen.get(_WORKER_SCRIPT) or chosen.get(_EXECUTOR_SCRIPT))
    if len(found) < executors * gpus:
        hides = "CUDA_VISIBLE_DEVICES" in os.environ
        hidden = "; CUDA_VISIBLE_DEVICES may hide others" if hides else ""
        raise ConfigurationError(
            "each executor needs its own GPUs. Received: "
            f"workers={executors}, gpus_per_executor={gpus}, {executors * gpus} GPUs in all; this "
            f"machine has {len(found)} ({', '.join(found) or 'none'}{hidden}). Use fewer workers, "
            "or train on CPUs: `gpus_per_executor=0`."
        )
    script = _script("deal_gpus.sh", _DEALER)
    for number in range(executors):
        text = json.dumps({"name": "gpu", "addresses": found[number * gpus :][:gpus]})
        (script.parent / f"hand-{number:04}").write_text(text)
    return {"spark.worker.resource.gpu.amount": str(gpus), _WORKER_SCRIPT: str(script)}


def _yarn(gpus: int, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return YARN settings; YARN copies the script to each container before the executor starts."""
    if chosen.get(_EXECUTOR_SCRIPT):
        return {}
    script = _script(_SHIPPED_NAME, script_text())
    files = [*filter(None, [chosen.get("spark.yarn.dist.files")]), f"file://{script}"]
    return {
        "spark.yarn.dist.files": ",".join(files),
        _EXECUTOR_SCRIPT: f"./{_SHIPPED_NAME}",
        # Without isolation, each container sees all GPUs of its host.
        f"spark.executorEnv.{CLAIM_VARIABLE}": str(gpus),
    }


def _kubernetes(gpus: int, chosen: Mapping[str, str]) -> dict[str, str]:
    # Spark sends files only after an executor has discovered its GPUs. Without a script, executors
    # exit immediately and Spark restarts them forever.
    if not chosen.get(_EXECUTOR_SCRIPT):
        raise ConfigurationError(
            "on Kubernetes, the executors' image must contain a GPU discovery script. Received: "
            f"gpus_per_executor={gpus}, no {_EXECUTOR_SCRIPT}. Set its path: "
            f'`settings={{"{_EXECUTOR_SCRIPT}": '
            '"/opt/spark/examples/src/main/scripts/getGpusResources.sh"}`, or train on CPUs with '
            "`gpus_per_executor=0`."
        )
    return {_EXECUTOR_VENDOR: chosen.get(_EXECUTOR_VENDOR) or "nvidia.com"}


def _script(name: str, text: str) -> Path:
    """Write a script to a private folder that is deleted when this process exits."""
    folder = own_folder("gpus")
    atexit.register(remove, folder)
    path = folder / name
    path.write_text(text)
    path.chmod(0o700)
    return path


def check_gpus(spark: "SparkSession") -> None:
    """Raise if tasks of the session would share GPUs or get several."""
    conf = context_of(spark).getConf()
    amount = conf.get(TASK_AMOUNT) or "1"
    if gpus_of_executor(conf) and float(amount) != 1:
        raise ConfigurationError(
            "each worker must have exactly one GPU, not shared. Received: "
            f"{TASK_AMOUNT}={amount}. Set it to 1 when Spark starts."
        )


def on_gpus(rdd: "RDD[Any]") -> "RDD[Any]":
    """Return an RDD whose tasks each request a GPU, if the session's tasks otherwise get none.

    Returns `rdd` itself for sessions without GPUs, or in which each task already gets one.
    """
    context: Any = rdd.context
    if context not in _profiles:
        _profiles[context] = _profile(context.getConf())
    profile = _profiles[context]
    return rdd if profile is None else rdd.withResources(profile)


def _profile(conf: Any) -> Any:
    """Return a resource profile with a GPU per task, and executors with optional GPUs."""
    if not gpus_of_executor(conf) or conf.get(TASK_AMOUNT):
        return None  # no GPUs, or each task already gets one
    from pyspark.resource import (
        ExecutorResourceRequests,
        ResourceProfileBuilder,
        TaskResourceRequests,
    )

    cpus = int(conf.get("spark.task.cpus", "1") or 1)
    builder: Any = ResourceProfileBuilder()
    builder.require(TaskResourceRequests().cpus(cpus).resource("gpu", 1))
    if amount := conf.get(GPUS_OF_TRAINING):
        script, vendor = conf.get(_EXECUTOR_SCRIPT) or "", conf.get(_EXECUTOR_VENDOR) or ""
        executors: Any = ExecutorResourceRequests()
        builder.require(executors.resource("gpu", int(amount), script, vendor))
    return builder.build


def device_of(context: Any) -> dict[str, Any]:
    """Return the device and cores of a task, as arguments of `TrainerPool.borrow`."""
    gpu = context.resources().get("gpu")
    return {
        "device": f"gpu-{gpu.addresses[0]}" if gpu is not None else "cpu",
        "cores": max(1, context.cpus()),
    }

"""GPUs on Spark: the settings that ask for them, the scripts that find them, who gets one when."""

import atexit
import json
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.slots import GPUS_OF_TRAINING, gpus_of_executor, is_dynamic, local_cluster
from sparkwright.errors import ConfigurationError
from sparkwright.options import check_choice, check_count
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
# Each of Spark's workers on this machine takes the next hand of addresses: they know nothing of
# one another, and each would take the machine's first GPU.
_DEALER = """\
#!/bin/sh
folder=$(dirname "$0")
for hand in "$folder"/hand-*; do
    if mv "$hand" "$folder/dealt-${hand##*/}" 2>/dev/null; then
        cat "$folder/dealt-${hand##*/}"
        exit 0
    fi
done
echo "all GPUs have been dealt out" >&2
exit 1
"""
_log = logging.getLogger(__name__)
# By context, whose settings do not change. Two profiles that say the same are two to Spark, and
# must not meet in a stage.
_profiles: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def gpu_settings(
    gpus: int,
    chosen: Mapping[str, str],
    *,
    per_worker: int = 1,
    tasks: GpuTasks = "all",
    cpu_fallback: bool = False,
) -> dict[str, str]:
    """Spark's settings for executors with GPUs; writes the scripts that they name.

    Raises:
        ConfigurationError: if a number is invalid, or Spark could not find so many GPUs.
    """
    check_count("gpus_per_executor", gpus, minimum=0)
    check_choice("gpu_tasks", tasks, get_args(GpuTasks))
    if per_worker != 1:
        raise ConfigurationError(
            "a worker trains one copy of the network on one GPU, so `gpus_per_worker` must be 1. "
            f"Received: gpus_per_worker={per_worker}. Use more workers instead: an executor with "
            "several GPUs runs one on each, if it has as many cores."
        )
    if gpus == 0:
        return {}
    master = chosen.get("spark.master", "")
    settings = {EXECUTOR_AMOUNT: str(gpus)}
    if tasks == "all":
        settings[TASK_AMOUNT] = "1"
    elif is_dynamic(chosen):  # executors come as stages need them: only those that train need GPUs
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
            "Spark gives GPUs to executors, which a local master does not have. Received: "
            f"gpus_per_executor={gpus}, master={master!r}. Leave `master` out: executors then run "
            "on this machine as processes of their own."
        )
    elif master == "yarn":
        settings.update(_yarn(gpus, chosen))
    elif master.startswith("k8s:"):
        settings.update(_kubernetes(gpus, chosen))
    # Else a standalone cluster, whose workers find their GPUs by their own configuration.
    if fake := os.environ.get(FAKE_VARIABLE):
        settings[f"spark.executorEnv.{FAKE_VARIABLE}"] = fake
    if cpu_fallback:
        settings[f"spark.executorEnv.{FALLBACK_VARIABLE}"] = "1"
    return settings


def _local_cluster(gpus: int, chosen: Mapping[str, str]) -> dict[str, str]:
    """One hand of addresses for each worker of a cluster on this machine."""
    local = local_cluster(chosen["spark.master"])
    executors = local.workers if local else 1
    found = find_gpus(chosen.get(_WORKER_SCRIPT) or chosen.get(_EXECUTOR_SCRIPT))
    if len(found) < executors * gpus:
        hides = "CUDA_VISIBLE_DEVICES" in os.environ
        hidden = "; CUDA_VISIBLE_DEVICES hides others" if hides else ""
        raise ConfigurationError(
            "each executor must have GPUs of its own. Received: "
            f"workers={executors}, gpus_per_executor={gpus}, {executors * gpus} GPUs in all; this "
            f"machine has {len(found)} ({', '.join(found) or 'none'}{hidden}). Use fewer workers, "
            "or CPUs: `gpus_per_executor=0`."
        )
    script = _script("deal_gpus.sh", _DEALER)
    for number in range(executors):
        text = json.dumps({"name": "gpu", "addresses": found[number * gpus :][:gpus]})
        (script.parent / f"hand-{number:04}").write_text(text)
    return {"spark.worker.resource.gpu.amount": str(gpus), _WORKER_SCRIPT: str(script)}


def _yarn(gpus: int, chosen: Mapping[str, str]) -> dict[str, str]:
    """YARN puts the script into each container before the executor starts."""
    if chosen.get(_EXECUTOR_SCRIPT):
        return {}
    script = _script(_SHIPPED_NAME, script_text())
    files = [*filter(None, [chosen.get("spark.yarn.dist.files")]), f"file://{script}"]
    return {
        "spark.yarn.dist.files": ",".join(files),
        _EXECUTOR_SCRIPT: f"./{_SHIPPED_NAME}",
        # Without isolation each container sees all GPUs of its host.
        f"spark.executorEnv.{CLAIM_VARIABLE}": str(gpus),
    }


def _kubernetes(gpus: int, chosen: Mapping[str, str]) -> dict[str, str]:
    # Files that Spark sends come after an executor has looked for its GPUs. Without a script each
    # executor ends as soon as it has begun, and Spark starts the next, for ever.
    if not chosen.get(_EXECUTOR_SCRIPT):
        raise ConfigurationError(
            "on Kubernetes Spark finds GPUs by a script that is in the executors' image. Received: "
            f"gpus_per_executor={gpus}, no {_EXECUTOR_SCRIPT}. Give its path there: "
            f'`settings={{"{_EXECUTOR_SCRIPT}": '
            '"/opt/spark/examples/src/main/scripts/getGpusResources.sh"}`, or train on CPUs with '
            "`gpus_per_executor=0`."
        )
    return {_EXECUTOR_VENDOR: chosen.get(_EXECUTOR_VENDOR) or "nvidia.com"}


def _script(name: str, text: str) -> Path:
    """Write a script into a private folder that lives as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="sparkwright-gpus-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o700)
    return path


def check_gpus(spark: "SparkSession") -> None:
    """Refuse a session whose tasks would share GPUs, or have several each.

    Raises:
        ConfigurationError: naming the setting.
    """
    conf = context_of(spark).getConf()
    amount = conf.get(TASK_AMOUNT) or "1"
    if gpus_of_executor(conf) and float(amount) != 1:
        raise ConfigurationError(
            "each worker must have one GPU, and each GPU one worker. Received: "
            f"{TASK_AMOUNT}={amount}. Set it to 1 when Spark starts."
        )


def on_gpus(rdd: "RDD[Any]") -> "RDD[Any]":
    """The same RDD, whose tasks ask for a GPU each if the session's tasks otherwise have none.

    Of a session without GPUs, or one that gives each task a GPU, it is the RDD itself.
    """
    context: Any = rdd.context
    if context not in _profiles:
        _profiles[context] = _profile(context.getConf())
    profile = _profiles[context]
    return rdd if profile is None else rdd.withResources(profile)


def _profile(conf: Any) -> Any:
    """A GPU for each task; and executors that have some, if those that are there need not.

    None for a session without GPUs, and one whose tasks all have one.
    """
    if not gpus_of_executor(conf) or conf.get(TASK_AMOUNT):
        return None
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
    """The device that this task was given, and its cores, as `TrainerPool.borrow` takes them."""
    gpu = context.resources().get("gpu")
    return {
        "device": f"gpu-{gpu.addresses[0]}" if gpu is not None else "cpu",
        "cores": max(1, context.cpus()),
    }

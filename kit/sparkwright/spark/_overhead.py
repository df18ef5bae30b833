"""Memory of executors outside the heap, where a cluster manager holds them to it; pure."""

from collections.abc import Collection, Mapping

from ._memory_parts import JVM_LEAST_MIB, JVM_SHARE, executor_parts, parameters_memory
from ._memory_size import mib_in, parse_mib

OVERHEAD = "spark.executor.memoryOverhead"
_FACTOR = "spark.executor.memoryOverheadFactor"
_LEAST = "spark.executor.minMemoryOverhead"
# Counts on Kubernetes where the other is not set.
_KUBERNETES_FACTOR = "spark.kubernetes.memoryOverheadFactor"
# What decides it in place of the default below, in one way or another.
_DECIDING = (OVERHEAD, _FACTOR, _LEAST, _KUBERNETES_FACTOR)
# Networks of so many parameters have room, trained with Adam and averaged with its state.
ROOM_FOR_PARAMETERS = 5_000_000


def overhead_settings(
    chosen: Mapping[str, str], *, elsewhere: Collection[str] = ()
) -> dict[str, str]:
    """Room for TensorFlow in the containers of YARN and Kubernetes, if no setting says how much.

    Spark's own default, 10 % of the heap and at least 384 MiB, is less than TensorFlow takes before
    it has a network.

    Args:
        chosen: all other settings, the master among them.
        elsewhere: names of settings that Spark finds by itself.

    Example:
        >>> overhead_settings({"spark.master": "yarn", "spark.executor.memory": "1024m"})
        {'spark.executor.memoryOverhead': '1712m'}
        >>> overhead_settings({"spark.master": "local[2]"})
        {}
    """
    contained = chosen.get("spark.master", "").startswith(("yarn", "k8s:"))
    if not contained or any(name in chosen or name in elsewhere for name in _DECIDING):
        return {}
    cores = int(chosen.get("spark.executor.cores", "1"))
    network = parameters_memory(ROOM_FOR_PARAMETERS, kind="averaging", save_updater=True)
    parts = executor_parts(
        network,
        heap_mib=parse_mib("spark.executor.memory", chosen.get("spark.executor.memory", "1g")),
        trainers=max(1, cores // int(chosen.get("spark.task.cpus", "1"))),
        data_mib=0,
    )
    needed = sum(part.size_mib for part in parts if part.place != "heap")
    return {OVERHEAD: f"{needed}m"}


def overhead_in_container(master: str, settings: Mapping[str, str], *, heap_mib: int) -> int | None:
    """MiB that Spark asks YARN or Kubernetes for beside an executor's heap; None elsewhere.

    Args:
        master: its URL.
        settings: all that are set.
        heap_mib: of the executor.

    Example:
        >>> overhead_in_container("yarn", {}, heap_mib=8192)
        819
    """
    factor = settings.get(_FACTOR)
    if master.startswith("yarn"):
        is_python = settings.get("spark.yarn.isPython") == "true"
    elif master.startswith("k8s:"):
        factor = factor or settings.get(_KUBERNETES_FACTOR)
        # Spark says so only where it starts the driver in a pod, too.
        is_python = settings.get("spark.kubernetes.resource.type") == "python"
    else:
        return None
    found = mib_in(settings.get(OVERHEAD, ""))
    if found is None:
        least = mib_in(settings.get(_LEAST, "")) or JVM_LEAST_MIB
        found = max(least, int(float(factor or JVM_SHARE) * heap_mib))
    if is_python:
        found += mib_in(settings.get("spark.executor.pyspark.memory", "")) or 0
    return int(found)

"""Memory of executors outside the heap, where a cluster manager holds them to it; pure."""

from collections.abc import Collection, Mapping

from ._memory_parts import executor_parts, parameters_memory
from ._memory_size import parse_mib

OVERHEAD = "spark.executor.memoryOverhead"
# What decides it in place of the default below, in one way or another.
_DECIDING = (
    OVERHEAD,
    "spark.executor.memoryOverheadFactor",
    "spark.executor.minMemoryOverhead",
    "spark.kubernetes.memoryOverheadFactor",
)
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

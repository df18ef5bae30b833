"""What a cluster manager says of an executor that took too much memory, as advice; pure."""

import re
from collections.abc import Mapping

_PHYSICAL = re.compile(r"exceeding physical memory limits\.?\s*([\d.]+ \wB) of ([\d.]+ \wB)?")
_VIRTUAL = re.compile(r"exceeding virtual memory limits\.?\s*([\d.]+ \wB) of ([\d.]+ \wB)?")
_KILLED = re.compile(r"OOMKilled|possible container OOM|Exit code is 137")
_SETTINGS = ("spark.executor.memory", "spark.executor.memoryOverhead")


def memory_kill(reason: str, settings: Mapping[str, str | None], *, who: str = "") -> str | None:
    """One sentence for a user whose executor was ended for its memory; None for other reasons.

    Args:
        reason: why Spark lost the executor, in its words, or a longer text with them in it.
        settings: Spark's; those of executors' memory are named.
        who: which executor; default: one.

    Example:
        >>> text = "Container killed by YARN for exceeding physical memory limits. 1.2 GB of 1 GB"
        >>> memory_kill(text, {"spark.executor.memory": "512m"})  # doctest: +ELLIPSIS
        'an executor must fit its container. Received: an executor took 1.2 GB of 1 GB, and ...
    """
    if found := _VIRTUAL.search(reason):
        return (
            "an executor must fit what its container may address. Received: "
            f"{who or 'an executor'} reserved {_amounts(found)}, and YARN ended it. TensorFlow "
            "reserves addresses that it never uses: have yarn.nodemanager.vmem-check-enabled set "
            "to false on the cluster, or yarn.nodemanager.vmem-pmem-ratio raised."
        )
    if found := _PHYSICAL.search(reason):
        took = f"took {_amounts(found)}, and YARN ended it"
    elif _KILLED.search(reason):
        took = "was killed from outside (exit code 137), as is done when memory runs out"
    else:
        return None
    known = ", ".join(f"{name}={settings[name]}" for name in _SETTINGS if settings.get(name))
    return (
        f"an executor must fit its container. Received: {who or 'an executor'} {took}"
        f"{f' ({known})' if known else ''}. Raise spark.executor.memoryOverhead, where TensorFlow "
        "has its memory; `sw.plan_memory(model)` tells how much it takes."
    )


def _amounts(found: re.Match[str]) -> str:
    return f"{found[1]} of {found[2]}" if found[2] else f"{found[1]}"

"""Repartition an RDD whose elements are chunks of examples."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sparkwright.data.shuffling import place
from sparkwright.errors import DataError

from ._plan import RepartitionPlan

if TYPE_CHECKING:
    from pyspark import RDD


def repartition(rdd: "RDD[bytes]", plan: RepartitionPlan) -> "RDD[bytes]":
    """Move every example to its partition in `plan`.

    "unchanged" returns `rdd` itself. "grouped" reads several partitions as one (a narrow
    dependency). "shuffled" is one shuffle of whole arrays. They are sorted on arrival by their
    original position, spill to disk if memory is short, and are joined to chunks of about 1 MB.
    Examples keep their order in each target partition.

    Lazy, like every transformation: persist the result if it is read more than once.

    Args:
        rdd: chunks of examples, with the counts of the plan.
        plan: from `plan_repartition`.

    Returns:
        Chunks in `plan.workers` partitions; partition i holds `plan.target_counts[i]` examples.

    Raises:
        DataError: if the number of partitions differs from the plan; on the executors, if the
            number of examples of a partition differs from the plan.
    """
    if rdd.getNumPartitions() != len(plan.source_counts):
        raise DataError(
            "a plan applies only to the data it was made for. Received: data in "
            f"{rdd.getNumPartitions()} partitions, plan for {len(plan.source_counts)}. Count "
            "again and make a new plan."
        )
    if plan.action == "unchanged":
        return rdd
    if plan.action == "grouped":
        return _grouped(rdd, plan) if hasattr(rdd.context, "_jvm") else _moved(rdd, plan)
    return place(rdd, plan.placement(), source_counts=plan.source_counts, partitions=plan.workers)


def _grouped(rdd: "RDD[bytes]", plan: RepartitionPlan) -> "RDD[bytes]":
    """Return one partition per worker, made of whole source partitions, without a shuffle."""
    from pyspark import RDD

    context: Any = rdd.context
    members: list[list[int]] = [[] for _ in range(plan.workers)]
    for partition, worker in enumerate(plan.groups):
        members[worker].append(partition)
    parts: list[Any] = []
    # `RDD.coalesce(n)` would choose groups by locality.
    for group in members:
        if group:
            java = _selected(context, rdd, group)
            java = java.coalesce(1) if len(group) > 1 else java
        else:
            java = context._jsc.parallelize(context._jvm.java.util.ArrayList(), 1)
        parts.append(RDD(java, context, rdd._jrdd_deserializer))  # pyright: ignore[reportPrivateUsage]
    return context.union(parts)


def _moved(rdd: Any, plan: RepartitionPlan) -> Any:
    """Like `_grouped`, by a shuffle: for Spark Connect, which has no access to the JVM."""

    def numbered(index: int, chunks: Iterable[bytes]) -> Iterator[Any]:
        return (((index, number), chunk) for number, chunk in enumerate(chunks))

    moved = rdd.mapPartitionsWithIndex(numbered).repartitionAndSortWithinPartitions(
        plan.workers, lambda key: plan.groups[key[0]]
    )
    return moved.values()


def _selected(context: Any, rdd: Any, partitions: list[int]) -> Any:
    """Return the Java RDD of these partitions of `rdd`, in order."""
    jvm = context._jvm
    numbers = jvm.java.util.ArrayList()
    for partition in partitions:
        numbers.add(partition)
    # Spark's partition pruning takes a function from index to Boolean. A Scala set is one; Python
    # cannot create another.
    wanted = jvm.org.apache.spark.api.python.PythonUtils.toSeq(numbers).toSet()
    return jvm.org.apache.spark.rdd.PartitionPruningRDD.create(rdd._jrdd.rdd(), wanted).toJavaRDD()

"""The operations of an RDD over Spark Connect, on DataFrames of one binary column."""

import functools
import itertools
import logging
import operator
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .connect import ConnectContext


# Spark Connect limits messages to 128 MB; larger elements are split into several rows.
_ROW_BYTES = 16 << 20
_SCHEMA = "value binary, more boolean"
_NOT_KEPT = ("NOT_SUPPORTED_WITH_SERVERLESS", "PERSIST TABLE")
# (partition index, elements) -> elements
Step = Callable[[int, Iterable[Any]], Iterable[Any]]
_log = logging.getLogger(__name__)


class FrameRDD:
    """The subset of RDD that Sparkwright uses, over Spark Connect; lazy and ordered."""

    def __init__(
        self,
        context: "ConnectContext",
        frame: "DataFrame",  # rows of `_SCHEMA`, or any rows that the first of `steps` ignores
        steps: tuple[Step, ...] = (),  # applied to each partition
        count: int | None = None,  # of partitions; None: a job counts them
        *,
        barrier: bool = False,  # start all tasks together, or none
    ) -> None:
        """Create an RDD from a DataFrame."""
        self.context = context
        self._frame, self._steps, self._count = frame, steps, count
        self._barrier = barrier
        self._cached: Any = None

    def mapPartitionsWithIndex(self, function: Step, preservesPartitioning: bool = False) -> Any:
        """Map each partition by a function of (index, elements)."""
        del preservesPartitioning
        if self._cached is not None:
            return FrameRDD(self.context, self._cached, (_decoded, function), self._count)
        return FrameRDD(
            self.context, self._frame, (*self._steps, function), self._count, barrier=self._barrier
        )

    def mapPartitions(self, function: Callable[[Iterable[Any]], Iterable[Any]]) -> "FrameRDD":
        """Map each partition by a function of its elements."""
        return self.mapPartitionsWithIndex(lambda _, elements: function(elements))

    def map(self, function: Callable[[Any], Any]) -> "FrameRDD":
        """Apply a function to each element."""
        return self.mapPartitions(lambda elements: map(function, elements))

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> "FrameRDD":
        """Map each element to several."""
        return self.mapPartitions(lambda found: (each for one in found for each in function(one)))

    def filter(self, function: Callable[[Any], bool]) -> "FrameRDD":
        """Keep the elements for which the function returns true."""
        return self.mapPartitions(lambda elements: filter(function, elements))

    def values(self) -> "FrameRDD":
        """Return the values of (key, value) pairs."""
        return self.map(operator.itemgetter(1))

    def union(self, other: "FrameRDD") -> "FrameRDD":
        """Append the partitions of `other`, which must have the same number; see `frame`."""
        count = self.getNumPartitions()
        if other.getNumPartitions() != count:
            raise ValueError(
                "a union over Spark Connect needs equal numbers of partitions. Received: "
                f"{count} and {other.getNumPartitions()}."
            )
        joined = self.frame().union(other.frame())
        return FrameRDD(self.context, joined, (_decoded,), 2 * count)

    def coalesce(self, count: int) -> "FrameRDD":
        """Merge neighboring partitions by a shuffle."""
        had = self.getNumPartitions()

        def numbered(index: int, elements: Iterable[Any]) -> Iterator[Any]:
            return (((index, number), each) for number, each in enumerate(elements))

        moved = self.mapPartitionsWithIndex(numbered).repartitionAndSortWithinPartitions(
            min(count, had), lambda key: key[0] * min(count, had) // had
        )
        return moved.values()

    def partitionBy(self, count: int, place: Callable[[Any], int] = operator.index) -> "FrameRDD":
        """Move (key, value) pairs to the partition `place(key)`."""
        keys = self.context.keys_of_partitions(count)

        def keyed(_: int, pairs: Iterable[Any]) -> Iterator[Any]:
            for pair in pairs:
                yield keys[place(pair[0]) % count], pair

        moved = self.mapPartitionsWithIndex(keyed).frame(schema=f"key bigint, {_SCHEMA}")
        return FrameRDD(self.context, moved.repartition(count, "key"), (_decoded,), count)

    def repartitionAndSortWithinPartitions(
        self, count: int, place: Callable[[Any], int] = operator.index
    ) -> "FrameRDD":
        """Move (key, value) pairs to the partition `place(key)`, sorted by key."""
        moved = self.partitionBy(count, place)
        return moved.mapPartitions(lambda pairs: sorted(pairs, key=operator.itemgetter(0)))

    def barrier(self) -> "FrameRDD":
        """Start all tasks together, or none."""
        return FrameRDD(self.context, self._frame, self._steps, self._count, barrier=True)

    def withResources(self, _profile: Any) -> "FrameRDD":
        """Return this RDD: the server assigns GPUs."""
        return self

    @property
    def is_cached(self) -> bool:
        """Whether the RDD is persisted."""
        return self._cached is not None

    def getStorageLevel(self) -> Any:
        """Return the storage level."""
        return self.frame().storageLevel if self._cached is None else self._cached.storageLevel

    def persist(self, level: Any) -> "FrameRDD":
        """Keep the elements on the executors once they are computed, if the server can do so."""
        if self._cached is None:
            try:
                self._cached = self.frame().persist(level)
            except Exception as error:
                if not any(words in str(error) for words in _NOT_KEPT):
                    raise
                _log.warning("the server keeps no data, so each job computes it again: %s", error)
        return self

    def unpersist(self, blocking: bool = False) -> "FrameRDD":
        """Release the persisted elements."""
        if self._cached is not None:
            self._cached.unpersist(blocking)
            self._cached = None
        return self

    # -- actions ----------------------------------------------------------------------------

    def getNumPartitions(self) -> int:
        """Return the number of partitions; if unknown, a job counts them once."""
        if self._count is None:
            one = FrameRDD(self.context, self._frame, (lambda index, _: [index],))
            self._count = len(one.collect())
        return self._count

    def collect(self) -> list[Any]:
        """Return all elements, in the order of the partitions."""
        return list(_values(self.frame().collect()))

    def toLocalIterator(self) -> Iterator[Any]:
        """Iterate over all elements, in the order of the partitions."""
        return _values(self.frame().toLocalIterator())

    def partition(self, index: int) -> list[Any]:
        """Return the elements of one partition; tasks of other partitions return immediately."""
        return list(_values(self.frame(only=index).collect()))

    def take(self, count: int) -> list[Any]:
        """Return the first `count` elements."""
        return self.mapPartitions(lambda elements: itertools.islice(elements, count)).collect()[
            :count
        ]

    def treeReduce(self, function: Callable[[Any, Any], Any], depth: int = 2) -> Any:
        """Reduce each partition on the executors, then their results on the driver."""
        del depth
        parts = self.mapPartitions(lambda elements: _reduced(function, elements))
        return functools.reduce(function, parts.collect())

    def treeAggregate(
        self,
        zero: Any,
        add: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any],
        depth: int = 2,
    ) -> Any:
        """Aggregate each partition on the executors, then their results on the driver."""
        del depth
        parts = self.mapPartitions(lambda elements: [functools.reduce(add, elements, zero)])
        return functools.reduce(merge, parts.collect(), zero)

    def frame(self, *, only: int | None = None, schema: str = _SCHEMA) -> "DataFrame":
        """Return the elements as rows of `schema`.

        A task only knows its partition's index in the job's last RDD. A union has two parts of
        equal size, and every other operation that combines partitions shuffles. So the index in
        this RDD is the remainder after division by `count`.
        """
        steps, count = self._steps, self._count
        keyed = schema != _SCHEMA

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            context: Any = TaskContext.get()
            index = context.partitionId()
            index = index if count is None else index % count
            if only not in (None, index):
                return
            elements: Iterable[Any] = batches
            for step in steps:
                elements = step(index, elements)
            yield from _encoded(elements, keyed=keyed)

        return self._frame.mapInArrow(run, schema, barrier=self._barrier)


def _decoded(_: int, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the elements of Arrow batches with the columns of `_SCHEMA`."""
    rows = (
        (value, more)
        for batch in batches
        for value, more in zip(batch.column("value"), batch.column("more"), strict=True)
    )
    return _joined((value.as_buffer(), more.as_py()) for value, more in rows)


def _values(rows: Iterable[Any]) -> Iterator[Any]:
    return _joined((row.value, row.more) for row in rows)


def _joined(rows: Iterable[tuple[Any, bool]]) -> Iterator[Any]:
    begun: list[Any] = []
    for value, more in rows:
        begun.append(value)
        if not more:
            yield pickle.loads(begun[0] if len(begun) == 1 else b"".join(begun))
            begun = []


def _encoded(elements: Iterable[Any], *, keyed: bool) -> Iterator[Any]:
    """Yield Arrow batches of the elements; with `keyed`, of (key, element) pairs."""
    import cloudpickle
    import pyarrow as pa

    columns: dict[str, list[Any]] = {"key": [], "value": [], "more": []}
    size = 0

    def batch() -> Any:
        arrays = {"value": pa.array(columns["value"], pa.binary()), "more": columns["more"]}
        if keyed:
            arrays = {"key": pa.array(columns["key"], pa.int64()), **arrays}
        return pa.RecordBatch.from_pydict(arrays)

    for element in elements:
        key, value = element if keyed else (0, element)
        content = cloudpickle.dumps(value, protocol=5)
        for start in range(0, len(content), _ROW_BYTES):
            columns["key"].append(key)
            columns["value"].append(content[start : start + _ROW_BYTES])
            columns["more"].append(start + _ROW_BYTES < len(content))
            size += len(columns["value"][-1])
            if size >= _ROW_BYTES:
                yield batch()
                columns, size = {"key": [], "value": [], "more": []}, 0
    if columns["value"]:
        yield batch()


def _reduced(function: Callable[[Any, Any], Any], elements: Iterable[Any]) -> Iterator[Any]:
    found = iter(elements)
    for begun in found:
        yield functools.reduce(function, found, begun)

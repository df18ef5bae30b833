"""Spark Connect: the operations of a SparkContext, on DataFrames of one binary column.

A Spark Connect session has neither RDDs nor an accessible JVM. Jobs of `mapInArrow` replace the few
RDD operations that Sparkwright needs, with the same tasks, partitions, order and results.
`context_of` returns the SparkContext where available, so other modules need no distinction.

As with an RDD, functions and elements are pickled within the user's session.
"""

import collections
import functools
import hashlib
import itertools
import logging
import operator
import pickle
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, proxy

from .connect_retries import bound_retries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark Connect limits messages to 128 MB; larger elements are split into several rows.
_ROW_BYTES = 16 << 20
# Closure data larger than this is sent as a file.
_CLOSURE_BYTES = 1 << 20
_SCHEMA = "value binary, more boolean"
# In the errors of serverless Spark, whose clients see no settings but `spark.sql.*`, and keep no
# data. The exception's class differs between versions and vendors.
_NOT_SHOWN = "CONFIG_NOT_AVAILABLE"
_NOT_KEPT = ("NOT_SUPPORTED_WITH_SERVERLESS", "PERSIST TABLE")
# (partition index, elements) -> elements
Step = Callable[[int, Iterable[Any]], Iterable[Any]]

_log = logging.getLogger(__name__)
_contexts: "WeakKeyDictionary[Any, ConnectContext]" = WeakKeyDictionary()


def is_connect(spark: Any) -> bool:
    """Return whether `spark` is a Spark Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def context_of(spark: "SparkSession") -> Any:
    """Return the session's SparkContext, or a `ConnectContext` for Spark Connect."""
    if not is_connect(spark):
        return spark.sparkContext
    if spark not in _contexts:
        _contexts[spark] = ConnectContext(spark)
        bound_retries(spark)
    return _contexts[spark]


def chunks_of(frame: "DataFrame") -> Any:
    """Return an RDD of bytes from the only column of a DataFrame."""
    if not is_connect(frame.sparkSession):
        return frame.rdd.map(lambda row: bytes(row[0]))

    def read(_: int, batches: Iterable[Any]) -> Iterator[bytes]:
        return (value.as_py() for batch in batches for value in batch.column(0))

    return FrameRDD(context_of(frame.sparkSession), frame, (read,))


class ConnectContext:
    """The subset of SparkContext that Sparkwright uses, over Spark Connect."""

    def __init__(self, spark: "SparkSession") -> None:
        """Use `context_of`."""
        # A weak reference, so that `_contexts` does not keep the session alive.
        self._spark = proxy(spark)

    def address(self) -> str:
        """Return this machine's address on the route to the server."""
        return address_towards(self._spark.client.host.strip("[]"))

    @property
    def master(self) -> str:
        """The URL of the cluster's master, from the server."""
        return self.getConf().get("spark.master") or "connect"

    @property
    def applicationId(self) -> str:
        """The server's application ID."""
        return self.getConf().get("spark.app.id") or "connect"

    @property
    def defaultParallelism(self) -> int:
        """Default number of partitions: the cores of all registered executors."""
        numbers = self._spark.range(1 << 16)
        return numbers.selectExpr("spark_partition_id() AS place").distinct().count()

    def getConf(self) -> Any:
        """Return the settings, with `get` and `getAll`."""
        return _Settings(self._spark)

    def parallelize(self, elements: Iterable[Any], slices: int | None = None) -> "FrameRDD":
        """Distribute elements of this process evenly, as SparkContext does."""
        found = list(elements)
        count = slices or self.defaultParallelism
        edges = [len(found) * i // count for i in range(count + 1)]
        parts = [pickle.dumps(found[a:b]) for a, b in itertools.pairwise(edges)]
        if sum(map(len, parts)) > _CLOSURE_BYTES:
            given: Any = [self.broadcast(part, pickled=True) for part in parts]
        else:
            given = [_Here(part) for part in parts]

        def of_partition(index: int, batches: Iterable[Any]) -> Iterable[Any]:
            collections.deque(batches, 0)  # Spark kills Python workers that do not read all rows
            return given[index].value

        return FrameRDD(self, self._spark.range(0, count, 1, count), (of_partition,), count)

    def broadcast(self, value: Any, *, pickled: bool = False) -> "FileBroadcast":
        """Send a value to the executors once, as a file."""
        content = value if pickled else pickle.dumps(value, protocol=5)
        name = f"sparkwright-{hashlib.sha256(content).hexdigest()}"
        with tempfile.TemporaryDirectory(prefix="sparkwright-") as folder:
            path = Path(folder) / name
            path.write_bytes(content)
            self._spark.addArtifacts(str(path), file=True)
        return FileBroadcast(name)

    def accumulator(self, _value: Any, _param: Any = None) -> "_Ignored":
        """Return an accumulator that stays empty: tasks can only return results to the driver."""
        return _Ignored()

    def addPyFile(self, path: str) -> None:
        """Send a Python archive to the executors."""
        self._spark.addArtifacts(path, pyfile=True)

    def keys_of_partitions(self, count: int) -> list[int]:
        """Return, for each of `count` partitions, a key that Spark hashes to it."""
        numbers = self._spark.range(64 * count + 256)
        rows = numbers.selectExpr("id", f"pmod(hash(id), {count}) AS place").collect()
        keys = {row.place: row.id for row in rows}
        return [keys[place] for place in range(count)]

    # -- jobs -------------------------------------------------------------------------------

    def setJobGroup(self, group: str, _description: str, interruptOnCancel: bool = False) -> None:
        """Tag this thread's jobs."""
        del interruptOnCancel
        self._spark.addTag(group)

    def setLocalProperty(self, _name: str, _value: str) -> None:
        """Do nothing: Spark Connect has no local properties."""

    def cancelJobGroup(self, group: str) -> None:
        """Interrupt the jobs with this tag."""
        self._spark.interruptTag(group)

    addJobTag = functools.partialmethod(setJobGroup, _description="")
    cancelJobsWithTag = cancelJobGroup


class FrameRDD:
    """The subset of RDD that Sparkwright uses, over Spark Connect; lazy and ordered.

    Attributes:
        context: the `ConnectContext`.
    """

    def __init__(
        self,
        context: ConnectContext,
        frame: "DataFrame",
        steps: tuple[Step, ...] = (),
        count: int | None = None,
        *,
        barrier: bool = False,
    ) -> None:
        """Create an RDD from a DataFrame.

        Args:
            context: the `ConnectContext`.
            frame: rows of `_SCHEMA`, or any rows that the first of `steps` ignores.
            steps: functions applied to each partition.
            count: number of partitions; default None: a job counts them.
            barrier: start all tasks together, or none.
        """
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

    def partition(self, index: int) -> list[Any]:
        """Return the elements of one partition; tasks of other partitions return immediately."""
        return list(_values(self.frame(only=index).collect()))

    def take(self, count: int) -> list[Any]:
        """Return the first `count` elements."""
        return self.mapPartitions(lambda elements: _first(elements, count)).collect()[:count]

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

        Args:
            only: index of the only partition to compute; default None: all.
            schema: `_SCHEMA`; or `_SCHEMA` after a column "key", for (key, element) pairs.
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


class FileBroadcast:
    """A value that each task process reads once from a file of the session."""

    def __init__(self, name: str) -> None:
        """Store the name of the file."""
        self._name = name

    @property
    def value(self) -> Any:
        """The value, in a task."""
        return _read(self._name)

    def destroy(self) -> None:
        """Do nothing: the session removes its files when it ends."""

    unpersist = destroy


@functools.lru_cache(maxsize=4)
def _read(name: str) -> Any:
    from pyspark import SparkFiles

    return pickle.loads(Path(SparkFiles.get(name)).read_bytes())


class _Here:
    """A value pickled into the closure."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def value(self) -> Any:
        return pickle.loads(self._content)


class _Ignored:
    """An accumulator that stays empty."""

    value: tuple[Any, ...] = ()

    def add(self, _: Any) -> None:
        """Do nothing."""


class _Settings:
    """The server's settings, with the interface of SparkConf."""

    def __init__(self, spark: Any) -> None:
        self._conf = spark.conf

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return a setting, or `default`, also if the server does not show the setting."""
        try:
            return self._conf.get(name, default)
        except Exception as error:
            if _NOT_SHOWN not in str(error):
                raise
            return default

    def getAll(self) -> list[tuple[str, str]]:
        """Return all settings visible on the server."""
        return list(self._conf.getAll.items())


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


def address_towards(host: str) -> str:
    """Return this machine's IPv4 address on the route to `host`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((host, 9))  # for UDP, this only selects a route
        return str(sock.getsockname()[0])


def _first(elements: Iterable[Any], count: int) -> Iterator[Any]:
    return itertools.islice(elements, count)


def _reduced(function: Callable[[Any, Any], Any], elements: Iterable[Any]) -> Iterator[Any]:
    found = iter(elements)
    for begun in found:
        yield functools.reduce(function, found, begun)

"""Spark Connect: the operations of a SparkContext, on DataFrames of one binary column.

A Spark Connect session has neither RDDs nor an accessible JVM. Jobs of `mapInArrow` replace the few
RDD operations that Sparkwright needs, with the same tasks, partitions, order and results.
`context_of` returns the SparkContext where available, so other modules need no distinction.

As with an RDD, functions and elements are pickled within the user's session.
"""

import collections
import contextlib
import functools
import hashlib
import itertools
import pickle
import socket
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, proxy

from .connect_rdd import FrameRDD
from .held_slots import check_free_slot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Closure data larger than this is sent as a file.
_CLOSURE_BYTES = 1 << 20
# In the errors of serverless Spark, whose clients see no settings but `spark.sql.*`, and keep no
# data. The exception's class differs between versions and vendors.
_NOT_SHOWN = "CONFIG_NOT_AVAILABLE"

_contexts: "WeakKeyDictionary[Any, ConnectContext]" = WeakKeyDictionary()
# A run notices within half a minute that its server is gone. PySpark's default policy tries again
# for ten minutes and more, and each call waits again. The user's own calls keep their policies.
_UNREACHABLE_S = 20.0
_AGAIN_MS = 1000
# Failures at least this close belong to the same outage.
_SAME_OUTAGE_S = 5.0
_of_thread = threading.local()  # `bounded`: whether it makes a call of the kit


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
        self._cores = 0  # of the last count

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
        """Default number of partitions: the cores of all executors when they were last counted."""
        return self._cores or self.count_cores()

    def count_cores(self) -> int:
        """Count the cores of all registered executors; the job needs a free task slot."""
        check_free_slot(self)
        numbers = self._spark.range(1 << 16)
        self._cores = numbers.selectExpr("spark_partition_id() AS place").distinct().count()
        return self._cores

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
        with retries_bounded():
            self._spark.interruptTag(group)

    addJobTag = functools.partialmethod(setJobGroup, _description="")
    cancelJobsWithTag = cancelJobGroup


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


def address_towards(host: str) -> str:
    """Return this machine's IPv4 address on the route to `host`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((host, 9))  # for UDP, this only selects a route
        return str(sock.getsockname()[0])


def bound_retries(spark: "SparkSession") -> None:
    """Let calls of the kit's threads give up when the server has been unreachable for 20 s.

    Nothing with PySpark 3.5, whose client has no policies.
    """
    client: Any = spark.client
    if not hasattr(client, "get_retry_policies"):
        return
    from pyspark.sql.connect.client.retries import RetryPolicy, RetryPolicyState

    policies = client.get_retry_policies()
    outage = _Outage()

    class UntilGone(RetryPolicy):
        def can_retry(self, exception: BaseException) -> bool:
            is_bounded = getattr(_of_thread, "bounded", False)
            ours = threading.current_thread().name.startswith("sparkwright-")
            return (is_bounded or ours) and any(policy.can_retry(exception) for policy in policies)

        def to_state(self) -> RetryPolicyState:
            return State(self)

    class State(RetryPolicyState):
        def next_attempt(self, exception: BaseException | None = None) -> int | None:
            del exception
            return None if outage.lasts_s(time.monotonic()) > _UNREACHABLE_S else _AGAIN_MS

    client.set_retry_policies([UntilGone(), *policies])


@contextlib.contextmanager
def retries_bounded() -> Generator[None]:
    """Bound the retries of this thread's calls within the block, whosever thread it is."""
    _of_thread.bounded = True
    try:
        yield
    finally:
        _of_thread.bounded = False


class _Outage:
    """How long the server has been unreachable, from the failures of all threads."""

    def __init__(self) -> None:
        self._first_s = self._last_s = -_SAME_OUTAGE_S
        self._lock = threading.Lock()

    def lasts_s(self, failed_at_s: float) -> float:
        """Count a failure; return for how many seconds there have been only failures."""
        with self._lock:
            if failed_at_s - self._last_s >= _SAME_OUTAGE_S:
                self._first_s = failed_at_s
            self._last_s = failed_at_s
            return failed_at_s - self._first_s

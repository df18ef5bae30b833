"""Minibatches in files as a distributed data set: an export, or files of any format."""

import hashlib
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import exists, is_on_this_machine, will_read

from ._arrow import errors_as_chunks, from_bytes, joined_chunks, to_bytes
from ._dataset import DataSet
from ._distributed import DistributedDataSet
from ._loaders import ArrowChecker, Loader, MinibatchSource, NoFeaturesError, load, numpy_loader
from ._manifest import Columns, columns_text
from ._paths import FileToRead, check_any_visible, equal_shares, find_files, is_rdd
from ._pieces import (
    OnError,
    SkipLog,
    SkipTracker,
    check_on_error,
    check_partitions,
    group_by_size,
)
from ._wording import session_first

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")
_PARTITION_BYTES = 128 << 20
# A store answers late, but many at once: four files under way, eight at most in memory.
_THREADS = 4
_AHEAD = 8
_AHEAD_BYTES = 64 << 20


@session_first
def from_minibatches(
    spark: "SparkSession",
    where: Any,
    *,
    loader: Loader | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Read files that hold minibatches; executors read a few files ahead.

    Args:
        spark: the session.
        where: an export (its URL, or what `export` returned), a folder, a pattern, a list or RDD of
            URLs; without a loader also a text file of URLs (`.txt`), or a folder of these as
            `saveAsTextFile` writes it, which with a loader are files of data.
        loader: file -> DataSet or (features, labels), run on executors: `numpy_loader` or a
            function of yours that takes a `MinibatchSource`; default None: `.arrow` files as
            `export` writes them.
        on_error: what to do with a file that is missing or invalid: "raise" (default) or "skip",
            counted in `skipped()`.
        partitions: how many, at most one a file; default None: Spark's default parallelism, or
            more if a partition would hold more than 128 MiB; an RDD keeps its own.

    Raises:
        ConfigurationError: if an executor does not see the files that the driver sees.
        DataError: if there is no file; and from the executors, naming the file.
        OSError: whatever the store says, naming the URL.

    Example:
        data = sw.data.from_minibatches(spark, "hdfs:///exports/train")
    """
    check_on_error(on_error)
    if loader is not None and not callable(loader):
        raise ConfigurationError(
            "`loader` must be a function: MinibatchSource -> DataSet. Received: "
            f"{type(loader).__name__}."
        )
    check_partitions(partitions)
    if is_rdd(where):
        urls = where if partitions is None else where.repartition(partitions)
        groups = urls.map(_alone)
        return _reading(spark, groups, loader=loader, on_error=on_error)
    found = find_files(where, ours=loader is None)
    check_any_visible(spark, found.probes)
    # Where sizes are unknown, files count alike.
    sizes = [1 if file.size_bytes is None else file.size_bytes for file in found.files]
    context = spark.sparkContext
    wanted = partitions or max(context.defaultParallelism, -(-sum(sizes) // _PARTITION_BYTES))
    manifest = found.manifest
    # With "skip" the number of examples is unknown before all files were read.
    counted = manifest is not None and loader is None and on_error == "raise"
    if counted:
        groups = equal_shares(found.files, wanted)
    else:
        groups = [[found.files[i] for i in group] for group in group_by_size(sizes, wanted)]
    return _reading(
        spark,
        context.parallelize(groups, len(groups)),
        loader=loader,
        on_error=on_error,
        columns=None if manifest is None else manifest.columns,
        counts=tuple(sum(map(_examples, group)) for group in groups) if counted else None,
        fingerprint=_fingerprint(found.fingerprint, loader, on_error),
        class_names=None if manifest is None else manifest.class_names,
    )


def _reading(
    spark: "SparkSession",
    groups: "RDD[list[FileToRead]]",
    *,
    loader: Loader | None,
    on_error: OnError,
    columns: Columns | None = None,
    **known: Any,
) -> DistributedDataSet:
    tracker = SkipTracker(spark.sparkContext)
    reader = MinibatchReader(loader=loader, on_error=on_error, columns=columns)
    rdd = groups.mapPartitionsWithIndex(partial(_read_partition, reader=reader, done=tracker.done))
    tracker.rdd = rdd
    return DistributedDataSet(spark, rdd, skip_tracker=tracker, **known)


def _alone(url: Any) -> list[FileToRead]:
    return [FileToRead(str(url))]


@errors_as_chunks
def _read_partition(
    index: int, groups: Iterable[list[FileToRead]], *, reader: "MinibatchReader", done: Any
) -> Iterator[bytes]:
    log = SkipLog(reader.on_error)
    yield from reader.read((file for group in groups for file in group), log)
    done.add({index: log.skipped})


@dataclass(frozen=True, kw_only=True, slots=True)
class MinibatchReader:
    """Turns files into chunks, on an executor.

    Attributes:
        loader: file -> DataSet; None: Arrow files, whose bytes are chunks as they are.
        on_error: "raise" or "skip".
        columns: what every Arrow file must hold; None: any.
    """

    loader: Loader | None = None
    on_error: OnError = "raise"
    columns: Columns | None = None

    def read(self, files: Iterable[FileToRead], log: SkipLog) -> Iterator[bytes]:
        """The chunks of `files`, in order; invalid files are reported to `log`."""
        if self.loader is not None:
            # Closed here: left to the garbage collector, threads may be joined in the midst of
            # Python's own work on threads, which waits forever.
            with closing(read_ahead(files, self._loaded)) as found:
                loaded: Iterator[DataSet] = _usable(found, log)
                yield from map(to_bytes, joined_chunks(loaded))
            return
        load_arrow = partial(self.load_arrow, checker=ArrowChecker())
        rest = iter(files)
        first = next(rest, None)
        if first is None:
            return
        files = chain([first], rest)
        if is_on_this_machine(first.url):
            # The system's own reading ahead: here a thread would cost more than it saves.
            yield from _usable(map(load_arrow, _announced(files)), log)
        else:
            ahead = max(1, min(_AHEAD, _AHEAD_BYTES // (first.size_bytes or _AHEAD_BYTES // 4)))
            with closing(read_ahead(files, load_arrow, threads=_THREADS, ahead=ahead)) as found:
                yield from _usable(found, log)

    def load_arrow(self, file: FileToRead, *, checker: ArrowChecker) -> "bytes | Problem":
        """The chunk of an Arrow file, or the part of it that is to be read."""
        try:
            content = MinibatchSource(file.url).read()
            rows, columns = checker.rows_and_columns(content)
        except Exception as error:
            return problem_of(file.url, error)
        if self.columns is not None and columns != self.columns:
            return _unlike(file.url, columns_text(columns), columns_text(self.columns))
        if file.examples is not None and file.examples != rows:
            return _unlike(file.url, f"{rows} examples", f"{file.examples}")
        if not file.is_as_written(content):
            return _unlike(file.url, "other bytes", "those of its checksum")
        if file.start or file.stop is not None:
            return to_bytes(from_bytes(content).take(slice(file.start, file.stop)))
        return content

    def _loaded(self, file: FileToRead) -> "DataSet | Problem":
        assert self.loader is not None
        try:
            return load(self.loader, MinibatchSource(file.url))
        except Exception as error:
            return problem_of(file.url, error)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file is invalid.

    Attributes:
        reason: "missing file", "unreadable file", "no features" or "unlike the manifest".
        message: with the file and the remedy.
    """

    reason: str
    message: str


def problem_of(url: str, error: Exception) -> Problem:
    """What an exception from reading or loading `url` means."""
    if isinstance(error, FileNotFoundError) and not exists(url):
        return Problem(
            "missing file",
            f"a minibatch file must exist. Received: {url}, which {socket.gethostname()} does not "
            "see. Check the path, or export again.",
        )
    what = str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
    reason, rule = "unreadable file", "be one that its loader can read"
    if isinstance(error, NoFeaturesError):
        reason, rule = "no features", "hold features of at least one example"
    return Problem(
        reason,
        f"a minibatch file must {rule}. Received: {url}: {what}. "
        "`sparkwright.data.validate` finds all such files.",
    )


def _unlike(url: str, found: str, wanted: str) -> Problem:
    return Problem(
        "unlike the manifest",
        f"every file of an export must hold what its manifest says. Received: {url} with {found} "
        f"instead of {wanted}. Export again with `overwrite=True`.",
    )


def read_ahead(
    items: Iterable[Item], function: Callable[[Item], Result], *, threads: int = 2, ahead: int = 4
) -> Generator[Result]:
    """`map(function, items)` on threads, with at most `ahead` results computed ahead, in order.

    An exception of `function` is raised at its place; the threads end with the iterator: `close` it
    if it is left before its end.

    Example:
        >>> list(read_ahead([3, 1, 2], str))
        ['3', '1', '2']
    """
    rest = iter(items)
    with ThreadPoolExecutor(threads, thread_name_prefix="sparkwright-read") as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            waiting.extend(pool.submit(function, item) for item in islice(rest, ahead))
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(rest, 1))
                yield result
        finally:
            for future in waiting:
                future.cancel()


def _announced(files: Iterable[FileToRead]) -> Iterator[FileToRead]:
    """`files`, the next few of which the system fetches meanwhile."""
    waiting: deque[FileToRead] = deque()
    for file in files:
        will_read(file.url)
        waiting.append(file)
        if len(waiting) > _AHEAD:
            yield waiting.popleft()
    yield from waiting


def _usable(found: Iterable[Any], log: SkipLog) -> Iterator[Any]:
    for item in found:
        if isinstance(item, Problem):
            log.skip(item.reason, item.message)
        else:
            yield item


def _examples(file: FileToRead) -> int:
    stop = file.examples if file.stop is None else file.stop
    return (stop or 0) - file.start


def _fingerprint(files: str | None, loader: Loader | None, on_error: OnError) -> str | None:
    """None for a function of the user's, which may change."""
    if files is None or loader not in (None, numpy_loader):
        return None
    kind = "arrow" if loader is None else "numpy"
    return hashlib.sha256(f"minibatches {files} {kind} {on_error}".encode()).hexdigest()

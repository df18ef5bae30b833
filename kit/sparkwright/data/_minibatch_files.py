"""Distributed data from files of minibatches: exports, or files of any format with a loader."""

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sparkwright.errors import ConfigurationError

from ._distributed import DistributedDataSet
from .chunks import from_bytes
from .dataset import DataSet
from .loaders import Loader, MinibatchReader, numpy_loader
from .paths import FileToRead, check_visible, equal_shares, find_files, is_rdd
from .pieces import (
    OnError,
    SkipLog,
    check_on_error,
    check_partitions,
    group_by_size,
    partition_count,
    read_groups,
)
from .wording import session_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@session_first
def from_minibatches(
    spark: "SparkSession",
    where: Any,
    *,
    loader: Loader | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Read files that hold minibatches; executors prefetch a few files.

    Args:
        spark: the session.
        where: an export (its URL or the result of `export`), a folder, a pattern, or a list or RDD
            of URLs. Without a loader also a text file of URLs (`.txt`) or a folder of such files,
            as `saveAsTextFile` writes it. With a loader, text files are data.
        loader: function of a `MinibatchSource` that returns a DataSet or (features, labels) on the
            executors, such as `numpy_loader`. Default None: `.arrow` files as `export` writes
            them.
        on_error: what to do with missing or invalid files: "raise" (default) or "skip". `skipped()`
            counts the skipped files.
        partitions: number of partitions, at most one per file. Default None: Spark's default
            parallelism, or more if a partition would exceed 128 MiB; an RDD keeps its partitions.

    Raises:
        ConfigurationError: if an executor cannot read a file that the driver can read.
        DataError: if there is no file; or, when the data is read, if a file is invalid.
        OSError: from the file system, with the URL.

    Example:
        data = sw.data.from_minibatches(spark, "hdfs:///exports/train")
    """
    _check(loader, on_error)
    check_partitions(partitions)
    if is_rdd(where):
        urls = where if partitions is None else where.repartition(partitions)
        reader = MinibatchReader(loader=loader)
        files = urls.map(lambda url: [FileToRead(str(url))])
        return read_groups(spark, files, reader.read, on_error=on_error, gives_chunks=True)
    found = find_files(where, ours=loader is None)
    check_visible(spark, *found.probes)
    sizes = [file.size_bytes or 0 for file in found.files]
    wanted = partition_count(spark, sizes, partitions)
    manifest = found.manifest
    known: dict[str, Any] = {}
    if manifest is not None:
        known["class_names"] = manifest.class_names
    # With "skip", the number of examples is unknown until all files have been read.
    if manifest is not None and loader is None and on_error == "raise":
        groups = equal_shares(found.files, wanted)
        known["counts"] = tuple(sum(file.taken for file in group) for group in groups)
    else:
        groups = group_by_size(found.files, sizes, wanted)
    # No fingerprint for a user's loader: changes of its code cannot be detected.
    if found.fingerprint is not None and loader in (None, numpy_loader):
        text = f"minibatches {found.fingerprint} {'numpy' if loader else 'arrow'} {on_error}"
        known["fingerprint"] = hashlib.sha256(text.encode()).hexdigest()
    reader = MinibatchReader(loader=loader, columns=manifest and manifest.columns)
    return read_groups(spark, groups, reader.read, on_error=on_error, gives_chunks=True, **known)


def read_minibatches(
    where: Any, *, loader: Loader | None = None, on_error: OnError = "raise"
) -> Iterator[DataSet]:
    """Read files that hold minibatches without Spark; yield one DataSet per file, in order.

    Files are read lazily, so the data may be larger than memory. `ParallelWrapper` accepts the
    iterator.

    Args:
        where: as for `from_minibatches`, except an RDD.
        loader: as for `from_minibatches`. Default None: `.arrow` files as `export` writes them.
        on_error: "raise" (default) or "skip".

    Raises:
        Exception: as for `from_minibatches`; for an invalid file when the iterator reaches it.
    """
    _check(loader, on_error)
    found = find_files(where, ours=loader is None)
    reader = MinibatchReader(loader=loader, columns=found.manifest and found.manifest.columns)
    log = SkipLog(on_error)
    if loader is not None:
        return reader.load(found.files, log)
    return map(from_bytes, reader.read(found.files, log))


def _check(loader: Any, on_error: str) -> None:
    check_on_error(on_error)
    if loader is not None and not callable(loader):
        raise ConfigurationError(
            "`loader` must be a function: MinibatchSource -> DataSet. Received: a "
            f"{type(loader).__name__}."
        )

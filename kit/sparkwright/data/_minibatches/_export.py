"""Exporting a distributed data set as files of exactly one minibatch each.

Tasks write the full minibatches of their partitions, and what is left of each as a file of its
own. A second, small job joins these leftovers. So every file holds as many examples as asked for,
but for a last one, and nothing passes through the driver but names and numbers.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright._version import __version__
from sparkwright.data._arrow import from_bytes, to_bytes
from sparkwright.data._dataset import DataSet
from sparkwright.errors import DataError
from sparkwright.storage._files import (
    absolute,
    join,
    read_bytes,
    remove,
    remove_tree,
    write_bytes,
)
from sparkwright.storage._listing import list_entries

from ._exported import ExportedDataSet, NewExport, created_now, new_export, reusable_export
from ._leftovers import Slice, join_leftovers
from ._manifest import Columns, Manifest, MinibatchFile
from ._minibatch_writer import (
    FILES_PER_FOLDER,
    MinibatchWriter,
    check_sizes,
    common_columns,
    minibatch_path,
    written_file,
)
from ._visibility import check_visible

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    from sparkwright.data._distributed import DistributedDataSet


def export(
    data: "DistributedDataSet",
    url: str | os.PathLike[str],
    *,
    batch_size: int,
    overwrite: bool = False,
    reuse: bool = True,
    files_per_folder: int = FILES_PER_FOLDER,
) -> ExportedDataSet:
    """See `DistributedDataSet.export`."""
    check_sizes(batch_size, files_per_folder)
    url = absolute(os.fspath(url)).rstrip("/")
    present = reusable_export(
        url,
        fingerprint=data.fingerprint,
        batch_size=batch_size,
        reuse=reuse,
        overwrite=overwrite,
    )
    if present is not None:
        return present
    with new_export(url, tasks=True) as writing:
        _check_writable(data, writing)
        parts = write_partitions(
            data.spark,
            data.rdd,
            writing.folder,
            batch_size=batch_size,
            files_per_folder=files_per_folder,
            leftovers_apart=True,
        )
        columns = common_columns(part.columns for part in parts)
        rest = _join(data, writing.folder, parts, batch_size, files_per_folder)
        files = [file for part in parts for file in part.files]
        return writing.publish(
            new_manifest(
                writing,
                columns=columns,
                batch_size=batch_size,
                files=[*files, *rest],
                class_names=data.class_names,
                fingerprint=data.fingerprint,
                skipped=data.skipped(),
            )
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenPart:
    """What an attempt at a task wrote.

    Attributes:
        number: of the partition.
        name: of the folder below which the files lie, and of the leftover; no two attempts share
            one, since they may see the examples in different orders.
        files: full minibatches, in order.
        left_over: examples in a file of their own.
        columns: of all examples; None if there were none.
    """

    number: int
    name: str
    files: tuple[MinibatchFile, ...]
    left_over: int
    columns: Columns | None


def write_partitions(
    spark: "SparkSession",
    rdd: "RDD[bytes]",
    folder: str,
    *,
    batch_size: int,
    files_per_folder: int = FILES_PER_FOLDER,
    leftovers_apart: bool,
) -> list[WrittenPart]:
    """Write each partition's minibatches below `folder`; a Spark job.

    Each attempt at a task writes to a folder of its own; those whose results Spark does not take
    are removed.

    Args:
        spark: the session.
        rdd: chunks of examples.
        folder: URL of a folder that all executors see.
        batch_size: examples a file.
        files_per_folder: at most so many files in a sub-folder.
        leftovers_apart: keep what does not fill a minibatch for `_join`; else it is the
            partition's last file, smaller than the others.

    Returns:
        What was written, by partition.
    """
    from sparkwright.spark._jobs import collect

    write = partial(
        _write_partition,
        folder=folder,
        batch_size=batch_size,
        files_per_folder=files_per_folder,
        leftovers_apart=leftovers_apart,
    )
    found = collect(spark, rdd.mapPartitionsWithIndex(write), description="export minibatches")
    parts = sorted(found, key=lambda part: part.number)
    _remove_others(folder, {part.name for part in parts})
    return parts


def _remove_others(folder: str, taken: set[str]) -> None:
    """Remove what attempts wrote that failed or came second."""
    for entry in list_entries(folder):
        name = entry.rstrip("/")
        if name.startswith("part-") and name not in taken:
            # One may be writing still; what is left then is named by no manifest.
            with contextlib.suppress(OSError):
                remove_tree(join(folder, name))


def new_manifest(
    writing: NewExport,
    *,
    columns: Columns,
    batch_size: int,
    files: list[MinibatchFile],
    **known: Any,
) -> Manifest:
    """The manifest of what has been written, now, by these versions."""
    import pyarrow as pa

    return Manifest(
        batch_size=batch_size,
        columns=columns,
        files=tuple(files),
        folder=writing.name,
        created=created_now(),
        versions={"sparkwright": __version__, "pyarrow": pa.__version__},
        **known,
    )


def _write_partition(index: int, chunks: Iterable[bytes], **options: Any) -> Iterator[WrittenPart]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    yield write_part(index, chunks, attempt=context.taskAttemptId(), **options)


def write_part(
    index: int,
    chunks: Iterable[bytes],
    *,
    attempt: int,
    folder: str,
    batch_size: int,
    files_per_folder: int,
    leftovers_apart: bool,
) -> WrittenPart:
    """Write a partition's minibatches below `folder`, as attempt number `attempt` of all tasks."""
    name = f"part-{index:05d}-{attempt}"
    writer = MinibatchWriter(folder, name, batch_size=batch_size, files_per_folder=files_per_folder)
    rest = writer.write(map(from_bytes, chunks))
    left_over = 0
    if rest is not None and leftovers_apart:
        left_over = len(rest)
        write_bytes(_leftover(folder, name), to_bytes(rest))
    elif rest is not None:
        writer.write_file(rest)
    return WrittenPart(
        number=index,
        name=name,
        files=tuple(writer.files),
        left_over=left_over,
        columns=writer.columns,
    )


def _join(
    data: "DistributedDataSet",
    folder: str,
    parts: list[WrittenPart],
    batch_size: int,
    files_per_folder: int,
) -> list[MinibatchFile]:
    """Join the leftovers to minibatches, in the order of their partitions; a Spark job."""
    from sparkwright.spark._jobs import collect

    minibatches = join_leftovers([part.left_over for part in parts], batch_size)
    if not minibatches:
        return []
    context = data.spark.sparkContext
    named = [
        (number, [(parts[s.source].name, parts[s.source].left_over, s) for s in slices])
        for number, slices in enumerate(minibatches)
    ]
    tasks = context.parallelize(named, min(len(named), context.defaultParallelism))
    write = partial(write_joined, folder=folder, files_per_folder=files_per_folder)
    files = collect(data.spark, tasks.map(write), description="join what is left")
    remove_tree(join(folder, "leftovers"))
    return files


def write_joined(
    numbered: tuple[int, list[tuple[str, int, Slice]]], *, folder: str, files_per_folder: int
) -> MinibatchFile:
    """Write one minibatch of leftovers.

    Args:
        numbered: the minibatch's number; and of each piece the leftover's name, how many examples
            it holds, and which to take.
        folder: URL of the folder of files.
        files_per_folder: at most so many files in a sub-folder.

    Raises:
        DataError: if a leftover does not hold what was recorded.
    """
    number, named = numbered
    pieces: list[DataSet] = []
    for name, examples, taken in named:
        left = from_bytes(read_bytes(_leftover(folder, name)))
        if len(left) != examples:
            raise DataError(
                "what is left of a partition must be what its task recorded. Received: "
                f"{_leftover(folder, name)} with {len(left)} examples instead of {examples}. Let "
                "nobody else write there, and export again."
            )
        pieces.append(left.take(slice(taken.start, taken.stop)))
    minibatch = DataSet.concatenate(pieces)
    path, content = minibatch_path("rest", number, files_per_folder), to_bytes(minibatch)
    write_bytes(join(folder, path), content)
    return written_file(path, content, examples=len(minibatch))


def _leftover(folder: str, name: str) -> str:
    return join(folder, f"leftovers/{name}.arrow")


def _check_writable(data: "DistributedDataSet", writing: NewExport) -> None:
    """Before hours of work: would the driver see what executors write?"""
    from sparkwright.spark._slots import is_local

    if not is_local(data.spark):
        probe = join(writing.folder, "probe")
        write_bytes(probe, writing.name.encode())
        check_visible(data.spark, probe)
        remove(probe)

"""Export examples as files of exactly one minibatch, on Spark or on one machine.

On Spark, each task writes the full minibatches of its partition and one file with the leftover
examples. A second, small job joins the leftovers into minibatches. Every file but the last has
`batch_size` examples, and only file names and counts pass through the driver.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import collect
from sparkwright.errors import DataError
from sparkwright.options import check_count
from sparkwright.storage.files import absolute, join, remove_tree, write_bytes
from sparkwright.storage.listing import list_entries

from ._exported import ExportedDataSet, NewExport, reusable_export
from ._manifest import Columns, MinibatchFile, columns_of, columns_text
from ._skipped import UnusableItem
from .chunks import batched, datasets_of, from_bytes, to_bytes
from .dataset import DataSet
from .loaders import ArrowChecker, MinibatchReader
from .paths import FileToRead, check_reached, crc32c_of, cut_files

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    from ._distributed import DistributedDataSet

_FILES_PER_FOLDER = 1000
_LEFTOVERS = "leftovers"


def export(
    data: "DistributedDataSet", url: str, *, batch_size: int, overwrite: bool, reuse: bool
) -> ExportedDataSet:
    """See `DistributedDataSet.export`."""
    place, present = _place(url, batch_size, overwrite, reuse, fingerprint=data.fingerprint)
    if present is not None:
        return present
    with NewExport(place, by_tasks=True) as writing:
        check_reached(data.spark, writing.folder)
        parts = write_partitions(
            data.spark, data.rdd, writing.folder, batch_size=batch_size, leftovers_apart=True
        )
        columns = _common_columns(part.columns for part in parts)
        rest = _join_leftovers(data.spark, writing.folder, parts, batch_size)
        return writing.publish(
            columns=columns,
            batch_size=batch_size,
            files=[*(file for part in parts for file in part.files), *rest],
            class_names=data.class_names,
            fingerprint=data.fingerprint,
            skipped=data.skipped(),
        )


def to_minibatch_files(
    data: Any,
    url: str | os.PathLike[str],
    *,
    batch_size: int,
    overwrite: bool = False,
    class_names: Mapping[str, Sequence[str]] | None = None,
) -> ExportedDataSet:
    """Export local data as files of exactly `batch_size` examples; only the last may be smaller.

    The order is kept. Memory holds one minibatch and one batch at a time.

    Args:
        data: a DataSet, a (features, labels) or (features, labels, weights) tuple of arrays, or an
            iterable of these as batches: a list, a generator, a `tf.data.Dataset`, a
            `keras.utils.PyDataset`. Features and labels may be dicts: name -> array. A tuple of
            DataSets is a list of batches. A list of two or three arrays is ambiguous and raises.
        url: an empty or new folder, local or in any store.
        batch_size: examples per file.
        overwrite: replace an existing export; default False.
        class_names: output name -> names of its classes; default none.

    Raises:
        ConfigurationError: if `url` exists and is not an export to overwrite.
        DataError: if `data` is empty or its batches differ in columns, dtypes or shapes.
        OSError: if the store fails, naming the URL.

    Example:
        sw.data.to_minibatch_files((images, labels), "exports/train", batch_size=32)
    """
    place, _ = _place(url, batch_size, overwrite, reuse=False)
    with NewExport(place) as writing:
        writer = _Writer(writing.folder, "part-00000")
        rest = writer.write(datasets_of(data), batch_size)
        if rest is not None:
            writer.write_file(rest)
        return writing.publish(
            columns=_common_columns([writer.columns]),
            batch_size=batch_size,
            files=writer.files,
            class_names={name: tuple(names) for name, names in (class_names or {}).items()},
        )


def _place(
    url: str | os.PathLike[str],
    batch_size: int,
    overwrite: bool,
    reuse: bool,
    fingerprint: str | None = None,
) -> tuple[str, ExportedDataSet | None]:
    """Return the absolute URL, and the existing export if it can be reused."""
    check_count("batch_size", batch_size)
    place = absolute(os.fspath(url)).rstrip("/")
    return place, reusable_export(
        place, fingerprint=fingerprint, batch_size=batch_size, reuse=reuse, overwrite=overwrite
    )


class _Writer:
    """Writer of DataSets of one layout to `folder/part/0000/minibatch-000000.arrow`, ..."""

    def __init__(self, folder: str, part: str, *, start: int = 0) -> None:
        self.files: list[MinibatchFile] = []
        self.columns: Columns | None = None  # of all examples; None before the first
        self._folder, self._part, self._start = folder, part, start

    def write(self, datasets: Iterable[DataSet], batch_size: int) -> DataSet | None:
        """Write all full minibatches; return the leftover examples."""
        for minibatch in batched(map(self._checked, datasets), batch_size):
            if len(minibatch) < batch_size:
                return minibatch
            self.write_file(minibatch)
        return None

    def write_file(self, minibatch: DataSet) -> MinibatchFile:
        """Write one more file, of any size."""
        number = self._start + len(self.files)
        path = f"{self._part}/{number // _FILES_PER_FOLDER:04d}/minibatch-{number:06d}.arrow"
        content = to_bytes(minibatch)
        write_bytes(join(self._folder, path), content)
        crc = crc32c_of(content)
        file = MinibatchFile(
            path=path, examples=len(minibatch), size_bytes=len(content), crc32c=crc
        )
        self.files.append(file)
        return file

    def _checked(self, dataset: DataSet) -> DataSet:
        if len(dataset):
            self.columns = _common_columns([self.columns, columns_of(dataset.layout)])
        return dataset


def _common_columns(found: Iterable[Columns | None]) -> Columns:
    """Return the columns shared by all parts; None stands for a part without examples."""
    columns: Columns | None = None
    for other in found:
        if columns is not None and other is not None and other != columns:
            raise DataError(
                "all examples of an export must have the same columns, dtypes and shapes. "
                f"Received: {columns_text(columns)} and {columns_text(other)}. Bring sequences to "
                "one length first: `data.padded()`."
            )
        columns = columns or other
    if columns is None:
        raise DataError("an export needs at least one example. Received: none.")
    return columns


# -- on Spark


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenPart:
    """The files of partition `number` that one task attempt wrote to its folder `name`."""

    number: int
    name: str
    files: tuple[MinibatchFile, ...]
    left_over: int  # examples in the leftover file
    columns: Columns | None  # None without examples


def write_partitions(
    spark: "SparkSession",
    rdd: "RDD[bytes]",
    folder: str,
    *,
    batch_size: int,
    leftovers_apart: bool,
) -> list[WrittenPart]:
    """Write each partition's minibatches below `folder`; return the files in order.

    With `leftovers_apart`, incomplete minibatches are left to `_join_leftovers`.
    """
    write = partial(
        write_part,
        folder=folder,
        batch_size=batch_size,
        leftovers_apart=leftovers_apart,
    )
    found = collect(spark, rdd.mapPartitionsWithIndex(write), description="export minibatches")
    parts = sorted(found, key=lambda part: part.number)
    taken = {part.name for part in parts}
    for entry in list_entries(folder):
        name = entry.rstrip("/")
        if name.startswith("part-") and name not in taken:
            # A failed or speculative attempt. It may still be writing; the manifest does not name
            # its files.
            with contextlib.suppress(OSError):
                remove_tree(join(folder, name))
    return parts


def write_part(
    index: int,
    chunks: Iterable[bytes],
    *,
    attempt: int | None = None,
    folder: str,
    batch_size: int,
    leftovers_apart: bool,
) -> Iterator[WrittenPart]:
    """Write a partition's minibatches below `folder`; `attempt` defaults to the task's attempt."""
    if attempt is None:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        attempt = context.taskAttemptId()
    # Attempts may see the examples in different orders.
    name = f"part-{index:05d}-{attempt}"
    writer = _Writer(folder, name)
    rest = writer.write(map(from_bytes, chunks), batch_size)
    left_over = 0
    if rest is not None and leftovers_apart:
        left_over = len(rest)
        write_bytes(join(folder, f"{_LEFTOVERS}/{name}.arrow"), to_bytes(rest))
    elif rest is not None:
        writer.write_file(rest)
    yield WrittenPart(
        number=index,
        name=name,
        files=tuple(writer.files),
        left_over=left_over,
        columns=writer.columns,
    )


def _join_leftovers(
    spark: "SparkSession",
    folder: str,
    parts: list[WrittenPart],
    batch_size: int,
) -> list[MinibatchFile]:
    """Join the leftovers into minibatches, ordered by partition, in one Spark job."""
    files = [
        FileToRead(join(folder, f"{_LEFTOVERS}/{part.name}.arrow"), examples=part.left_over)
        for part in parts
        if part.left_over
    ]
    if not files:
        return []
    total = sum(part.left_over for part in parts)
    minibatches = list(enumerate(cut_files(files, [*range(0, total, batch_size), total])))
    context = context_of(spark)
    tasks = context.parallelize(minibatches, min(len(minibatches), context.defaultParallelism))
    write = partial(write_joined, folder=folder)
    written = collect(spark, tasks.map(write), description="join leftovers")
    remove_tree(join(folder, _LEFTOVERS))
    return written


def write_joined(numbered: tuple[int, list[FileToRead]], *, folder: str) -> MinibatchFile:
    """Write one minibatch, given as its number and its pieces of leftover files."""
    number, pieces = numbered
    reader = MinibatchReader()
    datasets: list[DataSet] = []
    for piece in pieces:
        found = reader.load_arrow(piece, checker=ArrowChecker())
        if isinstance(found, UnusableItem):
            raise DataError(found.message)
        datasets.append(from_bytes(found))
    writer = _Writer(folder, "rest", start=number)
    return writer.write_file(DataSet.concatenate(datasets))


# -- on one machine

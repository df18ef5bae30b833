"""Exporting a distributed data set as files of exactly one minibatch each.

Tasks write the full minibatches of their partitions, and what is left of each as a file of its
own. A second, small job joins these leftovers. So every file holds as many examples as asked for,
but for a last one, and nothing passes through the driver but names and numbers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright._version import __version__
from sparkwright.data._arrow import from_bytes, to_bytes
from sparkwright.data._chunks import batched
from sparkwright.data._dataset import DataSet
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import (
    absolute,
    join,
    read_bytes,
    remove,
    remove_tree,
    write_bytes,
)

from ._exported import ExportedDataSet, NewExport, created_now, new_export, reusable_export
from ._leftovers import Slice, join_leftovers
from ._manifest import Columns, Manifest, MinibatchFile, columns_of, columns_text
from ._visibility import check_visible

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    from sparkwright.data._distributed import DistributedDataSet

FILES_PER_FOLDER = 1000


def export(
    data: "DistributedDataSet",
    url: str,
    *,
    batch_size: int,
    overwrite: bool = False,
    reuse: bool = True,
    files_per_folder: int = FILES_PER_FOLDER,
) -> ExportedDataSet:
    """See `DistributedDataSet.export`."""
    check_sizes(batch_size, files_per_folder)
    url = absolute(url).rstrip("/")
    present = reusable_export(
        url,
        fingerprint=data.fingerprint,
        batch_size=batch_size,
        reuse=reuse,
        overwrite=overwrite,
    )
    if present is not None:
        return present
    with new_export(url) as writing:
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
    """What a task wrote.

    Attributes:
        number: of the partition.
        files: full minibatches, in order.
        left_over: examples in a file of their own.
        columns: of all examples; None if there were none.
    """

    number: int
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
    from sparkwright.spark._jobs import run_job

    write = partial(
        _write_partition,
        folder=folder,
        batch_size=batch_size,
        files_per_folder=files_per_folder,
        leftovers_apart=leftovers_apart,
    )
    found = run_job(
        spark,
        lambda: rdd.mapPartitionsWithIndex(write).collect(),
        description="export minibatches",
    )
    return sorted(found, key=lambda part: part.number)


class MinibatchWriter:
    """Writes DataSets of one layout as files of exactly `batch_size` examples.

    Attributes:
        files: what has been written, in order.
        columns: of all examples; None before the first.
    """

    def __init__(self, folder: str, part: str, *, batch_size: int, files_per_folder: int) -> None:
        """Write to `folder/part/0000/minibatch-000000.arrow` and so on."""
        self.files: list[MinibatchFile] = []
        self.columns: Columns | None = None
        self._folder, self._part = folder, part
        self._batch_size, self._files_per_folder = batch_size, files_per_folder

    def write(self, datasets: Iterable[DataSet]) -> DataSet | None:
        """Write all full minibatches; returns what is left.

        Raises:
            DataError: if the layouts differ.
            OSError: whatever the store says.
        """
        for minibatch in batched(map(self._checked, datasets), self._batch_size):
            if len(minibatch) < self._batch_size:
                return minibatch
            self.write_file(minibatch)
        return None

    def write_file(self, minibatch: DataSet) -> None:
        """Write one more file, of any size."""
        number = len(self.files)
        path = minibatch_path(self._part, number, self._files_per_folder)
        content = to_bytes(minibatch)
        write_bytes(join(self._folder, path), content)
        self.files.append(
            MinibatchFile(path=path, examples=len(minibatch), size_bytes=len(content))
        )

    def _checked(self, dataset: DataSet) -> DataSet:
        if not len(dataset):
            return dataset
        found = columns_of(dataset.layout)
        if self.columns is None:
            self.columns = found
        elif found != self.columns:
            raise _differing(self.columns, found)
        return dataset


def minibatch_path(part: str, number: int, files_per_folder: int) -> str:
    """Where the `number`-th minibatch of a part lies.

    Example:
        >>> minibatch_path("part-00003", 1017, 1000)
        'part-00003/0001/minibatch-001017.arrow'
    """
    return f"{part}/{number // files_per_folder:04d}/minibatch-{number:06d}.arrow"


def check_sizes(batch_size: int, files_per_folder: int) -> None:
    """Refuse sizes below 1.

    Raises:
        ConfigurationError: naming the option.
    """
    for name, value in (("batch_size", batch_size), ("files_per_folder", files_per_folder)):
        if type(value) is not int or value < 1:
            raise ConfigurationError(
                f"`{name}` must be a whole number of at least 1. Received: {name}={value!r}."
            )


def common_columns(found: Iterable[Columns | None]) -> Columns:
    """The columns that all parts have; parts without examples do not count.

    Raises:
        DataError: if they differ, or if there are no examples at all.
    """
    columns: Columns | None = None
    for other in found:
        if columns is None:
            columns = other
        elif other is not None and other != columns:
            raise _differing(columns, other)
    if columns is None:
        raise DataError("an export needs at least one example. Received: none.")
    return columns


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


def _write_partition(
    index: int,
    chunks: Iterable[bytes],
    *,
    folder: str,
    batch_size: int,
    files_per_folder: int,
    leftovers_apart: bool,
) -> Iterator[WrittenPart]:
    writer = MinibatchWriter(
        folder, f"part-{index:05d}", batch_size=batch_size, files_per_folder=files_per_folder
    )
    rest = writer.write(map(from_bytes, chunks))
    left_over = 0
    if rest is not None and leftovers_apart:
        left_over = len(rest)
        write_bytes(_leftover(folder, index), to_bytes(rest))
    elif rest is not None:
        writer.write_file(rest)
    yield WrittenPart(
        number=index, files=tuple(writer.files), left_over=left_over, columns=writer.columns
    )


def _join(
    data: "DistributedDataSet",
    folder: str,
    parts: list[WrittenPart],
    batch_size: int,
    files_per_folder: int,
) -> list[MinibatchFile]:
    """Join the leftovers to minibatches, in the order of their partitions; a Spark job."""
    from sparkwright.spark._jobs import run_job

    minibatches = join_leftovers([part.left_over for part in parts], batch_size)
    if not minibatches:
        return []
    context = data.spark.sparkContext
    tasks = context.parallelize(
        list(enumerate(minibatches)), min(len(minibatches), context.defaultParallelism)
    )
    write = partial(_write_joined, folder=folder, files_per_folder=files_per_folder)
    files = run_job(data.spark, lambda: tasks.map(write).collect(), description="join what is left")
    remove_tree(join(folder, "leftovers"))
    return files


def _write_joined(
    numbered: tuple[int, tuple[Slice, ...]], *, folder: str, files_per_folder: int
) -> MinibatchFile:
    number, slices = numbered
    pieces = [
        from_bytes(read_bytes(_leftover(folder, s.source))).take(slice(s.start, s.stop))
        for s in slices
    ]
    minibatch = DataSet.concatenate(pieces)
    path, content = minibatch_path("rest", number, files_per_folder), to_bytes(minibatch)
    write_bytes(join(folder, path), content)
    return MinibatchFile(path=path, examples=len(minibatch), size_bytes=len(content))


def _leftover(folder: str, number: int) -> str:
    return join(folder, f"leftovers/part-{number:05d}.arrow")


def _check_writable(data: "DistributedDataSet", writing: NewExport) -> None:
    """Before hours of work: would the driver see what executors write?"""
    from sparkwright.spark._slots import is_local

    if not is_local(data.spark):
        probe = join(writing.folder, "probe")
        write_bytes(probe, writing.name.encode())
        check_visible(data.spark, probe)
        remove(probe)


def _differing(one: Columns, other: Columns) -> DataError:
    return DataError(
        "all examples of an export must have the same columns, dtypes and shapes. Received: "
        f"{columns_text(one)} and {columns_text(other)}. Bring sequences to one length first: "
        "`data.padded()`."
    )

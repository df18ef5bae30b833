"""Examples as the parts of a folder: which part gets which, written here or by all executors.

A function of the format writes one part; see `PartWriter`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

from sparkwright.cluster.jobs import collect
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_count
from sparkwright.storage._files import (
    absolute,
    exists,
    join,
    write_atomically,
    write_folder,
)
from sparkwright.storage._listing import list_entries

from ._arrow import error_to_bytes, from_bytes, to_bytes
from ._dataset import DataSet
from ._distributed import DistributedDataSet
from ._paths import check_reached

_FAILED = -1  # the key of an error, which sorts before all examples
_DONE = "_SUCCESS"  # as Hadoop's jobs leave it; readers leave out names with such a beginning


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenPart:
    """The content of a part.

    Attributes:
        count: number of examples.
        entry: name of its file or folder; empty without examples.
        layout: of its examples, for the function that completes the folder.
    """

    count: int
    entry: str = ""
    layout: Any = None


Examples = DistributedDataSet | DataSet | tuple[Any, ...] | Iterable[DataSet]
# Examples, URL of the part, first key, step between keys. Without examples it writes nothing.
PartWriter = Callable[[Iterable[DataSet], str, int, int], WrittenPart]


def write_parts(
    datasets: Examples,
    url: str,
    write: PartWriter,
    *,
    examples_per_part: int | None,
    max_files: int | None,
    overwrite: bool,
    numbered: bool,
    finish: Callable[[str, list[WrittenPart]], None] | None = None,
) -> int:
    """Write examples as parts in a folder: all of them, or nothing.

    Args:
        datasets: distributed, written by the executors; or written here, without Spark: DataSets,
            or a (features, labels) or (features, labels, weights) tuple of arrays.
        url: the folder.
        write: writes one part.
        examples_per_part: part i holds the examples from `i * examples_per_part` on; None: one
            part, or one for each partition.
        max_files: at most so many parts, of distributed data; None: no limit.
        overwrite: whether the content of the folder is replaced once all is written, or an error.
        numbered: whether keys must be 0, 1, 2 and so on, or only different.
        finish: receives a folder with the parts in it, before it becomes `url`.

    Returns:
        The number of examples.

    Raises:
        ConfigurationError: if an option is invalid, or the folder is not empty.
        DataError: if there is no example; whatever `write` raises.
    """
    for name, value in (("examples_per_part", examples_per_part), ("max_files", max_files)):
        check_count(name, value, optional=True)
    here = not isinstance(datasets, DistributedDataSet)
    if max_files is not None and (here or examples_per_part is not None):
        raise ConfigurationError(
            "`max_files` is for distributed data, and instead of `examples_per_part`. Received: "
            f"max_files={max_files}, examples_per_part={examples_per_part}, "
            f"datasets={type(datasets).__name__}."
        )
    url = absolute(url)  # executors may work in other folders
    if not overwrite and exists(url) and (entries := list_entries(url)):
        raise ConfigurationError(
            f"the folder to write into must be empty or missing. Received: {url} with "
            f"{', '.join(entries[:5])}. Choose another, or `overwrite=True`."
        )
    with write_folder(url) as new:
        if isinstance(datasets, DistributedDataSet):
            check_reached(datasets.spark, new)
            parts = _distributed(datasets, new, write, examples_per_part, max_files, numbered)
        else:
            pieces = _cut(_datasets(datasets), 0, examples_per_part)
            parts = list(_written(pieces, new, write, examples_per_part))
        if not (count := sum(part.count for part in parts)):
            raise DataError(
                "there must be at least one example to write. Received: none. "
                "A file without examples would not say what they look like."
            )
        _check_complete(new, parts)
        if finish is not None:
            finish(new, [part for part in parts if part.count])
    # Only now: object stores have just copied part after part.
    with write_atomically(join(url, _DONE)):
        pass
    return count


def _datasets(data: Any) -> Iterator[DataSet]:
    """Yield the DataSets of a DataSet, of arrays, or of an iterable of DataSets."""
    received = type(data).__name__
    if isinstance(data, tuple) and not any(isinstance(part, DataSet) for part in data):  # pyright: ignore[reportUnknownVariableType]
        parts: list[Any] = list(data)  # pyright: ignore[reportUnknownArgumentType]
        received = f"a tuple of {len(parts)}"
        if 1 <= len(parts) <= 3:
            data = DataSet(*parts[:2], weights=parts[2] if len(parts) == 3 else None)
    if isinstance(data, DataSet):
        yield data
        return
    for dataset in data if isinstance(data, Iterable) else [data]:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(dataset, DataSet):
            kind = type(dataset).__name__  # pyright: ignore[reportUnknownArgumentType]
            raise ConfigurationError(
                "the data to write must be a DataSet, a DistributedDataSet, a (features, labels) "
                f"tuple of arrays, or an iterable of DataSets. Received: {kind} in {received}. "
                "Of a table that was read here, it is `table.data`."
            )
        yield dataset


def _check_complete(folder: str, parts: list[WrittenPart]) -> None:
    """Check that the driver sees what executors have written, and nothing else."""
    reported = {part.entry for part in parts if part.count}
    found = {name.rstrip("/") for name in list_entries(folder) if not name.startswith((".", "_"))}
    if found != reported:
        missing, more = sorted(reported - found), sorted(found - reported)
        raise DataError(
            "the folder must hold the parts that the tasks have written. Received: "
            f"{len(missing)} of {len(reported)} missing {missing[:3]}, {len(more)} more "
            f"{more[:3]}, in {folder}. All executors must write into one store, and the data must "
            "be the same each time it is computed."
        )


def _cut(
    datasets: Iterable[DataSet], first: int, size: int | None
) -> Iterator[tuple[int, DataSet]]:
    """Yield the number of the first example, and the examples, cut where a part ends."""
    for dataset in datasets:
        start = 0
        while start < len(dataset):
            end = len(dataset)
            if size is not None:
                end = min(end, start + size - (first + start) % size)
            whole = end - start == len(dataset)
            yield first + start, dataset if whole else dataset.take(slice(start, end))
            start = end
        first += len(dataset)


def _written(
    pieces: Iterable[tuple[int, DataSet]],
    url: str,
    write: PartWriter,
    size: int | None,
    total: int | None = None,
) -> Iterator[WrittenPart]:
    """Write the parts to which `pieces` belong, of `total` examples if that is known."""
    for number, group in groupby(pieces, key=lambda piece: 0 if size is None else piece[0] // size):
        first = number * (size or 0)
        part = write((dataset for _, dataset in group), part_url(url, number), first, 1)
        if size is not None and total is not None:
            _check_count(part, min(size, total - first))
        yield part


def _distributed(
    data: DistributedDataSet,
    url: str,
    write: PartWriter,
    size: int | None,
    max_files: int | None,
    numbered: bool,
) -> list[WrittenPart]:
    def run(rdd: Any, task: Callable[[int, Iterable[Any]], Iterator[WrittenPart]]) -> Any:
        return collect(data.spark, rdd.mapPartitionsWithIndex(task), description="write records")

    rdd: Any = data.rdd
    counts: Sequence[int] = ()  # unless they are known
    if size is None and not numbered:
        rdd = rdd if max_files is None else rdd.coalesce(max_files)
        # Different keys without counting: partition p of n gives p, p + n, p + 2n and so on.
        step = rdd.getNumPartitions()
        numbers = offsets = list(range(step))
    else:
        counts, step = data.partition_counts(), 1
        offsets = [0, *accumulate(counts)]
        numbers = [0, *accumulate(count > 0 for count in counts)]
        if max_files is not None and max_files < numbers[-1]:
            size = -(-offsets[-1] // max_files)
    if size is None:

        def whole_partitions(index: int, chunks: Iterable[bytes]) -> Iterator[WrittenPart]:
            place = part_url(url, numbers[index])
            part = write(map(from_bytes, chunks), place, offsets[index], step)
            if counts:
                _check_count(part, counts[index])
            yield part

        return run(rdd, whole_partitions)
    total = offsets[-1]
    if not total:
        return []

    def equal_parts(_: int, pieces: Iterable[tuple[int, bytes]]) -> Iterator[WrittenPart]:
        decoded = ((first, from_bytes(content)) for first, content in pieces)
        return _written(decoded, url, write, size, total)

    return run(_by_part(rdd, offsets, size), equal_parts)


def _by_part(rdd: Any, offsets: list[int], size: int) -> Any:
    """Return an RDD of (first example, bytes): each part in one partition, in order."""
    parts = -(-offsets[-1] // size)
    partitions = min(parts, len(offsets) - 1)

    def cut(index: int, chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        try:
            for first, dataset in _cut(map(from_bytes, chunks), offsets[index], size):
                yield first, to_bytes(dataset)
        except DataError as error:
            yield _FAILED, error_to_bytes(error)

    return rdd.mapPartitionsWithIndex(cut).repartitionAndSortWithinPartitions(
        partitions, lambda first: max(0, first) // size * partitions // parts
    )


def part_url(url: str, part: int) -> str:
    """Return the URL of a part.

    Example:
        >>> part_url("hdfs://host/faces", 3)
        'hdfs://host/faces/part-r-00003'
    """
    return join(url, f"part-r-{part:05d}")


def _check_count(part: WrittenPart, expected: int) -> None:
    if part.count != expected:
        raise DataError(
            "distributed data must hold the same examples each time it is computed. "
            f"Received: {part.count} in a part, after {expected} had been counted. "
            "Persist it, or make its computation repeatable."
        )

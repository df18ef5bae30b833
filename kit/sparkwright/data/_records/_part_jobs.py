"""Examples as the parts of a folder: written here, or by all executors at once.

How one part is written is for others to say; here is which examples it gets.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from typing import Any

from sparkwright.data._arrow import error_to_bytes, from_bytes, to_bytes
from sparkwright.data._dataset import DataSet
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._minibatches._visibility import check_visible
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import (
    absolute,
    exists,
    join,
    remove,
    write_atomically,
    write_bytes,
)
from sparkwright.storage._folders import write_folder
from sparkwright.storage._listing import list_entries

_FAILED = -1  # the key of an error, which sorts before all examples
_DONE = "_SUCCESS"  # as Hadoop's jobs leave it; readers pass over names that start so


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenPart:
    """What a part holds.

    Attributes:
        count: examples.
        entry: name of its file or folder; none without examples.
        layout: what they look like, for whoever finishes the folder.
    """

    count: int
    entry: str = ""
    layout: Any = None


# Examples, where to, the first key, from one key to the next. Without examples: nothing.
PartWriter = Callable[[Iterable[DataSet], str, int, int], WrittenPart]


def write_parts(
    datasets: DistributedDataSet | DataSet | tuple[Any, ...] | Iterable[DataSet],
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
        datasets: distributed, written by the executors; or here, without Spark: DataSets, or a
            (features, labels) or (features, labels, weights) tuple of arrays.
        url: the folder.
        write: writes one part.
        examples_per_part: part i holds the examples from `i * examples_per_part` on; None: one
            part, or one for each partition.
        max_files: at most so many parts, of distributed data; None: no limit.
        overwrite: whether what is in the folder is replaced once all is written, or an error.
        numbered: whether keys must be 0, 1, 2 and so on, or only different.
        finish: gets a folder with what was written, before that becomes `url`.

    Returns:
        How many examples there are.

    Raises:
        ConfigurationError: if an option cannot be meant that way, or the folder is not empty.
        DataError: if there is no example; whatever `write` raises.
    """
    for name, value in (("examples_per_part", examples_per_part), ("max_files", max_files)):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and value >= 1):
            raise ConfigurationError(
                f"`{name}` must be a whole number of at least 1, or None. "
                f"Received: {name}={value!r}."
            )
    here = not isinstance(datasets, DistributedDataSet)
    if max_files is not None and (here or examples_per_part is not None):
        raise ConfigurationError(
            "`max_files` is for distributed data, and instead of `examples_per_part`. Received: "
            f"max_files={max_files}, examples_per_part={examples_per_part}, "
            f"datasets={type(datasets).__name__}."
        )
    url = absolute(url)  # executors may work in other folders
    if not overwrite:
        check_free(url)
    with write_folder(url) as new:
        if isinstance(datasets, DistributedDataSet):
            _check_reached(datasets, new)
            parts = _distributed(datasets, new, write, examples_per_part, max_files, numbered)
        else:
            parts = list(_local(_datasets(datasets), new, write, examples_per_part))
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
    """DataSets of a DataSet, of arrays, or of what yields DataSets.

    Raises:
        ConfigurationError: for anything else.
    """
    if isinstance(data, DataSet):
        yield data
        return
    if isinstance(data, tuple) and not any(isinstance(part, DataSet) for part in data):  # pyright: ignore[reportUnknownVariableType]
        parts: list[Any] = list(data)  # pyright: ignore[reportUnknownArgumentType]
        if not 1 <= len(parts) <= 3:
            raise _no_examples(f"a tuple of {len(parts)}")
        yield DataSet(*parts[:2], weights=parts[2] if len(parts) == 3 else None)
        return
    if not isinstance(data, Iterable):
        raise _no_examples(type(data).__name__)
    for dataset in data:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(dataset, DataSet):
            raise _no_examples(f"{type(dataset).__name__} in {type(data).__name__}")  # pyright: ignore[reportUnknownArgumentType]
        yield dataset


def _no_examples(received: str) -> ConfigurationError:
    return ConfigurationError(
        "what is written must be a DataSet, a DistributedDataSet, a (features, labels) tuple of "
        f"arrays, or something that yields DataSets. Received: {received}. Of a table that was "
        "read here, it is `table.data`."
    )


def check_free(url: str) -> None:
    """See to it that nothing is at `url`.

    Raises:
        ConfigurationError: if something is.
    """
    if exists(url) and list_entries(url):
        raise ConfigurationError(
            f"the folder to write into must be empty or missing. Received: {url} with "
            f"{', '.join(list_entries(url)[:5])}. Choose another, or `overwrite=True`."
        )


def _check_reached(data: DistributedDataSet, folder: str) -> None:
    """Before hours of work: do executors see the driver's folder?"""
    from sparkwright.spark._slots import is_local

    if not is_local(data.spark):
        probe = join(folder, "_probe")
        write_bytes(probe, folder.encode())
        check_visible(data.spark, probe)
        remove(probe)


def _check_complete(folder: str, parts: list[WrittenPart]) -> None:
    """After it: does the driver see what executors have written, and nothing else?"""
    reported = sorted(part.entry for part in parts if part.count)
    found = [name.rstrip("/") for name in list_entries(folder) if not name.startswith((".", "_"))]
    if sorted(found) != reported:
        missing = [name for name in reported if name not in set(found)]
        more = [name for name in found if name not in set(reported)]
        raise DataError(
            "the folder must hold the parts that the tasks have written. Received: "
            f"{len(missing)} of {len(reported)} missing {missing[:3]}, {len(more)} more "
            f"{more[:3]}, in {folder}. All executors must write into one store, and the data must "
            "be the same each time it is computed."
        )


def _local(
    datasets: Iterable[DataSet], url: str, write: PartWriter, examples_per_part: int | None
) -> Iterator[WrittenPart]:
    """Parts one after another, on this machine."""
    count = number = 0
    rest: Iterator[DataSet] = (dataset for dataset in datasets if len(dataset))
    while (first := next(rest, None)) is not None:
        head = _Cut(chain([first], rest), examples_per_part)
        part = write(head, part_url(url, number), count, 1)
        yield part
        count, number, rest = count + part.count, number + 1, head.rest()


class _Cut:
    """The first examples of a stream, and then what is left of it."""

    def __init__(self, datasets: Iterator[DataSet], limit: int | None) -> None:
        self._datasets, self._limit = datasets, limit
        self._left: list[DataSet] = []

    def __iter__(self) -> Iterator[DataSet]:
        count = 0
        for dataset in self._datasets:
            if self._limit is not None and count + len(dataset) > self._limit:
                fits = self._limit - count
                self._left = [dataset.take(slice(fits, None))]
                if fits:
                    yield dataset.take(slice(0, fits))
                return
            count += len(dataset)
            yield dataset

    def rest(self) -> Iterator[DataSet]:
        return chain(self._left, self._datasets)


def _distributed(
    data: DistributedDataSet,
    url: str,
    write: PartWriter,
    examples_per_part: int | None,
    max_files: int | None,
    numbered: bool,
) -> list[WrittenPart]:
    from sparkwright.spark._jobs import collect

    rdd: Any = data.rdd
    if numbered or examples_per_part is not None:
        counts = data.partition_counts()
        total = sum(counts)
        if max_files is not None and max_files < sum(count > 0 for count in counts):
            examples_per_part = -(-total // max_files)
        if examples_per_part is None:
            task = _whole_partitions(url, write, counts)
        elif total:
            rdd = _by_part(rdd, counts, examples_per_part)
            task = _parts_of_one_size(url, write, examples_per_part, total)
        else:
            return []
    else:
        rdd = rdd if max_files is None else rdd.coalesce(max_files)
        task = _any_keys(url, write, rdd.getNumPartitions())
    return collect(data.spark, rdd.mapPartitionsWithIndex(task), description="write record files")


Task = Callable[[int, Iterable[Any]], Iterator[WrittenPart]]


def _any_keys(url: str, write: PartWriter, partitions: int) -> Task:
    """Keys that differ without counting: partition p of n gives p, p + n, p + 2n and so on."""

    def task(index: int, chunks: Iterable[bytes]) -> Iterator[WrittenPart]:
        yield write(map(from_bytes, chunks), part_url(url, index), index, partitions)

    return task


def _whole_partitions(url: str, write: PartWriter, counts: tuple[int, ...]) -> Task:
    offsets = [0, *accumulate(counts)]
    numbers = [0, *accumulate(count > 0 for count in counts)]

    def task(index: int, chunks: Iterable[bytes]) -> Iterator[WrittenPart]:
        part = write(map(from_bytes, chunks), part_url(url, numbers[index]), offsets[index], 1)
        _check_count(part.count, counts[index])
        yield part

    return task


def _by_part(rdd: Any, counts: tuple[int, ...], size: int) -> Any:
    """RDD of (first example, bytes): each part in one partition, in order."""
    offsets = [0, *accumulate(counts)]
    parts = -(-sum(counts) // size)
    partitions = min(parts, len(counts))

    def cut(index: int, chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        first = offsets[index]
        try:
            for chunk in chunks:
                dataset = from_bytes(chunk)
                start = 0
                while start < len(dataset):
                    end = min(len(dataset), start + size - (first + start) % size)
                    yield first + start, to_bytes(dataset.take(slice(start, end)))
                    start = end
                first += len(dataset)
        except DataError as error:
            yield _FAILED, error_to_bytes(error)

    return rdd.mapPartitionsWithIndex(cut).repartitionAndSortWithinPartitions(
        partitions, lambda first: max(0, first) // size * partitions // parts
    )


def _parts_of_one_size(url: str, write: PartWriter, size: int, total: int) -> Task:
    def task(index: int, pieces: Iterable[tuple[int, bytes]]) -> Iterator[WrittenPart]:
        del index
        for number, group in groupby(pieces, key=lambda piece: piece[0] // size):
            datasets = (from_bytes(content) for _, content in group)
            part = write(datasets, part_url(url, number), number * size, 1)
            _check_count(part.count, min(size, total - number * size))
            yield part

    return task


def part_url(url: str, part: int) -> str:
    """Where a part lies.

    Example:
        >>> part_url("hdfs://host/faces", 3)
        'hdfs://host/faces/part-r-00003'
    """
    return join(url, f"part-r-{part:05d}")


def _check_count(found: int, expected: int) -> None:
    if found != expected:
        raise DataError(
            "distributed data must hold the same examples each time it is computed. "
            f"Received: {found} in a part, after {expected} had been counted. "
            "Persist it, or make what it is computed from repeatable."
        )

"""Examples as SequenceFiles and MapFiles: from one machine, or from all executors at once."""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain
from typing import Any

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import (
    absolute,
    exists,
    join,
    list_entries,
    remove_tree,
    write_atomically,
)

from ._arrow import from_bytes, to_bytes
from ._dataset import DataSet
from ._distributed import DistributedDataSet
from ._record_parts import RecordOptions, part_url, write_part
from ._sequence_file import Compression

_DONE = "_SUCCESS"  # as Hadoop's jobs leave it; readers pass over names that start so


def write_sequence_file(
    datasets: DistributedDataSet | DataSet | Iterable[DataSet],
    url: str,
    *,
    examples_per_part: int | None = None,
    max_files: int | None = None,
    compression: Compression | None = None,
    overwrite: bool = False,
) -> int:
    """Write examples as SequenceFiles `part-r-00000`, `part-r-00001`, … in a folder.

    A record is one example: its number as LongWritable, its arrays as BytesWritable. Numbers start
    at 0 without gaps; those of distributed data are only different from each other, unless
    `examples_per_part` is given: so its examples need not be counted first.

    Args:
        datasets: distributed, written by the executors; or here, without Spark.
        url: the folder, which the executors must reach too.
        examples_per_part: part i holds the examples from `i * examples_per_part` on; default None:
            one part, or one for each partition.
        max_files: at most so many, of distributed data; default None: no limit.
        compression: None (default), "record": each example by itself, or "block": many together.
        overwrite: whether what is in the folder is removed first; default False: an error.

    Returns:
        How many examples there are.

    Raises:
        ConfigurationError: if an option cannot be meant that way, or the folder is not empty.
        DataError: if examples differ in columns, dtypes or numbers of axes.
        OSError: whatever the store says, naming the file.
    """
    options = RecordOptions(kind="sequence", compression=compression)
    return _write(datasets, url, options, examples_per_part, max_files, overwrite)


def write_map_file(
    datasets: DistributedDataSet | DataSet | Iterable[DataSet],
    url: str,
    *,
    examples_per_part: int | None = None,
    max_files: int | None = None,
    index_interval: int = 1,
    compression: Compression | None = None,
    overwrite: bool = False,
) -> int:
    """Write examples as MapFiles `part-r-00000`, `part-r-00001`, … in a folder.

    As `write_sequence_file`, with an index: `MapFileReader` finds any example. Numbers start at 0
    without gaps, also those of distributed data, which is counted first.

    Args:
        datasets: distributed, written by the executors; or here, without Spark.
        url: the folder, which the executors must reach too.
        examples_per_part: part i holds the examples from `i * examples_per_part` on; default None:
            one part, or one for each partition.
        max_files: at most so many parts, of distributed data; default None: no limit.
        index_interval: every so many examples are in the index; default 1: the quickest to find.
        compression: None (default), "record" or "block"; reading one example unpacks its block.
        overwrite: whether what is in the folder is removed first; default False: an error.

    Returns:
        How many examples there are.

    Raises:
        ConfigurationError: if an option cannot be meant that way, or the folder is not empty.
        DataError: if examples differ in columns, dtypes or numbers of axes.
        OSError: whatever the store says, naming the file.
    """
    options = RecordOptions(kind="map", index_interval=index_interval, compression=compression)
    return _write(datasets, url, options, examples_per_part, max_files, overwrite)


def _write(
    datasets: DistributedDataSet | DataSet | Iterable[DataSet],
    url: str,
    options: RecordOptions,
    examples_per_part: int | None,
    max_files: int | None,
    overwrite: bool,
) -> int:
    for name, value in (("examples_per_part", examples_per_part), ("max_files", max_files)):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and value >= 1):
            raise ConfigurationError(
                f"`{name}` must be a whole number of at least 1, or None. "
                f"Received: {name}={value!r}."
            )
    distributed = isinstance(datasets, DistributedDataSet)
    if max_files is not None and (not distributed or examples_per_part is not None):
        raise ConfigurationError(
            "`max_files` is for distributed data, and instead of `examples_per_part`. Received: "
            f"max_files={max_files}, examples_per_part={examples_per_part}, "
            f"datasets={type(datasets).__name__}."
        )
    url = absolute(url)  # executors may work in other folders
    prepare_folder(url, overwrite=overwrite)
    try:
        if distributed:
            count = _write_distributed(datasets, url, options, examples_per_part, max_files)
        else:
            local = [datasets] if isinstance(datasets, DataSet) else datasets
            count = _write_parts(local, url, options, examples_per_part)
        if not count:
            raise DataError(
                "there must be at least one example to write. Received: none. "
                "A file without examples would not say what they look like."
            )
        with write_atomically(join(url, _DONE)):
            pass
    except BaseException:
        remove_tree(url)  # half of the data would pass for all of it
        raise
    return count


def prepare_folder(url: str, *, overwrite: bool) -> None:
    """See to it that nothing is at `url`.

    Raises:
        ConfigurationError: if something is and `overwrite` is False.
    """
    if overwrite:
        remove_tree(url)
    elif exists(url) and list_entries(url):
        raise ConfigurationError(
            f"the folder to write into must be empty or missing. Received: {url} with "
            f"{', '.join(list_entries(url)[:5])}. Choose another, or `overwrite=True`."
        )


def _write_parts(
    datasets: Iterable[DataSet], url: str, options: RecordOptions, examples_per_part: int | None
) -> int:
    """Parts one after another, on this machine."""
    count = part = 0
    rest: Iterator[DataSet] = (dataset for dataset in datasets if len(dataset))
    while (first := next(rest, None)) is not None:
        head = _Cut(chain([first], rest), examples_per_part)
        count += write_part(head, part_url(url, part), options, first_key=count)
        part, rest = part + 1, head.rest()
    return count


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


def _write_distributed(
    data: DistributedDataSet,
    url: str,
    options: RecordOptions,
    examples_per_part: int | None,
    max_files: int | None,
) -> int:
    from sparkwright.spark._jobs import run_job

    rdd: Any = data.rdd
    if options.kind == "map" or examples_per_part is not None:
        counts = data.partition_counts()
        total = sum(counts)
        if max_files is not None and max_files < sum(count > 0 for count in counts):
            examples_per_part = -(-total // max_files)
        if examples_per_part is None:
            task = _whole_partitions(url, options, counts)
        elif total:
            rdd = _by_part(rdd, counts, examples_per_part)
            task = _parts_of_one_size(url, options, examples_per_part, total)
        else:
            return 0
    else:
        rdd = rdd if max_files is None else rdd.coalesce(max_files)
        task = _any_keys(url, options, rdd.getNumPartitions())
    written = run_job(
        data.spark, rdd.mapPartitionsWithIndex(task).collect, description="write record files"
    )
    return sum(written)


Task = Callable[[int, Iterable[Any]], Iterator[int]]


def _any_keys(url: str, options: RecordOptions, partitions: int) -> Task:
    """Keys that differ without counting: partition p of n gives p, p + n, p + 2n and so on."""

    def task(index: int, chunks: Iterable[bytes]) -> Iterator[int]:
        datasets = map(from_bytes, chunks)
        yield write_part(
            datasets, part_url(url, index), options, first_key=index, key_step=partitions
        )

    return task


def _whole_partitions(url: str, options: RecordOptions, counts: tuple[int, ...]) -> Task:
    offsets = [0, *accumulate(counts)]
    parts = [0, *accumulate(count > 0 for count in counts)]

    def task(index: int, chunks: Iterable[bytes]) -> Iterator[int]:
        datasets = map(from_bytes, chunks)
        count = write_part(datasets, part_url(url, parts[index]), options, first_key=offsets[index])
        _check_count(count, counts[index])
        yield count

    return task


def _by_part(rdd: Any, counts: tuple[int, ...], size: int) -> Any:
    """RDD of (first example, bytes): each part in one partition, in order."""
    offsets = [0, *accumulate(counts)]
    parts = -(-sum(counts) // size)
    partitions = min(parts, len(counts))

    def cut(index: int, chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        first = offsets[index]
        for chunk in chunks:
            dataset = from_bytes(chunk)
            start = 0
            while start < len(dataset):
                end = min(len(dataset), start + size - (first + start) % size)
                yield first + start, to_bytes(dataset.take(slice(start, end)))
                start = end
            first += len(dataset)

    return rdd.mapPartitionsWithIndex(cut).repartitionAndSortWithinPartitions(
        partitions, lambda first: first // size * partitions // parts
    )


def _parts_of_one_size(url: str, options: RecordOptions, size: int, total: int) -> Task:
    def task(index: int, pieces: Iterable[tuple[int, bytes]]) -> Iterator[int]:
        del index
        stream = iter(pieces)
        piece = next(stream, None)
        while piece is not None:
            part = piece[0] // size
            following: list[tuple[int, bytes]] = []

            def datasets(
                piece: tuple[int, bytes] = piece,
                part: int = part,
                following: list[tuple[int, bytes]] = following,
            ) -> Iterator[DataSet]:
                yield from_bytes(piece[1])
                for other in stream:
                    if other[0] // size != part:
                        following.append(other)
                        return
                    yield from_bytes(other[1])

            count = write_part(datasets(), part_url(url, part), options, first_key=part * size)
            _check_count(count, min(size, total - part * size))
            yield count
            piece = following[0] if following else None

    return task


def _check_count(found: int, expected: int) -> None:
    if found != expected:
        raise DataError(
            "distributed data must hold the same examples each time it is computed. "
            f"Received: {found} in a part, after {expected} had been counted. "
            "Persist it, or make what it is computed from repeatable."
        )

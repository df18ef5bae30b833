"""Write examples as the parts of a folder: SequenceFiles or MapFiles."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, BinaryIO

from sparkwright.cluster.jobs import collect
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice, check_count
from sparkwright.storage.files import absolute, exists, join, write_atomically, write_folder
from sparkwright.storage.listing import list_entries

from ._distributed import DistributedDataSet
from ._record_files import DATA, INDEX
from ._record_values import BYTES, LONG, NOTE, columns_note, encode_examples, layout_of
from ._sequence_file import Compression, write_sequence
from .chunks import cut, datasets_of, from_bytes
from .dataset import DataSet
from .paths import check_complete, check_reached

_DONE = "_SUCCESS"  # as Hadoop's jobs write it; readers ignore names that start with "_"
_PARTITION_KEYS = 1 << 40  # keys are unique and ascend, without a job that counts the examples


def write_sequence_file(
    datasets: Any,
    url: str,
    *,
    examples_per_part: int | None = None,
    max_files: int | None = None,
    compression: Compression | None = None,
    overwrite: bool = False,
) -> int:
    """Write examples as SequenceFiles `part-r-00000`, `part-r-00001`, … in a folder.

    Each record is one example: its number as LongWritable, its arrays as BytesWritable. Numbers
    are 0, 1, 2 and so on; in partition p of distributed data they start at p x 2^40.

    Args:
        datasets: a DistributedDataSet, written by the executors; or without Spark, what
            `to_minibatch_files` accepts, such as a DataSet or a (features, labels) tuple of arrays.
        url: the folder; executors must be able to write to it.
        examples_per_part: cut the data, or each partition, into parts `part-r-00000-00000` and so
            on of this many examples. Default None: one part, or one per partition.
        max_files: maximum number of partitions to write, only for distributed data; default None:
            no limit.
        compression: None (default), "record" (each example separately) or "block" (many examples
            together).
        overwrite: whether to replace the content of the folder after all parts are written.
            Default False: raise if the folder is not empty.

    Returns:
        The number of examples.

    Raises:
        ConfigurationError: if an option is invalid, or the folder is not empty.
        DataError: if there is no example, or examples differ in columns, dtypes or numbers of axes.
        OSError: if a file cannot be written; the message names it.
    """
    check_choice("compression", compression, (None, "record", "block"))
    write = partial(_write_part, compression=compression)
    return _write_parts(datasets, url, write, examples_per_part, max_files, overwrite)


def write_map_file(
    datasets: Any,
    url: str,
    *,
    examples_per_part: int | None = None,
    max_files: int | None = None,
    index_interval: int = 1,
    compression: Compression | None = None,
    overwrite: bool = False,
) -> int:
    """Write examples as MapFiles `part-r-00000`, `part-r-00001`, … in a folder.

    The index lets `MapFileReader` find any example. With `compression="block"`, reading one example
    decompresses its block. Options, results and errors are those of `write_sequence_file`.

    Args:
        datasets: as for `write_sequence_file`.
        url: the folder; executors must be able to write to it.
        examples_per_part: number of examples per part; default None, as `write_sequence_file`.
        max_files: maximum number of partitions of distributed data; default None: no limit.
        index_interval: number of examples per index entry; default 1, the fastest to search.
        compression: None (default), "record" or "block".
        overwrite: whether to replace the content of the folder; default False.
    """
    check_count("index_interval", index_interval)
    check_choice("compression", compression, (None, "record", "block"))
    write = partial(_write_part, compression=compression, index_interval=index_interval)
    return _write_parts(datasets, url, write, examples_per_part, max_files, overwrite)


def _write_part(
    datasets: Iterator[DataSet],
    url: str,
    first: int,
    *,
    compression: Compression | None,
    index_interval: int | None = None,
) -> tuple[str, int]:
    """Write a SequenceFile, or a MapFile if `index_interval` is given; return name and examples."""
    head = next(datasets)
    layout, count = layout_of(head), 0

    def pairs() -> Iterator[tuple[bytes, bytes]]:
        nonlocal count
        for dataset in chain([head], datasets):
            other = layout_of(dataset)
            if list(other.items()) != list(layout.items()):
                raise DataError(
                    "all examples of record files must have the same columns in the same order, "
                    "with the same dtypes and numbers of axes. "
                    f"Received: {other} after {layout}. Convert the examples first."
                )
            for value in chain.from_iterable(map(encode_examples, cut(dataset))):
                yield (first + count).to_bytes(8, "big"), value
                count += 1

    notes = {NOTE: columns_note(layout)}
    # The data file is renamed last, so a MapFile with data always has an index.
    with write_atomically(url if index_interval is None else join(url, DATA)) as file:
        options: dict[str, Any] = {"compression": compression, "notes": notes}
        entries = write_sequence(file, pairs(), key_class=LONG, value_class=BYTES, **options)
        if index_interval is None:
            deque(entries, maxlen=0)
        else:
            with write_atomically(join(url, INDEX)) as index:
                write_index(index, LONG, entries, index_interval)
    return url.rpartition("/")[2], count


def write_index(
    file: BinaryIO, key_class: str, entries: Iterable[tuple[bytes, int]], interval: int
) -> None:
    """Write the index of a MapFile from the keys and offsets of its records."""

    def chosen() -> Iterator[tuple[bytes, bytes]]:
        last = -1
        for number, (key, position) in enumerate(entries):
            if number % interval == 0 and position > last:
                last = position
                yield key, position.to_bytes(8, "big")

    # In blocks, as Hadoop does: similar neighboring keys and positions compress well.
    written = write_sequence(
        file, chosen(), key_class=key_class, value_class=LONG, compression="block"
    )
    deque(written, maxlen=0)


def _write_parts(
    datasets: Any,
    url: str,
    write: Callable[[Iterator[DataSet], str, int], tuple[str, int]],
    examples_per_part: int | None,
    max_files: int | None,
    overwrite: bool,
) -> int:
    """Write examples as parts of a folder, atomically; see `write_sequence_file`."""
    check_count("examples_per_part", examples_per_part, optional=True)
    check_count("max_files", max_files, optional=True)
    url = absolute(url)  # executors may have other working directories
    if max_files is not None and not isinstance(datasets, DistributedDataSet):
        raise ConfigurationError(
            f"`max_files` needs distributed data. Received: max_files={max_files}, "
            f"datasets={type(datasets).__name__}. Use `examples_per_part`."
        )
    if not overwrite and exists(url) and (entries := list_entries(url)):
        raise ConfigurationError(
            f"the output folder must be empty or missing. Received: {url} with "
            f"{', '.join(entries[:5])}. Use another folder, or `overwrite=True`."
        )
    with write_folder(url) as new:

        def written(index: int, found: Iterable[DataSet]) -> Iterator[tuple[str, int]]:
            name = join(new, f"part-r-{index:05d}")
            for number, group in groupby(_numbered(found, examples_per_part), itemgetter(0)):
                first = index * _PARTITION_KEYS + number * (examples_per_part or 0)
                part = name if examples_per_part is None else f"{name}-{number:05d}"
                yield write(map(itemgetter(1), group), part, first)

        if isinstance(datasets, DistributedDataSet):
            check_reached(datasets.spark, new)
            rdd: Any = datasets.rdd if max_files is None else datasets.rdd.coalesce(max_files)
            rdd = rdd.mapPartitionsWithIndex(lambda i, chunks: written(i, map(from_bytes, chunks)))
            parts = collect(datasets.spark, rdd, description="write records")
        else:
            parts = list(written(0, datasets_of(datasets)))
        if not parts:
            raise DataError(
                "the data to write must have at least one example, which defines the columns. "
                "Received: none."
            )
        check_complete(new, {name for name, _ in parts})
    # Last, because object stores copy the folder part by part.
    with write_atomically(join(url, _DONE)):
        pass
    return sum(count for _, count in parts)


def _numbered(datasets: Iterable[DataSet], size: int | None) -> Iterator[tuple[int, DataSet]]:
    """Yield (number of the part, examples); DataSets are cut at the ends of parts."""
    first = 0
    for dataset in datasets:
        start = 0
        while start < len(dataset):
            number = 0 if size is None else (first + start) // size
            end = len(dataset) if size is None else min(len(dataset), (number + 1) * size - first)
            yield number, dataset.take(slice(start, end))
            start = end
        first += len(dataset)

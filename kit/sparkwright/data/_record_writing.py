"""Writing SequenceFiles and MapFiles: examples as the parts of a folder."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import BinaryIO

from sparkwright.options import check_choice, check_count
from sparkwright.storage.files import join, write_atomically

from ._record_bytes import BYTES, LONG
from ._record_examples import NOTE, Layout, columns_note, encode_examples
from ._record_parts import Examples, RecordFormat, write_parts
from ._sequence_file import Compression, SequenceFileWriter

DATA, INDEX = "data", "index"
_COMPRESSIONS = (None, "record", "block")


def write_sequence_file(
    datasets: Examples,
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
        datasets: distributed, written by the executors; or written here, without Spark: DataSets,
            or a (features, labels) or (features, labels, weights) tuple of arrays.
        url: the folder, which the executors must reach too.
        examples_per_part: part i holds the examples from `i * examples_per_part` on; default None:
            one part, or one for each partition.
        max_files: at most so many, of distributed data; default None: no limit.
        compression: None (default), "record": each example separately, or "block": many together.
        overwrite: whether the content of the folder is replaced, once all is written; default
            False: an error.

    Returns:
        The number of examples.

    Raises:
        ConfigurationError: if an option is invalid, or the folder is not empty.
        DataError: if there is no example, or examples differ in columns, dtypes or numbers of axes.
        OSError: if a file cannot be written, naming it.
    """
    check_choice("compression", compression, _COMPRESSIONS)
    return write_parts(
        datasets,
        url,
        RecordFormat(encode=encode_examples, write=partial(_write, compression=compression)),
        examples_per_part=examples_per_part,
        max_files=max_files,
        overwrite=overwrite,
    )


def write_map_file(
    datasets: Examples,
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
    without gaps, also those of distributed data, which is counted first. Reading one example of a
    file with `compression="block"` decompresses its block.

    Args:
        datasets: as for `write_sequence_file`, as are the other options, results and errors.
        url: the folder, which the executors must reach too.
        examples_per_part: the number of examples in a part.
        max_files: at most so many parts, of distributed data.
        index_interval: each so-many-th example is in the index; default 1: the quickest to find.
        compression: None (default), "record" or "block".
        overwrite: whether the content of the folder is replaced.
    """
    check_count("index_interval", index_interval)
    check_choice("compression", compression, _COMPRESSIONS)
    return write_parts(
        datasets,
        url,
        RecordFormat(
            encode=encode_examples,
            write=partial(_write, compression=compression, index_interval=index_interval),
            numbered=True,
        ),
        examples_per_part=examples_per_part,
        max_files=max_files,
        overwrite=overwrite,
    )


def _write(
    url: str,
    layout: Layout,
    records: Iterable[tuple[int, bytes]],
    *,
    compression: Compression | None,
    index_interval: int | None = None,
) -> str:
    """Write a SequenceFile, or with `index_interval` a MapFile; return its name."""
    axes = {name: (dtype, len(shape)) for name, (dtype, shape) in layout.items()}
    # The data appears last: where it is, its index is too.
    with write_atomically(url if index_interval is None else join(url, DATA)) as file:
        writer = SequenceFileWriter(
            file,
            key_class=LONG,
            value_class=BYTES,
            compression=compression,
            notes={NOTE: columns_note(axes)},
        )

        def entries() -> Iterator[tuple[bytes, int]]:
            for number, value in records:
                key = number.to_bytes(8, "big")
                yield key, writer.append(key, value)
            writer.finish()

        if index_interval is None:
            for _ in entries():
                pass
        else:
            with write_atomically(join(url, INDEX)) as index:
                write_index(index, LONG, entries(), index_interval)
    return url.rpartition("/")[2]


def write_index(
    file: BinaryIO, key_class: str, entries: Iterable[tuple[bytes, int]], interval: int
) -> int:
    """Write the index of a MapFile from keys and offsets; return the number of `entries`."""
    # In blocks, as Hadoop writes it: neighboring keys and positions are much alike.
    index = SequenceFileWriter(file, key_class=key_class, value_class=LONG, compression="block")
    indexed, due, count = -1, 0, 0
    for count, (key, position) in enumerate(entries, start=1):
        if count > due and position > indexed:
            index.append(key, position.to_bytes(8, "big"))
            indexed, due = position, count - 1 + interval
    index.finish()
    return count

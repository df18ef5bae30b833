"""Write examples as SequenceFiles or MapFiles, the parts of a folder."""

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

    Each record is one example: its number as LongWritable, its arrays as BytesWritable. Numbers
    are 0, 1, 2 and so on. For distributed data without `examples_per_part`, they are only unique,
    so that the examples need not be counted first.

    Args:
        datasets: a DistributedDataSet, written by the executors. Without Spark: a DataSet, an
            iterable of DataSets, or a (features, labels[, weights]) tuple of arrays.
        url: the folder; executors must be able to write to it.
        examples_per_part: number of examples per part. Default None: one part, or one per
            partition.
        max_files: maximum number of files, only for distributed data; default None: no limit.
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

    The index lets `MapFileReader` find any example. Numbers are 0, 1, 2 and so on, also for
    distributed data, which is counted first. With `compression="block"`, reading one example
    decompresses its block. Results and errors are those of `write_sequence_file`.

    Args:
        datasets: as for `write_sequence_file`.
        url: the folder; executors must be able to write to it.
        examples_per_part: number of examples per part; default None, as `write_sequence_file`.
        max_files: maximum number of parts, only for distributed data; default None: no limit.
        index_interval: number of examples per index entry; default 1, the fastest to search.
        compression: None (default), "record" or "block".
        overwrite: whether to replace the content of the folder; default False.
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
    """Write a SequenceFile, or a MapFile if `index_interval` is given; return its name."""
    axes = {name: (dtype, len(shape)) for name, (dtype, shape) in layout.items()}
    # The data file is renamed last, so a MapFile with data always has an index.
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
    # In blocks, as Hadoop does: similar neighboring keys and positions compress well.
    index = SequenceFileWriter(file, key_class=key_class, value_class=LONG, compression="block")
    indexed, due, count = -1, 0, 0
    for count, (key, position) in enumerate(entries, start=1):
        if count > due and position > indexed:
            index.append(key, position.to_bytes(8, "big"))
            indexed, due = position, count - 1 + interval
    index.finish()
    return count

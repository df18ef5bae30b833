"""Writing SequenceFiles and MapFiles: the formats, and examples as the parts of a folder."""

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import BinaryIO

from sparkwright.errors import DataError
from sparkwright.options import check_choice, check_count
from sparkwright.storage._files import join, write_atomically

from ._dataset import DataSet
from ._record_bytes import BYTES, DEFAULT_CODEC, LONG, MAX_UNPACKED_BYTES, encode_vint
from ._record_examples import encode_examples, layout_of, notes_of
from ._record_parts import Examples, WrittenPart, write_parts
from ._sequence_file import (
    ESCAPE,
    LENGTHS,
    MAX_BLOCK_RECORDS,
    SYNC_BYTES,
    Compression,
    SequenceHeader,
)

DATA, INDEX = "data", "index"
COMPRESSIONS = (None, "record", "block")
# As Hadoop: a mark costs 20 bytes, and a reader that looks for one reads twice this at most.
_SYNC_INTERVAL_BYTES = 100 * 1024
_BLOCK_BYTES = 1_000_000
_LARGEST_RECORD = (1 << 31) - 1
_WRITE_BYTES = 1 << 20


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
        DataError: if examples differ in columns, dtypes or numbers of axes.
        OSError: if a file cannot be written, naming it.
    """
    check_choice("compression", compression, COMPRESSIONS)
    return write_parts(
        datasets,
        url,
        partial(write_part, index_interval=None, compression=compression),
        examples_per_part=examples_per_part,
        max_files=max_files,
        overwrite=overwrite,
        numbered=False,
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
        datasets: as for `write_sequence_file`, as are the other options.
        url: the folder, which the executors must reach too.
        examples_per_part: the number of examples in a part.
        max_files: at most so many parts, of distributed data.
        index_interval: each so-many-th example is in the index; default 1: the quickest to find.
        compression: None (default), "record" or "block".
        overwrite: whether the content of the folder is replaced.

    Returns:
        The number of examples.

    Raises:
        ConfigurationError: if an option is invalid, or the folder is not empty.
        DataError: if examples differ in columns, dtypes or numbers of axes.
        OSError: if a file cannot be written, naming it.
    """
    check_count("index_interval", index_interval)
    check_choice("compression", compression, COMPRESSIONS)
    return write_parts(
        datasets,
        url,
        partial(write_part, index_interval=index_interval, compression=compression),
        examples_per_part=examples_per_part,
        max_files=max_files,
        overwrite=overwrite,
        numbered=True,
    )


def write_part(
    datasets: Iterable[DataSet],
    url: str,
    first_key: int,
    key_step: int,
    *,
    index_interval: int | None,
    compression: Compression | None,
) -> WrittenPart:
    """Write a SequenceFile, or with `index_interval` a MapFile; see `PartWriter`."""
    stream = (dataset for dataset in datasets if len(dataset))
    if (first := next(stream, None)) is None:
        return WrittenPart(count=0)
    layout = layout_of(first)
    with ExitStack() as files:
        # The data appears last: where it is, its index is too.
        data_url = url if index_interval is None else join(url, DATA)
        data = SequenceFileWriter(
            files.enter_context(write_atomically(data_url)),
            key_class=LONG,
            value_class=BYTES,
            compression=compression,
            notes=notes_of(layout),
        )

        def entries() -> Iterator[tuple[bytes, int]]:
            number = first_key
            for dataset in chain([first], stream):
                for value in encode_examples(dataset, layout):
                    key = number.to_bytes(8, "big")
                    yield key, data.append(key, value)
                    number += key_step
            data.finish()

        if index_interval is None:
            count = sum(1 for _ in entries())
        else:
            index = files.enter_context(write_atomically(join(url, INDEX)))
            count = write_index(index, LONG, entries(), index_interval)
    return WrittenPart(count=count, entry=url.rpartition("/")[2])


class SequenceFileWriter:
    """Writes records into an open file, which it neither flushes nor closes."""

    def __init__(
        self,
        file: BinaryIO,
        *,
        key_class: str,
        value_class: str,
        compression: Compression | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Write the header."""
        sync = os.urandom(SYNC_BYTES)
        self._file, self._sync, self._compression = file, ESCAPE + sync, compression
        self._held = bytearray()
        self._block: list[tuple[bytes, bytes]] = []
        self._block_bytes = self._position = 0
        header = SequenceHeader(
            key_class=key_class,
            value_class=value_class,
            sync=sync,
            compression=compression,
            codec=None if compression is None else DEFAULT_CODEC,
            notes=notes or {},
        )
        self._write(header.to_bytes())
        self._last_sync = self._position

    def append(self, key: bytes, value: bytes) -> int:
        """Add one record, and return the offset of the record or of its block."""
        size = len(key) + len(value)
        limit = _LARGEST_RECORD if self._compression is None else MAX_UNPACKED_BYTES
        if size > limit:
            raise DataError(
                f"a record must have at most {limit} bytes. Received: {size} bytes. "
                "Use smaller examples; without compression 2 GiB are the limit."
            )
        if self._compression == "block":
            if self._block_bytes + size > MAX_UNPACKED_BYTES:
                self._write_block()
            at = self._position
            self._block.append((key, value))
            self._block_bytes += size
            if self._block_bytes >= _BLOCK_BYTES or len(self._block) >= MAX_BLOCK_RECORDS:
                self._write_block()
            return at
        at = self._position
        if self._compression == "record":
            value = zlib.compress(value)
        if at >= self._last_sync + _SYNC_INTERVAL_BYTES:
            self._last_sync = at
            self._write(self._sync)
        self._write(LENGTHS.pack(len(key) + len(value), len(key)) + key + value)
        return at

    def finish(self) -> None:
        """Write what is held back."""
        if self._block:
            self._write_block()
        self._file.write(self._held)
        self._held = bytearray()

    def _write_block(self) -> None:
        self._write(self._sync + encode_vint(len(self._block)))
        for column in zip(*self._block, strict=True):  # the keys, then the values
            for buffer in ([encode_vint(len(one)) for one in column], column):
                packed = zlib.compress(b"".join(buffer))
                self._write(encode_vint(len(packed)) + packed)
        self._block, self._block_bytes = [], 0

    def _write(self, content: bytes) -> None:
        self._held += content
        self._position += len(content)
        if len(self._held) >= _WRITE_BYTES:  # stores take as long for a few bytes as for many
            self._file.write(self._held)
            self._held = bytearray()


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

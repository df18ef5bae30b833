"""MapFile: a folder with records in the order of their keys, and an index that finds them.

    data  = SequenceFile of keys and values
    index = SequenceFile of keys and where their records begin in data, LongWritable

References:
    Apache Hadoop, `org.apache.hadoop.io.MapFile`.
"""

import operator
import os
import sys
from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import join, open_to_read, write_atomically
from sparkwright.storage._listing import StoredFile, list_files

from ._hadoop_types import LONG, hadoop_type
from ._record_conversion import Decoders, decoder_of, out_of_order
from ._sequence_file import SYNC_BYTES, Compression, SequenceFileWriter
from ._sequence_file_reader import SequenceFileReader

DATA, INDEX = "data", "index"


@dataclass(frozen=True, kw_only=True, slots=True)
class MapFolder:
    """One MapFile.

    Attributes:
        url: its folder.
        data: the file of records.
        index: the file of positions; None if there is none.
    """

    url: str
    data: StoredFile
    index: StoredFile | None


def map_folders(url: str) -> list[MapFolder]:
    """The MapFiles at `url`: a folder of one, of several, or a pattern; sorted by URL.

    Raises:
        FileNotFoundError: if there is nothing.
        DataError: if there is no MapFile among what is there.
    """
    files = {file.url: file for file in list_files(url)}
    found = [
        MapFolder(
            url=file.url.rpartition("/")[0],
            data=file,
            index=files.get(join(file.url.rpartition("/")[0], INDEX)),
        )
        for file in files.values()
        if file.url.rpartition("/")[2] == DATA
    ]
    if not found:
        raise DataError(
            f"a MapFile must be a folder with a file `{DATA}`. "
            f"Received: {url} without any. For SequenceFiles use `from_sequence_file`."
        )
    return found


class MapFileWriter:
    """Writes records, already in Hadoop's bytes and in the order of their keys."""

    def __init__(
        self,
        data: BinaryIO,
        index: BinaryIO,
        *,
        key_class: str,
        value_class: str,
        index_interval: int = 1,
        compression: Compression | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Write both headers; the arguments are those of `SequenceFileWriter`.

        Args:
            data: open for writing.
            index: likewise.
            key_class: Java class of the keys.
            value_class: Java class of the values.
            index_interval: every so many records are in the index; default 1. Of a block its first.
            compression: of data; default None.
            notes: for the header of data; default none.
        """
        check_interval(index_interval)
        self._data = SequenceFileWriter(
            data,
            key_class=key_class,
            value_class=value_class,
            sync=os.urandom(SYNC_BYTES),
            compression=compression,
            notes=notes,
        )
        self._index = _index_writer(index, key_class)
        self._interval = index_interval
        self._next = self._count = 0
        self._indexed = -1

    def append(self, key: bytes, value: bytes) -> None:
        """Add one record; errors as for `SequenceFileWriter.append`."""
        position = self._data.position
        # Within a block all records have its position: one entry finds them.
        if self._count >= self._next and position > self._indexed:
            self._index.append(key, position.to_bytes(8, "big"))
            self._indexed, self._next = position, self._count + self._interval
        self._data.append(key, value)
        self._count += 1

    def finish(self) -> None:
        """Write what is still held back."""
        self._data.finish()
        self._index.finish()


def check_interval(index_interval: Any) -> None:
    """Refuse anything but a whole number above 0.

    Raises:
        ConfigurationError: naming the option.
    """
    whole = isinstance(index_interval, int) and not isinstance(index_interval, bool)
    if not whole or index_interval < 1:
        raise ConfigurationError(
            "`index_interval` must be a whole number of at least 1. "
            f"Received: index_interval={index_interval!r}."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MapIndex:
    """An index in memory.

    Attributes:
        key_class: Java class of the keys.
        keys: Python values, not falling.
        positions: where the record of each, or its block, begins in the data; rising.
    """

    key_class: str
    keys: Sequence[Any]
    positions: Sequence[int]


def read_index(folder: MapFolder, decoders: Decoders | None = None) -> MapIndex:
    """The index of `folder`.

    Args:
        folder: the MapFile.
        decoders: Java class name -> function of a key's bytes; default none.

    Raises:
        DataError: if there is none, or it is damaged.
        OSError: whatever the store says, naming the URL.
    """
    if folder.index is None:
        raise DataError(
            f"a MapFile must have a file `{INDEX}` beside `{DATA}`. "
            f"Received: {folder.url} without. Make it anew: `rebuild_map_index(url)`."
        )
    with opened(folder.index) as reader:
        header = reader.header
        if header.value_class != LONG:
            raise DataError(
                f"the index of a MapFile must have values of {LONG}. "
                f"Received: {header.value_class} in {reader.source}. It is no index."
            )
        decode = decoder_of(header.key_class, decoders or {}, "key", reader.source)
        keys: list[bytes] = []
        places: list[bytes] = []
        for _, key, value in reader.records():
            keys.append(key)
            places.append(value)
        with in_file(reader.source):
            index = MapIndex(
                key_class=header.key_class,
                keys=_decoded(keys, header.key_class, decode),
                positions=_decoded(places, LONG, hadoop_type(LONG, role="value", source="").decode),
            )
    _check_index(index, folder)
    return index


@contextmanager
def in_file(source: str) -> Generator[None]:
    """Add a file's name to a DataError about a key or value."""
    try:
        yield
    except DataError as error:
        if source in str(error):
            raise
        raise DataError(f"{error} It lies in {source}, which is damaged.") from None


def _decoded(
    contents: list[bytes], class_name: str, decode: Callable[[bytes], Any]
) -> Sequence[Any]:
    """Numbers of 8 bytes as an array, for there may be millions; others one by one."""
    if class_name == LONG and all(len(content) == 8 for content in contents):
        numbers = array("q", b"".join(contents))
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers
    return [decode(content) for content in contents]


def _check_index(index: MapIndex, folder: MapFolder) -> None:
    falls = any(map(operator.lt, islice(index.keys, 1, None), index.keys))
    stays = any(map(operator.le, islice(index.positions, 1, None), index.positions))
    first = index.positions[0] if index.positions else 0
    last = index.positions[-1] if index.positions else 0
    if falls or stays or first < 0 or last >= folder.data.size_bytes:
        raise DataError(
            "an index must have keys and positions that rise, within the data beside it. "
            f"Received: another order, or positions from {first} to {last}, in "
            f"{join(folder.url, INDEX)} for {folder.data.size_bytes} bytes of data. "
            "It is damaged, or of other data. Make it anew: `rebuild_map_index(url)`."
        )
    if index.positions:
        return
    with opened(folder.data) as reader:
        if next(reader.records(), None) is not None:
            raise DataError(
                "an index must have at least one entry where there is data. "
                f"Received: {join(folder.url, INDEX)} without any. "
                "Make it anew: `rebuild_map_index(url)`."
            )


def rebuild_map_index(url: str, *, index_interval: int = 1) -> int:
    """Write the index of every MapFile at `url` anew, from its data.

    Args:
        url: as for `MapFileReader`.
        index_interval: every so many records are in it; default 1.

    Returns:
        How many records there are.

    Raises:
        DataError: if the data is damaged, or its keys are out of order.
    """
    check_interval(index_interval)
    return sum(_rebuilt(folder, index_interval) for folder in map_folders(url))


def _rebuilt(folder: MapFolder, interval: int) -> int:
    with (
        opened(folder.data) as reader,
        write_atomically(join(folder.url, INDEX)) as file,
    ):
        header = reader.header
        decode = hadoop_type(header.key_class, role="key", source=reader.source).decode
        index = _index_writer(file, header.key_class)
        count = due = 0
        indexed, last = -1, None
        for position, content, _ in reader.records():
            with in_file(reader.source):
                key = decode(content)
            if last is not None and key < last:
                raise DataError(out_of_order(key, last, position, reader.source))
            if count >= due and position > indexed:
                index.append(content, position.to_bytes(8, "big"))
                indexed, due = position, count + interval
            count, last = count + 1, key
        index.finish()
    return count


@contextmanager
def opened(file: StoredFile, *, read_ahead_bytes: int = 1 << 20) -> Generator[SequenceFileReader]:
    """A reader of `file`.

    Raises:
        DataError: if it is no SequenceFile.
        OSError: whatever the store says, naming the URL.
    """
    with open_to_read(file.url) as content:
        yield SequenceFileReader(
            content,
            size_bytes=file.size_bytes,
            source=file.url,
            read_ahead_bytes=read_ahead_bytes,
        )


def _index_writer(file: BinaryIO, key_class: str) -> SequenceFileWriter:
    # In blocks, as Hadoop writes it: neighbouring keys and positions are much alike.
    return SequenceFileWriter(
        file,
        key_class=key_class,
        value_class=LONG,
        sync=os.urandom(SYNC_BYTES),
        compression="block",
    )

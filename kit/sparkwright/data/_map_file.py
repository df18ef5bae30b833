"""MapFile: a folder with records in the order of their keys, and an index that finds them.

    data  = SequenceFile of keys and values
    index = SequenceFile of keys and where their records begin in data, LongWritable

References:
    Apache Hadoop, `org.apache.hadoop.io.MapFile`.
"""

import operator
from array import array
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sparkwright.errors import DataError
from sparkwright.options import check_count
from sparkwright.storage._files import join, write_atomically
from sparkwright.storage._listing import StoredFile, list_files

from ._record_bytes import DECODERS, LONG, Decoders, decoder_of
from ._record_conversion import out_of_order
from ._record_writing import DATA, INDEX, write_index
from ._sequence_file import SequenceFileReader, opened

REBUILD = "Rebuild it: `rebuild_map_index(url)`."


@dataclass(frozen=True, kw_only=True, slots=True)
class MapFolder:
    """The files of one MapFile.

    Attributes:
        url: its folder.
        data: the file of records.
        index: the file of positions; None if it is missing.
    """

    url: str
    data: StoredFile
    index: StoredFile | None


def map_folders(url: str) -> list[MapFolder]:
    """Return the MapFiles at `url`: a folder of one or of several, or a pattern; sorted by URL."""
    files = {file.url: file for file in list_files(url)}
    found = [
        MapFolder(url=folder, data=file, index=files.get(join(folder, INDEX)))
        for file in files.values()
        for folder, _, name in [file.url.rpartition("/")]
        if name == DATA
    ]
    if not found:
        raise DataError(
            f"a MapFile must be a folder with a file `{DATA}`. "
            f"Received: {url} without any. For SequenceFiles use `from_sequence_file`."
        )
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class MapIndex:
    """An index in memory.

    Attributes:
        key_class: Java class of the keys.
        keys: Python values, in ascending order.
        positions: where the record of each, or its block, begins in the data; ascending.
    """

    key_class: str
    keys: Sequence[Any]
    positions: Sequence[int]


def read_index(folder: MapFolder, decoders: Decoders | None = None) -> MapIndex:
    """Read the index of `folder`."""
    if folder.index is None:
        raise DataError(
            f"a MapFile must have a file `{INDEX}` beside `{DATA}`. "
            f"Received: {folder.url} without. {REBUILD}"
        )
    with opened(folder.index) as reader:
        header = reader.header
        if header.value_class != LONG:
            raise DataError(
                f"the index of a MapFile must have values of {LONG}. "
                f"Received: {header.value_class} in {reader.source}. It is no index."
            )
        decode = decoder_of(header.key_class, decoders, role="key", source=reader.source)
        # Arrays, because there may be millions.
        own_keys = header.key_class != LONG or LONG in (decoders or {})
        keys: Any = [] if own_keys else array("q")
        positions = array("q")
        with naming(reader.source):
            for _, key, value in reader.records():
                keys.append(decode(key))
                positions.append(DECODERS[LONG](value))
    falls = any(map(operator.lt, islice(keys, 1, None), keys))
    stays = any(map(operator.le, islice(positions, 1, None), positions))
    edges = (positions[0], positions[-1]) if positions else (0, 0)
    if falls or stays or edges[0] < 0 or edges[1] >= folder.data.size_bytes:
        raise DataError(
            "an index must have keys and positions that rise, within the data beside it. "
            f"Received: another order, or positions from {edges[0]} to {edges[1]}, in "
            f"{folder.index.url} for {folder.data.size_bytes} bytes of data. "
            f"It is damaged, or of other data. {REBUILD}"
        )
    if not positions:
        with opened(folder.data) as reader:
            if next(reader.records(), None) is not None:
                raise DataError(
                    "an index must have at least one entry where there is data. "
                    f"Received: {folder.index.url} without any. {REBUILD}"
                )
    return MapIndex(key_class=header.key_class, keys=keys, positions=positions)


def rebuild_map_index(url: str, *, index_interval: int = 1) -> int:
    """Write the index of every MapFile at `url` again, from its data.

    Args:
        url: as for `MapFileReader`.
        index_interval: every how many records one is in the index; default 1.

    Returns:
        The number of records.

    Raises:
        DataError: if the data is damaged, or its keys are out of order.
    """
    check_count("index_interval", index_interval)
    count = 0
    for folder in map_folders(url):
        with opened(folder.data) as reader, write_atomically(join(folder.url, INDEX)) as file:
            count += write_index(file, reader.header.key_class, _entries(reader), index_interval)
    return count


def _entries(reader: SequenceFileReader) -> Iterator[tuple[bytes, int]]:
    """Yield key and offset of each record; check the order of the keys."""
    decode = decoder_of(reader.header.key_class, None, role="key", source=reader.source)
    last = None
    for position, content, _ in reader.records():
        with naming(reader.source):
            key = decode(content)
        if last is not None and key < last:
            raise DataError(out_of_order(key, last, position, reader.source))
        last = key
        yield content, position


@contextmanager
def naming(source: str) -> Generator[None]:
    """Add the name of a file to a DataError about a key or value."""
    try:
        yield
    except DataError as error:
        if source in str(error):
            raise
        raise DataError(f"{error} It is in {source}, which is damaged.") from None

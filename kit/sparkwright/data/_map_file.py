"""MapFiles: folders with records sorted by key, and an index for random access.

    data  = SequenceFile of keys and values
    index = SequenceFile of keys and the offsets of their records in data, LongWritable

References:
    Apache Hadoop, `org.apache.hadoop.io.MapFile`.
"""

import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_count
from sparkwright.storage.files import join, write_atomically
from sparkwright.storage.listing import StoredFile, list_files

from ._record_bytes import DECODERS, LONG, Decoders, decoder_of, naming
from ._record_conversion import Convert, RecordConversion, check_functions, out_of_order
from ._record_writing import DATA, INDEX, write_index
from ._sequence_file import STRICT, Record, SequenceFileReader, opened
from .chunks import batched
from .dataset import DataSet
from .wording import clipped

_REBUILD = "Rebuild it: `rebuild_map_index(url)`."
_OPEN_PARTS = 32
_BLOCKS_KEPT = 32
_BUFFER_BYTES = 16 << 10
_INTEGER_KEYS = tuple(
    f"org.apache.hadoop.io.{name}"
    for name in ("LongWritable", "IntWritable", "VLongWritable", "VIntWritable")
)


@dataclass(frozen=True, kw_only=True, eq=False)
class MapPart:
    """A MapFile and its index: ascending keys, and the offsets of their records or blocks."""

    url: str
    data: StoredFile
    key_class: str
    keys: Sequence[Any]
    positions: Sequence[int]


def map_folders(url: str) -> dict[str, dict[str, StoredFile]]:
    """Return folder -> name -> file of each MapFile at `url`, sorted by URL."""
    folders: dict[str, dict[str, StoredFile]] = {}
    for file in list_files(url):
        folder, _, name = file.url.rpartition("/")
        folders.setdefault(folder, {})[name] = file
    found = {folder: files for folder, files in folders.items() if DATA in files}
    if not found:
        raise DataError(
            f"a MapFile must be a folder with a file `{DATA}`. "
            f"Received: {url} without one. For SequenceFiles use `from_sequence_file`."
        )
    return found


def read_index(url: str, files: dict[str, StoredFile], decoders: Decoders | None = None) -> MapPart:
    """Read the index of the MapFile `url`; `files` is name -> file of its folder."""
    if INDEX not in files:
        raise DataError(
            f"a MapFile must have a file `{INDEX}` next to `{DATA}`. "
            f"Received: {url} without one. {_REBUILD}"
        )
    data, index = files[DATA], files[INDEX]
    with opened(index) as reader:
        header = reader.header
        if header.value_class != LONG:
            raise DataError(
                f"the index of a MapFile must have values of {LONG}. "
                f"Received: {header.value_class} in {reader.source}. It is not an index."
            )
        decode = decoder_of(header.key_class, decoders, role="key", source=reader.source)
        # Arrays save memory: an index may have millions of entries.
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
    if falls or stays or edges[0] < 0 or edges[1] >= data.size_bytes:
        raise DataError(
            "the keys and positions of an index must be ascending, and the positions must be "
            f"within the data. Received: another order, or positions from {edges[0]} to "
            f"{edges[1]}, in {index.url} for {data.size_bytes} bytes of data. "
            f"The index is damaged or belongs to other data. {_REBUILD}"
        )
    if not positions:
        with opened(data) as reader:
            if next(reader.records(), None) is not None:
                raise DataError(
                    "the index of a MapFile with records must have at least one entry. "
                    f"Received: {index.url} without one. {_REBUILD}"
                )
    return MapPart(url=url, data=data, key_class=header.key_class, keys=keys, positions=positions)


def rebuild_map_index(url: str, *, index_interval: int = 1) -> int:
    """Rebuild the index of every MapFile at `url` from its data.

    Args:
        url: the folder of a MapFile, a folder of several, or a pattern.
        index_interval: number of records per index entry; default 1.

    Returns:
        The number of records.

    Raises:
        DataError: if the data is damaged or its keys are out of order.
    """
    check_count("index_interval", index_interval)
    count = 0
    for folder, files in map_folders(url).items():
        with opened(files[DATA]) as reader, write_atomically(join(folder, INDEX)) as file:
            count += write_index(file, reader.header.key_class, _entries(reader), index_interval)
    return count


def _entries(reader: SequenceFileReader) -> Iterator[tuple[bytes, int]]:
    """Yield key and offset of each record; raise DataError if keys are out of order."""
    decode = decoder_of(reader.header.key_class, None, role="key", source=reader.source)
    last = None
    for position, content, _ in reader.records():
        with naming(reader.source):
            key = decode(content)
        if last is not None and key < last:
            raise DataError(out_of_order(key, last, position, reader.source))
        last = key
        yield content, position


class MapFileReader:
    """Random access to the examples of MapFiles.

    The constructor reads only the indexes. If the keys are integers without gaps, as
    `write_map_file` writes them, all parts are one sequence: use `len(reader)`, `reader[i]` and
    `reader.take`. For other MapFiles use `find`. A reader is not thread-safe.

    Example:
        >>> import tempfile
        >>> from sparkwright.data import DataSet, write_map_file
        >>> folder = tempfile.mkdtemp()
        >>> write_map_file(DataSet(np.arange(6.0).reshape(3, 2), np.arange(3)), folder)
        3
        >>> with MapFileReader(folder) as reader:
        ...     len(reader), reader[1].labels["labels"], reader.take([2, 0]).labels["labels"]
        (3, array([1]), array([2, 0]))
    """

    def __init__(
        self, url: str, *, convert: Convert | None = None, decoders: Decoders | None = None
    ) -> None:
        """Read the indexes.

        Args:
            url: the folder of a MapFile, a folder of several, or a pattern.
            convert: function (key, value) -> DataSet, or (features, label) of one example. Default
                None: the files were written by Sparkwright.
            decoders: Java class name -> function that decodes the bytes of a key or value;
                default None.

        Raises:
            FileNotFoundError: if `url` does not exist.
            ConfigurationError: if an option is invalid.
            DataError: if `url` has no MapFile, or an index is missing, damaged or belongs to
                other data.
        """
        check_functions(convert, decoders)
        self.url = url
        self._conversion: dict[str, Any] = {"convert": convert, "decoders": decoders}
        self._files = ExitStack()
        self._open: dict[MapPart, tuple[SequenceFileReader, RecordConversion]] = {}
        self._block = lru_cache(_BLOCKS_KEPT)(self._read_block)
        parts = [read_index(*found, decoders) for found in map_folders(url).items()]
        try:
            self._parts = sorted((p for p in parts if p.keys), key=lambda part: part.keys[0])
        except TypeError:
            raise DataError(
                "the keys of all parts must have the same class. Received: several classes in "
                f"{url}. Open each part separately."
            ) from None

    def __enter__(self) -> "MapFileReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; the next access reopens them."""
        self._files.close()
        self._open.clear()
        self._block.cache_clear()

    def __len__(self) -> int:
        """Return the number of examples.

        Raises:
            DataError: if the keys are not integers without gaps.
        """
        return self._edges[-1]

    def __getitem__(self, index: int) -> DataSet:
        """Return example `index`, from 0; negative indices count from the end.

        Raises:
            IndexError: if `index` is out of range.
            DataError: if the keys are not integers without gaps, or the file is damaged.
        """
        return self.take([index])

    def take(self, indices: Sequence[int] | NDArray[Any]) -> DataSet:
        """Return the examples at `indices`, in that order; duplicates are allowed.

        Raises:
            IndexError: if an index is out of range.
            ConfigurationError: if `indices` is empty or does not consist of integers.
            DataError: as for `reader[i]`, or if the examples differ in shape.
        """
        edges = self._edges
        wanted = _checked(indices, edges[-1], self.url)
        found: dict[int, DataSet] = {}
        for index in np.unique(wanted).tolist():  # in file order: fewer seeks
            part = self._parts[bisect_right(edges, index) - 1]
            key = index + self._parts[0].keys[0]
            if (example := self._find(part, key)) is None:
                raise DataError(
                    "access by number needs integer keys without gaps. "
                    f"Received: no key {key} in {part.url}. Use `find(key)`."
                )
            found[index] = example
        return DataSet.concatenate([found[index] for index in wanted.tolist()])

    def find(self, key: Any) -> DataSet | None:
        """Return an example with this key, or None; any of them if the key is not unique.

        Raises:
            DataError: if the key has another type than those of the file, or the file is damaged.
        """
        for part in self._parts:
            try:
                if part.keys[0] <= key and (found := self._find(part, key)) is not None:
                    return found
            except TypeError:
                raise DataError(
                    f"`key` must have the same type as {clipped(repr(part.keys[0]))}. "
                    f"Received: {clipped(repr(key))}."
                ) from None
        return None

    def __iter__(self) -> Iterator[DataSet]:
        """Yield the examples one at a time, part by part."""
        return self.batches(1)

    def batches(self, batch_size: int) -> Iterator[DataSet]:
        """Yield all examples in minibatches of `batch_size`; the last one may be smaller.

        Raises:
            ConfigurationError: if `batch_size` is below 1.
            DataError: if the file is damaged.
        """
        check_count("batch_size", batch_size)
        chunks = (chunk for part in self._parts for chunk in self._datasets(part))
        if batch_size == 1:  # examples may differ in shape
            return (example for chunk in chunks for example in chunk.batches(1))
        return batched(chunks, batch_size)

    @cached_property
    def _edges(self) -> list[int]:
        """The first example of each part, and the number of all examples."""
        for part in self._parts:
            if part.key_class not in _INTEGER_KEYS:
                raise DataError(
                    f"access by number needs integer keys. Received: keys of {part.key_class} in "
                    f"{part.url}. Use `find(key)`."
                )
        lasts = [self._last_key(part) for part in self._parts]
        for last, (before, after) in zip(lasts, pairwise(self._parts), strict=False):
            if after.keys[0] != last + 1:
                raise DataError(
                    "access by number needs keys without gaps between parts. "
                    f"Received: {last} at the end of {before.url}, "
                    f"{after.keys[0]} at the start of {after.url}. Use `find(key)`, "
                    "or read the examples in order with `from_map_file`."
                )
        if not lasts:
            return [0]
        first = self._parts[0].keys[0]
        return [*(part.keys[0] - first for part in self._parts), lasts[-1] + 1 - first]

    def _last_key(self, part: MapPart) -> Any:
        last = part.keys[-1]
        for at, keys, _ in self._blocks(part, len(part.keys) - 1):
            if keys and keys[-1] < last:
                raise DataError(out_of_order(keys[-1], last, at, part.data.url))
            last = keys[-1] if keys else last
        return last

    def _find(self, part: MapPart, key: Any) -> DataSet | None:
        entry = bisect_right(part.keys, key) - 1
        if entry < 0:
            return None
        for at, keys, records in self._blocks(part, entry):
            if at == part.positions[entry]:
                indexed = part.keys[entry]
                if (place := bisect_left(keys, indexed)) == len(keys) or keys[place] != indexed:
                    shown = f"no key {clipped(repr(indexed))} at byte {at} of {part.data.url}"
                    raise _misfit(f"{shown}, although the index has it there")
            place = bisect_left(keys, key)
            if place < len(keys):
                if keys[place] != key:
                    return None
                conversion = self._opened(part)[1]
                return DataSet.concatenate(list(conversion.datasets([records[place]], STRICT)))
        return None

    def _blocks(self, part: MapPart, entry: int) -> Iterator[tuple[int, list[Any], list[Record]]]:
        """Yield (offset, keys, records) of each block, starting at an index entry."""
        position = part.positions[entry]
        while position < part.data.size_bytes:
            at = position
            keys, records, position = self._block(part, at)
            yield at, keys, records

    def _read_block(self, part: MapPart, position: int) -> tuple[list[Any], list[Record], int]:
        """Return keys and records at `position` (a block or a buffer), and their end offset."""
        reader, conversion = self._opened(part)
        records, end = reader.read_at(position)
        assert conversion.key is not None
        with naming(reader.source):
            return [conversion.key(key) for _, key, _ in records], records, end

    def _datasets(self, part: MapPart) -> Iterator[DataSet]:
        """Yield all examples; a separate file handle keeps `find` from moving the position."""
        with opened(part.data) as reader:
            conversion = self._conversion_of(part, reader)
            yield from conversion.datasets(conversion.in_order(reader.records(), STRICT), STRICT)

    def _opened(self, part: MapPart) -> tuple[SequenceFileReader, RecordConversion]:
        if part not in self._open:
            if len(self._open) >= _OPEN_PARTS:
                self.close()
            context = opened(part.data, buffer_bytes=_BUFFER_BYTES)
            reader = self._files.enter_context(context)
            self._open[part] = reader, self._conversion_of(part, reader)
        return self._open[part]

    def _conversion_of(self, part: MapPart, reader: SequenceFileReader) -> RecordConversion:
        if reader.header.key_class != part.key_class:
            raise _misfit(
                f"keys of {reader.header.key_class} in {reader.source}, of {part.key_class} in its "
                "index"
            )
        return RecordConversion.of(reader.header, source=reader.source, **self._conversion)


def _misfit(received: str) -> DataError:
    return DataError(f"an index must match the data next to it. Received: {received}. {_REBUILD}")


def _checked(indices: Any, count: int, url: str) -> NDArray[np.int64]:
    """Validate `indices`; return them as (n,) int64, all non-negative."""
    found = np.asarray(indices)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not found.size:
        raise ConfigurationError(
            "`indices` must be at least one integer. "
            f"Received: an array of shape {found.shape} and dtype {found.dtype}."
        )
    numbers = found.astype(np.int64)
    outside = (numbers < -count) | (numbers >= count)
    if outside.any():
        raise IndexError(
            f"an example number must be from {-count} to {count - 1} in {url}. "
            f"Received: {int(numbers[outside][0])}."
        )
    return np.where(numbers < 0, numbers + count, numbers)

"""Single examples of MapFiles by number, over several parts, without reading what lies between."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._chunks import batched
from sparkwright.data._dataset import DataSet
from sparkwright.data._wording import clipped
from sparkwright.errors import ConfigurationError, DataError

from ._map_files import MapFolder, MapIndex, in_file, map_folders, opened, read_index
from ._record_conversion import (
    Convert,
    Decoders,
    RecordConversion,
    check_functions,
    in_order,
    out_of_order,
)
from ._sequence_file_reader import Record, SequenceFileReader

_OPEN_PARTS = 32
_BLOCKS_KEPT = 4
_READ_AHEAD_BYTES = 16 << 10
_WHOLE_NUMBERS = tuple(
    f"org.apache.hadoop.io.{name}"
    for name in ("LongWritable", "IntWritable", "VLongWritable", "VIntWritable")
)


class MapFileReader:
    """The examples of MapFiles, each within reach.

    Opening reads the indexes only. Parts whose keys are whole numbers without gaps, as
    `write_map_file` leaves them, are one sequence: `len(reader)`, `reader[i]`, `reader.take`. In
    other MapFiles use `find`. Not for several threads at once.

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
            url: a MapFile's folder, a folder of several, or a pattern.
            convert: key, value -> a DataSet, or (features, label) of one example; default None:
                the files are Sparkwright's own.
            decoders: Java class name -> function of a key's or value's bytes; default none.

        Raises:
            FileNotFoundError: if there is nothing at `url`.
            ConfigurationError: if an option cannot be meant that way.
            DataError: if there is no MapFile, or an index is missing, damaged or of other data.
        """
        check_functions(convert, decoders)
        self.url = url
        self._open: OrderedDict[int, _Part] = OrderedDict()
        parts = [_Part(f, convert, decoders, self._opening) for f in map_folders(url)]
        self._parts = [part for part in parts if part.index.keys]
        try:
            self._parts.sort(key=lambda part: part.first_key)
        except TypeError:
            raise DataError(
                f"the keys of all parts must be of one class. Received: several in {url}."
            ) from None
        self._edges: list[int] | None = None

    def __enter__(self) -> "MapFileReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; they are opened again when needed."""
        while self._open:
            self._open.popitem()[1].close()

    def __len__(self) -> int:
        """How many examples there are.

        Raises:
            DataError: if the keys are not whole numbers without gaps.
        """
        return self._numbers()[-1]

    def __getitem__(self, index: int) -> DataSet:
        """The example with this number, from 0; from the end if negative.

        Raises:
            IndexError: if there is none.
            DataError: if the keys are not whole numbers without gaps, or the file is damaged.
        """
        return self.take([index])

    def take(self, indices: Sequence[int] | NDArray[Any]) -> DataSet:
        """The examples with these numbers, in this order; an example may be named repeatedly.

        Raises:
            IndexError: if there is one that is not.
            ConfigurationError: if `indices` are not whole numbers, or none.
            DataError: as for `reader[i]`; also if the examples differ in shape.
        """
        edges = self._numbers()
        wanted = _checked(indices, edges[-1], self.url)
        found: dict[int, DataSet] = {}
        first = self._parts[0].first_key
        for index in np.unique(wanted).tolist():  # in the order of the files: fewer jumps
            part = self._parts[bisect_right(edges, index) - 1]
            found[index] = part.example(index + first)
        return DataSet.concatenate([found[index] for index in wanted.tolist()])

    def find(self, key: Any) -> DataSet | None:
        """The example with this key, None if there is none; of several with it any.

        Raises:
            DataError: if the key is of another class, or the file is damaged.
        """
        for part in self._parts:
            try:
                if part.first_key <= key and (found := part.find(key)) is not None:
                    return part.dataset(found)
            except TypeError:
                raise DataError(
                    f"a key must be what the file's keys are, as {clipped(repr(part.first_key))}. "
                    f"Received: {clipped(repr(key))}."
                ) from None
        return None

    def __iter__(self) -> Iterator[DataSet]:
        """Each example by itself, part after part."""
        for chunk in self._chunks():
            yield from chunk.batches(1)

    def batches(self, batch_size: int) -> Iterator[DataSet]:
        """All examples in minibatches of exactly `batch_size`, the last one smaller.

        Raises:
            ConfigurationError: if `batch_size` is below 1.
            DataError: if the file is damaged.
        """
        if batch_size < 1:
            raise ConfigurationError(
                f"`batch_size` must be at least 1. Received: batch_size={batch_size}."
            )
        return batched(self._chunks(), batch_size)

    def _chunks(self) -> Iterator[DataSet]:
        for part in self._parts:
            yield from part.datasets()

    def _numbers(self) -> list[int]:
        """Where each part begins, counted in examples, and the number of all."""
        if self._edges is not None:
            return self._edges
        for part in self._parts:
            if part.index.key_class not in _WHOLE_NUMBERS:
                raise DataError(
                    "examples have numbers only where keys are whole numbers. Received: keys of "
                    f"{part.index.key_class} in {part.folder.url}. Use `find(key)`."
                )
        for before, after in pairwise(self._parts):
            if after.first_key != before.last_key + 1:
                raise DataError(
                    "examples have numbers only where the keys of all parts follow each other. "
                    f"Received: {before.last_key} at the end of {before.folder.url}, "
                    f"{after.first_key} at the start of {after.folder.url}. Use `find(key)`, "
                    "or read them in order: `from_map_file`."
                )
        starts = [part.first_key - self._parts[0].first_key for part in self._parts]
        end = self._parts[-1].last_key + 1 - self._parts[0].first_key if self._parts else 0
        self._edges = [*starts, end]
        return self._edges

    def _opening(self, part: "_Part") -> None:
        """Remember that `part` is used; close the one that has not been for longest."""
        self._open[id(part)] = part
        self._open.move_to_end(id(part))
        if len(self._open) > _OPEN_PARTS:
            self._open.popitem(last=False)[1].close()


class _Part:
    """One MapFile."""

    def __init__(
        self,
        folder: MapFolder,
        convert: Convert | None,
        decoders: Decoders | None,
        opening: Callable[["_Part"], None],
    ) -> None:
        self.folder = folder
        self.index: MapIndex = read_index(folder, decoders)
        self._convert, self._decoders, self._opening = convert, decoders, opening
        self._files = ExitStack()
        self._reader: SequenceFileReader | None = None
        self._conversion: RecordConversion | None = None
        self._last_key: Any = None
        # Where a block begins -> its keys and records.
        self._blocks: OrderedDict[int, tuple[list[Any], list[Record]]] = OrderedDict()

    @property
    def first_key(self) -> Any:
        return self.index.keys[0]

    @property
    def last_key(self) -> Any:
        if self._last_key is None:
            reader, conversion = self._ready()
            content = b""
            for block in reader.records_at(self.index.positions[-1]):
                if block:
                    content = block[-1][1]
            with in_file(reader.source):
                last = conversion.key(content)
            if last < (indexed := self.index.keys[-1]):
                position = self.index.positions[-1]
                raise DataError(out_of_order(last, indexed, position, reader.source))
            self._last_key = last
        return self._last_key

    def close(self) -> None:
        self._files.close()
        self._reader = self._conversion = None
        self._blocks.clear()

    def datasets(self) -> Iterator[DataSet]:
        """All examples, read from a file of its own: what is found meanwhile does not disturb."""
        with opened(self.folder.data) as reader:
            conversion = self._conversion_of(reader)
            yield from conversion.datasets(in_order(reader.records(), conversion, _fail), _fail)

    def example(self, key: int) -> DataSet:
        found = self.find(key)
        if found is None:
            raise DataError(
                "examples have numbers only where keys follow each other without gaps. "
                f"Received: no key {key} in {self.folder.url}. Use `find(key)`."
            )
        return self.dataset(found)

    def dataset(self, record: Record) -> DataSet:
        _, conversion = self._ready()
        return DataSet.concatenate(list(conversion.datasets([record], _fail)))

    def find(self, key: Any) -> Record | None:
        entry = bisect_right(self.index.keys, key) - 1
        if entry < 0:
            return None
        reader, conversion = self._ready()
        position = self.index.positions[entry]
        for number, (keys, records) in enumerate(self._from(reader, conversion, position)):
            if number == 0:
                self._check_indexed(self.index.keys[entry], keys, position)
            at = bisect_right(keys, key) - 1
            if at >= 0 and keys[at] == key:
                return records[at]
            if at + 1 < len(keys):
                return None  # larger keys follow
        return None

    def _check_indexed(self, key: Any, keys: list[Any], position: int) -> None:
        """See that what begins at `position` holds `key`: in a block it need not be the first."""
        at = bisect_left(keys, key)
        if at == len(keys) or keys[at] != key:
            raise DataError(
                "an index must be of the data beside it. "
                f"Received: no key {clipped(repr(key))} at byte {position} of "
                f"{self.folder.data.url}, where its index has it. "
                "Make it anew: `rebuild_map_index(url)`."
            )

    def _from(
        self, reader: SequenceFileReader, conversion: RecordConversion, position: int
    ) -> Iterator[tuple[list[Any], list[Record]]]:
        """Keys and records from `position` on; the block that begins there is remembered."""
        known = self._blocks.get(position)
        if known is not None:
            self._blocks.move_to_end(position)
            yield known
        blocks = filter(None, reader.records_at(position))  # without sync marks by themselves
        for number, block in enumerate(blocks):
            if known is not None and number == 0:
                continue
            with in_file(reader.source):
                found = [conversion.key(record[1]) for record in block], block
            if number == 0 and reader.header.compression == "block":
                self._blocks[position] = found
                if len(self._blocks) > _BLOCKS_KEPT:
                    self._blocks.popitem(last=False)
            yield found

    def _ready(self) -> tuple[SequenceFileReader, RecordConversion]:
        self._opening(self)
        if self._reader is None or self._conversion is None:
            self._reader = self._files.enter_context(
                opened(self.folder.data, read_ahead_bytes=_READ_AHEAD_BYTES)
            )
            self._conversion = self._conversion_of(self._reader)
        return self._reader, self._conversion

    def _conversion_of(self, reader: SequenceFileReader) -> RecordConversion:
        if reader.header.key_class != self.index.key_class:
            raise DataError(
                "an index must be of the data beside it. "
                f"Received: keys of {reader.header.key_class} in {reader.source}, of "
                f"{self.index.key_class} in its index. Make it anew: `rebuild_map_index(url)`."
            )
        return RecordConversion(
            reader.header, source=reader.source, convert=self._convert, decoders=self._decoders
        )


def _fail(reason: str, message: str) -> None:
    del reason
    raise DataError(message)


def _checked(indices: Any, count: int, url: str) -> NDArray[np.int64]:
    """As (n,) int64 numbers from 0."""
    found = np.asarray(indices)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not found.size:
        raise ConfigurationError(
            "`indices` must be at least one whole number. "
            f"Received: an array of shape {found.shape} and dtype {found.dtype}."
        )
    numbers = found.astype(np.int64)
    outside = (numbers < -count) | (numbers >= count)
    if outside.any():
        raise IndexError(
            f"an example's number must be from {-count} to {count - 1} in {url}. "
            f"Received: {int(numbers[outside][0])}."
        )
    return np.where(numbers < 0, numbers + count, numbers)

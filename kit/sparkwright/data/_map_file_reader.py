"""Random access to the examples of MapFiles, over several parts."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_count

from ._arrow import batched
from ._dataset import DataSet
from ._map_file import REBUILD, MapFolder, MapIndex, map_folders, naming, read_index
from ._pieces import SkipLog
from ._record_bytes import Decoders
from ._record_conversion import Convert, RecordConversion, check_functions, in_order, out_of_order
from ._sequence_file import Record, SequenceFileReader, opened
from ._wording import clipped

_OPEN_PARTS = 32
_BLOCKS_KEPT = 4
_READ_AHEAD_BYTES = 16 << 10
_INTEGER_KEYS = tuple(
    f"org.apache.hadoop.io.{name}"
    for name in ("LongWritable", "IntWritable", "VLongWritable", "VIntWritable")
)


class MapFileReader:
    """Random access to the examples of MapFiles.

    Opening reads the indexes only. Parts whose keys are integers without gaps, as
    `write_map_file` writes them, are one sequence: `len(reader)`, `reader[i]`, `reader.take`. In
    other MapFiles use `find`. A reader is for one thread at a time.

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
            convert: key, value -> a DataSet, or (features, label) of one example; default None:
                the files are Sparkwright's own.
            decoders: Java class name -> function of a key's or value's bytes; default none.

        Raises:
            FileNotFoundError: if there is nothing at `url`.
            ConfigurationError: if an option is invalid.
            DataError: if there is no MapFile, or an index is missing, damaged or of other data.
        """
        check_functions(convert, decoders)
        self.url = url
        self._open: OrderedDict[int, _Part] = OrderedDict()
        parts = [_Part(folder, convert, decoders) for folder in map_folders(url)]
        self._parts = [part for part in parts if part.index.keys]
        try:
            self._parts.sort(key=lambda part: part.first_key)
        except TypeError:
            raise DataError(
                f"the keys of all parts must be of one class. Received: several in {url}."
            ) from None

    def __enter__(self) -> "MapFileReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; they are opened again when needed."""
        while self._open:
            self._open.popitem()[1].close()

    def __len__(self) -> int:
        """Return the number of examples.

        Raises:
            DataError: if the keys are not integers without gaps.
        """
        return self._edges[-1]

    def __getitem__(self, index: int) -> DataSet:
        """Return the example with this number, from 0; from the end if negative.

        Raises:
            IndexError: if there is none.
            DataError: if the keys are not integers without gaps, or the file is damaged.
        """
        return self.take([index])

    def take(self, indices: Sequence[int] | NDArray[Any]) -> DataSet:
        """Return the examples with these numbers, in this order; a number may occur repeatedly.

        Raises:
            IndexError: if there is no example with one of the numbers.
            ConfigurationError: if `indices` are not integers, or empty.
            DataError: as for `reader[i]`; also if the examples differ in shape.
        """
        edges = self._edges
        wanted = _checked(indices, edges[-1], self.url)
        found: dict[int, DataSet] = {}
        for index in np.unique(wanted).tolist():  # in the order of the files: fewer jumps
            part = self._parts[bisect_right(edges, index) - 1]
            key = index + self._parts[0].first_key
            if (example := self._find(part, key)) is None:
                raise DataError(
                    "examples have numbers only where keys follow each other without gaps. "
                    f"Received: no key {key} in {part.folder.url}. Use `find(key)`."
                )
            found[index] = example
        return DataSet.concatenate([found[index] for index in wanted.tolist()])

    def find(self, key: Any) -> DataSet | None:
        """Return the example with this key, or None; of several with it any.

        Raises:
            DataError: if the key is of another class, or the file is damaged.
        """
        for part in self._parts:
            try:
                if part.first_key <= key and (found := self._find(part, key)) is not None:
                    return found
            except TypeError:
                raise DataError(
                    f"a key must be of the same type as {clipped(repr(part.first_key))}. "
                    f"Received: {clipped(repr(key))}."
                ) from None
        return None

    def __iter__(self) -> Iterator[DataSet]:
        """Yield the examples one at a time, part after part."""
        return self.batches(1)

    def batches(self, batch_size: int) -> Iterator[DataSet]:
        """Yield all examples in minibatches of exactly `batch_size`, the last one smaller.

        Raises:
            ConfigurationError: if `batch_size` is below 1.
            DataError: if the file is damaged.
        """
        check_count("batch_size", batch_size)
        chunks = (chunk for part in self._parts for chunk in part.datasets())
        if batch_size == 1:  # examples may differ in shape
            return (example for chunk in chunks for example in chunk.batches(1))
        return batched(chunks, batch_size)

    @cached_property
    def _edges(self) -> list[int]:
        """Where each part begins, counted in examples, and the number of all."""
        for part in self._parts:
            if part.index.key_class not in _INTEGER_KEYS:
                raise DataError(
                    "examples have numbers only where keys are integers. Received: keys of "
                    f"{part.index.key_class} in {part.folder.url}. Use `find(key)`."
                )
        lasts = [self._use(part).last_key() for part in self._parts]
        for last, (before, after) in zip(lasts, pairwise(self._parts), strict=False):
            if after.first_key != last + 1:
                raise DataError(
                    "examples have numbers only where the keys of all parts follow each other. "
                    f"Received: {last} at the end of {before.folder.url}, "
                    f"{after.first_key} at the start of {after.folder.url}. Use `find(key)`, "
                    "or read them in order: `from_map_file`."
                )
        first = self._parts[0].first_key if self._parts else 0
        end = lasts[-1] + 1 if lasts else 0
        return [*(part.first_key - first for part in self._parts), end - first]

    def _find(self, part: "_Part", key: Any) -> DataSet | None:
        return self._use(part).find(key)

    def _use(self, part: "_Part") -> "_Part":
        """Note that `part` is used; close the part that has not been used for longest."""
        self._open[id(part)] = part
        self._open.move_to_end(id(part))
        if len(self._open) > _OPEN_PARTS:
            self._open.popitem(last=False)[1].close()
        return part


class _Strict(SkipLog):
    """Raises each problem; there is no `on_error` that could be advised."""

    def __init__(self) -> None:
        super().__init__("raise")

    def skip(self, reason: str, message: str, *, count: int = 1) -> None:
        raise DataError(message)


class _Part:
    """One MapFile."""

    def __init__(
        self, folder: MapFolder, convert: Convert | None, decoders: Decoders | None
    ) -> None:
        self.folder = folder
        self.index: MapIndex = read_index(folder, decoders)
        self._converted_by: dict[str, Any] = {"convert": convert, "decoders": decoders}
        self._files = ExitStack()
        self._opened: tuple[SequenceFileReader, RecordConversion] | None = None
        self._block = lru_cache(_BLOCKS_KEPT)(self._read_block)

    @property
    def first_key(self) -> Any:
        return self.index.keys[0]

    def last_key(self) -> Any:
        position, last = self.index.positions[-1], self.index.keys[-1]
        while position < self.folder.data.size_bytes:
            at = position
            keys, _, position = self._block(at)
            if keys and keys[-1] < last:
                raise DataError(out_of_order(keys[-1], last, at, self.folder.data.url))
            last = keys[-1] if keys else last
        return last

    def find(self, key: Any) -> DataSet | None:
        entry = bisect_right(self.index.keys, key) - 1
        if entry < 0:
            return None
        position = start = self.index.positions[entry]
        while position < self.folder.data.size_bytes:
            at = position
            keys, records, position = self._block(at)
            if at == start:
                self._check_indexed(self.index.keys[entry], keys, at)
            place = bisect_left(keys, key)
            if place < len(keys):
                return self._dataset(records[place]) if keys[place] == key else None
        return None

    def datasets(self) -> Iterator[DataSet]:
        """Yield all examples, from a file handle of its own, which `find` does not move."""
        with opened(self.folder.data) as reader:
            conversion, log = self._conversion_of(reader), _Strict()
            yield from conversion.datasets(in_order(reader.records(), conversion, log), log)

    def close(self) -> None:
        self._files.close()
        self._opened = None
        self._block.cache_clear()

    def _dataset(self, record: Record) -> DataSet:
        return DataSet.concatenate(list(self._ready()[1].datasets([record], _Strict())))

    def _check_indexed(self, key: Any, keys: list[Any], position: int) -> None:
        place = bisect_left(keys, key)
        if place == len(keys) or keys[place] != key:
            raise DataError(
                "an index must be of the data beside it. "
                f"Received: no key {clipped(repr(key))} at byte {position} of "
                f"{self.folder.data.url}, where its index has it. {REBUILD}"
            )

    def _read_block(self, position: int) -> tuple[list[Any], list[Record], int]:
        """Return keys and records of the block or record at `position`, and where it ends."""
        reader, conversion = self._ready()
        records, end = reader.read_at(position)
        with naming(reader.source):
            return [conversion.key(key) for _, key, _ in records], records, end

    def _ready(self) -> tuple[SequenceFileReader, RecordConversion]:
        if self._opened is None:
            context = opened(self.folder.data, read_ahead_bytes=_READ_AHEAD_BYTES)
            reader = self._files.enter_context(context)
            self._opened = reader, self._conversion_of(reader)
        return self._opened

    def _conversion_of(self, reader: SequenceFileReader) -> RecordConversion:
        if reader.header.key_class != self.index.key_class:
            raise DataError(
                "an index must be of the data beside it. "
                f"Received: keys of {reader.header.key_class} in {reader.source}, of "
                f"{self.index.key_class} in its index. {REBUILD}"
            )
        return RecordConversion(reader.header, source=reader.source, **self._converted_by)


def _checked(indices: Any, count: int, url: str) -> NDArray[np.int64]:
    """Return `indices` as (n,) int64 numbers from 0."""
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
            f"an example's number must be from {-count} to {count - 1} in {url}. "
            f"Received: {int(numbers[outside][0])}."
        )
    return np.where(numbers < 0, numbers + count, numbers)

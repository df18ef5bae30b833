"""Random access to the examples of MapFiles, over several parts."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

from ._chunks import batched
from ._dataset import DataSet
from ._map_file import REBUILD, MapFolder, MapIndex, in_file, map_folders, read_index
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
        parts = [_Part(f, convert, decoders, self._use) for f in map_folders(url)]
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
            if (record := part.find(key)) is None:
                raise DataError(
                    "examples have numbers only where keys follow each other without gaps. "
                    f"Received: no key {key} in {part.folder.url}. Use `find(key)`."
                )
            found[index] = part.dataset(record)
        return DataSet.concatenate([found[index] for index in wanted.tolist()])

    def find(self, key: Any) -> DataSet | None:
        """Return the example with this key, or None; of several with it any.

        Raises:
            DataError: if the key is of another class, or the file is damaged.
        """
        for part in self._parts:
            try:
                if part.first_key <= key and (found := part.find(key)) is not None:
                    return part.dataset(found)
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
        if batch_size < 1:
            raise ConfigurationError(
                f"`batch_size` must be at least 1. Received: batch_size={batch_size}."
            )
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
        for before, after in pairwise(self._parts):
            if after.first_key != before.last_key + 1:
                raise DataError(
                    "examples have numbers only where the keys of all parts follow each other. "
                    f"Received: {before.last_key} at the end of {before.folder.url}, "
                    f"{after.first_key} at the start of {after.folder.url}. Use `find(key)`, "
                    "or read them in order: `from_map_file`."
                )
        first = self._parts[0].first_key if self._parts else 0
        end = self._parts[-1].last_key + 1 if self._parts else 0
        return [*(part.first_key - first for part in self._parts), end - first]

    def _use(self, part: "_Part") -> None:
        """Note that `part` is used; close the part that has not been used for longest."""
        self._open[id(part)] = part
        self._open.move_to_end(id(part))
        if len(self._open) > _OPEN_PARTS:
            self._open.popitem(last=False)[1].close()


class _Strict(SkipLog):
    """Raises each problem; there is no `on_error` that could be advised."""

    def __init__(self) -> None:
        super().__init__("raise")

    def skip(self, reason: str, message: str, *, count: int = 1) -> None:
        raise DataError(message)


class _Part:
    """One MapFile."""

    def __init__(
        self,
        folder: MapFolder,
        convert: Convert | None,
        decoders: Decoders | None,
        use: Callable[["_Part"], None],
    ) -> None:
        self.folder = folder
        self.index: MapIndex = read_index(folder, decoders)
        self._convert, self._decoders, self._use = convert, decoders, use
        self._files = ExitStack()
        self._opened: tuple[SequenceFileReader, RecordConversion] | None = None
        # Offset -> keys and records of the block there.
        self._first = lru_cache(_BLOCKS_KEPT)(self._read_first)

    @property
    def first_key(self) -> Any:
        return self.index.keys[0]

    @cached_property
    def last_key(self) -> Any:
        reader, conversion = self._ready()
        position, indexed = self.index.positions[-1], self.index.keys[-1]
        contents = [block[-1][1] for block in reader.records_at(position) if block]
        with in_file(reader.source):
            last = conversion.key(contents[-1] if contents else b"")
        if last < indexed:
            raise DataError(out_of_order(last, indexed, position, reader.source))
        return last

    def close(self) -> None:
        self._files.close()
        self._opened = None
        self._first.cache_clear()

    def datasets(self) -> Iterator[DataSet]:
        """Yield all examples, from a file handle of its own, which `find` does not move."""
        with opened(self.folder.data) as reader:
            conversion, log = self._conversion_of(reader), _Strict()
            yield from conversion.datasets(in_order(reader.records(), conversion, log), log)

    def dataset(self, record: Record) -> DataSet:
        _, conversion = self._ready()
        return DataSet.concatenate(list(conversion.datasets([record], _Strict())))

    def find(self, key: Any) -> Record | None:
        entry = bisect_right(self.index.keys, key) - 1
        if entry < 0:
            return None
        position = self.index.positions[entry]
        for number, (keys, records) in enumerate(self._from(position)):
            if number == 0:
                self._check_indexed(self.index.keys[entry], keys, position)
            at = bisect_right(keys, key) - 1
            if at >= 0 and keys[at] == key:
                return records[at]
            if at + 1 < len(keys):
                return None  # larger keys follow
        return None

    def _check_indexed(self, key: Any, keys: list[Any], position: int) -> None:
        """Check that the record or block at `position` holds `key`, in a block at any place."""
        at = bisect_left(keys, key)
        if at == len(keys) or keys[at] != key:
            raise DataError(
                "an index must be of the data beside it. "
                f"Received: no key {clipped(repr(key))} at byte {position} of "
                f"{self.folder.data.url}, where its index has it. {REBUILD}"
            )

    def _from(self, position: int) -> Iterator[tuple[list[Any], list[Record]]]:
        """Yield keys and records from `position` on, block by block."""
        yield self._first(position)
        reader, conversion = self._ready()
        for block in islice(reader.records_at(position), 1, None):
            yield self._with_keys(block, reader, conversion)

    def _read_first(self, position: int) -> tuple[list[Any], list[Record]]:
        reader, conversion = self._ready()
        blocks = filter(None, reader.records_at(position))  # without sync marks by themselves
        return self._with_keys(next(blocks, []), reader, conversion)

    def _with_keys(
        self, block: list[Record], reader: SequenceFileReader, conversion: RecordConversion
    ) -> tuple[list[Any], list[Record]]:
        with in_file(reader.source):
            return [conversion.key(record[1]) for record in block], block

    def _ready(self) -> tuple[SequenceFileReader, RecordConversion]:
        self._use(self)
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
        return RecordConversion(
            reader.header, source=reader.source, convert=self._convert, decoders=self._decoders
        )


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

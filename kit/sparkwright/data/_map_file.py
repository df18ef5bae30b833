"""Random access to MapFiles: folders with records sorted by key, and an index.

    data  = SequenceFile of keys and values
    index = SequenceFile of keys and the offsets of their records in data, LongWritable

References:
    Apache Hadoop, `org.apache.hadoop.io.MapFile`.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_count
from sparkwright.storage.listing import StoredFile

from ._record_files import (
    DATA,
    INDEX,
    Convert,
    Make,
    check_functions,
    decoder_of,
    examples_of,
    maker_of,
    map_folders,
)
from ._record_values import DECODERS, LONG, Decoders
from ._sequence_file import STRICT, Record, SequenceFileReader, opened
from .chunks import batched
from .dataset import DataSet
from .wording import clipped

_REBUILD = "Read the data with `from_sequence_file`, and write it again."
_OPEN_PARTS = 32
_BLOCKS_KEPT = 32
_BUFFER_BYTES = 16 << 10


@dataclass(frozen=True, kw_only=True, eq=False)
class MapPart:
    """A MapFile and its index: ascending keys, and the offsets of their records or blocks."""

    url: str
    data: StoredFile
    key_of: Callable[[bytes], Any]
    keys: Sequence[Any]
    positions: Sequence[int]


def read_index(url: str, files: dict[str, StoredFile], decoders: Decoders | None = None) -> MapPart:
    """Read the index of the MapFile `url`; `files` is name -> file of its folder."""
    if INDEX not in files:
        raise DataError(
            f"a MapFile must have a file `{INDEX}` next to `{DATA}`. Received: {url} without one. "
            f"{_REBUILD}"
        )
    with opened(files[INDEX]) as reader:
        key_of = decoder_of(reader.header.key_class, decoders, reader.source)
        # Arrays save memory: an index may have millions of entries.
        keys: Any = array("q") if key_of is DECODERS[LONG] else []
        positions = array("q")
        try:
            for _, key, value in reader.records():
                keys.append(key_of(key))
                positions.append(DECODERS[LONG](value))
        except Exception as error:  # also of the user's decoder
            raise DataError(f"{error} It is in the index {reader.source}.") from None
    falls = any(a > b for a, b in pairwise(keys))
    if (
        (not positions and _has_records(files[DATA]))
        or falls
        or any(a >= b for a, b in pairwise(positions))
    ):
        raise DataError(
            "an index must have ascending keys and positions, at least one for data with records. "
            f"Received: others in {reader.source}. The index is damaged. {_REBUILD}"
        )
    return MapPart(url=url, data=files[DATA], key_of=key_of, keys=keys, positions=positions)


def _has_records(file: StoredFile) -> bool:
    with opened(file) as data:
        return next(data.records(), None) is not None


class MapFileReader:
    """Random access to the examples of MapFiles.

    The constructor reads only the indexes. If the keys of each part are integers without gaps, as
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
            DataError: if `url` has no MapFile, or an index is missing or damaged.
        """
        check_functions(convert, decoders)
        self.url, self._convert, self._decoders = url, convert, decoders
        self._files = ExitStack()
        self._open: dict[MapPart, tuple[SequenceFileReader, Make]] = {}
        self._block = lru_cache(_BLOCKS_KEPT)(self._read_block)
        parts = [read_index(*found, decoders) for found in map_folders(url).items()]
        self._parts = [part for part in parts if part.keys]

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
            DataError: if the keys are not integers, or those of the parts overlap.
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
        wanted, count = np.asarray(indices), len(self)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu" or not wanted.size:
            raise ConfigurationError(
                "`indices` must be at least one integer. "
                f"Received: an array of shape {wanted.shape} and dtype {wanted.dtype}."
            )
        found: dict[int, DataSet] = {}
        for index in np.unique(wanted).tolist():  # in file order: fewer seeks
            if not -count <= index < count:
                raise IndexError(
                    f"an example number must be from {-count} to {count - 1} in {self.url}. "
                    f"Received: {index}."
                )
            number = bisect_right(self._edges, index % count) - 1
            part = self._parts[number]
            key = part.keys[0] + index % count - self._edges[number]
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
        examples = (example for part in self._parts for example in self._examples(part))
        return batched(examples, batch_size)

    @cached_property
    def _edges(self) -> list[int]:
        """The first example of each part, and the number of all examples."""
        edges, last = [0], None
        for part in self._parts:
            first = part.keys[0]
            if not isinstance(first, int) or (last is not None and first <= last):
                raise DataError(
                    "access by number needs integer keys that ascend from part to part. Received: "
                    f"{clipped(repr(first))} after {last} in {part.url}. Use `find(key)`, or read "
                    "the examples in order with `from_map_file`."
                )
            last = part.keys[-1]
            for keys, _ in self._blocks(part, part.positions[-1]):
                last = keys[-1]
            edges.append(edges[-1] + last + 1 - first)
        return edges

    def _find(self, part: MapPart, key: Any) -> DataSet | None:
        entry = bisect_right(part.keys, key) - 1
        for number, (keys, records) in enumerate(self._blocks(part, part.positions[entry])):
            if number == 0 and part.keys[entry] not in keys:
                raise DataError(
                    "an index must match the data next to it. Received: no key "
                    f"{clipped(repr(part.keys[entry]))} at byte {part.positions[entry]} of "
                    f"{part.data.url}. {_REBUILD}"
                )
            if key in keys:
                reader, make = self._opened(part)
                found = examples_of([records[keys.index(key)]], make, reader.source, STRICT)
                return next(found)
            if keys[-1] > key:
                return None
        return None

    def _blocks(self, part: MapPart, position: int) -> Iterator[tuple[list[Any], list[Record]]]:
        """Yield keys and records of each block, or of some records, from `position` on."""
        while position != part.data.size_bytes:
            keys, records, position = self._block(part, position)
            if keys:
                yield keys, records

    def _read_block(self, part: MapPart, position: int) -> tuple[list[Any], list[Record], int]:
        reader, _ = self._opened(part)
        records, end = reader.read_at(position)
        try:
            return [part.key_of(key) for _, key, _ in records], records, end
        except Exception as error:  # also of the user's decoder
            raise DataError(f"{error} It is a key at byte {position} of {reader.source}.") from None

    def _opened(self, part: MapPart) -> tuple[SequenceFileReader, Make]:
        if part not in self._open:
            if len(self._open) >= _OPEN_PARTS:
                self.close()
            reader = self._files.enter_context(opened(part.data, buffer_bytes=_BUFFER_BYTES))
            make = maker_of(reader.header, reader.source, self._convert, self._decoders)
            self._open[part] = reader, make
        return self._open[part]

    def _examples(self, part: MapPart) -> Iterator[DataSet]:
        """Yield all examples; a separate file handle keeps `find` from moving the position."""
        with opened(part.data) as reader:
            make = maker_of(reader.header, reader.source, self._convert, self._decoders)
            yield from examples_of(reader.records(), make, reader.source, STRICT)

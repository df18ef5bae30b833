"""Reading SequenceFiles: from any byte on, past damage, without believing a length unseen."""

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise, repeat
from typing import BinaryIO

from sparkwright.errors import DataError

from ._byte_window import ByteWindow
from ._hadoop_codecs import check_codec, unpack
from ._hadoop_types import decode_lengths
from ._sequence_file import (
    ESCAPE,
    MAGIC,
    MAX_BLOCK_RECORDS,
    SYNC_BYTES,
    VERSION,
    Compression,
    SequenceHeader,
)

# Where its record or block begins, its key, its value: in Hadoop's bytes.
Record = tuple[int, bytes, bytes]
_LENGTHS = struct.Struct(">ii")
_MAX_NOTES = 10_000


class SequenceFileReader:
    """The records of an open file.

    Attributes:
        header: what the file says about itself.
        first: the byte behind the header.
        source: the file's name, for errors.
    """

    def __init__(
        self, file: BinaryIO, *, size_bytes: int, source: str, read_ahead_bytes: int = 1 << 20
    ) -> None:
        """Read the header.

        Args:
            file: open for reading, with `seek`.
            size_bytes: its length.
            source: its name, for errors.
            read_ahead_bytes: how many to fetch at least; default 1 MiB, for reading all.

        Raises:
            DataError: if it is no SequenceFile of version 6, or the header is damaged.
            OSError: whatever the file says.
        """
        self.source = source
        self._window = ByteWindow(
            file, size_bytes=size_bytes, source=source, read_ahead_bytes=read_ahead_bytes
        )
        self.header = _header(self._window)
        self.first = self._window.position
        self._sync = ESCAPE + self.header.sync
        self._begun = self.first  # where what is being read begins

    def records(
        self,
        start: int = 0,
        end: int | None = None,
        *,
        on_damage: Callable[[DataError], None] | None = None,
    ) -> Iterator[Record]:
        """The records that belong to the bytes from `start` to `end`, in order.

        They are those behind a sync mark (or the header's end) that begins there, up to the next
        mark: ranges without gap give each record once, wherever they are cut.

        Args:
            start: first byte; default 0.
            end: the byte behind the last; default None: the end of the file.
            on_damage: gets what is wrong, and may raise it; else reading goes on at the next sync
                mark. Default None: raise.

        Raises:
            DataError: if the file is damaged, naming the byte.
            OSError: whatever the file says.
        """
        window = self._window
        end = window.size_bytes if end is None else end
        at = self.first if start <= self.first else window.find(self._sync, start, end)
        while at is not None and at < end:
            try:
                for found in self._until(at, end, many=True):
                    yield from found
            except DataError as error:
                if on_damage is None:
                    raise
                on_damage(error)
                at = window.find(self._sync, self._begun + 1, end)
            else:
                return

    def records_at(self, position: int) -> Iterator[list[Record]]:
        """What begins at `position` and behind it: blocks of records, without blocks one by one.

        Raises:
            DataError: if nothing can begin there, or the file is damaged.
        """
        if not self.first <= position <= self._window.size_bytes:
            raise DataError(
                f"a record must begin behind the header and within the file: bytes {self.first} "
                f"to {self._window.size_bytes} of {self.source}. Received: {position}. "
                "The index belongs to another file, or is damaged."
            )
        return map(list, self._until(position, self._window.size_bytes, many=False))

    def _until(self, position: int, end: int, *, many: bool) -> Iterator[Iterable[Record]]:
        """From `position` to the first sync mark at `end` or behind it.

        Args:
            position: where a record, block or sync mark begins.
            end: where to look out for a sync mark.
            many: whether records come as many together as have been fetched, or one by one.
        """
        window, blocks = self._window, self.header.compression == "block"
        while position < window.size_bytes:
            window.seek(position)  # somebody else may have read elsewhere since
            self._begun = at = position
            found: Iterable[Record] = ()
            if window.peek(4, "a record's length") == ESCAPE:
                if at >= end:
                    return
                if (mark := window.take(len(self._sync), "a sync mark")) != self._sync:
                    raise self._damage("a sync mark must be the header's", mark[4:].hex(), at)
                if blocks:
                    found = self._block(at)
            elif blocks:
                raise self._damage("a block must begin with a sync mark", "none", at)
            else:
                found = (self._fetched(at) if many else []) or [self._record(at)]
            position = window.position
            yield found

    def _fetched(self, at: int) -> list[Record]:
        """The records that lie whole in what has been fetched, up to a sync mark or damage.

        Most of the time of reading goes into this loop.
        """
        if self.header.codec is not None:
            return []  # one that cannot be unpacked must not take others with it
        content, start = self._window.fetched()
        found: list[Record] = []
        shift, last = at - start, len(content) - 8
        unpack_from = _LENGTHS.unpack_from
        while start <= last:
            size, key_size = unpack_from(content, start)
            key_start = start + 8
            end = key_start + size
            if not 0 <= key_size <= size or end > len(content):
                break
            value_start = key_start + key_size
            found.append((shift + start, content[key_start:value_start], content[value_start:end]))
            start = end
        self._window.seek(shift + start)
        return found

    def _record(self, at: int) -> Record:
        window = self._window
        size, key_size = _LENGTHS.unpack(window.take(8, "a record's lengths"))
        if not 0 <= key_size <= size:
            raise self._damage(
                "a record's key must not be longer than the record", f"{key_size} of {size}", at
            )
        key = window.take(key_size, "a key")
        value = window.take(size - key_size, "a value")
        return at, key, self._unpacked(value, at) if self.header.codec else value

    def _block(self, at: int) -> Iterator[Record]:
        window = self._window
        count = window.vint("a block's count")
        if not 0 <= count <= MAX_BLOCK_RECORDS:
            raise self._damage(
                f"a block must hold 0 to {MAX_BLOCK_RECORDS} records", str(count), at
            )
        buffers = [
            window.take(window.vint(f"the length of {what}"), what)
            for what in ("lengths of keys", "keys", "lengths of values", "values")
        ]
        keys = self._split(buffers[0], buffers[1], count, at)
        values = self._split(buffers[2], buffers[3], count, at)
        return zip(repeat(at, count), keys, values, strict=True)

    def _split(self, packed_lengths: bytes, packed: bytes, count: int, at: int) -> Iterator[bytes]:
        """The parts of a buffer, one by one, after its lengths have been checked."""
        try:
            lengths = decode_lengths(self._unpacked(packed_lengths, at), count)
        except DataError as error:
            raise self._damage_of(error, at) from None
        content = self._unpacked(packed, at)
        if sum(lengths) != len(content):
            raise self._damage(
                "a block's lengths must add up to its bytes",
                f"{sum(lengths)} and {len(content)} bytes",
                at,
            )
        edges = pairwise(accumulate(lengths, initial=0))
        return (content[start:end] for start, end in edges)

    def _unpacked(self, content: bytes, at: int) -> bytes:
        assert self.header.codec is not None
        try:
            return unpack(self.header.codec, content)
        except DataError as error:
            raise self._damage_of(error, at) from None

    def _damage(self, rule: str, received: str, at: int) -> DataError:
        return DataError(
            f"{rule}. Received: {received} at byte {at} of {self.source}. It is damaged."
        )

    def _damage_of(self, error: DataError, at: int) -> DataError:
        return DataError(f"{error} It lies at byte {at} of {self.source}, which is damaged.")


def _header(window: ByteWindow) -> SequenceHeader:
    start = window.take(min(4, window.left), "the header")
    if start[:3] != MAGIC or len(start) < 4:
        raise DataError(
            f"a SequenceFile must start with {MAGIC!r} and a version. "
            f"Received: {start!r} in {window.source}. It is another kind of file, or empty."
        )
    if start[3] != VERSION:
        raise DataError(
            f"a SequenceFile must have version {VERSION}, the one that Hadoop writes. "
            f"Received: version {start[3]} in {window.source}. Write it again with a newer Hadoop."
        )
    key_class, value_class = _text(window), _text(window)
    compressed, in_blocks = (byte != 0 for byte in window.take(2, "the header"))
    codec = _text(window) if compressed else None
    if codec is not None:
        check_codec(codec, source=window.source)
    elif in_blocks:
        raise DataError(
            "a SequenceFile in blocks must be compressed. "
            f"Received: {window.source}, which says that it is not. It is damaged."
        )
    count = window.int32("the header")
    if not 0 <= count <= _MAX_NOTES:
        raise DataError(
            f"a SequenceFile must have 0 to {_MAX_NOTES} notes in its header. "
            f"Received: {count} in {window.source}. It is damaged."
        )
    notes = {_text(window): _text(window) for _ in range(count)}
    compression: Compression | None = ("block" if in_blocks else "record") if codec else None
    return SequenceHeader(
        key_class=key_class,
        value_class=value_class,
        sync=window.take(SYNC_BYTES, "the header's sync mark"),
        compression=compression,
        codec=codec,
        notes=notes,
    )


def _text(window: ByteWindow) -> str:
    content = window.take(window.vint("a text's length"), "a text of the header")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            "a text of the header must be valid UTF-8. "
            f"Received: {content[:40]!r} in {window.source} ({error}). It is damaged."
        ) from None

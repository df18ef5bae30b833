"""SequenceFile, version 6: its header, and a reader that skips damage.

    header = "SEQ" 6 | class of keys | class of values | compressed? | in blocks? | codec, if so
             | number of notes, int32 | name and text of each note | sync mark, 16 bytes
    record = length of key and value, int32 | length of key, int32 | key | value
    block  = count, VInt | lengths of keys | keys | lengths of values | values, each compressed
             and after its length as a VInt
    sync   = -1, int32 | the sync mark of the header: before each block, and before some records

Names and notes are Text. The mark is random, so a reader can search for it from any byte on.

References:
    Apache Hadoop, `org.apache.hadoop.io.SequenceFile`, section "SequenceFile Formats".
"""

import struct
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import BinaryIO, Literal

from sparkwright.errors import DataError
from sparkwright.storage._files import open_to_read
from sparkwright.storage._listing import StoredFile

from ._record_bytes import ByteWindow, check_codec, decode_lengths, encode_text, unpack

Compression = Literal["record", "block"]
# Offset of the record or its block, key, value: both as Hadoop's bytes.
Record = tuple[int, bytes, bytes]
SYNC_BYTES = 16
ESCAPE = b"\xff\xff\xff\xff"
# Records may be empty, and each takes more memory than its bytes.
MAX_BLOCK_RECORDS = 1_000_000
LENGTHS = struct.Struct(">ii")
_MAGIC = b"SEQ\x06"
_MAX_NOTES = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceHeader:
    """The header of a SequenceFile.

    Attributes:
        key_class: Java class of the keys.
        value_class: Java class of the values.
        sync: 16 random bytes that mark where a record or block begins.
        compression: None, "record" (each value) or "block" (many records together).
        codec: Java class of the compression; None without.
        notes: texts by name (Hadoop's metadata).
    """

    key_class: str
    value_class: str
    sync: bytes
    compression: Compression | None = None
    codec: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict[str, str])

    def to_bytes(self) -> bytes:
        """Return the first bytes of a file."""
        return b"".join(
            [
                _MAGIC,
                encode_text(self.key_class),
                encode_text(self.value_class),
                bytes([self.compression is not None, self.compression == "block"]),
                b"" if self.codec is None else encode_text(self.codec),
                len(self.notes).to_bytes(4, "big"),
                *(encode_text(k) + encode_text(v) for k, v in sorted(self.notes.items())),
                self.sync,
            ]
        )

    @classmethod
    def read(cls, window: ByteWindow) -> "SequenceHeader":
        """Read the header at the start of a file."""
        source = window.source
        start = window.take(min(4, window.left), "the header")
        if start != _MAGIC:
            raise DataError(
                f"a SequenceFile must start with {_MAGIC!r}, of which the last byte is the "
                f"version. Received: {start!r} in {source}. The file is empty, of another kind, "
                "or of an older version, which Hadoop can rewrite."
            )
        key_class, value_class = _text(window), _text(window)
        compressed, in_blocks = (byte != 0 for byte in window.take(2, "the header"))
        codec = _text(window) if compressed else None
        if codec is not None:
            check_codec(codec, source=source)
        count = int.from_bytes(window.take(4, "the header"), "big", signed=True)
        if not 0 <= count <= _MAX_NOTES or (in_blocks and not compressed):
            raise DataError(
                f"a SequenceFile must have 0 to {_MAX_NOTES} notes in its header, and be "
                f"compressed if it is in blocks. Received: {count} notes, in_blocks={in_blocks}, "
                f"compressed={compressed} in {source}. It is damaged."
            )
        notes = {_text(window): _text(window) for _ in range(count)}
        return cls(
            key_class=key_class,
            value_class=value_class,
            sync=window.take(SYNC_BYTES, "the header's sync mark"),
            compression=("block" if in_blocks else "record") if codec else None,
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


class SequenceFileReader:
    """The records of an open file.

    Attributes:
        header: the header of the file.
        first: offset behind the header.
        source: the name of the file, for errors.
    """

    def __init__(
        self, file: BinaryIO, *, size_bytes: int, source: str, read_ahead_bytes: int = 1 << 20
    ) -> None:
        """Read the header."""
        self.source = source
        self._window = ByteWindow(
            file, size_bytes=size_bytes, source=source, read_ahead_bytes=read_ahead_bytes
        )
        self.header = SequenceHeader.read(self._window)
        self.first = self._window.position
        self._sync = ESCAPE + self.header.sync
        self._begun = self.first  # start of the record or block that is being read

    def records(
        self,
        start: int = 0,
        end: int | None = None,
        *,
        on_damage: Callable[[DataError], None] | None = None,
    ) -> Iterator[Record]:
        """Yield the records that belong to the bytes from `start` to `end`, in order.

        They are those behind a sync mark (or the header) that begins there, up to the next mark:
        ranges without gap give each record once, wherever they are cut.

        Args:
            start: first byte; default 0.
            end: the byte behind the last; default None: the end of the file.
            on_damage: receives what is wrong, and may raise it; otherwise reading continues at the
                next sync mark. Default None: raise.

        Raises:
            DataError: if the file is damaged, naming the byte.
            OSError: if the file cannot be read.
        """
        window = self._window
        end = window.size_bytes if end is None else end
        at = self.first if start <= self.first else window.find(self._sync, start, end)
        while at is not None and at < end:
            try:
                yield from self._until(at, end)
            except DataError as error:
                if on_damage is None:
                    raise
                on_damage(error)
                at = window.find(self._sync, self._begun + 1, end)
            else:
                return

    def read_at(self, position: int) -> tuple[list[Record], int]:
        """Return the block, or the one record, at `position`, and where the next one begins."""
        if not self.first <= position <= self._window.size_bytes:
            raise DataError(
                f"a record must begin behind the header and within the file: bytes {self.first} "
                f"to {self._window.size_bytes} of {self.source}. Received: {position}. "
                "The index belongs to another file, or is damaged."
            )
        self._window.position = position
        if self._is_at_mark() and self.header.compression != "block":
            position = self._window.position
        return self._one(position), self._window.position

    def _until(self, position: int, end: int) -> Iterator[Record]:
        """Yield records from `position` to the first sync mark at `end` or behind it."""
        window, plain = self._window, self.header.compression is None
        while position < window.size_bytes:
            window.position = self._begun = position  # another iterator may have moved it
            if plain and (found := self._buffered_records()):
                position = window.position
                yield from found
                continue
            if self._is_at_mark():
                if position >= end:
                    return
                if self.header.compression != "block":
                    position = window.position
                    continue
            found = self._one(position)
            position = window.position
            yield from found

    def _buffered_records(self) -> list[Record]:
        """Return the records that the buffer holds, up to a sync mark, its end or damage."""
        window, unpack_lengths = self._window, LENGTHS.unpack_from
        buffer, start = window.buffered(min(LENGTHS.size, window.left), "a record's lengths")
        found: list[Record] = []
        at, last = window.position, len(buffer) - LENGTHS.size
        while start <= last:
            size, key_size = unpack_lengths(buffer, start)
            value = start + 8 + key_size
            end = start + 8 + size
            if not 0 <= key_size <= size or end > len(buffer):
                break
            found.append((at, buffer[start + 8 : value], buffer[value:end]))
            at += 8 + size
            start = end
        window.position = at
        return found

    def _is_at_mark(self) -> bool:
        """Move behind a sync mark, if there is one; check that it is the header's."""
        window = self._window
        at = window.position
        if window.left and window.peek(4, "a record's length") != ESCAPE:
            return False
        if (mark := window.take(len(self._sync), "a sync mark")) != self._sync:
            raise self._damage("a sync mark must be the header's", mark[4:].hex(), at)
        return True

    def _one(self, at: int) -> list[Record]:
        """Return the block at `at`, whose sync mark has been read, or the record there."""
        blocks, window = self.header.compression == "block", self._window
        if blocks and window.position == at:
            raise self._damage("a block must begin with a sync mark", "none", at)
        try:
            return self._block(at) if blocks else [self._record(at)]
        except DataError as error:
            if self.source in str(error):
                raise
            raise DataError(f"{error} It is at byte {at} of {self.source}.") from None

    def _record(self, at: int) -> Record:
        window = self._window
        size, key_size = LENGTHS.unpack(window.take(8, "a record's lengths"))
        if not 0 <= key_size <= size:
            raise self._damage(
                "a record's key must not be longer than the record", f"{key_size} of {size}", at
            )
        key = window.take(key_size, "a key")
        value = window.take(size - key_size, "a value")
        codec = self.header.codec
        return at, key, value if codec is None else unpack(codec, value)

    def _block(self, at: int) -> list[Record]:
        window = self._window
        count = window.vint("a block's count")
        if not 0 <= count <= MAX_BLOCK_RECORDS:
            raise self._damage(
                f"a block must hold 0 to {MAX_BLOCK_RECORDS} records", str(count), at
            )
        packed = [
            window.take(window.vint(f"the length of {what}"), what)
            for what in ("lengths of keys", "keys", "lengths of values", "values")
        ]
        keys = self._split(packed[0], packed[1], count, at)
        values = self._split(packed[2], packed[3], count, at)
        return [(at, key, value) for key, value in zip(keys, values, strict=True)]

    def _split(self, packed_lengths: bytes, packed: bytes, count: int, at: int) -> list[bytes]:
        """Return the parts of a buffer, after their lengths have been checked."""
        codec = self.header.codec
        assert codec is not None
        lengths = decode_lengths(unpack(codec, packed_lengths), count)
        content = unpack(codec, packed)
        if sum(lengths) != len(content):
            received = f"{sum(lengths)} and {len(content)} bytes"
            raise self._damage("a block's lengths must add up to its bytes", received, at)
        edges = pairwise(accumulate(lengths, initial=0))
        return [content[start:end] for start, end in edges]

    def _damage(self, rule: str, received: str, at: int) -> DataError:
        return DataError(
            f"{rule}. Received: {received} at byte {at} of {self.source}. It is damaged."
        )


@contextmanager
def opened(file: StoredFile, *, read_ahead_bytes: int = 1 << 20) -> Generator[SequenceFileReader]:
    """Open a file for reading its records."""
    with open_to_read(file.url) as content:
        yield SequenceFileReader(
            content, size_bytes=file.size_bytes, source=file.url, read_ahead_bytes=read_ahead_bytes
        )

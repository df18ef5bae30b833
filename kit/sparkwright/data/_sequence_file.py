"""SequenceFiles, version 6: header, a reader that recovers from damage, and a writer.

    header = "SEQ" 6 | key class | value class | is compressed | is in blocks | codec, if compressed
             | number of notes, int32 | name and text of each note | sync mark, 16 bytes
    record = length of key and value, int32 | length of key, int32 | key | value
    block  = count, VInt | key lengths | keys | value lengths | values; the last four compressed,
             each preceded by its length as a VInt
    sync   = -1, int32 | sync mark of the header; before each block and before some records

Names and notes are Text. The sync mark is random, so that a reader can search for it from any byte.

References:
    Apache Hadoop, `org.apache.hadoop.io.SequenceFile`, section "SequenceFile Formats".
"""

import os
import struct
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import BinaryIO, Literal

from sparkwright.errors import DataError
from sparkwright.storage.files import open_to_read
from sparkwright.storage.listing import StoredFile

from ._record_bytes import (
    DEFAULT_CODEC,
    MAX_UNPACKED_BYTES,
    ByteReader,
    check_codec,
    decode_lengths,
    decode_text,
    encode_text,
    encode_vint,
    naming,
    unpack,
)
from .pieces import SkipLog

Compression = Literal["record", "block"]
# (offset of the record or its block, key, value); key and value as encoded by Hadoop.
Record = tuple[int, bytes, bytes]
ESCAPE = b"\xff\xff\xff\xff"
_MAGIC = b"SEQ\x06"
_SYNC_BYTES = 16
_LENGTHS = struct.Struct(">ii")
# Limits the memory of blocks of empty records.
_MAX_BLOCK_RECORDS = 1_000_000
_MAX_NOTES = 10_000
# As Hadoop. A mark takes 20 bytes; a reader that searches for one reads at most twice this.
_SYNC_INTERVAL_BYTES = 100 * 1024
_BLOCK_BYTES = 1_000_000
_LARGEST_RECORD = (1 << 31) - 1
_WRITE_BYTES = 1 << 20


def _raised(_: str, message: str) -> None:
    raise DataError(message)


# Raises each problem, without the advice to set `on_error`.
STRICT = SkipLog("raise", _raised)


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceHeader:
    """The header of a SequenceFile: Java classes, compression ("record" or "block") and notes."""

    key_class: str
    value_class: str
    sync: bytes
    compression: Compression | None = None
    codec: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict[str, str])

    def to_bytes(self) -> bytes:
        """Encode the header."""
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
    def read(cls, stream: ByteReader) -> "SequenceHeader":
        """Read the header at the start of a file."""
        start = stream.take(min(4, stream.left), "the header")
        if start != _MAGIC:
            raise DataError(
                f"a SequenceFile must start with {_MAGIC!r}; the last byte is the version. "
                f"Received: {start!r} in {stream.source}. The file is empty, has another format, "
                "or an older version, which Hadoop can convert."
            )
        key_class, value_class = _text(stream), _text(stream)
        compressed, in_blocks = (byte != 0 for byte in stream.take(2, "the header"))
        codec = _text(stream) if compressed else None
        if codec is not None:
            check_codec(codec, source=stream.source)
        count = int.from_bytes(stream.take(4, "the header"), "big", signed=True)
        if not 0 <= count <= _MAX_NOTES or (in_blocks and not compressed):
            raise DataError(
                f"the header of a SequenceFile must have 0 to {_MAX_NOTES} notes, and compression "
                f"if it has blocks. Received: {count} notes, in_blocks={in_blocks}, "
                f"compressed={compressed} in {stream.source}. The file is damaged."
            )
        return cls(
            key_class=key_class,
            value_class=value_class,
            notes={_text(stream): _text(stream) for _ in range(count)},
            sync=stream.take(_SYNC_BYTES, "the header's sync mark"),
            compression=("block" if in_blocks else "record") if codec else None,
            codec=codec,
        )


def _text(stream: ByteReader) -> str:
    content = stream.take(stream.vint("a text's length"), "a text of the header")
    with naming(stream.source):
        return decode_text(encode_vint(len(content)) + content)


class SequenceFileReader:
    """Reader of the records of an open SequenceFile."""

    def __init__(
        self, file: BinaryIO, *, size_bytes: int, source: str, buffer_bytes: int = 1 << 20
    ) -> None:
        """Read the header."""
        self.source = source
        self._stream = ByteReader(
            file, size_bytes=size_bytes, source=source, buffer_bytes=buffer_bytes
        )
        self.header = SequenceHeader.read(self._stream)
        self._first = self._begun = self._stream.position

    def records(
        self, start: int = 0, end: int | None = None, log: SkipLog = STRICT
    ) -> Iterator[Record]:
        """Yield the records of the bytes [start, end) in order.

        These are the records between a sync mark (or the header) that begins in the range and the
        next mark. Adjacent ranges therefore yield each record once.

        Args:
            start: first byte; default 0.
            end: the byte after the last; default None: the end of the file.
            log: receives reports of damage; reading then continues at the next sync mark.

        Raises:
            DataError: if the file is damaged and `log` does not skip it; names the byte.
            OSError: if the file cannot be read.
        """
        stream, mark = self._stream, ESCAPE + self.header.sync
        end = stream.size_bytes if end is None else end
        at = self._first if start <= self._first else stream.find(mark, start, end)
        while at is not None and at < end:
            stream.position = at
            try:
                while (found := self._next(end)) is not None:
                    yield from found
            except DataError as error:
                log.skip("damaged part of a file", str(error))
                at = stream.find(mark, self._begun + 1, end)
            else:
                return

    def read_at(self, position: int) -> tuple[list[Record], int]:
        """Return the block or some records at `position`, and the offset after them."""
        stream = self._stream
        if not self._first <= position <= stream.size_bytes:
            raise DataError(
                f"a record must begin after the header and within the file, at bytes {self._first} "
                f"to {stream.size_bytes} of {self.source}. Received: {position}. "
                "The index is damaged or belongs to another file."
            )
        stream.position = position
        found: list[Record] = []
        while not found and stream.left:
            found = list(self._next(stream.size_bytes) or [])
        return found, stream.position

    def _next(self, end: int) -> Iterable[Record] | None:
        """Return the next records; [] after a sync mark, None at the end or a mark past `end`."""
        stream, blocks = self._stream, self.header.compression == "block"
        at = self._begun = stream.position
        if at >= stream.size_bytes:
            return None
        buffer, start = stream.buffered(4, "a record's length")
        if not buffer.startswith(ESCAPE, start):
            if blocks:
                raise self._damage("a block must begin with a sync mark", "none", at)
            return self._records(at)
        mark = stream.take(4 + _SYNC_BYTES, "a sync mark")[4:]
        if mark != self.header.sync:
            raise self._damage("a sync mark must equal that of the header", mark.hex(), at)
        if at >= end:
            return None
        return self._block(at) if blocks else []

    def _records(self, at: int) -> Iterable[Record]:
        """Return the record at `at` and the following ones in the buffer, up to a sync mark."""
        stream, unpack_lengths = self._stream, _LENGTHS.unpack_from
        buffer, start = stream.buffered(_LENGTHS.size, "a record's lengths")
        size, key_size = unpack_lengths(buffer, start)
        if not 0 <= key_size <= size:
            raise self._damage(
                "a record's key must not be longer than the record", f"{key_size} of {size}", at
            )
        buffer, start = stream.buffered(8 + size, "a record")
        found: list[Record] = []
        last = len(buffer) - _LENGTHS.size
        while start <= last:
            size, key_size = unpack_lengths(buffer, start)
            value = start + 8 + key_size
            end = start + 8 + size
            if not 0 <= key_size <= size or end > len(buffer):
                break
            found.append((at, buffer[start + 8 : value], buffer[value:end]))
            at += 8 + size
            start = end
        stream.position = at
        return found if self.header.codec is None else map(self._unpacked, found)

    def _unpacked(self, record: Record) -> Record:
        assert self.header.codec is not None
        with naming(self.source, record[0]):
            return *record[:2], unpack(self.header.codec, record[2])

    def _block(self, at: int) -> list[Record]:
        stream = self._stream
        count = stream.vint("a block's count")
        if not 0 <= count <= _MAX_BLOCK_RECORDS:
            raise self._damage(
                f"a block must have 0 to {_MAX_BLOCK_RECORDS} records", str(count), at
            )
        packed = [
            stream.take(stream.vint(f"the length of {what}"), what)
            for what in ("lengths of keys", "keys", "lengths of values", "values")
        ]
        with naming(self.source, at):
            keys = self._split(packed[0], packed[1], count, at)
            values = self._split(packed[2], packed[3], count, at)
        return [(at, key, value) for key, value in zip(keys, values, strict=True)]

    def _split(self, packed_lengths: bytes, packed: bytes, count: int, at: int) -> list[bytes]:
        """Split a decompressed buffer by its lengths, which must add up to its size."""
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
            f"{rule}. Received: {received} at byte {at} of {self.source}. The file is damaged."
        )


@contextmanager
def opened(file: StoredFile, *, buffer_bytes: int = 1 << 20) -> Generator[SequenceFileReader]:
    """Open a SequenceFile for reading."""
    with open_to_read(file.url) as content:
        yield SequenceFileReader(
            content, size_bytes=file.size_bytes, source=file.url, buffer_bytes=buffer_bytes
        )


class SequenceFileWriter:
    """Writer of records to an open file, which it neither flushes nor closes."""

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
        sync = os.urandom(_SYNC_BYTES)
        self._file, self._mark, self._compression = file, ESCAPE + sync, compression
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
        """Append one record; return the offset of the record or of its block."""
        size = len(key) + len(value)
        limit = _LARGEST_RECORD if self._compression is None else MAX_UNPACKED_BYTES
        if size > limit:
            raise DataError(
                f"a record must have at most {limit} bytes. Received: {size} bytes. "
                "Use smaller examples; without compression the limit is 2 GiB."
            )
        if self._compression == "block":
            if self._block_bytes + size > MAX_UNPACKED_BYTES:
                self._write_block()
            at = self._position
            self._block.append((key, value))
            self._block_bytes += size
            if self._block_bytes >= _BLOCK_BYTES or len(self._block) >= _MAX_BLOCK_RECORDS:
                self._write_block()
            return at
        at = self._position
        if self._compression == "record":
            value = zlib.compress(value)
        if at >= self._last_sync + _SYNC_INTERVAL_BYTES:
            self._last_sync = at
            self._write(self._mark)
        self._write(_LENGTHS.pack(len(key) + len(value), len(key)) + key + value)
        return at

    def finish(self) -> None:
        """Write the buffered records."""
        if self._block:
            self._write_block()
        self._file.write(self._held)
        self._held = bytearray()

    def _write_block(self) -> None:
        self._write(self._mark + encode_vint(len(self._block)))
        for column in zip(*self._block, strict=True):  # the keys, then the values
            for buffer in ([encode_vint(len(one)) for one in column], column):
                packed = zlib.compress(b"".join(buffer))
                self._write(encode_vint(len(packed)) + packed)
        self._block, self._block_bytes = [], 0

    def _write(self, content: bytes) -> None:
        self._held += content
        self._position += len(content)
        if len(self._held) >= _WRITE_BYTES:  # each write to a store has a high fixed cost
            self._file.write(self._held)
            self._held = bytearray()

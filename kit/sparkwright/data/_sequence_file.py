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
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import BinaryIO, Literal

from sparkwright.errors import DataError
from sparkwright.storage.files import open_to_read
from sparkwright.storage.listing import StoredFile

from ._record_values import (
    CODECS,
    DEFAULT_CODEC,
    MAX_UNPACKED_BYTES,
    ByteStream,
    encode_text,
    encode_vint,
    unpack,
)
from ._skipped import SkipLog, plain_error

Compression = Literal["record", "block"]
# (offset of the record or its block, key, value); key and value as encoded by Hadoop.
Record = tuple[int, bytes, bytes]
ESCAPE = b"\xff\xff\xff\xff"
_MAGIC = b"SEQ\x06"
_SYNC_BYTES = 16
_LENGTHS = struct.Struct(">ii")  # of key and value, of the key
# As Hadoop. A mark takes 20 bytes; a reader that searches for one reads at most twice this.
_SYNC_INTERVAL_BYTES = 100 * 1024
_BLOCK_BYTES = 1_000_000
_SEARCHED_BYTES = _WRITE_BYTES = 1 << 20


STRICT = SkipLog("raise", plain_error)


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceHeader:
    """The header of a SequenceFile: Java classes, compression and notes."""

    key_class: str
    value_class: str
    codec: str | None
    in_blocks: bool
    notes: Mapping[str, str]
    sync: bytes

    @classmethod
    def read(cls, stream: ByteStream) -> "SequenceHeader":
        """Read the header at the start of a file; errors do not name the file."""
        start = stream.take(min(4, stream.left))
        if start != _MAGIC:
            raise DataError(
                f"a SequenceFile must start with {_MAGIC!r}; the last byte is the version. "
                f"Received: {start!r}. The file is empty, has another format, or an older "
                "version, which Hadoop can convert."
            )
        key_class, value_class = stream.text(), stream.text()
        compressed, in_blocks = (byte != 0 for byte in stream.take(2))
        codec = stream.text() if compressed else None
        if codec not in {None, *CODECS} or in_blocks > compressed:
            names = ", ".join(sorted(name.rpartition(".")[2] for name in CODECS))
            raise DataError(
                f"the codec of a record file must be one of {names}. Received: {codec!r}. Read it "
                "with Hadoop: `from_rdd(spark, spark.sparkContext.sequenceFile(url).map(function))`"
                "."
            )
        count = int.from_bytes(stream.take(4), "big")
        if 2 * count > stream.left:
            raise DataError(f"the notes of a header must lie within the file. Received: {count}.")
        return cls(
            key_class=key_class,
            value_class=value_class,
            codec=codec,
            in_blocks=in_blocks,
            notes={stream.text(): stream.text() for _ in range(count)},
            sync=stream.take(_SYNC_BYTES),
        )


class SequenceFileReader:
    """Reader of the records of an open SequenceFile."""

    def __init__(
        self, file: BinaryIO, *, size_bytes: int, source: str, buffer_bytes: int = 1 << 20
    ) -> None:
        """Read the header; a DataError if it is invalid."""
        self.source = source
        self._stream, self._file = ByteStream(file, size_bytes, buffer_bytes), file
        self._begun = 0
        try:
            self.header = SequenceHeader.read(self._stream)
        except DataError as error:
            raise DataError(self._at(error)) from None
        self._first = self._stream.position

    def records(
        self, start: int = 0, end: int | None = None, log: SkipLog = STRICT
    ) -> Iterator[Record]:
        """Yield the records after the header or sync marks that begin in the bytes [start, end)."""
        # So adjacent ranges yield each record once.
        end = self._stream.size_bytes if end is None else end
        at = self._first if start <= self._first else self._next_mark(start, end)
        while at is not None and at < end:
            try:
                yield from chain.from_iterable(self._groups(at, end))
            except DataError as error:
                log.skip("damaged part of a file", self._at(error))
                at = self._next_mark(self._begun + 1, end)
            else:
                return

    def read_at(self, position: int) -> tuple[list[Record], int]:
        """Return the block or some records at `position`, and the offset after them."""
        self._begun = position
        try:
            if not self._first <= position <= self._stream.size_bytes:
                raise DataError("a record must begin after the header and within the file.")
            found = list(next(self._groups(position, self._stream.size_bytes), []))
        except DataError as error:
            raise DataError(self._at(error)) from None
        return found, self._stream.position

    def _at(self, error: Exception) -> str:
        return f"{error} It is at byte {self._begun} of {self.source}, which is damaged or cut off."

    def _groups(self, at: int, end: int) -> Iterator[Iterable[Record]]:
        """Yield the records of each buffer or block from `at` up to the first mark past `end`."""
        stream, header = self._stream, self.header
        stream.position = at
        while (at := stream.position) < stream.size_bytes:
            self._begun = at
            buffer, start = stream.ahead(len(ESCAPE))
            if not header.in_blocks and not buffer.startswith(ESCAPE, start):
                found = self._buffered()
                yield found if header.codec is None else self._unpacked(found)
                continue
            mark = stream.take(len(ESCAPE) + _SYNC_BYTES)
            if mark != ESCAPE + header.sync:
                raise DataError(
                    f"a sync mark must equal that of the header. Received: {mark.hex()}."
                )
            if at >= end:
                return
            if header.in_blocks:
                yield self._block(at)

    def _buffered(self) -> list[Record]:
        """Return the next record and the following ones in the buffer, up to a sync mark."""
        stream, lengths_of, head = self._stream, _LENGTHS.unpack_from, _LENGTHS.size
        size, key_size = lengths_of(*stream.ahead(head))
        if not 0 <= key_size <= size:
            raise DataError(f"a record must hold its key. Received: {key_size} of {size} bytes.")
        buffer, start = stream.ahead(head + size)
        begun = stream.position - start  # of the buffer
        found: list[Record] = []
        while start <= len(buffer) - head:
            size, key_size = lengths_of(buffer, start)
            key, value, end = start + head, start + head + key_size, start + head + size
            if not key <= value <= end <= len(buffer):
                break
            found.append((begun + start, buffer[key:value], buffer[value:end]))
            start = end
        stream.position = begun + start
        return found

    def _unpacked(self, found: list[Record]) -> Iterator[Record]:
        assert self.header.codec is not None
        for at, key, value in found:
            self._begun = at
            yield at, key, unpack(self.header.codec, value)

    def _block(self, at: int) -> list[Record]:
        stream, codec = self._stream, self.header.codec
        assert codec is not None
        count = stream.vint()
        packed = [stream.take(stream.vint()) for _ in range(4)]
        key_lengths, keys, value_lengths, values = (unpack(codec, part) for part in packed)
        columns = _split(key_lengths, keys, count), _split(value_lengths, values, count)
        return [(at, key, value) for key, value in zip(*columns, strict=True)]

    def _next_mark(self, start: int, end: int) -> int | None:
        """Return the offset of the first sync mark that begins in [start, end), or None."""
        mark = ESCAPE + self.header.sync
        while start < end:
            self._file.seek(start)
            content = self._file.read(_SEARCHED_BYTES)
            if (at := content.find(mark)) >= 0:
                return start + at if start + at < end else None
            if len(content) < len(mark):
                return None
            start += len(content) - len(mark) + 1
        return None


def _split(packed_lengths: bytes, content: bytes, count: int) -> list[bytes]:
    """Split a buffer of a block by its lengths, which must add up to its size."""
    stream = ByteStream.of(packed_lengths)
    lengths = [stream.vint()] if count > 0 else []
    first = packed_lengths[: stream.position]
    if len(first) * count == len(packed_lengths) and first * count == packed_lengths:
        lengths, stream.position = lengths * count, stream.size_bytes  # all equal, as usual
    lengths += [stream.vint() for _ in range(count - len(lengths))]
    if stream.left or sum(lengths) != len(content) or min(lengths, default=0) < 0:
        raise DataError(
            f"a block of {count} records must have lengths that add up to its bytes. Received: "
            f"{sum(lengths)} and {len(content)}."
        )
    return [content[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]


@contextmanager
def opened(file: StoredFile, *, buffer_bytes: int = 1 << 20) -> Generator[SequenceFileReader]:
    """Open a SequenceFile for reading."""
    with open_to_read(file.url) as content:
        yield SequenceFileReader(
            content, size_bytes=file.size_bytes, source=file.url, buffer_bytes=buffer_bytes
        )


def write_sequence(
    file: BinaryIO,
    pairs: Iterable[tuple[bytes, bytes]],
    *,
    key_class: str,
    value_class: str,
    compression: Compression | None = None,
    notes: Mapping[str, str] | None = None,
) -> Iterator[tuple[bytes, int]]:
    """Write records to an open file; yield each key and the offset of its record or block."""
    sync = os.urandom(_SYNC_BYTES)
    noted = sorted((notes or {}).items())
    head = [_MAGIC, encode_text(key_class), encode_text(value_class)]
    head += [bytes([compression is not None, compression == "block"])]
    head += [encode_text(DEFAULT_CODEC)] if compression else []
    head += [len(noted).to_bytes(4, "big"), *(encode_text(t) for note in noted for t in note), sync]
    written, held = 0, bytearray()

    def put(*parts: bytes) -> None:
        nonlocal written
        content = b"".join(parts)
        held.extend(content)
        written += len(content)
        if len(held) >= _WRITE_BYTES:  # each write to a store has a high fixed cost
            file.write(held)
            held.clear()

    put(*head)
    marked, block, block_bytes = written, list[tuple[bytes, bytes]](), 0
    for key, value in pairs:
        size = len(key) + len(value)
        if size > MAX_UNPACKED_BYTES:
            raise DataError(
                f"a record must have at most {MAX_UNPACKED_BYTES} bytes. Received: {size} bytes. "
                "Use smaller examples."
            )
        if block and block_bytes + size > _BLOCK_BYTES:
            put(ESCAPE, sync, *_packed(block))
            block, block_bytes = [], 0
        yield key, written
        if compression == "block":
            block.append((key, value))
            block_bytes += size
            continue
        if written >= marked + _SYNC_INTERVAL_BYTES:
            marked = written
            put(ESCAPE, sync)
        value = zlib.compress(value) if compression else value
        put(_LENGTHS.pack(len(key) + len(value), len(key)), key, value)
    if block:
        put(ESCAPE, sync, *_packed(block))
    file.write(held)


def _packed(block: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    yield encode_vint(len(block))
    for column in zip(*block, strict=True):  # the keys, then the values
        for buffer in ([encode_vint(len(one)) for one in column], column):
            packed = zlib.compress(b"".join(buffer))
            yield encode_vint(len(packed))
            yield packed

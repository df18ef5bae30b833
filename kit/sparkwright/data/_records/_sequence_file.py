"""SequenceFile, version 6: the header, and writing records into a binary file.

    header = "SEQ" 6 | class of keys | class of values | compressed? | in blocks? | codec, if so
             | count of notes, int32 | each note's name and text | sync mark, 16 bytes
    record = length of key and value, int32 | length of key, int32 | key | value
    block  = count, VInt | lengths of keys | keys | lengths of values | values, each compressed
             and after its length as a VInt
    sync   = -1, int32 | the header's sync mark: before each block, and now and then a record

Names and notes are Text. The mark is chance, so it can be searched for: a reader may start in the
middle, or after damage.

References:
    Apache Hadoop, `org.apache.hadoop.io.SequenceFile`, section "SequenceFile Formats".
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

from sparkwright.errors import ConfigurationError, DataError

from ._hadoop_codecs import DEFAULT_CODEC, MAX_UNPACKED_BYTES, pack
from ._hadoop_types import encode_text, encode_vint

Compression = Literal["record", "block"]
MAGIC = b"SEQ"
VERSION = 6
SYNC_BYTES = 16
ESCAPE = b"\xff\xff\xff\xff"
# As Hadoop: a mark costs 20 bytes, a reader that looks for one reads twice this at most.
_SYNC_INTERVAL_BYTES = 100 * 1024
_BLOCK_BYTES = 1_000_000
# Records may be empty, and each takes more memory than its bytes.
MAX_BLOCK_RECORDS = 1_000_000
_LARGEST_RECORD = (1 << 31) - 1
_WRITE_BYTES = 1 << 20
_LENGTHS = struct.Struct(">ii")


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceHeader:
    """What a SequenceFile says about itself.

    Attributes:
        key_class: Java class of the keys.
        value_class: Java class of the values.
        sync: 16 bytes of chance that mark where a record or block begins.
        compression: None, "record" (each value) or "block" (many records together).
        codec: Java class of the compression, None without.
        notes: any texts (Hadoop calls them metadata).
    """

    key_class: str
    value_class: str
    sync: bytes
    compression: Compression | None = None
    codec: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict[str, str])

    def to_bytes(self) -> bytes:
        """As it stands at the start of a file."""
        return b"".join(
            [
                MAGIC,
                bytes([VERSION]),
                encode_text(self.key_class),
                encode_text(self.value_class),
                bytes([self.compression is not None, self.compression == "block"]),
                b"" if self.codec is None else encode_text(self.codec),
                len(self.notes).to_bytes(4, "big"),
                *(encode_text(k) + encode_text(v) for k, v in sorted(self.notes.items())),
                self.sync,
            ]
        )


def check_compression(compression: str | None) -> None:
    """Refuse anything but None, "record" and "block".

    Raises:
        ConfigurationError: naming the option.
    """
    if compression not in (None, "record", "block"):
        raise ConfigurationError(
            '`compression` must be None, "record" or "block". '
            f"Received: compression={compression!r}."
        )


class SequenceFileWriter:
    """Writes records, already in Hadoop's bytes, into a file that is open.

    `finish` writes what is still held back. The file itself is neither flushed nor closed.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        key_class: str,
        value_class: str,
        sync: bytes,
        compression: Compression | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Write the header.

        Args:
            file: empty, open for writing.
            key_class: Java class of the keys.
            value_class: Java class of the values.
            sync: 16 bytes of chance.
            compression: None (default), "record": each value by itself, or "block": about a
                megabyte together. Both as DefaultCodec (zlib) does.
            notes: texts for the header; default none.

        Raises:
            ConfigurationError: if `compression` or the length of `sync` is another.
        """
        check_compression(compression)
        if len(sync) != SYNC_BYTES:
            raise ConfigurationError(
                f"`sync` must be {SYNC_BYTES} bytes of chance. Received: {len(sync)} bytes."
            )
        self._file, self._sync, self._compression = file, ESCAPE + sync, compression
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._block = _Block()
        header = SequenceHeader(
            key_class=key_class,
            value_class=value_class,
            sync=sync,
            compression=compression,
            codec=None if compression is None else DEFAULT_CODEC,
            notes=notes or {},
        ).to_bytes()
        self._position = 0
        self._hold(header)
        self._last_sync = self._position

    @property
    def position(self) -> int:
        """Where the next record, or its block, will begin: what an index of the file notes."""
        return self._position

    def append(self, key: bytes, value: bytes) -> None:
        """Add one record.

        Raises:
            DataError: if it is larger than readers take: 1 GiB where it will be compressed, 2 GiB.
            OSError: whatever the file says.
        """
        if self._compression is not None and max(len(key), len(value)) > MAX_UNPACKED_BYTES:
            raise DataError(
                f"a key or value to compress must have at most {MAX_UNPACKED_BYTES} bytes, which "
                f"readers unpack. Received: {max(len(key), len(value))} bytes. Use smaller "
                "examples, or `compression=None`."
            )
        if self._compression == "block":
            if self._block.size_bytes + len(key) + len(value) > MAX_UNPACKED_BYTES:
                self._write_block()
            self._block.add(key, value)
            if self._block.size_bytes >= _BLOCK_BYTES or self._block.count >= MAX_BLOCK_RECORDS:
                self._write_block()
            return
        if self._compression == "record":
            value = pack(value)
        size = len(key) + len(value)
        if size > _LARGEST_RECORD:
            raise DataError(
                f"a record must have at most {_LARGEST_RECORD} bytes. Received: {size} bytes."
            )
        if self._position >= self._last_sync + _SYNC_INTERVAL_BYTES:
            self._last_sync = self._position
            self._hold(self._sync)
        self._hold(_LENGTHS.pack(size, len(key)))
        self._hold(key)
        self._hold(value)

    def finish(self) -> None:
        """Write what is still held back.

        Raises:
            OSError: whatever the file says.
        """
        if self._block.count:
            self._write_block()
        self._write_held()

    def _write_block(self) -> None:
        block, self._block = self._block, _Block()
        self._hold(self._sync)
        self._hold(encode_vint(block.count))
        for buffer in (block.key_lengths, block.keys, block.value_lengths, block.values):
            packed = pack(b"".join(buffer))
            self._hold(encode_vint(len(packed)))
            self._hold(packed)

    def _hold(self, content: bytes) -> None:
        self._held.append(content)
        self._position += len(content)
        self._held_bytes += len(content)
        if self._held_bytes >= _WRITE_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        self._file.write(b"".join(self._held))
        self._held, self._held_bytes = [], 0


class _Block:
    """Records that will be compressed together."""

    def __init__(self) -> None:
        self.key_lengths: list[bytes] = []
        self.keys: list[bytes] = []
        self.value_lengths: list[bytes] = []
        self.values: list[bytes] = []
        self.count = 0
        self.size_bytes = 0

    def add(self, key: bytes, value: bytes) -> None:
        self.key_lengths.append(encode_vint(len(key)))
        self.keys.append(key)
        self.value_lengths.append(encode_vint(len(value)))
        self.values.append(value)
        self.count += 1
        self.size_bytes += len(key) + len(value)

"""Hadoop's encodings of values, and its compression codecs.

Every length is checked against the remaining bytes before its use.

References:
    Apache Hadoop, package `org.apache.hadoop.io`: WritableUtils, Text, BytesWritable.
"""

import bz2
import struct
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, BinaryIO

from sparkwright.errors import DataError

_PACKAGE = "org.apache.hadoop.io."
LONG, TEXT, BYTES = (_PACKAGE + name for name in ("LongWritable", "Text", "BytesWritable"))
DEFAULT_CODEC = _PACKAGE + "compress.DefaultCodec"
MAX_UNPACKED_BYTES = 1 << 30
Decoders = Mapping[str, Callable[[bytes], Any]]


class ByteStream:
    """Checked reads from a file, or from `of(content)`; set `position` to seek."""

    def __init__(self, file: BinaryIO, size_bytes: int, buffer_bytes: int = 1 << 20) -> None:
        self.size_bytes, self.position = size_bytes, 0
        self._file, self._buffer_bytes = file, buffer_bytes
        self._buffer, self._start = b"", 0

    @classmethod
    def of(cls, content: bytes) -> "ByteStream":
        return cls(BytesIO(content), len(content))

    @property
    def left(self) -> int:
        """Number of bytes up to the end."""
        return self.size_bytes - self.position

    def ahead(self, count: int) -> tuple[bytes, int]:
        """Return a buffer and the start of the next `count` bytes in it, which must exist."""
        start = self.position - self._start
        if not 0 <= start <= start + count <= len(self._buffer):
            content = b""
            if 0 <= count <= self.left:  # a damaged length must not allocate memory
                self._file.seek(self.position)
                content = self._file.read(max(count, self._buffer_bytes))
            if not 0 <= count <= len(content):
                raise DataError(
                    "a length must lie within the remaining bytes. "
                    f"Received: {count} of {self.left}."
                )
            self._buffer, self._start, start = content, self.position, 0
        return self._buffer, start

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes; raises as `ahead`."""
        buffer, start = self.ahead(count)
        self.position += count
        return buffer[start : start + count]

    def vint(self) -> int:
        """Return the next VInt or VLong."""
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= -112:
            return first
        magnitude = int.from_bytes(self.take((-112 if first >= -120 else -120) - first), "big")
        return magnitude if first >= -120 else ~magnitude

    def text(self) -> str:
        """Return the next Text."""
        content = self.take(self.vint())
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"a Text must be valid UTF-8. Received: {error}.") from None


def encode_vint(value: int) -> bytes:
    """Encode an integer of at most 64 bits in 1 to 9 bytes, as `WritableUtils.writeVLong`.

    Values from -112 to 127 take one byte. Other values start with a byte for sign and length,
    followed by the big-endian magnitude, which is `-1 - value` for negative numbers.
    """
    if -112 <= value <= 127:
        return bytes([value & 0xFF])
    magnitude, first = (value, -112) if value >= 0 else (~value, -120)
    size = (magnitude.bit_length() + 7) // 8
    return bytes([(first - size) & 0xFF]) + magnitude.to_bytes(size, "big")


def encode_text(value: str) -> bytes:
    """Encode a Text: the length of its UTF-8 as a VInt, then the UTF-8."""
    content = value.encode()
    return encode_vint(len(content)) + content


def _whole(read: Callable[[ByteStream], Any]) -> Callable[[bytes], Any]:
    def decode(content: bytes) -> Any:
        stream = ByteStream.of(content)
        value = read(stream)
        if stream.left:
            raise _wrong_size(content, len(content) - stream.left)
        return value

    return decode


def _number(layout: str) -> Callable[[bytes], Any]:
    packing = struct.Struct(layout)

    def decode(content: bytes) -> Any:
        if len(content) != packing.size:
            raise _wrong_size(content, packing.size)
        return packing.unpack(content)[0]

    return decode


def _wrong_size(content: bytes, size: int) -> DataError:
    return DataError(f"a value must have {size} bytes. Received: {len(content)} bytes.")


_READ: dict[str, Callable[[ByteStream], Any]] = {
    "Text": ByteStream.text,
    "BytesWritable": lambda stream: stream.take(int.from_bytes(stream.take(4), "big", signed=True)),
    "NullWritable": lambda stream: None,
    "VIntWritable": ByteStream.vint,
    "VLongWritable": ByteStream.vint,
}
_NUMBERS = {
    **{"BooleanWritable": "?", "ByteWritable": "b", "ShortWritable": ">h", "IntWritable": ">i"},
    **{"LongWritable": ">q", "FloatWritable": ">f", "DoubleWritable": ">d"},
}
DECODERS: Decoders = {
    **{_PACKAGE + name: _whole(read) for name, read in _READ.items()},
    **{_PACKAGE + name: _number(layout) for name, layout in _NUMBERS.items()},
}
CODECS: Mapping[str, Callable[[], Any]] = {
    DEFAULT_CODEC: zlib.decompressobj,
    _PACKAGE + "compress.DeflateCodec": zlib.decompressobj,
    _PACKAGE + "compress.GzipCodec": lambda: zlib.decompressobj(wbits=31),
    _PACKAGE + "compress.BZip2Codec": bz2.BZ2Decompressor,
}


def unpack(codec: str, content: bytes) -> bytes:
    """Decompress a value or a part of a block; DataError if it is damaged or over 1 GiB."""
    found = b""
    while content:  # gzip and bzip2 content may have several members
        unpacker = CODECS[codec]()
        try:
            found += unpacker.decompress(content, MAX_UNPACKED_BYTES + 1 - len(found))
        except (zlib.error, OSError, ValueError) as error:
            raise DataError(f"compressed bytes must be valid. Received: {error}.") from None
        if not unpacker.eof or len(found) > MAX_UNPACKED_BYTES:
            raise DataError(
                f"compressed bytes must be complete and unpack to at most {MAX_UNPACKED_BYTES} "
                f"bytes. Received: {len(content)} incomplete bytes, or too many."
            )
        content = unpacker.unused_data
    return found

"""Bytes of record files: buffered random access, and Hadoop's encodings and codecs.

Every length is checked against the remaining bytes of the file, value or block before its use.

References:
    Apache Hadoop, package `org.apache.hadoop.io`: WritableUtils, Text, BytesWritable.
"""

import bz2
import struct
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, BinaryIO

from sparkwright.errors import DataError

_PACKAGE = "org.apache.hadoop.io."
LONG = _PACKAGE + "LongWritable"
TEXT = _PACKAGE + "Text"
BYTES = _PACKAGE + "BytesWritable"
DEFAULT_CODEC = _PACKAGE + "compress.DefaultCodec"
MAX_UNPACKED_BYTES = 1 << 30
Decoders = Mapping[str, Callable[[bytes], Any]]


class ByteReader:
    """A buffered reader of an open file; set `position` to seek. Errors name the file."""

    def __init__(
        self, file: BinaryIO, *, size_bytes: int, source: str, buffer_bytes: int = 1 << 20
    ) -> None:
        """Start at the first byte; read at least `buffer_bytes` at a time."""
        self.source, self.size_bytes, self.position = source, size_bytes, 0
        self._file, self._buffer_bytes = file, buffer_bytes
        self._buffer, self._start = b"", 0

    @property
    def left(self) -> int:
        """Number of bytes up to the end of the file."""
        return self.size_bytes - self.position

    def buffered(self, count: int, what: str) -> tuple[bytes, int]:
        """Return a buffer with the next `count` bytes, and their offset in it.

        Raises:
            DataError: if the file has fewer bytes left; the message names `what`.
        """
        if not 0 <= count <= self.left:
            raise DataError(
                f"{what} must lie within the file. Received: {count} bytes announced at byte "
                f"{self.position} of {self.source}, {self.left} bytes left. "
                "The file is damaged or incomplete."
            )
        offset = self.position - self._start
        if 0 <= offset <= len(self._buffer) - count:
            return self._buffer, offset
        self._file.seek(self.position)
        self._start = self.position
        self._buffer = self._file.read(min(max(count, self._buffer_bytes), self.left))
        if len(self._buffer) < count:
            raise DataError(
                "the size of a file must not change while it is read. Received: "
                f"{self.source} ends at byte {self._start + len(self._buffer)}, not at "
                f"{self.size_bytes}."
            )
        return self._buffer, 0

    def take(self, count: int, what: str) -> bytes:
        """Return the next `count` bytes and advance; raises as `buffered`."""
        buffer, offset = self.buffered(count, what)
        self.position += count
        return buffer[offset : offset + count]

    def vint(self, what: str) -> int:
        """Return the next VInt and advance; raises as `buffered`."""
        first = self.take(1, what)
        return decode_vint(first + self.take(_vint_size(first[0]) - 1, what))[0]

    def find(self, pattern: bytes, start: int, end: int) -> int | None:
        """Return the offset of the first `pattern` that begins in [start, end), or None."""
        self.position = start
        while self.position < end and self.left >= len(pattern):
            count = min(self.left, max(self._buffer_bytes, 2 * len(pattern)))
            at, first = self.take(count, "a sync mark").find(pattern), self.position - count
            if at >= 0:
                return first + at if first + at < end else None
            self.position = first + count - len(pattern) + 1
        return None


@contextmanager
def naming(source: str, at: int | None = None) -> Generator[None]:
    """Add the file name, and the byte if given, to a DataError raised in the block."""
    try:
        yield
    except DataError as error:
        if source in str(error):
            raise
        place = f"in {source}, which is damaged" if at is None else f"at byte {at} of {source}"
        raise DataError(f"{error} It is {place}.") from None


def encode_vint(value: int) -> bytes:
    """Encode an integer of at most 64 bits in 1 to 9 bytes, as `WritableUtils.writeVLong`.

    Values from -112 to 127 take one byte. Other values start with a byte for sign and length,
    followed by the big-endian magnitude, which is `-1 - value` for negative numbers.

    Example:
        >>> encode_vint(-1).hex(), encode_vint(128).hex(), encode_vint(-300).hex()
        ('ff', '8f80', '86012b')
    """
    if -112 <= value <= 127:
        return bytes([value & 0xFF])
    magnitude, first = (value, -112) if value >= 0 else (~value, -120)
    size = (magnitude.bit_length() + 7) // 8
    return bytes([(first - size) & 0xFF]) + magnitude.to_bytes(size, "big")


def _vint_size(first: int) -> int:
    """Return the size of a VInt whose first byte is `first` (0 to 255), including that byte."""
    if first < 0x80 or first >= 0x90:
        return 1
    return 0x91 - first if first >= 0x88 else 0x89 - first


def decode_vint(content: bytes, offset: int = 0) -> tuple[int, int]:
    """Return the VInt at `offset`, and the offset after it.

    Example:
        >>> decode_vint(bytes.fromhex("86012b"))
        (-300, 3)
    """
    if offset >= len(content):
        raise DataError(f"a VInt must have at least one byte. Received: none at {offset}.")
    first = content[offset]
    end = offset + _vint_size(first)
    if end == offset + 1:
        return (first if first < 0x80 else first - 0x100), end
    magnitude = int.from_bytes(content[offset + 1 : end], "big")
    if end > len(content) or magnitude >> 63:
        raise DataError(
            "a VInt must be complete and fit into 64 bits. "
            f"Received: {content[offset:end].hex()}, of {end - offset} bytes."
        )
    return (magnitude if first >= 0x88 else ~magnitude), end


def decode_lengths(content: bytes, count: int) -> list[int]:
    """Decode `count` VInt lengths, which must fill `content` exactly."""
    if content:
        first, end = decode_vint(content)
        if first >= 0 and content == content[:end] * count:
            return [first] * count  # equal lengths: the usual case
    lengths, end = list[int](), 0
    while len(lengths) < count and end < len(content):
        length, end = decode_vint(content, end)
        lengths.append(length)
    if len(lengths) == count and end == len(content) and min(lengths, default=0) >= 0:
        return lengths
    raise DataError(
        f"a block of {count} records must have {count} lengths of at least 0. "
        f"Received: {len(content)} bytes of lengths."
    )


def encode_text(value: str) -> bytes:
    """Encode a Text: the length of its UTF-8 as a VInt, then the UTF-8."""
    content = value.encode()
    return encode_vint(len(content)) + content


def decode_text(content: bytes) -> str:
    """Decode a Text; a DataError if `content` is not exactly one."""
    length, start = decode_vint(content)
    _check_length("Text", length, len(content) - start)
    try:
        return content[start:].decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"a Text must be valid UTF-8. Received: byte 0x{content[start + error.start]:02x} at "
            f"{error.start} of {content[start : start + 40]!r}."
        ) from None


def decode_bytes(content: bytes) -> bytes:
    """Decode a BytesWritable: the length as big-endian int32, then the bytes."""
    if len(content) < 4:
        raise DataError(
            "a BytesWritable must start with its length in 4 bytes. "
            f"Received: {len(content)} bytes."
        )
    length = int.from_bytes(content[:4], "big", signed=True)
    _check_length("BytesWritable", length, len(content) - 4)
    return content[4:]


def decoder_of(
    class_name: str, decoders: Decoders | None, *, role: str, source: str
) -> Callable[[bytes], Any]:
    """Return the decoder of a class: from `decoders`, or of one of Hadoop's types.

    The class name is only looked up; it never imports code.
    """
    found = (decoders or {}).get(class_name) or DECODERS.get(class_name)
    if found is None:
        raise DataError(
            f"the class of the {role}s of a record file must be one of {_names(DECODERS)}. "
            f"Received: {class_name!r} in {source}. Pass a function that decodes its bytes: "
            f"`decoders={{{class_name!r}: function}}`."
        )
    return found


def _names(classes: Mapping[str, Any]) -> str:
    return ", ".join(sorted(name.rpartition(".")[2] for name in classes))


def _check_length(kind: str, announced: int, found: int) -> None:
    if announced != found:
        raise DataError(
            f"the length of a {kind} must match its content. "
            f"Received: a length of {announced}, {found} bytes."
        )


def _fixed(name: str, layout: str) -> Callable[[bytes], Any]:
    packing = struct.Struct(layout)

    def decode(content: bytes) -> Any:
        _check_length(name, packing.size, len(content))
        return packing.unpack(content)[0] if packing.size else None

    return decode


def _variable(name: str, bits: int) -> Callable[[bytes], int]:
    def decode(content: bytes) -> int:
        value, end = decode_vint(content)
        _check_length(name, end, len(content))
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise DataError(f"a {name} must fit into {bits} bits. Received: {value}.")
        return value

    return decode


_LAYOUTS = {
    **{"BooleanWritable": "?", "ByteWritable": ">b", "ShortWritable": ">h", "IntWritable": ">i"},
    **{"LongWritable": ">q", "FloatWritable": ">f", "DoubleWritable": ">d", "NullWritable": ""},
}
DECODERS: Decoders = MappingProxyType(
    {TEXT: decode_text, BYTES: decode_bytes}
    | {_PACKAGE + name: _fixed(name, layout) for name, layout in _LAYOUTS.items()}
    | {
        _PACKAGE + f"V{kind}Writable": _variable(f"V{kind}Writable", bits)
        for kind, bits in (("Int", 32), ("Long", 64))
    }
)
_UNPACKERS: Mapping[str, Callable[[], Any]] = {
    DEFAULT_CODEC: zlib.decompressobj,
    _PACKAGE + "compress.DeflateCodec": zlib.decompressobj,
    _PACKAGE + "compress.GzipCodec": lambda: zlib.decompressobj(wbits=31),
    _PACKAGE + "compress.BZip2Codec": bz2.BZ2Decompressor,
}


def check_codec(class_name: str, *, source: str) -> None:
    """Raise DataError if the codec `class_name` is unknown."""
    if class_name not in _UNPACKERS:
        raise DataError(
            f"the codec of a record file must be one of {_names(_UNPACKERS)}. "
            f"Received: {class_name!r} in {source}. Read it with Hadoop: "
            "`from_rdd(spark, spark.sparkContext.sequenceFile(url).map(function))`."
        )


def unpack(codec: str, content: bytes) -> bytes:
    """Decompress a value or a part of a block; DataError if it is damaged or over 1 GiB."""
    parts: list[bytes] = []
    left = MAX_UNPACKED_BYTES
    while content:  # gzip and bzip2 content may have several members
        unpacker = _UNPACKERS[codec]()
        try:
            parts.append(unpacker.decompress(content, left + 1))
        except (zlib.error, OSError, ValueError) as error:
            raise DataError(
                f"compressed bytes must be valid {codec.rpartition('.')[2]} output. "
                f"Received: {len(content)} invalid bytes ({error})."
            ) from None
        left -= len(parts[-1])
        if left < 0 or not unpacker.eof:
            raise DataError(
                "compressed bytes must be complete and decompress to at most "
                f"{MAX_UNPACKED_BYTES} bytes. Received: {len(content)} bytes that are incomplete "
                "or decompress to more."
            )
        content = unpacker.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)

"""How Hadoop writes values: VInt, Text, BytesWritable and the numbers.

Every value is read from exactly its own bytes: what is too short or too long is an error, and no
length is believed before it has been compared with what is there.

References:
    Apache Hadoop, package `org.apache.hadoop.io`: WritableUtils, Text, BytesWritable.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sparkwright.data._wording import clipped
from sparkwright.errors import DataError

_PACKAGE = "org.apache.hadoop.io."
LONG = _PACKAGE + "LongWritable"
TEXT = _PACKAGE + "Text"
BYTES = _PACKAGE + "BytesWritable"
_LARGEST_LENGTH = (1 << 31) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class HadoopType:
    """One class of keys or values.

    Attributes:
        class_name: its name in Java, as it stands in a file's header.
        encode: Python value -> bytes; DataError if the value does not fit.
        decode: bytes -> Python value; DataError if they are not exactly one value.
    """

    class_name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def encode_vint(value: int) -> bytes:
    """A whole number of 64 bits in 1 to 9 bytes (VInt and VLong are written the same way).

    -112 to 127 are one byte. Others are a byte that tells sign and length, then the magnitude with
    the high byte first; for negative numbers the magnitude is `-1 - value`.

    Raises:
        DataError: if it takes more than 64 bits.

    Example:
        >>> encode_vint(-1).hex(), encode_vint(128).hex(), encode_vint(-300).hex()
        ('ff', '8f80', '86012b')
    """
    if -112 <= value <= 127:
        return bytes([value & 0xFF])
    if not -(1 << 63) <= value < 1 << 63:
        raise DataError(f"a VInt must fit into 64 bits. Received: {value}.")
    magnitude, first = (value, -112) if value >= 0 else (~value, -120)
    size = (magnitude.bit_length() + 7) // 8
    return bytes([(first - size) & 0xFF]) + magnitude.to_bytes(size, "big")


def vint_size(first: int) -> int:
    """Bytes of a VInt whose first byte is `first` (0 to 255), that byte counted.

    Example:
        >>> vint_size(127), vint_size(0x8F), vint_size(0x80)
        (1, 2, 9)
    """
    if first < 0x80 or first >= 0x90:
        return 1
    return 0x91 - first if first >= 0x88 else 0x89 - first


def decode_vint(content: bytes, offset: int = 0) -> tuple[int, int]:
    """(value, offset behind it) of the VInt at `offset`.

    Raises:
        DataError: if `content` ends before it does, or it takes more than 64 bits.

    Example:
        >>> decode_vint(bytes.fromhex("86012b"))
        (-300, 3)
    """
    if offset >= len(content):
        raise DataError(f"a VInt must have at least one byte. Received: none at {offset}.")
    first = content[offset]
    size = vint_size(first)
    end = offset + size
    if size == 1:
        return (first if first < 0x80 else first - 0x100), end
    if end > len(content):
        raise DataError(
            f"a VInt must be complete. Received: {len(content) - offset} of {size} bytes."
        )
    magnitude = int.from_bytes(content[offset + 1 : end], "big")
    if magnitude >> 63:
        raise DataError(f"a VInt must fit into 64 bits. Received: {content[offset:end].hex()}.")
    return (magnitude if first >= 0x88 else ~magnitude), end


def encode_text(value: Any) -> bytes:
    """Text: the length of its UTF-8 as a VInt, then the UTF-8.

    Example:
        >>> encode_text("né").hex()
        '036ec3a9'
    """
    if not isinstance(value, str):
        raise DataError(f"a Text must be made of a str. Received: {_shown(value)}.")
    try:
        content = value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"a Text must be valid Unicode. Received: {_shown(value)} ({error})."
        ) from None
    return encode_vint(len(content)) + content


def decode_text(content: bytes) -> str:
    """The inverse of `encode_text`."""
    length, start = decode_vint(content)
    _check_length("Text", length, len(content) - start)
    try:
        return content[start:].decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"a Text must be valid UTF-8. Received: byte 0x{content[start + error.start]:02x} at "
            f"{error.start} of {content[start : start + 40]!r}."
        ) from None


def encode_bytes(value: Any) -> bytes:
    """BytesWritable: the length as int32 with the high byte first, then the bytes."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise DataError(f"a BytesWritable must be made of bytes. Received: {_shown(value)}.")
    content = bytes(value)
    if len(content) > _LARGEST_LENGTH:
        raise DataError(
            f"a BytesWritable must be shorter than 2 GiB. Received: {len(content)} bytes."
        )
    return len(content).to_bytes(4, "big") + content


def decode_bytes(content: bytes) -> bytes:
    """The inverse of `encode_bytes`."""
    if len(content) < 4:
        raise DataError(
            f"a BytesWritable must start with 4 bytes of length. Received: {len(content)} bytes."
        )
    announced = int.from_bytes(content[:4], "big", signed=True)
    _check_length("BytesWritable", announced, len(content) - 4)
    return content[4:]


def hadoop_type(class_name: str, *, role: str, source: str) -> HadoopType:
    """The type that `class_name` names; nothing is loaded or made by that name.

    Args:
        class_name: as in a file's header.
        role: "key" or "value", for the error.
        source: the file, for the error.

    Raises:
        DataError: if the class is not among `TYPES`.
    """
    found = TYPES.get(class_name)
    if found is None:
        known = ", ".join(sorted(name.rpartition(".")[2] for name in TYPES))
        raise DataError(
            f"the {role}s of a record file must be of a class that is read here: {known}. "
            f"Received: {class_name!r} in {source}. Say how to read its bytes: "
            f"`decoders={{{class_name!r}: function}}`, a function of bytes."
        )
    return found


def decode_lengths(content: bytes, count: int) -> list[int]:
    """`count` lengths, written as VInts, which fill `content`.

    Raises:
        DataError: if there are more or fewer, or one is negative.

    Example:
        >>> decode_lengths(bytes([8, 8, 0x8F, 200]), 3)
        [8, 8, 200]
    """
    if len(content) == count and (not count or max(content) < 0x80):
        return list(content)  # each of one byte: by far the usual case for keys
    if count and content:
        first, end = decode_vint(content)
        if end * count == len(content) and content[:end] * count == content:
            lengths, end = [first] * count, len(content)
        else:
            lengths, end = [], 0
            while len(lengths) < count and end < len(content):
                length, end = decode_vint(content, end)
                lengths.append(length)
        if len(lengths) == count and end == len(content) and min(lengths) >= 0:
            return lengths
    raise DataError(
        f"a block of {count} records must hold {count} lengths of at least 0. "
        f"Received: {len(content)} bytes of lengths."
    )


def _shown(value: Any) -> str:
    return clipped(repr(value))


def _check_length(kind: str, announced: int, found: int) -> None:
    if announced != found:
        raise DataError(
            f"a {kind} must have as many bytes as it announces. "
            f"Received: {announced} announced, {found} there."
        )


def _number(name: str, layout: str, kind: type) -> HadoopType:
    packing = struct.Struct(layout)

    def encode(value: Any) -> bytes:
        whole = isinstance(value, int) and not isinstance(value, bool)
        try:
            if kind is int and not whole:
                raise TypeError
            return packing.pack(value)
        except (struct.error, TypeError, OverflowError):
            raise DataError(
                f"a {name} must be made of a number that fits into {packing.size} bytes. "
                f"Received: {_shown(value)}."
            ) from None

    def decode(content: bytes) -> Any:
        _check_length(name, packing.size, len(content))
        return packing.unpack(content)[0]

    return HadoopType(class_name=_PACKAGE + name, encode=encode, decode=decode)


def _encode_boolean(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise DataError(f"a BooleanWritable must be made of a bool. Received: {_shown(value)}.")
    return b"\x01" if value else b"\x00"


def _decode_boolean(content: bytes) -> bool:
    _check_length("BooleanWritable", 1, len(content))
    return content != b"\x00"  # Java takes any byte but 0 as true


def _encode_null(value: Any) -> bytes:
    if value is not None:
        raise DataError(f"a NullWritable must be made of None. Received: {_shown(value)}.")
    return b""


def _decode_null(content: bytes) -> None:
    _check_length("NullWritable", 0, len(content))


def _variable(name: str, bits: int) -> HadoopType:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value != _wrapped(value, bits):
            raise DataError(
                f"a {name} must be a whole number of {bits} bits. Received: {_shown(value)}."
            )
        return value

    def decode(content: bytes) -> int:
        value, end = decode_vint(content)
        _check_length(name, end, len(content))
        return check(value)

    return HadoopType(
        class_name=_PACKAGE + name, encode=lambda v: encode_vint(check(v)), decode=decode
    )


def _wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


TYPES: Mapping[str, HadoopType] = MappingProxyType(
    {
        kind.class_name: kind
        for kind in (
            HadoopType(class_name=TEXT, encode=encode_text, decode=decode_text),
            HadoopType(class_name=BYTES, encode=encode_bytes, decode=decode_bytes),
            HadoopType(
                class_name=_PACKAGE + "BooleanWritable",
                encode=_encode_boolean,
                decode=_decode_boolean,
            ),
            HadoopType(
                class_name=_PACKAGE + "NullWritable", encode=_encode_null, decode=_decode_null
            ),
            _number("ByteWritable", ">b", int),
            _number("ShortWritable", ">h", int),
            _number("IntWritable", ">i", int),
            _number("LongWritable", ">q", int),
            _number("FloatWritable", ">f", float),
            _number("DoubleWritable", ">d", float),
            _variable("VIntWritable", 32),
            _variable("VLongWritable", 64),
        )
    }
)

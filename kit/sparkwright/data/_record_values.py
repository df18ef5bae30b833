"""Values of records: Hadoop's encodings and compression codecs, and examples.

    value of an example = length of the rest, int32 | every axis of every column, VInt
                          | the bytes of every column, little-endian

Each example stores its axes because sequences differ in length. An image of 28 x 28 bytes with a
label takes 794 bytes, including 788 bytes of data. Every length is checked against the remaining
bytes before its use.

References:
    Apache Hadoop, package `org.apache.hadoop.io`: WritableUtils, Text, BytesWritable.
"""

import bz2
import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from io import BytesIO
from itertools import accumulate
from typing import Any, BinaryIO

import numpy as np

from sparkwright._yaml import strict_json
from sparkwright.errors import DataError

from .dataset import Array, DataSet
from .wording import clipped

_PACKAGE = "org.apache.hadoop.io."
LONG, TEXT, BYTES = (_PACKAGE + name for name in ("LongWritable", "Text", "BytesWritable"))
DEFAULT_CODEC = _PACKAGE + "compress.DefaultCodec"
MAX_UNPACKED_BYTES = 1 << 30
Decoders = Mapping[str, Callable[[bytes], Any]]
NOTE = "sparkwright.examples"
DTYPES = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
}
# Column -> dtype, number of axes of an example.
Layout = Mapping[str, tuple[str, int]]
# An example: a dtype with a field for each column, and the bytes.
Row = tuple[np.dtype[Any], bytes]
_FORMAT = 1
_MAX_AXES = 32


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


# -- examples


def layout_of(dataset: DataSet) -> Layout:
    """Return the columns of `dataset`; DataError if a dtype is not in `DTYPES`."""
    found = {name: (dtype.name, len(shape)) for name, (dtype, shape) in dataset.layout.items()}
    for name, (dtype, _) in found.items():
        if dtype not in DTYPES:
            raise DataError(
                f"the dtype of a column in a record file must be one of {sorted(DTYPES)}. "
                f"Received: {dtype} for {name!r}."
            )
    return found


def columns_note(layout: Layout) -> str:
    """Describe columns as JSON."""
    listed = [[name, *kind] for name, kind in layout.items()]
    return json.dumps({"format": _FORMAT, "columns": listed}, separators=(",", ":"))


def read_columns_note(content: str) -> Layout:
    """Return the columns of a note; DataError if invalid or of another format."""
    try:
        noted: Any = strict_json(content)
        found = {str(name): (dtype, axes) for name, dtype, axes in noted["columns"]}
        if noted["format"] != _FORMAT or len(found) < len(noted["columns"]):
            raise ValueError
        if any(d not in DTYPES or not 0 <= axes <= _MAX_AXES for d, axes in found.values()):
            raise ValueError
        # Validate the names: damage may have changed them.
        DataSet.from_columns({n: np.zeros((0, *[1] * a), d) for n, (d, a) in found.items()})
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise DataError(
            f"the columns of record files must be described in format {_FORMAT}. Received: "
            f"{content[:200]!r}. It was written by a later version of Sparkwright, or is damaged."
        ) from None
    return found


def encode_examples(dataset: DataSet) -> Iterator[bytes]:
    """Yield the value of each example of `dataset`."""
    columns = dataset.columns()
    axes = b"".join(encode_vint(size) for a in columns.values() for size in a.shape[1:])
    numbers = [
        np.ascontiguousarray(a, a.dtype.newbyteorder("<")).reshape(len(a), -1).view(np.uint8)
        for a in columns.values()
    ]
    prefix = (len(axes) + sum(rows.shape[1] for rows in numbers)).to_bytes(4, "big") + axes
    starts = np.frombuffer(prefix, np.uint8)[None].repeat(len(dataset), axis=0)
    values = np.concatenate([starts, *numbers], axis=1)
    yield from values.view(f"V{values.shape[1]}").ravel().tolist()


def example_decoder(layout: Layout) -> Callable[[Any], Row]:
    """Return a function record -> row; a DataError if the value does not match `layout`."""
    size, start, kind = -1, b"", np.dtype([])  # of the last value

    def decode(record: Any) -> Row:
        nonlocal size, start, kind
        value = record[-1]
        # Length and axes are at the start: if they are equal, so is the dtype.
        if len(value) != size or not value.startswith(start):
            start, kind = _kind_of(value, layout)
            size = len(value)
        return kind, value

    return decode


def _kind_of(value: bytes, layout: Layout) -> tuple[bytes, np.dtype[Any]]:
    """Return the length and axes at the start of a value, and its dtype."""
    stream = ByteStream.of(DECODERS[BYTES](value))
    shapes = [tuple(stream.vint() for _ in range(axes)) for _, axes in layout.values()]
    start = len(value) - stream.left
    dtypes = [np.dtype(dtype).newbyteorder("<") for dtype, _ in layout.values()]
    sizes = [d.itemsize * math.prod(shape) for d, shape in zip(dtypes, shapes, strict=True)]
    *offsets, end = accumulate(sizes, initial=start)
    if any(size < 1 for shape in shapes for size in shape) or end != len(value):
        raise DataError(
            "an example must have axes of at least 1, and the size of its axes. "
            f"Received: axes {shapes} and {len(value) - start} bytes."
        )
    formats = list(zip(dtypes, shapes, strict=True))
    options: Any = {"names": list(layout), "formats": formats, "offsets": offsets, "itemsize": end}
    return value[:start], np.dtype(options)


def row_of(columns: Mapping[str, Array]) -> Row:
    """Return the columns of one example, without the axis of the examples, as a row."""
    kinds = tuple((name, array.dtype, array.shape) for name, array in columns.items())
    return _row_kind(kinds), b"".join(array.tobytes() for array in columns.values())


@lru_cache
def _row_kind(kinds: tuple[tuple[str, Any, tuple[int, ...]], ...]) -> np.dtype[Any]:
    # Validate the columns once per layout: it takes longer than reading an example.
    DataSet.from_columns({name: np.zeros((1, *shape), dtype) for name, dtype, shape in kinds})
    return np.dtype(list(kinds))


def from_rows(content: bytes, kind: np.dtype[Any]) -> DataSet:
    """Return the examples of consecutive rows."""
    rows = np.frombuffer(content, kind)
    columns = {name: np.ascontiguousarray(rows[name]) for name in kind.names or ()}
    return DataSet.from_columns(
        {name: a.view(np.uint8) != 0 if a.dtype == bool else a for name, a in columns.items()}
    )


def example_of(made: Any) -> DataSet | Row:
    """Validate the result of a user's `convert`; lists and numbers become float32 or int32."""
    if isinstance(made, DataSet):
        return made
    if not (isinstance(made, tuple) and len(made) == 2):  # pyright: ignore[reportUnknownArgumentType]
        raise DataError(
            "`convert` must return a DataSet, or (features, label) of one example, where label "
            f"may be None. Received: {clipped(repr(made))}."
        )
    found: dict[str, Array] = {}
    for group, value in zip(("features", "labels"), made, strict=True):
        named = value if isinstance(value, Mapping) else {group: value}
        for name, one in {} if value is None else named.items():
            array = np.asarray(one)
            if not isinstance(one, np.ndarray | np.generic) and array.dtype.kind in "iuf":
                integer = group == "labels" and array.dtype.kind in "iu"
                array = array.astype(np.int32 if integer else np.float32)
            found[f"{group}/{name}"] = array
    if all(array.dtype.kind in "biuf" for array in found.values()):
        return row_of(found)
    return DataSet.from_columns({name: array[None] for name, array in found.items()})  # texts

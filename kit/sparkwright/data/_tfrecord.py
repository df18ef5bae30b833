"""TFRecord: records with checksums, read also past damage, of tf.train.Example messages.

    record = length, uint64 | checksum of the length | content | checksum of the content

The low byte of a number comes first. A checksum is CRC-32C, rotated right by 15 bits plus
0xa282ead8. Files may be compressed as a whole, by gzip or zlib.

References:
    TensorFlow, `core/lib/io/record_writer.h`, `lib/hash/crc32c.h`, `core/example/example.proto`.
"""

import functools
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

import numpy as np

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice

from ._dataset import Array
from ._pieces import SkipLog
from ._record_bytes import MAX_UNPACKED_BYTES
from ._record_examples import DTYPES, from_little
from ._sequence_file import STRICT, Record

FileCompression = Literal["gzip", "zlib"]
_ENDINGS: dict[str, FileCompression] = {
    **{".gz": "gzip", ".gzip": "gzip"},
    **{".zlib": "zlib", ".zz": "zlib"},
}
LAYOUT = "_layout.json"
_HEAD = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_SEARCHED_BYTES = 1 << 20
# No list of numbers holds these exactly, or none as small as their bytes.
_AS_BYTES = {"float64", "uint8", "uint64"}


def masked_crc(content: bytes) -> int:
    """Return the checksum of `content` as TFRecord files hold it, a uint32.

    Example:
        >>> hex(masked_crc(b"123456789"))
        '0xc78ab0e5'
    """
    import google_crc32c

    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(content: bytes) -> bytes:
    """Return `content` as a record."""
    length = len(content).to_bytes(8, "little")
    checksums = [_CHECKSUM.pack(masked_crc(part)) for part in (length, content)]
    return b"".join([length, checksums[0], content, checksums[1]])


def compression_of(url: str, compression: str | None) -> FileCompression | None:
    """Return the compression of a file: as given, or for "auto" by its ending.

    Example:
        >>> compression_of("faces.tfrecord.gz", "auto"), compression_of("faces.tfrecord", "auto")
        ('gzip', None)
    """
    check_choice("compression", compression, ("auto", "gzip", "zlib", None))
    if compression == "gzip" or compression == "zlib" or compression is None:
        return compression
    return next((c for end, c in _ENDINGS.items() if url.lower().endswith(end)), None)


def read_frames(
    file: BinaryIO,
    *,
    size_bytes: int,
    source: str,
    compression: FileCompression | None = None,
    expected: int | None = None,
    log: SkipLog = STRICT,
) -> Iterator[Record]:
    """Yield the records of a file: where each begins (once decompressed), no key, its content.

    Args:
        file: open for reading.
        size_bytes: its length.
        source: its name, for errors.
        compression: "gzip", "zlib" or None (default).
        expected: the number of records, if it is known.
        log: receives damage; reading continues at the next record whose checksums are right.

    Raises:
        DataError: if a checksum is wrong or the file ends within a record, naming the byte, unless
            `log` skips it.
        OSError: if the file cannot be read.
    """
    read = file.read if compression is None else _unpacker(file)
    at, count = 0, 0
    while True:
        try:
            found = _frame(read, MAX_UNPACKED_BYTES if compression else size_bytes - at)
        except DataError as error:
            expected = None
            log.skip("damaged record", f"{error} It is at byte {at} of {source}.")
            following = None if compression else _next_frame(file, at + 1, size_bytes)
            if following is None:
                return
            file.seek(at := following)
            continue
        if found is None:
            break
        count += 1
        content, is_intact = found
        if is_intact:
            yield at, b"", content
        else:  # the length was right: the next record begins behind it
            log.skip(
                "damaged record",
                "the content of a TFRecord must have its checksum. "
                f"Received: another at byte {at} of {source}. The record is damaged.",
            )
        at += _HEAD.size + len(content) + _CHECKSUM.size
    if expected is not None and count != expected:
        log.skip(
            "missing records",
            f"a TFRecord file must hold as many records as {LAYOUT} beside it says, {expected}. "
            f"Received: {count} in {source}. The file is not complete, or another one.",
            count=max(1, expected - count),
        )


def _frame(read: Callable[[int], bytes], left: int) -> tuple[bytes, bool] | None:
    """Return the content of the next record, and whether it is intact; None at the end."""
    head = read(_HEAD.size)
    if not head:
        return None
    length, checksum = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
    if len(head) == _HEAD.size and masked_crc(head[:8]) != checksum:
        raise DataError(
            "the length of a TFRecord must have its checksum. Received: another. The file is "
            "damaged, compressed in another way (`compression`), or of another kind."
        )
    body = b"" if length > left else read(length + _CHECKSUM.size)
    if len(head) < _HEAD.size or len(body) < length + _CHECKSUM.size:
        raise DataError(
            "a TFRecord must lie within its file. Received: one that is cut off, or too long. "
            "The file is damaged, or not complete."
        )
    content = body[:length]
    return content, masked_crc(content) == _CHECKSUM.unpack(body[length:])[0]


def _unpacker(file: Any) -> Callable[[int], bytes]:
    """Return a function that decompresses the next bytes of a gzip or zlib file."""
    import pyarrow as pa

    # Arrow recognizes zlib too, and files of several members.
    stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "gzip")

    def take(count: int) -> bytes:
        try:
            return stream.read(count)
        except OSError as error:
            # Errors of the store are other than those of the decompression.
            if not str(error).startswith(("zlib", "Truncated")):
                raise
            raise DataError(
                f"compressed bytes must be intact and complete. Received: {error}."
            ) from None

    return take


def _next_frame(file: BinaryIO, start: int, size_bytes: int) -> int | None:
    """Return where the next record whose checksums are right begins, at `start` or behind it."""
    while size_bytes - start >= _HEAD.size:
        file.seek(start)
        block = file.read(_SEARCHED_BYTES)
        numbers = np.frombuffer(block, np.uint8)
        # No file has 2**40 bytes: only where the length's three high bytes are 0 may one begin.
        high = (numbers[5:-6] | numbers[6:-5] | numbers[7:-4]) == 0
        for at in (np.flatnonzero(high) + start).tolist():
            file.seek(at)
            try:
                found = _frame(file.read, size_bytes - at)
            except DataError:
                continue
            if found and found[1]:
                return at
        start += len(block) - _HEAD.size + 1
    return None


@functools.cache
def _example_class(*, floats_as_bytes: bool) -> Any:
    """Return the class of tf.train.Example, in a pool of its own: TensorFlow owns the usual one."""
    # Packed floats are float32 numbers one after another, as a byte string is, which is ten times
    # as fast to write. Not for reading: floats need not be packed.
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    form: Any = descriptor_pb2.FieldDescriptorProto
    file: Any = descriptor_pb2.FileDescriptorProto(
        name="example.proto", package="sparkwright", syntax="proto3"
    )
    one, many, message = form.LABEL_OPTIONAL, form.LABEL_REPEATED, form.TYPE_MESSAGE
    floats = form.TYPE_BYTES if floats_as_bytes else form.TYPE_FLOAT
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    lists = {"Bytes": form.TYPE_BYTES, "Float": floats, "Int64": form.TYPE_INT64}
    for number, (name, kind) in enumerate(lists.items(), start=1):
        values = file.message_type.add(name=f"{name}List")
        values.field.add(name="value", number=1, label=many, type=kind)
        field = feature.field.add(name=f"{name.lower()}_list", number=number, label=one)
        field.MergeFrom(form(type=message, type_name=f".sparkwright.{name}List", oneof_index=0))
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry", options={"map_entry": True})
    entry.field.add(name="key", number=1, label=one, type=form.TYPE_STRING)
    for owner, name, number, label, kind in (
        (entry, "value", 2, one, "Feature"),
        (features, "feature", 1, many, "Features.FeatureEntry"),
        (file.message_type.add(name="Example"), "features", 1, one, "Features"),
    ):
        type_name = f".sparkwright.{kind}"
        owner.field.add(name=name, number=number, label=label, type=message, type_name=type_name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sparkwright.Example"))


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureSpec:
    """One feature of an Example, and the column that it becomes."""

    key: str
    column: str
    shape: tuple[int, ...] | None = None  # one axis may be -1; None: (count,), of a label ()
    dtype: str | None = None  # None: float32, of integers among labels int32
    default: float | None = None  # None: the feature must not be missing

    def __post_init__(self) -> None:
        """Check the fields; raises ConfigurationError."""
        shape, dtype, default = self.shape or (), self.dtype, self.default
        rules = {
            "a shape of integers of at least 1, of which one may be -1": shape.count(-1) <= 1
            and all(isinstance(size, int) and (size == -1 or size >= 1) for size in shape),  # pyright: ignore[reportUnnecessaryIsInstance]
            f"one of the dtypes {sorted(DTYPES)}": dtype in {None, *DTYPES},
            "a shape without -1 where it has a default": default is None
            or (self.shape is not None and -1 not in shape),
            "a default that is a number and that its dtype holds": default is None
            or _fits(default, dtype or "float32"),
        }
        for rule in (rule for rule, holds in rules.items() if not holds):
            raise ConfigurationError(
                f"a feature must have {rule}. Received: {self.key!r} with dtype={dtype!r}, shape="
                f"{self.shape!r}, default={default!r}. To decode texts or images, use `convert`."
            )


def _fits(default: Any, dtype: str) -> bool:
    """Whether `dtype` holds `default`: integers exactly, others within its range."""
    try:
        with np.errstate(over="ignore"):
            held = np.array(default, dtype)
        if held.dtype.kind == "f":
            return bool(np.isfinite(held)) or not math.isfinite(default)
        return bool(held == default)
    except (TypeError, ValueError, OverflowError):
        return False


def feature_specs(group: str, asked: Any) -> tuple[FeatureSpec, ...]:
    """Return a spec for each feature that a user asks for.

    Example:
        >>> feature_specs("features", {"image": ((28, 28), "uint8")})[0].column
        'features/image'
    """
    named: Any = [asked] if isinstance(asked, str) else () if asked is None else asked
    if isinstance(named, Sequence):
        named = dict.fromkeys(named)
    try:
        return tuple(_spec(group, key, kind) for key, kind in named.items())
    except ConfigurationError:
        raise
    except (TypeError, ValueError, AttributeError):
        raise ConfigurationError(
            f"`{group}` must be names, or a dict: name -> (shape, dtype) or (shape, dtype, "
            f"default). Received: {group}={asked!r}."
        ) from None


def _spec(group: str, key: Any, kind: Any) -> FeatureSpec:
    if not isinstance(key, str):
        raise TypeError
    if kind is None:
        return FeatureSpec(key=key, column=f"{group}/{key}")
    shape, dtype, default = kind if len(kind) == 3 else (*kind, None)
    try:
        dtype = np.dtype(dtype).name
    except TypeError:
        dtype = str(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return FeatureSpec(key=key, column=f"{group}/{key}", shape=shape, dtype=dtype, default=default)


def parse_example(content: bytes) -> dict[str, Any]:
    """Parse a serialized Example: key -> array of float32 or int64, or list of bytes."""
    from google.protobuf.message import DecodeError

    try:
        features = _example_class(floats_as_bytes=False).FromString(content).features.feature
    except DecodeError as error:
        raise DataError(
            f"a record must be a serialized tf.train.Example. Received: {content[:20]!r}… "
            f"({error})."
        ) from None
    dtypes = {"float_list": np.float32, "int64_list": np.int64}
    found: dict[str, Any] = {}
    for key, feature in features.items():
        if kind := feature.WhichOneof("kind"):
            values = getattr(feature, kind).value
            found[key] = np.array(values, dtypes[kind]) if kind in dtypes else list(values)
    return found


def columns_of(example: Mapping[str, Any], specs: Sequence[FeatureSpec]) -> dict[str, Array]:
    """Return the columns of one example, without the axis of the examples."""
    return {spec.column: _column(example, spec) for spec in specs}


def _column(example: Mapping[str, Any], spec: FeatureSpec) -> Array:
    values: Any = example.get(spec.key, [])
    if not len(values):
        if spec.default is None:
            known = ", ".join(sorted(map(repr, example))[:10])
            raise DataError(
                f"an example must have the feature {spec.key!r}, with a value. "
                f"Received: one with {known or 'no feature'}. Give a default: "
                f"`{{{spec.key!r}: (shape, dtype, default)}}`."
            )
        assert spec.shape is not None
        return np.full(spec.shape, spec.default, spec.dtype)
    is_label = spec.column.startswith("labels/")
    integers = isinstance(values, np.ndarray) and values.dtype == np.int64
    dtype = spec.dtype or ("int32" if is_label and integers else "float32")
    target = np.dtype(dtype)
    if isinstance(values, list):
        if spec.dtype is None or len(values) != 1 or len(values[0]) % target.itemsize:
            received = f"bytes, {len(values)} pieces, the first of {len(values[0])} bytes"
            raise _unfit(
                spec, f"the bytes of {spec.dtype or 'known'} numbers, in one piece", received
            )
        array = from_little(np.frombuffer(values[0], np.uint8), dtype)
    elif not integers and target.kind != "f":
        raise _unfit(spec, f"values that become {target}", "floats")
    else:
        array = values.astype(target, copy=False)
        # If the smallest and the largest fit, all do.
        extremes = (values.argmin(), values.argmax())
        if target.kind in "biu" and any(int(values[i]) != int(array[i]) for i in extremes):
            received = f"integers from {values.min()} to {values.max()}"
            raise _unfit(spec, f"numbers that fit into {target}", received)
    if spec.shape is None:
        return array.reshape(()) if array.size == 1 and is_label else array
    try:
        if not array.size:
            raise ValueError
        return array.reshape(spec.shape)
    except ValueError:
        raise _unfit(spec, f"as many values as its shape {spec.shape}", str(array.size)) from None


def _unfit(spec: FeatureSpec, rule: str, received: str) -> DataError:
    return DataError(
        f"the feature {spec.key!r} must have {rule}. Received: {received}. Ask for another shape "
        f"or dtype, `{{{spec.key!r}: (shape, dtype)}}`, or use `convert`."
    )


def serialized_examples(columns: Mapping[str, Array]) -> list[bytes]:
    """Return one serialized Example for each row of `columns` (key -> array).

    float32 and float16 become a float_list, integers and booleans an int64_list, and float64,
    uint8 and uint64 a bytes_list of one piece, low byte first.
    """
    example_class = _example_class(floats_as_bytes=True)
    count = next(iter(columns.values())).shape[0]
    rows: dict[str, tuple[str, list[Any]]] = {}
    for key, array in columns.items():
        flat = array.reshape(count, -1)
        if array.dtype.name in _AS_BYTES or array.dtype.kind == "f":
            kind = "bytes_list" if array.dtype.name in _AS_BYTES else "float_list"
            dtype = array.dtype if kind == "bytes_list" else np.dtype(np.float32)
            little = np.ascontiguousarray(flat, dtype.newbyteorder("<"))
            rows[key] = kind, [[row.tobytes()] for row in little]
        else:
            rows[key] = "int64_list", flat.astype(np.int64).tolist()
    found: list[bytes] = []
    for index in range(count):
        example = example_class()
        features = example.features.feature
        for key, (kind, values) in rows.items():
            getattr(features[key], kind).value.extend(values[index])
        found.append(example.SerializeToString(deterministic=True))
    return found

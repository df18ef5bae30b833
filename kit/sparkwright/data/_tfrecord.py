"""Read TFRecord files of tf.train.Example messages.

    record = length, uint64 | checksum of the length | content | checksum of the content

Numbers are little-endian. A checksum is CRC-32C, rotated right by 15 bits, plus 0xa282ead8. Entire
files may be compressed by gzip or zlib.

References:
    TensorFlow, `tensorflow/core/lib/io/record_writer.h`, `lib/hash/crc32c.h` and
    `example/example.proto`.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage.files import open_to_read

from ._distributed import DistributedDataSet
from ._record_files import RecordPiece, check_functions, examples_of, from_records, some_files
from ._record_values import MAX_UNPACKED_BYTES, Row, example_of, row_of
from .dataset import Array, DataSet
from .pieces import OnError, SkipLog
from .wording import session_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HEAD_BYTES, _CHECKSUM_BYTES = 12, 4
_MESSAGES = """
name: "example.proto" package: "sparkwright" syntax: "proto3"
message_type { name: "Features"
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
            type_name: ".sparkwright.Feature" } }
  field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".sparkwright.Features.FeatureEntry" } }
message_type { name: "Example"
  field { name: "features" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".sparkwright.Features" } }
message_type { name: "BytesList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List"
  field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type { name: "Feature" oneof_decl { name: "kind" }
  field { name: "bytes_list" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".sparkwright.BytesList" oneof_index: 0 }
  field { name: "float_list" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".sparkwright.FloatList" oneof_index: 0 }
  field { name: "int64_list" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".sparkwright.Int64List" oneof_index: 0 } }
"""


def checksum(content: bytes) -> bytes:
    """Return the masked checksum of `content` in TFRecord files."""
    import google_crc32c

    crc = google_crc32c.value(content)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked.to_bytes(_CHECKSUM_BYTES, "little")


def read_frames(file: BinaryIO, source: str, log: SkipLog) -> Iterator[tuple[int, bytes]]:
    """Yield the offset in the decompressed data and the content of each record of an open file."""
    read = file.read
    head = read(_HEAD_BYTES)
    file.seek(0)
    # The first two bytes of gzip and zlib; an uncompressed file starts with a valid checksum.
    is_packed = head[:2] == b"\x1f\x8b" or (
        head[:1] == b"\x78" and int.from_bytes(head[:2], "big") % 31 == 0
    )
    if is_packed and checksum(head[:8]) != head[8:]:
        import pyarrow as pa

        # Arrow also supports zlib, and files with several members.
        read = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "gzip").read
    at = 0
    while head := read(_HEAD_BYTES):
        length = int.from_bytes(head[:8], "little")
        body = b""
        if checksum(head[:8]) == head[8:] and length <= MAX_UNPACKED_BYTES:
            body = read(length + _CHECKSUM_BYTES)
        content, is_whole = body[:length], len(body) == length + _CHECKSUM_BYTES
        if is_whole and checksum(content) == body[length:]:
            yield at, content
        else:
            log.skip(
                "damaged record",
                "a TFRecord must be complete and have its checksums. Received: "
                f"{'another checksum' if is_whole else 'another length'} at byte {at} of {source}. "
                "The file is damaged or of another kind.",
            )
            if not is_whole:
                return
        at += _HEAD_BYTES + len(body)


@session_first
def from_tfrecord(
    spark: "SparkSession",
    url: str,
    *,
    features: Sequence[str] = (),
    labels: Sequence[str] = (),
    convert: Callable[[dict[str, Any]], Any] | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Read examples from TFRecord files of tf.train.Example messages; TensorFlow is not needed.

    One task reads an entire file, so several partitions require several files. Files may be
    compressed by gzip or zlib.

    Args:
        spark: the session.
        url: a file, a folder or a pattern.
        features: keys of numbers that become inputs of the same names: float32 of shape (count,).
        labels: keys that become outputs: floats likewise, integers as int32; a single number has
            shape ().
        convert: alternative to `features` and `labels`: converts an example, a dict of key ->
            float32 or int64 array or list of bytes, to a DataSet or (features, label).
            Default None.
        on_error: "raise" (default), or "skip": skip and count damaged and invalid records, and the
            rest of a file after a damaged length.
        partitions: number of partitions, at most one per file; default None: automatic.

    Raises:
        FileNotFoundError: if there is no file at `url`.
        ConfigurationError: if an option is invalid, or neither `features` nor `convert` is given.
        DataError: when the data is read, if a record is invalid.
    """
    check_functions(convert, None)
    are_keys = all(isinstance(keys, list | tuple) for keys in (features, labels))
    if not are_keys or bool(features) == (convert is not None) or (labels and not features):
        raise ConfigurationError(
            "there must be lists of keys, `features` with or without `labels`, or `convert` alone. "
            f"Received: features={features!r}, labels={labels!r}, convert={convert!r}."
        )
    return from_records(
        spark,
        [RecordPiece(file=file, start=0, end=file.size_bytes) for file in some_files(url)],
        partial(read_tfrecords, features=features, labels=labels, convert=convert),
        on_error=on_error,
        partitions=partitions,
    )


def read_tfrecords(
    piece: RecordPiece,
    log: SkipLog,
    *,
    features: Sequence[str] = (),
    labels: Sequence[str] = (),
    convert: Callable[[dict[str, Any]], Any] | None = None,
) -> Iterator[DataSet]:
    """Yield the examples of a TFRecord file; report invalid records to `log`."""

    def make(record: tuple[int, bytes]) -> DataSet | Row:
        example = parse_example(record[1])
        if convert is not None:
            return example_of(convert(example))
        columns = {f"features/{key}": _numbers(example, key) for key in features}
        for key in labels:
            numbers = _numbers(example, key, integers="int32")
            columns[f"labels/{key}"] = numbers.reshape(()) if numbers.size == 1 else numbers
        return row_of(columns)

    source = piece.file.url
    try:
        with open_to_read(source) as file:
            yield from examples_of(read_frames(file, source, log), make, source, log)
    except OSError as error:  # also of a damaged compression
        log.skip("unreadable file", f"a file must be readable. Received: {source}: {error}.")


def _numbers(example: Mapping[str, Any], key: str, *, integers: str = "float32") -> Array:
    """Return a feature as float32, or `integers` if it has int64 numbers; shape (count,)."""
    values = example.get(key, [])
    are_numbers = isinstance(values, np.ndarray) and values.size > 0
    if are_numbers:
        found = values.astype(integers if values.dtype == np.int64 else "float32")
        if found.dtype.kind == "f" or (found == values).all():
            return found
    raise DataError(
        f"the feature {key!r} must have numbers that fit {integers}. Received: "
        f"{len(values)} {'larger numbers' if are_numbers else 'values, or bytes'}. Use `convert` "
        "for missing features, texts, images, and other shapes and dtypes."
    )


@functools.cache
def example_class() -> Any:
    """Return the class of tf.train.Example, in a separate pool; TensorFlow uses the default one."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    file: Any = text_format.Parse(_MESSAGES, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sparkwright.Example"))


def parse_example(content: bytes) -> dict[str, Any]:
    """Parse a serialized Example: key -> array of float32 or int64, or list of bytes."""
    from google.protobuf.message import DecodeError

    try:
        features = example_class().FromString(content).features.feature
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

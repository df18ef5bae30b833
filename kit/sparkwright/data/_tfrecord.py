"""Read TFRecord files, even after damaged records, and write them to folders.

    record = length, uint64 | checksum of the length | content | checksum of the content

Numbers are little-endian. A checksum is CRC-32C, rotated right by 15 bits, plus 0xa282ead8. Entire
files may be compressed by gzip or zlib.

References:
    TensorFlow, `tensorflow/core/lib/io/record_writer.h` and `lib/hash/crc32c.h`.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice
from sparkwright.storage.files import (
    exists,
    is_folder,
    join,
    read_bytes,
    write_atomically,
    write_bytes,
)
from sparkwright.storage.listing import StoredFile, list_files

from ._distributed import DistributedDataSet
from ._record_bytes import MAX_UNPACKED_BYTES
from ._record_conversion import Example, RecordConversion, check_functions, example_of
from ._record_examples import Layout, columns_note, merged_layout, read_columns_note
from ._record_files import RecordPiece, from_records
from ._record_parts import Examples, RecordFormat, WrittenPart, write_parts
from ._sequence_file import STRICT, Record
from ._tf_example import FeatureSpec, columns_of, feature_specs, parse_example, serialized_examples
from .dataset import DataSet
from .pieces import OnError, SkipLog, check_on_error
from .wording import session_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FileCompression = Literal["gzip", "zlib"]
LAYOUT = "_layout.json"
_ENDINGS = {".gz": "gzip", ".gzip": "gzip", ".zlib": "zlib", ".zz": "zlib"}
_PACKED = {"gzip": (".gz", 31), "zlib": (".zlib", 15)}  # ending, zlib's wbits
_HEAD = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_SEARCHED_BYTES = 1 << 20
_merged = partial(merged_layout, varying=1)


def masked_crc(content: bytes) -> int:
    """Return the masked checksum of `content` in TFRecord files, a uint32.

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


def compression_of(url: str, compression: str | None) -> str | None:
    """Return the compression of a file: as given, or for "auto" by its extension.

    Example:
        >>> compression_of("faces.tfrecord.gz", "auto"), compression_of("faces.tfrecord", "auto")
        ('gzip', None)
    """
    check_choice("compression", compression, ("auto", "gzip", "zlib", None))
    if compression != "auto":
        return compression
    return next((c for end, c in _ENDINGS.items() if url.lower().endswith(end)), None)


def read_frames(
    file: BinaryIO,
    *,
    size_bytes: int,
    source: str,
    compression: str | None = None,
    expected: int | None = None,
    log: SkipLog = STRICT,
) -> Iterator[Record]:
    """Yield the records of a file: offset in the decompressed data, empty key, content.

    Args:
        file: the file, open for reading.
        size_bytes: size of the file.
        source: name of the file, for errors.
        compression: "gzip", "zlib" or None (default).
        expected: number of records, if known.
        log: receives damaged records; reading continues at the next record with valid checksums.
    """
    read = file.read if compression is None else _unpacker(file)
    at, count = 0, 0
    while True:
        try:
            content = _frame(read, MAX_UNPACKED_BYTES if compression else size_bytes - at)
        except DataError as error:
            expected = None
            log.skip("damaged record", f"{error} It is at byte {at} of {source}.")
            following = None if compression else _next_frame(file, at + 1, size_bytes)
            if following is None:
                return
            file.seek(at := following)
            continue
        if content is None:
            break
        yield at, b"", content
        count += 1
        at += _HEAD.size + len(content) + _CHECKSUM.size
    if expected is not None and count != expected:
        log.skip(
            "missing records",
            f"a TFRecord file must hold as many records as {LAYOUT} beside it says, {expected}. "
            f"Received: {count} in {source}. The file is not complete, or another one.",
            count=max(1, expected - count),
        )


def _frame(read: Callable[[int], bytes], left: int) -> bytes | None:
    """Return the content of the next record; None at the end."""
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
    if masked_crc(content) != _CHECKSUM.unpack(body[length:])[0]:
        raise DataError(
            "the content of a TFRecord must have its checksum. Received: another. It is damaged."
        )
    return content


def _unpacker(file: BinaryIO) -> Callable[[int], bytes]:
    """Return a function that decompresses the next bytes of a gzip or zlib file."""
    import pyarrow as pa

    # Arrow also supports zlib, and files with several members.
    stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "gzip")

    def take(count: int) -> bytes:
        try:
            return stream.read(count)
        except OSError as error:
            # Errors of the store differ from those of the decompression.
            if not str(error).startswith(("zlib", "Truncated")):
                raise
            raise DataError(
                f"compressed bytes must be intact and complete. Received: {error}."
            ) from None

    return take


def _next_frame(file: BinaryIO, start: int, size_bytes: int) -> int | None:
    """Return the offset of the next intact record, from `start` on."""
    while size_bytes - start >= _HEAD.size:
        file.seek(start)
        block = file.read(_SEARCHED_BYTES)
        numbers = np.frombuffer(block, np.uint8)
        # No file has 2**40 bytes, so the three high bytes of a record's length must be 0.
        high = (numbers[5:-6] | numbers[6:-5] | numbers[7:-4]) == 0
        for at in (np.flatnonzero(high) + start).tolist():
            file.seek(at)
            try:
                _frame(file.read, size_bytes - at)
            except DataError:
                continue
            return at
        start += len(block) - _HEAD.size + 1
    return None


@session_first
def from_tfrecord(
    spark: "SparkSession",
    url: str,
    *,
    features: Any = None,
    labels: Any = None,
    convert: Callable[[dict[str, Any]], Any] | None = None,
    compression: str | None = "auto",
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Read examples from TFRecord files of tf.train.Example messages; TensorFlow is not needed.

    One task reads an entire file, so several partitions require several files.

    Args:
        spark: the session.
        url: a file, a folder or a pattern.
        features: inputs: key -> (shape, dtype) or (shape, dtype, default value if missing). One
            axis of a shape may be -1. Or a list of keys: float32 of shape (count,). The key is the
            name of the input. Bytes are read as little-endian numbers of the dtype.
        labels: outputs, as for `features`. For a list of keys, integers become int32, and a single
            number has shape ().
        convert: alternative to `features` and `labels`, for images, texts and masks: converts an
            example, a dict of key -> float32 or int64 array or list of bytes, to a DataSet or
            (features, label). Default None. Without any of the three, the files must be those of
            `write_tfrecord`.
        compression: "auto" (default): by the extensions `.gz`, `.gzip`, `.zlib` and `.zz`; "gzip",
            "zlib" or None.
        on_error: "raise" (default), or "skip": skip and count damaged and invalid records; reading
            continues at the next record with valid checksums.
        partitions: number of partitions, at most one per file; default None: automatic.

    Raises:
        FileNotFoundError: if there is no file at `url`.
        ConfigurationError: if an option is invalid.
        DataError: if the files have no stored layout and none of `features`, `labels` and `convert`
            is given; when the data is read, if a record is invalid.
    """
    check_on_error(on_error)
    check_functions(convert, None)
    compression_of("", compression)
    specs = feature_specs("features", features) + feature_specs("labels", labels)
    if specs and (convert is not None or features is None):
        raise ConfigurationError(
            "there must be `features`, with or without `labels`, or `convert` alone. Received: "
            f"features={features!r}, labels={labels!r}, convert={convert!r}."
        )
    files = list_files(url)
    if not files:
        raise DataError(f"there must be at least one file. Received: {url} without any.")
    return from_records(
        spark,
        [RecordPiece(file=file, start=0, end=file.size_bytes) for file in files],
        prepared(url, files, specs=specs, convert=convert, compression=compression),
        on_error=on_error,
        partitions=partitions,
    )


def prepared(
    url: str,
    files: Sequence[StoredFile],
    *,
    specs: Sequence[FeatureSpec] = (),
    convert: Callable[[dict[str, Any]], Any] | None = None,
    compression: str | None = "auto",
) -> "partial[tuple[Iterable[Record], RecordConversion]]":
    """Return `tfrecords` with the layouts stored beside `files`, which were found at `url`."""
    described = bool(specs) or convert is not None
    layouts: list[Layout] = []
    expected: dict[str, int] = {}
    for folder in sorted({file.url.rpartition("/")[0] for file in files}):
        note = join(folder, LAYOUT)
        if exists(note):
            what = "the notes beside TFRecord files"
            layout, noted = read_columns_note(read_bytes(note), what=what, source=note)
            layouts.append(layout)
            # Earlier versions did not store counts.
            expected |= {join(folder, name): n for name, n in noted.get("examples", {}).items()}
        elif not described:
            raise DataError(
                "the content of TFRecord files must be described: `features=` and `labels=`, or "
                f"`convert=`. Received: neither, and {folder} is no folder of `write_tfrecord`."
            )
    missing = sorted(set(expected) - {file.url for file in files})
    if missing and is_folder(url):
        raise DataError(
            f"a folder of TFRecord files must hold every file that {LAYOUT} names. Received: {url} "
            f"without {missing[0].rpartition('/')[2]}, {len(missing)} missing in all. Restore the "
            "folder, or give a pattern."
        )
    if not described:
        try:
            specs = [
                FeatureSpec(key=key_of(name), column=name, shape=shape, dtype=dtype)
                for name, (dtype, shape) in reduce(_merged, layouts).items()
            ]
        except (ConfigurationError, DataError) as error:
            raise DataError(f"{error} {LAYOUT} at {url} says so. Is it damaged?") from None
    return partial(
        tfrecords, specs=tuple(specs), convert=convert, compression=compression, expected=expected
    )


def tfrecords(
    content: BinaryIO,
    piece: RecordPiece,
    log: SkipLog,
    *,
    specs: Sequence[FeatureSpec] = (),
    convert: Callable[[dict[str, Any]], Any] | None = None,
    compression: str | None = "auto",
    expected: Mapping[str, int] | None = None,
) -> tuple[Iterable[Record], RecordConversion]:
    """Prepare a TFRecord file for `read_records`; `expected` are the record counts by URL."""
    url = piece.file.url
    records = read_frames(
        content,
        size_bytes=piece.file.size_bytes,
        source=url,
        compression=compression_of(url, compression),
        expected=(expected or {}).get(url),
        log=log,
    )

    def made(_: Any, example: dict[str, Any]) -> Example:
        return columns_of(example, specs) if convert is None else example_of(convert(example))

    return records, RecordConversion(source=url, key=None, value=parse_example, convert=made)


def write_tfrecord(
    datasets: Examples,
    url: str,
    *,
    examples_per_part: int | None = None,
    max_files: int | None = None,
    compression: FileCompression | None = None,
    overwrite: bool = False,
) -> int:
    """Write examples as TFRecord files `part-r-00000.tfrecord`, … in a folder.

    A record is one tf.train.Example. The keys are the names of features and labels; for masks and
    weights, those of `DataSet.columns`. float32 and float16 are written as a float_list, integers
    and booleans as an int64_list. float64, uint8 and uint64 are written as bytes for
    `tf.io.decode_raw`. A separate file has shapes and dtypes, for `from_tfrecord`.

    Other options, results and errors are those of `write_sequence_file`.

    Args:
        datasets: as for `write_sequence_file`. Examples may differ in at most one axis of a column.
        url: the folder; executors must have access.
        examples_per_part: number of examples per part.
        max_files: maximum number of files of distributed data.
        compression: compression of each file: None (default), "gzip" or "zlib".
        overwrite: whether to replace the content of the folder.
    """
    check_choice("compression", compression, (None, *_PACKED))
    return write_parts(
        datasets,
        url,
        RecordFormat(
            encode=_serialized,
            write=partial(_write, compression=compression),
            varying_axes=1,
            finish=_write_layout,
        ),
        examples_per_part=examples_per_part,
        max_files=max_files,
        overwrite=overwrite,
    )


def _serialized(dataset: DataSet) -> Iterable[bytes]:
    columns = dataset.columns()
    named = {key_of(name): array for name, array in columns.items()}
    if len(named) < len(columns):
        raise DataError(
            "features and labels must have different names in a TFRecord file. "
            f"Received: {list(columns)}. Rename one of each pair."
        )
    return serialized_examples(named)


def _write(
    url: str, layout: Layout, records: Iterable[tuple[int, bytes]], *, compression: str | None
) -> str:
    del layout  # `_write_layout` writes the layouts of all parts
    ending, window_bits = _PACKED.get(compression or "", ("", 0))
    packer = zlib.compressobj(wbits=window_bits) if compression else None
    with write_atomically(f"{url}.tfrecord{ending}") as file:
        for _, content in records:  # without keys
            frame = framed(content)
            file.write(packer.compress(frame) if packer else frame)
        if packer:
            file.write(packer.flush())
    return f"{url.rpartition('/')[2]}.tfrecord{ending}"


def _write_layout(folder: str, parts: list[WrittenPart]) -> None:
    layout = reduce(_merged, (part.layout for part in parts))
    examples = {part.entry: part.count for part in parts}
    write_bytes(join(folder, LAYOUT), columns_note(layout, examples=examples).encode())


def key_of(column: str) -> str:
    """Return the key of a column: without the group for features and labels.

    Example:
        >>> key_of("features/image"), key_of("features_masks/image")
        ('image', 'features_masks/image')
    """
    group, _, name = column.partition("/")
    return name if group in ("features", "labels") else column

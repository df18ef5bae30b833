"""Read TFRecord files, and write them to folders.

    record = length, uint64 | checksum of the length | content | checksum of the content

Numbers are little-endian. A checksum is CRC-32C, rotated right by 15 bits, plus 0xa282ead8. Entire
files may be compressed by gzip or zlib.

References:
    TensorFlow, `tensorflow/core/lib/io/record_writer.h` and `lib/hash/crc32c.h`.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice
from sparkwright.storage.files import (
    exists,
    join,
    open_to_read,
    read_bytes,
    write_atomically,
    write_bytes,
)
from sparkwright.storage.listing import StoredFile, list_files

from ._distributed import DistributedDataSet
from ._record_bytes import MAX_UNPACKED_BYTES
from ._record_examples import (
    Layout,
    Row,
    columns_note,
    example_of,
    merged_layout,
    read_columns_note,
    row_of,
)
from ._record_files import RecordPiece, check_functions, examples_of, from_records
from ._record_writing import Part, write_parts
from ._sequence_file import STRICT
from ._tf_example import FeatureSpec, columns_of, parse_example, serialized_examples
from .dataset import DataSet
from .pieces import OnError, SkipLog
from .wording import session_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FileCompression = Literal["gzip", "zlib"]
LAYOUT = "_layout.json"
_PACKED = {"gzip": (".gz", 31), "zlib": (".zlib", 15)}  # ending, zlib's wbits
_HEAD_BYTES, _CHECKSUM_BYTES = 12, 4
_merged = partial(merged_layout, varying=1)


def checksum(content: bytes) -> bytes:
    """Return the masked checksum of `content` in TFRecord files.

    Example:
        >>> checksum(b"123456789").hex()
        'e5b08ac7'
    """
    import google_crc32c

    crc = google_crc32c.value(content)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked.to_bytes(_CHECKSUM_BYTES, "little")


def framed(content: bytes) -> bytes:
    """Return `content` as a record."""
    length = len(content).to_bytes(8, "little")
    return b"".join([length, checksum(length), content, checksum(content)])


def read_frames(
    file: BinaryIO, source: str, log: SkipLog = STRICT, expected: int | None = None
) -> Iterator[tuple[int, bytes]]:
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
    at = seen = 0
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
        at, seen = at + _HEAD_BYTES + len(body), seen + 1
    if expected not in (None, seen):
        log.skip(
            "missing records",
            f"a TFRecord file must have as many records as {LAYOUT} states, {expected}. Received: "
            f"{seen} in {source}. The file is incomplete, or another one.",
        )


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
            float32 or int64 array or list of bytes, to a DataSet or (features, label). Default
            None. Without any of the three, the files must be those of `write_tfrecord`.
        on_error: "raise" (default), or "skip": skip and count damaged and invalid records, and the
            rest of a file after a damaged length.
        partitions: number of partitions, at most one per file; default None: automatic.

    Raises:
        FileNotFoundError: if there is no file at `url`.
        ConfigurationError: if an option is invalid.
        DataError: if the files have no stored layout and none of `features`, `labels` and `convert`
            is given; when the data is read, if a record is invalid.
    """
    check_functions(convert, None)
    groups = {"features": features, "labels": labels}
    are_keys = all(isinstance(keys, (list, tuple)) for keys in groups.values())
    if not are_keys or ((features or labels) and (convert is not None or not features)):
        raise ConfigurationError(
            "there must be lists of keys, `features` with or without `labels`, or `convert` alone. "
            f"Received: features={features!r}, labels={labels!r}, convert={convert!r}."
        )
    files = list_files(url)
    if not files:
        raise DataError(f"there must be at least one file. Received: {url} without any.")
    specs = [FeatureSpec(key, f"{group}/{key}") for group, keys in groups.items() for key in keys]
    described = {"specs": specs, "convert": convert}
    return from_records(
        spark,
        [RecordPiece(file=file, start=0, end=file.size_bytes) for file in files],
        partial(read_tfrecords, **described if specs or convert else stored_layout(files)),
        on_error=on_error,
        partitions=partitions,
    )


def stored_layout(files: Sequence[StoredFile]) -> dict[str, Any]:
    """Return specs and numbers of records of files of `write_tfrecord`, stored beside them."""
    layout: Layout = {}
    counts: dict[str, int] = {}
    for folder in sorted({file.url.rpartition("/")[0] for file in files}):
        note = join(folder, LAYOUT)
        if not exists(note):
            raise DataError(
                "the content of TFRecord files must be described: `features=` and `labels=`, or "
                f"`convert=`. Received: neither, and {folder} is no folder of `write_tfrecord`."
            )
        try:
            found, noted = read_columns_note(read_bytes(note))
            layout = _merged(layout or found, found)
            counts |= {join(folder, name): n for name, n in noted.get("examples", {}).items()}
        except (DataError, AttributeError) as error:
            raise DataError(f"{LAYOUT} must be intact. Received: {error} It is {note}.") from None
    specs = [FeatureSpec(key_of(n), n, shape, dtype) for n, (dtype, shape) in layout.items()]
    return {"specs": specs, "counts": counts}


def read_tfrecords(
    piece: RecordPiece,
    log: SkipLog,
    *,
    specs: Sequence[FeatureSpec] = (),
    convert: Callable[[dict[str, Any]], Any] | None = None,
    counts: Mapping[str, int] | None = None,
) -> Iterator[DataSet]:
    """Yield the examples of a TFRecord file; report invalid records to `log`."""

    def make(record: tuple[int, bytes]) -> DataSet | Row:
        example = parse_example(record[1])
        if convert is not None:
            return example_of(convert(example))
        return row_of(columns_of(example, specs))

    source = piece.file.url
    try:
        with open_to_read(source) as file:
            expected = (counts or {}).get(source)
            frames = read_frames(file, source, log, expected)
            yield from examples_of(frames, make, source, log)
    except OSError as error:  # also of a damaged compression
        log.skip("unreadable file", f"a file must be readable. Received: {source}: {error}.")


def write_tfrecord(
    datasets: Any,
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
        max_files: maximum number of partitions of distributed data.
        compression: compression of each file: None (default), "gzip" or "zlib".
        overwrite: whether to replace the content of the folder.
    """
    check_choice("compression", compression, (None, *_PACKED))
    write = partial(_write, compression=compression)
    return write_parts(
        datasets, url, write, examples_per_part, max_files, overwrite, varying=1,
        finish=_write_layout,
    )  # fmt: skip


def _serialized(dataset: DataSet) -> Iterator[bytes]:
    columns = dataset.columns()
    named = {key_of(name): array for name, array in columns.items()}
    if len(named) < len(columns):
        raise DataError(
            "features and labels must have different names in a TFRecord file. "
            f"Received: {list(columns)}. Rename one of each pair."
        )
    return serialized_examples(named)


def _write(
    url: str,
    first: int,
    layout: Layout,
    datasets: Iterator[DataSet],
    *,
    compression: str | None,
) -> str:
    del first, layout  # records have no keys; `_write_layout` writes the layouts of all parts
    ending, window_bits = _PACKED.get(compression or "", ("", 0))
    packer = zlib.compressobj(wbits=window_bits) if compression else None
    with write_atomically(f"{url}.tfrecord{ending}") as file:
        for content in chain.from_iterable(map(_serialized, datasets)):
            frame = framed(content)
            file.write(packer.compress(frame) if packer else frame)
        if packer:
            file.write(packer.flush())
    return f"{url.rpartition('/')[2]}.tfrecord{ending}"


def _write_layout(folder: str, parts: list[Part]) -> None:
    layout = reduce(_merged, (part.layout for part in parts))
    examples = {part.entry: part.examples for part in parts}
    write_bytes(join(folder, LAYOUT), columns_note(layout, examples=examples).encode())


def key_of(column: str) -> str:
    """Return the key of a column: without the group for features and labels.

    Example:
        >>> key_of("features/image"), key_of("features_masks/image")
        ('image', 'features_masks/image')
    """
    group, _, name = column.partition("/")
    return name if group in ("features", "labels") else column

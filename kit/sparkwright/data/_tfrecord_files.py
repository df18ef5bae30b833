"""TFRecord files as distributed data, and writing such files with their layout beside them."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, BinaryIO

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice
from sparkwright.storage._files import (
    exists,
    is_folder,
    join,
    read_bytes,
    write_atomically,
    write_bytes,
)
from sparkwright.storage._listing import StoredFile, list_files

from ._dataset import DataSet
from ._distributed import DistributedDataSet
from ._pieces import OnError, SkipLog, check_on_error
from ._record_conversion import Example, RecordConversion, check_functions, example_of
from ._record_examples import Layout, columns_note, merged_layout, read_columns_note
from ._record_files import RecordPiece, from_records
from ._record_parts import Examples, RecordFormat, WrittenPart, write_parts
from ._sequence_file import Record
from ._tfrecord import (
    LAYOUT,
    FeatureSpec,
    FileCompression,
    columns_of,
    compression_of,
    feature_specs,
    framed,
    parse_example,
    read_frames,
    serialized_examples,
)
from ._wording import session_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKED = {"gzip": (".gz", 31), "zlib": (".zlib", 15)}  # ending, zlib's wbits


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

    A file is read by one task, so several files make several partitions.

    Args:
        spark: the session.
        url: a file, a folder or a pattern.
        features: inputs: key -> (shape, dtype) or (shape, dtype, default for where it is missing);
            one axis of a shape may be -1. Or keys alone: float32 of shape (count,). The key is the
            input's name. Bytes are taken as numbers of that dtype, low byte first.
        labels: outputs, likewise; of keys alone integers become int32, a single one shape ().
        convert: instead: a dict of each example, key -> float32 or int64 array or list of bytes,
            to a DataSet or (features, label); for images, texts and masks. Default None. Without
            any of the three the files must be those of `write_tfrecord`.
        compression: of the files: "auto" (default), by `.gz`, `.gzip`, `.zlib` and `.zz`; "gzip",
            "zlib" or None.
        on_error: "raise" (default), or "skip": what is damaged or does not fit is left out and
            counted; reading continues at the next record whose checksums are right.
        partitions: how many, at most one a file; default None: as many as fit.

    Raises:
        FileNotFoundError: if there is nothing at `url`.
        ConfigurationError: if an option is invalid.
        DataError: if the content of the files is not described; when the data is read, if a record
            is invalid.
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
    """Return `tfrecords` with the layouts beside `files`, which were found at `url`."""
    described = bool(specs) or convert is not None
    layouts: list[Layout] = []
    expected: dict[str, int] = {}
    for folder in sorted({file.url.rpartition("/")[0] for file in files}):
        note = join(folder, LAYOUT)
        if exists(note):
            layout, counts = read_layout(read_bytes(note), source=note)
            layouts.append(layout)
            expected |= {join(folder, name): count for name, count in counts.items()}
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


_merged = partial(merged_layout, varying=1)


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
    """Prepare a TFRecord file for `read_records`; `expected` are the counts by URL."""
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

    A record is one tf.train.Example. Features and labels have their own names as keys, masks and
    weights those of `DataSet.columns`. float32 and float16 are a float_list, integers and
    booleans an int64_list, and float64, uint8 and uint64 their bytes, as `tf.io.decode_raw` reads
    them. Shapes and dtypes are in a file beside, for `from_tfrecord`.

    Args:
        datasets: as for `write_sequence_file`, as are the other options, results and errors;
            examples must not differ in more than one axis of a column.
        url: the folder, which the executors must reach too.
        examples_per_part: the number of examples in a part.
        max_files: at most so many, of distributed data.
        compression: of each file: None (default), "gzip" or "zlib".
        overwrite: whether the content of the folder is replaced.
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
    del layout  # `_write_layout` writes those of all parts
    ending, window_bits = _PACKED.get(compression or "", ("", 0))
    packer = zlib.compressobj(wbits=window_bits) if compression else None
    with write_atomically(f"{url}.tfrecord{ending}") as file:
        for _, content in records:  # they have no keys
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
    """Return the key under which a column is written: features and labels without their group.

    Example:
        >>> key_of("features/image"), key_of("features_masks/image")
        ('image', 'features_masks/image')
    """
    group, _, name = column.partition("/")
    return name if group in ("features", "labels") else column


def read_layout(content: bytes, *, source: str) -> tuple[Layout, dict[str, int]]:
    """Parse the note of `write_tfrecord`: the layout, and file -> examples (if it has them)."""
    what = "the notes beside TFRecord files"
    layout, noted = read_columns_note(content, what=what, source=source)
    examples = noted.get("examples", {})
    return layout, {str(name): int(count) for name, count in examples.items()}

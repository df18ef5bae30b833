"""TFRecord files as distributed data, and writing such files with their layout beside them."""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice
from sparkwright.storage._files import (
    exists,
    is_folder,
    join,
    open_to_read,
    read_bytes,
    write_atomically,
    write_bytes,
)
from sparkwright.storage._listing import StoredFile, list_files

from ._arrow import cut
from ._dataset import DataSet
from ._distributed import DistributedDataSet
from ._pieces import OnError, SkipLog, check_on_error, from_pieces
from ._record_conversion import Example, example_of, reason_of, stacked
from ._record_examples import columns_note, read_columns_note
from ._record_parts import Examples, WrittenPart, write_parts
from ._tf_example import (
    FeatureSpec,
    columns_of,
    feature_specs,
    parse_example,
    serialized_examples,
    values_of,
)
from ._tfrecord import FileCompression, compression_of, framed, read_frames
from ._wording import session_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUT = "_layout.json"
_PACKED = {"gzip": (".gz", 31), "zlib": (".zlib", 15)}  # ending, zlib's wbits
# Flat column name -> dtype, and the shape that all examples have, -1 for an axis that varies.
Layout = dict[str, tuple[str, tuple[int, ...]]]


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
    compression_of("", compression)
    specs = feature_specs("features", features) + feature_specs("labels", labels)
    if convert is not None and not callable(convert):
        raise ConfigurationError(
            f"`convert` must be a function of a dict, or None. Received: convert={convert!r}."
        )
    if specs and (convert is not None or features is None):
        raise ConfigurationError(
            "there must be `features`, with or without `labels`, or `convert` alone. Received: "
            f"features={features!r}, labels={labels!r}, convert={convert!r}."
        )
    files = list_files(url)
    if not files:
        raise DataError(f"there must be at least one file. Received: {url} without any.")
    read = reading(url, files, specs=specs, convert=convert, compression=compression)
    fingerprint = None  # a change of a function cannot be seen
    if convert is None:
        wanted = partitions or spark.sparkContext.defaultParallelism
        described = (files, read.keywords["specs"], compression, on_error, wanted)
        fingerprint = hashlib.sha256(repr(described).encode()).hexdigest()
    return from_pieces(
        spark,
        files,
        read,
        sizes=[file.size_bytes for file in files],
        partitions=partitions,
        on_error=on_error,
        fingerprint=fingerprint,
    )


def reading(
    url: str,
    files: Sequence[StoredFile],
    *,
    specs: Sequence[FeatureSpec] = (),
    convert: Callable[[dict[str, Any]], Any] | None = None,
    compression: str | None = "auto",
) -> "partial[Iterator[DataSet]]":
    """Return `read_tfrecord` with the layouts beside `files`, which were found at `url`."""
    described = bool(specs) or convert is not None
    layouts: list[Layout] = []
    examples: dict[str, int] = {}
    for folder in sorted({file.url.rpartition("/")[0] for file in files}):
        note = join(folder, LAYOUT)
        if exists(note):
            layout, counts = read_layout(read_bytes(note), source=note)
            layouts.append(layout)
            examples |= {join(folder, name): count for name, count in counts.items()}
        elif not described:
            raise DataError(
                "the content of TFRecord files must be described: `features=` and `labels=`, or "
                f"`convert=`. Received: neither, and {folder} is no folder of `write_tfrecord`."
            )
    missing = sorted(set(examples) - {file.url for file in files})
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
                for name, (dtype, shape) in reduce(merged_layout, layouts).items()
            ]
        except (ConfigurationError, DataError) as error:
            raise DataError(f"{error} {LAYOUT} at {url} says so. Is it damaged?") from None
    return partial(
        read_tfrecord,
        specs=tuple(specs),
        convert=convert,
        compression=compression,
        examples=examples,
    )


def read_tfrecord(
    file: StoredFile,
    log: SkipLog,
    *,
    specs: Sequence[FeatureSpec] = (),
    convert: Callable[[dict[str, Any]], Any] | None = None,
    compression: str | None = "auto",
    examples: Mapping[str, int] | None = None,
) -> Iterator[DataSet]:
    """Yield the examples of one file; `examples` are the expected counts by URL."""
    damaged = False

    def damage(error: DataError) -> None:
        nonlocal damaged
        damaged = True
        log.skip("damaged record", str(error))

    def found_examples() -> Iterator[Example]:
        count = 0
        with open_to_read(file.url) as content:
            for at, frame in read_frames(
                content,
                size_bytes=file.size_bytes,
                source=file.url,
                compression=compression_of(file.url, compression),
                on_damage=damage,
            ):
                count += 1
                try:
                    found = parse_example(frame)
                    made = None if convert is None else convert(values_of(found))
                    example = columns_of(found, specs) if convert is None else example_of(made)
                except Exception as error:  # whatever a function of the user's raises
                    where = f"It is the record at byte {at} of {file.url}."
                    log.skip("unusable record", f"{reason_of(error)} {where}")
                else:
                    yield example
        noted = (examples or {}).get(file.url, count)
        if noted != count and not damaged:
            log.skip(
                "missing records",
                f"a TFRecord file must hold as many records as {LAYOUT} beside it says, {noted}. "
                f"Received: {count} in {file.url}. The file is not complete, or another one.",
                count=max(1, noted - count),
            )

    try:
        yield from stacked(found_examples())
    except OSError as error:
        log.skip("unreadable file", f"a file must be readable. Received: {error}.")


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
        datasets: as for `write_sequence_file`, as are the other options.
        url: the folder, which the executors must reach too.
        examples_per_part: the number of examples in a part.
        max_files: at most so many, of distributed data.
        compression: of each file: None (default), "gzip" or "zlib".
        overwrite: whether the content of the folder is replaced.

    Returns:
        The number of examples.

    Raises:
        ConfigurationError: if an option is invalid, or the folder is not empty.
        DataError: if examples differ in columns, dtypes, or more than one axis of a column.
        OSError: if a file cannot be written, naming it.
    """
    check_choice("compression", compression, (None, "gzip", "zlib"))
    return write_parts(
        datasets,
        url,
        partial(_write_part, compression=compression),
        examples_per_part=examples_per_part,
        max_files=max_files,
        overwrite=overwrite,
        numbered=False,
        finish=_write_layout,
    )


def _write_part(
    datasets: Iterable[DataSet],
    url: str,
    first_key: int,
    key_step: int,
    *,
    compression: FileCompression | None,
) -> WrittenPart:
    del first_key, key_step  # records of a TFRecord file have no keys
    ending, window_bits = _PACKED.get(compression or "", ("", 0))
    stream = (dataset for dataset in datasets if len(dataset))
    if (first := next(stream, None)) is None:
        return WrittenPart(count=0)
    packer = zlib.compressobj(wbits=window_bits) if compression else None
    layout, count = _layout_of(first), 0
    with write_atomically(f"{url}.tfrecord{ending}") as file:
        for dataset in (part for whole in chain([first], stream) for part in cut(whole)):
            layout = merged_layout(layout, _layout_of(dataset))
            columns = {key_of(name): array for name, array in dataset.columns().items()}
            content = b"".join(map(framed, serialized_examples(columns)))
            file.write(packer.compress(content) if packer else content)
            count += len(dataset)
        if packer:
            file.write(packer.flush())
    entry = f"{url.rpartition('/')[2]}.tfrecord{ending}"
    return WrittenPart(count=count, entry=entry, layout=layout)


def key_of(column: str) -> str:
    """Return the key under which a column is written: features and labels without their group.

    Example:
        >>> key_of("features/image"), key_of("features_masks/image")
        ('image', 'features_masks/image')
    """
    group, _, name = column.partition("/")
    return name if group in ("features", "labels") else column


def _layout_of(dataset: DataSet) -> Layout:
    columns = dataset.columns()
    if len({key_of(name) for name in columns}) < len(columns):
        raise DataError(
            "features and labels must have different names in a TFRecord file. "
            f"Received: {list(columns)}. Rename one of each pair."
        )
    return {name: (array.dtype.name, array.shape[1:]) for name, array in columns.items()}


def merged_layout(one: Layout, other: Layout) -> Layout:
    """Return what both have in common; -1 for the axis in which they differ.

    Example:
        >>> merged_layout({"features/x": ("int8", (3, 2))}, {"features/x": ("int8", (5, 2))})
        {'features/x': ('int8', (-1, 2))}
    """
    found: Layout = {}
    for name, (dtype, shape) in one.items():
        dtype_too, shape_too = other.get(name, ("", ()))
        merged = tuple(a if a == b else -1 for a, b in zip(shape, shape_too, strict=False))
        if dtype == dtype_too and len(shape) == len(shape_too) and merged.count(-1) <= 1:
            found[name] = dtype, merged
    if found.keys() != one.keys() or found.keys() != other.keys():
        raise DataError(
            "all examples of TFRecord files must have the same columns and dtypes, and the same "
            f"shapes but for one axis. Received: {other} after {one}. Pad or resize them first."
        )
    return found


def read_layout(content: bytes, *, source: str) -> tuple[Layout, dict[str, int]]:
    """Parse the note of `write_tfrecord`: the layout, and file -> examples (if it has them)."""
    layout, noted = read_columns_note(content, tuple, "the notes beside TFRecord files", source)
    examples = noted.get("examples", {})
    return layout, {str(name): int(count) for name, count in examples.items()}


def _write_layout(url: str, parts: list[WrittenPart]) -> None:
    layout = reduce(merged_layout, (part.layout for part in parts))
    examples = {part.entry: part.count for part in parts}
    write_bytes(join(url, LAYOUT), columns_note(layout, examples=examples).encode())

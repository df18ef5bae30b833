"""TFRecord files as distributed data."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from sparkwright.data._dataset import DataSet
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import OnError, SkipLog, check_on_error, from_pieces
from sparkwright.data._session_first import session_first
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import exists, is_folder, join, open_to_read, read_bytes
from sparkwright.storage._listing import StoredFile, list_files

from ._record_conversion import Example, example_of, stacked, told
from ._tf_example import (
    FeatureSpec,
    columns_of,
    feature_specs,
    key_of,
    parse_example,
    values_of,
)
from ._tfrecord import compression_of, read_frames
from ._tfrecord_writing import LAYOUT, Layout, layout_from_json, merged_layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    """Examples from TFRecord files of tf.train.Example messages; TensorFlow is not needed.

    A file is read by one task, so several files make several partitions.

    Args:
        spark: the session.
        url: a file, a folder or a pattern.
        features: inputs: key -> (shape, dtype) or (shape, dtype, default for where it is missing);
            one axis of a shape may be -1. Or keys alone: float32 of shape (count,). The key is the
            input's name. Bytes are taken as numbers of that dtype, low byte first.
        labels: outputs, likewise; of keys alone whole numbers become int32, a single one shape ().
        convert: instead: a dict of each example, key -> float32 or int64 array or list of bytes,
            to a DataSet or (features, label); for images, texts and masks. Default None. Without
            any of the three the files must be those of `write_tfrecord`.
        compression: of the files: "auto" (default), by `.gz`, `.gzip`, `.zlib` and `.zz`; "gzip",
            "zlib" or None.
        on_error: "raise" (default), or "skip": what is damaged or does not fit is left out and
            counted; reading goes on at the next record whose checksums are right.
        partitions: how many, at most one a file; default None: as many as fit.

    Raises:
        FileNotFoundError: if there is nothing at `url`.
        ConfigurationError: if an option cannot be meant that way.
        DataError: if it is not said what is in the files; when the data is read, if a record
            cannot be.
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
    specs = read.keywords["specs"]
    options = [compression, on_error, partitions or spark.sparkContext.defaultParallelism]
    fingerprint = None if convert is not None else _fingerprint(files, specs, options)
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
    """`read_tfrecord` with all that is noted beside `files`, which were found at `url`.

    Raises:
        DataError: if it is not known what is in the files, or a file is missing.
    """
    notes = _notes(files, needed=convert is None and not specs)
    examples = {
        join(folder, name): count
        for folder, (_, counts) in notes.items()
        for name, count in counts.items()
    }
    _check_complete(url, files, examples)
    return partial(
        read_tfrecord,
        specs=tuple(specs) if specs or convert is not None else _kept_specs(notes),
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
    """The examples of one file.

    Args:
        file: the file.
        log: gets what cannot be read.
        specs: what to take from each record.
        convert: as for `from_tfrecord`.
        compression: as for `from_tfrecord`.
        examples: URL of a file -> how many it must hold, where that is known.
    """
    damaged = False

    def damage(error: DataError) -> None:
        nonlocal damaged
        damaged = True
        log.skip("damaged record", str(error))

    def found_examples() -> Iterator[Example]:
        count = 0
        with open_to_read(file.url) as content:
            frames = read_frames(
                content,
                size_bytes=file.size_bytes,
                source=file.url,
                compression=compression_of(file.url, compression),
                on_damage=damage,
            )
            for at, frame in frames:
                count += 1
                try:
                    found = parse_example(frame)
                    if convert is None:
                        made: Example = columns_of(found, specs)
                    else:
                        made = example_of(convert(values_of(found)))
                except Exception as error:  # whatever a function of the user's raises
                    where = f"It is the record at byte {at} of {file.url}."
                    log.skip("unusable record", f"{told(error)} {where}")
                else:
                    yield made
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


def _notes(
    files: Sequence[StoredFile], *, needed: bool
) -> dict[str, tuple[Layout, dict[str, int]]]:
    """Folder -> what `write_tfrecord` noted there."""
    found: dict[str, tuple[Layout, dict[str, int]]] = {}
    for folder in sorted({file.url.rpartition("/")[0] for file in files}):
        url = join(folder, LAYOUT)
        if exists(url):
            found[folder] = layout_from_json(read_bytes(url), source=url)
        elif needed:
            raise DataError(
                "it must be said what is in TFRecord files: `features=` and `labels=`, or "
                f"`convert=`. Received: neither, and {folder} is no folder of `write_tfrecord`."
            )
    return found


def _check_complete(url: str, files: Sequence[StoredFile], examples: Mapping[str, int]) -> None:
    """See to it that a folder has every file that was written to it."""
    missing = sorted(set(examples) - {file.url for file in files})
    if missing and is_folder(url):
        raise DataError(
            f"a folder of TFRecord files must hold every file that {LAYOUT} names. Received: {url} "
            f"without {missing[0].rpartition('/')[2]}, {len(missing)} missing in all. Restore the "
            "folder, or give a pattern."
        )


def _kept_specs(notes: Mapping[str, tuple[Layout, dict[str, int]]]) -> tuple[FeatureSpec, ...]:
    """What `write_tfrecord` noted beside the files."""
    try:
        layout = reduce(merged_layout, (layout for layout, _ in notes.values()))
        return tuple(
            FeatureSpec(key=key_of(name), column=name, shape=shape, dtype=dtype)
            for name, (dtype, shape) in layout.items()
        )
    except (ConfigurationError, DataError) as error:
        folders = ", ".join(notes)
        raise DataError(f"{error} {LAYOUT} in {folders} says so. Is it damaged?") from None


def _fingerprint(
    files: Sequence[StoredFile], specs: Sequence[FeatureSpec], options: Sequence[Any]
) -> str:
    described = [[file.url, file.size_bytes, file.version] for file in files]
    return hashlib.sha256(json.dumps([described, repr(specs), *options]).encode()).hexdigest()

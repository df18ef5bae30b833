"""TFRecord files as distributed data."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from sparkwright.data._dataset import DataSet
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import OnError, SkipLog, check_on_error, from_pieces
from sparkwright.data._session_first import session_first
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import exists, join, open_to_read, read_bytes
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
    if convert is None and not specs:
        specs = _kept_specs(files)
    read = partial(read_tfrecord, specs=specs, convert=convert, compression=compression)
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


def read_tfrecord(
    file: StoredFile,
    log: SkipLog,
    *,
    specs: Sequence[FeatureSpec] = (),
    convert: Callable[[dict[str, Any]], Any] | None = None,
    compression: str | None = "auto",
) -> Iterator[DataSet]:
    """The examples of one file; the arguments are those of `from_tfrecord`."""

    def examples() -> Iterator[Example]:
        with open_to_read(file.url) as content:
            frames = read_frames(
                content,
                size_bytes=file.size_bytes,
                source=file.url,
                compression=compression_of(file.url, compression),
                on_damage=lambda error: log.skip("damaged record", str(error)),
            )
            for at, frame in frames:
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

    try:
        yield from stacked(examples())
    except OSError as error:
        log.skip("unreadable file", f"a file must be readable. Received: {error}.")


def _kept_specs(files: Sequence[StoredFile]) -> tuple[FeatureSpec, ...]:
    """What `write_tfrecord` noted beside the files."""
    folders = sorted({file.url.rpartition("/")[0] for file in files})
    layouts: list[Layout] = []
    for folder in folders:
        url = join(folder, LAYOUT)
        if not exists(url):
            raise DataError(
                "it must be said what is in TFRecord files: `features=` and `labels=`, or "
                f"`convert=`. Received: neither, and {folder} is no folder of `write_tfrecord`."
            )
        layouts.append(layout_from_json(read_bytes(url), source=url))
    layout = reduce(merged_layout, layouts)
    return tuple(
        FeatureSpec(key=key_of(name), column=name, shape=shape, dtype=dtype)
        for name, (dtype, shape) in layout.items()
    )


def _fingerprint(
    files: Sequence[StoredFile], specs: Sequence[FeatureSpec], options: Sequence[Any]
) -> str:
    described = [[file.url, file.size_bytes, file.version] for file in files]
    return hashlib.sha256(json.dumps([described, repr(specs), *options]).encode()).hexdigest()

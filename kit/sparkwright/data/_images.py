"""Folders of image files, distributed."""

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, Unpack

import numpy as np

from sparkwright.errors import DataError
from sparkwright.storage.listing import StoredFile, list_files

from ._browsing import Entry
from ._distributed import DistributedDataSet
from ._image_decoding import IMAGE_EXTENSIONS, ImageOptions
from ._image_labels import (
    Label,
    MaskFile,
    PatternLabel,
    check_found_classes,
    collect_classes,
    is_in_path,
)
from ._image_reader import ImageArguments, ImageReader
from ._local_data import LocalData
from .pieces import OnError, SkipLog, check_on_error, group_by_size, partition_count, read_groups
from .wording import session_first, with_options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Stored = TypeVar("Stored", StoredFile, Entry)


@session_first
@with_options_of(ImageOptions, ImageReader.of)
def from_images(
    spark: "SparkSession",
    url: str,
    *,
    extensions: Sequence[str] = IMAGE_EXTENSIONS,
    recursive: bool = True,
    seed: int | None = 0,
    on_error: OnError = "raise",
    partitions: int | None = None,
    **options: Unpack[ImageArguments],
) -> DistributedDataSet:
    """Read image files as (n, height, width, channels) features, with labels.

    The driver lists the files; executors read and decode them whenever the data is needed. The
    pixels are those of Pillow on one machine.

    Args:
        spark: the session.
        url: a folder, a file, or a pattern, in any file system that fsspec knows.
        size: (height, width) in pixels that every image is stretched to.
        channels: 3 (default, RGB) or 1 (gray).
        label: "parent" (default): the name of the file's folder; `PatternLabel`: a part of its
            name; `MaskFile`: an image beside it; None: no labels. Or a function of the URL that
            returns a class name, a number or an array; it runs on the executors.
        classes: their names in the order of their numbers; default None: all in the URLs, sorted.
        one_hot: (n, classes) float32 instead of (n,) int32; default False.
        scale: True (default): float32 from 0 to 1. False: uint8, a quarter of the memory.
        resize: "nearest", "box", "bilinear" (default), "hamming", "bicubic" or "lanczos".
        upright: rotate photos by their EXIF orientation; default False: pixels as stored.
        draft: decode JPEGs at a half, a quarter or an eighth of their size if that is still at
            least twice `size`: faster, but other pixels. Default False.
        augment: random variants of each image; default None.
        extensions: extensions of files to read, in any case.
        recursive: with sub-folders (default).
        seed: shuffles the files once, so that each partition has images of all folders; default 0.
            None: sorted by URL.
        on_error: "raise" (default): the first unusable file is an error that names it. "skip":
            such files are left out, and counted in `skipped()`.
        partitions: how many; default None: Spark's default parallelism, or more if a partition
            would hold more than 128 MiB of files.
        threads: how many decode at the same time in each task; default 4.

    Raises:
        ConfigurationError: if an option is invalid.
        DataError: if there is no image, or if the paths hold fewer than two classes; later, on
            executors, if a file is unusable.
        FileNotFoundError: if there is nothing at `url`.
    """
    check_on_error(on_error)
    reader, listed, files = _prepared(ImageReader.of(**options), url, extensions, recursive, seed)
    return read_groups(
        spark,
        url_groups(spark, files, partitions),
        reader.read_files,
        on_error=on_error,
        fingerprint=fingerprint_of(reader, listed, seed, on_error),
        class_names=reader.class_names(),
    )


@with_options_of(ImageOptions, ImageReader.of)
def read_images(
    url: str,
    *,
    extensions: Sequence[str] = IMAGE_EXTENSIONS,
    recursive: bool = True,
    seed: int | None = 0,
    on_error: OnError = "raise",
    **options: Unpack[ImageArguments],
) -> LocalData:
    """The same examples as `from_images`, with its arguments, read here without Spark.

    `ParallelWrapper` takes the result as it is; `data` is the DataSet.

    Raises:
        Exception: as `from_images`.
    """
    check_on_error(on_error)
    reader, _, files = _prepared(ImageReader.of(**options), url, extensions, recursive, seed)
    log = SkipLog(on_error)
    found = reader.read_files([file.url for file in files], log)
    return LocalData.of(found, log, url, class_names=reader.class_names())


def _prepared(
    reader: ImageReader, url: str, extensions: Sequence[str], recursive: bool, seed: int | None
) -> tuple[ImageReader, list[StoredFile], list[StoredFile]]:
    """The reader with its classes, all files, and the images in the order of reading."""
    listed = list_files(url, extensions=extensions, recursive=recursive)
    files = without_masks(listed, reader.label)
    if not files:
        raise DataError(
            f"there must be at least one image. Received: url={url!r}, where no file has one of "
            f"the extensions {', '.join(extensions)}."
        )
    if reader.encoder.classes is None and is_in_path(reader.label):
        found = collect_classes(reader.label, (file.url for file in files))
        check_found_classes(found, reader.label, url, files[0].url)
        reader = reader.with_classes(found)
    if seed is not None:
        files = [files[i] for i in np.random.default_rng(seed).permutation(len(files))]
    return reader, listed, files


def url_groups(
    spark: "SparkSession", files: Sequence[StoredFile], partitions: int | None
) -> list[list[str]]:
    """Return the URLs of each partition."""
    sizes = [file.size_bytes for file in files]
    groups = group_by_size(sizes, partition_count(spark, sizes, partitions))
    return [[files[i].url for i in group] for group in groups]


def fingerprint_of(
    reader: ImageReader, files: Sequence[StoredFile], *options: object
) -> str | None:
    """Return a digest of all files and options; None if labels depend on anything else."""
    label = reader.label
    if isinstance(label, MaskFile):
        known = {file.url for file in files}
        if not all(label.of(image.url) in known for image in without_masks(files, label)):
            return None  # masks elsewhere may change
    elif callable(label):
        return None
    described = {
        "files": [(file.url, file.size_bytes, file.version) for file in files],
        "options": reader.options.to_dict(),
        "label": repr(label) if isinstance(label, PatternLabel | MaskFile) else label,
        "classes": reader.encoder.classes,
        "one_hot": reader.encoder.one_hot,
        "augment": None if reader.augment is None else reader.augment.to_dict(),
        "more": options,
    }
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def without_masks(files: Sequence[Stored], label: Label) -> list[Stored]:
    """Leave out files that are masks of others; the reader refuses an image that is its own."""
    if not isinstance(label, MaskFile):
        return list(files)
    pairs = [(file.url, label.of(file.url)) for file in files]
    masks = {mask for url, mask in pairs if mask != url}
    return [file for file in files if file.url not in masks]

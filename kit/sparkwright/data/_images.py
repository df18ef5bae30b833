"""Read folders of image files, on Spark or locally."""

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

import numpy as np

from sparkwright.errors import DataError
from sparkwright.storage.listing import StoredFile, list_files

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

    The driver lists the files; executors read and decode them at each pass over the data. Pixels
    are identical to those of Pillow.

    Args:
        spark: the session.
        url: a folder, a file, or a pattern, in any file system that fsspec supports.
        size: (height, width) in pixels; every image is resized to it, ignoring its aspect ratio.
        channels: 3 (default, RGB) or 1 (gray).
        label: "parent" (default): the name of the file's folder; `PatternLabel`: a part of its
            name; `MaskFile`: a mask file; None: no labels. Or a function of the URL that returns a
            class name, a number or an array; it runs on the executors.
        classes: class names in the order of their numbers; default None: all in the URLs, sorted.
        one_hot: (n, classes) float32 instead of (n,) int32; default False.
        scale: True (default): float32 from 0 to 1. False: uint8, a quarter of the memory.
        resize: "nearest", "box", "bilinear" (default), "hamming", "bicubic" or "lanczos".
        upright: rotate according to the EXIF orientation; default False: pixels as stored.
        draft: decode JPEGs at 1/2, 1/4 or 1/8 of their size if that is still at least twice
            `size`: faster, with slightly different pixels. Default False.
        extensions: file extensions to read, case-insensitive.
        recursive: include subfolders; default True.
        seed: seed for shuffling the files once, so that partitions mix folders; default 0. None:
            sort by URL.
        on_error: "raise" (default) raises at the first unusable file. "skip" skips unusable files
            and counts them in `skipped()`.
        partitions: number of partitions; default None: Spark's default parallelism, or more so
            that a partition has at most 128 MiB of files.
        threads: decoding threads per task; default 4.

    Raises:
        ConfigurationError: if an option is invalid.
        DataError: if there is no image, or if the paths hold fewer than two classes; later, on
            executors, if a file is unusable.
        FileNotFoundError: if `url` does not exist.
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
    """Read the examples of `from_images` locally, without Spark.

    Pass the result to `ParallelWrapper`; its `data` is the DataSet.

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
    """Return the reader with its classes, all files, and the images in reading order."""
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
    urls = [file.url for file in files]
    return group_by_size(urls, sizes, partition_count(spark, sizes, partitions))


def fingerprint_of(
    reader: ImageReader, files: Sequence[StoredFile], *options: object
) -> str | None:
    """Return a digest of all files and options; None if labels depend on other inputs."""
    label = reader.label
    if isinstance(label, MaskFile):
        known = {file.url for file in files}
        if not all(label.of(image.url) in known for image in without_masks(files, label)):
            return None  # masks outside of the listed files may change
    elif callable(label):
        return None
    described = {
        "files": [(file.url, file.size_bytes, file.version) for file in files],
        "options": reader.options.to_dict(),
        "label": repr(label) if isinstance(label, PatternLabel | MaskFile) else label,
        "classes": reader.encoder.classes,
        "one_hot": reader.encoder.one_hot,
        "more": options,
    }
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def without_masks(files: Sequence[StoredFile], label: Label) -> list[StoredFile]:
    """Exclude files that are masks of other files; the reader rejects an image as its own mask."""
    if not isinstance(label, MaskFile):
        return list(files)
    pairs = [(file.url, label.of(file.url)) for file in files]
    masks = {mask for url, mask in pairs if mask != url}
    return [file for file in files if file.url not in masks]

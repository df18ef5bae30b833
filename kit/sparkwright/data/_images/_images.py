"""Folders of image files, distributed."""

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import (
    OnError,
    check_on_error,
    check_partitions,
    from_pieces,
    group_by_size,
)
from sparkwright.data._session_first import session_first
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._listing import StoredFile, list_files

from ._augmentation import Augmentation
from ._image_decoding import IMAGE_EXTENSIONS, ImageOptions
from ._image_labels import (
    Label,
    LabelEncoder,
    MaskFile,
    PatternLabel,
    check_classes,
    check_label,
    is_in_path,
)
from ._image_reader import ImageReader
from ._path_classes import check_found_classes, collect_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITION_BYTES = 128 << 20


@session_first
def from_images(
    spark: "SparkSession",
    url: str,
    *,
    size: tuple[int, int],
    channels: int = 3,
    label: Label = "parent",
    classes: Sequence[str] | None = None,
    one_hot: bool = False,
    scale: bool = True,
    resize: str = "bilinear",
    upright: bool = False,
    draft: bool = False,
    augment: Augmentation | None = None,
    extensions: Sequence[str] = IMAGE_EXTENSIONS,
    recursive: bool = True,
    seed: int | None = 0,
    on_error: OnError = "raise",
    partitions: int | None = None,
    threads: int = 4,
) -> DistributedDataSet:
    """Image files as (n, height, width, channels) features, with labels.

    The driver lists the files; executors read and decode them whenever the data is needed, with
    the pixels that Pillow gives on one machine.

    Args:
        spark: the session.
        url: a folder, a file, or a pattern, in any file system that fsspec knows.
        size: (height, width) in pixels that every image is stretched to.
        channels: 3 (default, RGB) or 1 (grey).
        label: "parent" (default): the name of the file's folder; `PatternLabel`: a part of its
            name; `MaskFile`: an image beside it; None: no labels. Or a function of the URL that
            returns a class name, a number or an array; it runs on the executors.
        classes: their names in the order of their numbers; default None: all that occur, sorted,
            if the URL tells the label.
        one_hot: (n, classes) float32 instead of (n,) int32; default False.
        scale: True (default): float32 from 0 to 1. False: uint8, a quarter of the memory.
        resize: "nearest", "box", "bilinear" (default), "hamming", "bicubic" or "lanczos".
        upright: turn photos as their EXIF orientation says; default False: pixels as stored.
        draft: let JPEGs be decoded at a half, a quarter or an eighth of their size if that is
            still at least twice `size`: quicker, but other pixels. Default False.
        augment: random variants of each image; default None.
        extensions: endings of files to read, in any case.
        recursive: with sub-folders (default).
        seed: shuffles the files once, so that each partition has images of all folders; default 0.
            None: sorted by URL.
        on_error: "raise" (default): the first file that cannot be used is an error that names it.
            "skip": such files are left out, and counted in `skipped()`.
        partitions: how many; default None: Spark's default parallelism, or more if a partition
            would hold more than 128 MiB of files.
        threads: that decode at the same time in each task; default 4.

    Raises:
        ConfigurationError: if an option cannot be meant.
        DataError: if there is no image, or if paths are to tell the classes and there are fewer
            than two; later, on executors, if a file cannot be used.
        FileNotFoundError: if there is nothing at `url`.
    """
    reader = image_reader(
        size=size,
        channels=channels,
        label=label,
        classes=classes,
        one_hot=one_hot,
        scale=scale,
        resize=resize,
        upright=upright,
        draft=draft,
        augment=augment,
        threads=threads,
    )
    check_on_error(on_error)
    listed = list_files(url, extensions=extensions, recursive=recursive)
    files = _without_masks(listed, label)
    if not files:
        raise DataError(
            f"there must be at least one image. Received: url={url!r}, where no file has one of "
            f"the extensions {', '.join(extensions)}."
        )
    if reader.encoder.classes is None and is_in_path(label):
        found = collect_classes(label, (file.url for file in files))
        check_found_classes(found, label, url, files[0].url)
        reader = reader.with_classes(found)
    if seed is not None:
        files = [files[i] for i in np.random.default_rng(seed).permutation(len(files))]
    sizes = [file.size_bytes for file in files]
    wanted = partition_count(spark, sizes, partitions)
    groups = group_by_size(sizes, wanted)
    return from_pieces(
        spark,
        [[files[i].url for i in group] for group in groups],
        reader.read_files,
        sizes=[sum(sizes[i] for i in group) for group in groups],
        partitions=len(groups),
        on_error=on_error,
        fingerprint=fingerprint_of(reader, listed, seed, on_error),
        class_names=class_names_of(reader),
    )


def image_reader(
    *,
    classes: Sequence[str] | None,
    one_hot: bool,
    label: Label,
    augment: Augmentation | None,
    threads: int,
    **options: Any,
) -> ImageReader:
    """The options that all sources of images share, checked.

    Raises:
        ConfigurationError: naming the option.
    """
    checked = ImageOptions(**options)
    check_label(label)
    names = check_classes(classes, label=label, one_hot=one_hot)
    if not (augment is None or isinstance(augment, Augmentation)):
        raise ConfigurationError(
            f"`augment` must be an Augmentation or None. Received: augment={augment!r}."
        )
    if augment is not None:
        augment.output_size(checked.size)
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 256:
        raise ConfigurationError(
            f"`threads` must be an integer from 1 to 256. Received: threads={threads!r}."
        )
    return ImageReader(
        options=checked,
        label=label,
        encoder=LabelEncoder(classes=names, one_hot=one_hot),
        augment=augment,
        threads=threads,
    )


def partition_count(spark: "SparkSession", sizes: Sequence[int], partitions: int | None) -> int:
    """How many partitions, unless the user says: as `from_pieces`, but each is one piece.

    A piece keeps its threads to its end, so one long piece beats several short ones.
    """
    check_partitions(partitions)
    if partitions is not None:
        return partitions
    return max(spark.sparkContext.defaultParallelism, -(-sum(sizes) // _PARTITION_BYTES))


def class_names_of(reader: ImageReader) -> dict[str, Sequence[str]]:
    """As a data set takes them."""
    classes = reader.encoder.classes
    return {"labels": classes} if classes is not None and reader.label is not None else {}


def fingerprint_of(reader: ImageReader, files: Sequence[StoredFile], *options: Any) -> str | None:
    """Changes with any file or option; None if labels are made by what cannot be compared."""
    label = reader.label
    if isinstance(label, MaskFile):
        known = {file.url for file in files}
        if not all(label.of(image.url) in known for image in _without_masks(files, label)):
            return None  # masks elsewhere may change unseen
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


def _without_masks(files: Sequence[StoredFile], label: Label) -> list[StoredFile]:
    """Without the files that are masks of others; the reader refuses what is its own mask."""
    if not isinstance(label, MaskFile):
        return list(files)
    pairs = [(file.url, label.of(file.url)) for file in files]
    masks = {mask for url, mask in pairs if mask != url}
    return [file for file in files if file.url not in masks]

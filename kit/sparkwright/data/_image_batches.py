"""Read images from file batches, distributed or one batch at a time, and write batches."""

import contextlib
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import collect, run_job
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_count
from sparkwright.storage.files import (
    absolute,
    exists,
    join,
    move_files,
    open_to_read,
    place_of,
    read_bytes,
    remove,
    remove_empty_folder,
    remove_tree,
    write_atomically,
)
from sparkwright.storage.listing import list_files, list_folder

from ._distributed import DistributedDataSet
from ._file_batches import ENTRIES, FileBatch, check_sizes, iterate, uri_of, uris_in, url_of
from ._image_decoding import ImageOptions
from ._image_labels import Label, MaskFile, check_found_classes, collect_classes, is_in_path
from ._image_reader import EncodedImage, ImageArguments, ImageReader
from ._images import fingerprint_of, url_groups
from .dataset import DataSet
from .paths import check_complete, check_reached, check_visible
from .pieces import OnError, SkipLog, check_on_error, read_groups
from .wording import session_first, with_options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH = re.compile(r"batch-\d{6,}\.zip")


@session_first
@with_options_of(ImageOptions, ImageReader.of)
def from_image_batches(
    spark: "SparkSession",
    url: str,
    *,
    recursive: bool = True,
    on_error: OnError = "raise",
    partitions: int | None = None,
    **options: Unpack[ImageArguments],
) -> DistributedDataSet:
    """Read images packed by `write_file_batches`, as `from_images` reads the original files.

    Labels come from the original files' URLs. Archives are read in the order of their URLs, and
    files in the order of their archive.

    Args:
        spark: the session.
        url: a folder with archives (`*.zip`), one archive, or a pattern.
        recursive: include subfolders; default True.
        on_error: as in `from_images`; an archive without readable index counts as one item.
        partitions: as in `from_images`.
        options: `size`, `channels`, `label`, `classes`, `one_hot`, `scale`, `resize`, `upright`,
            `draft` and `threads` as in `from_images`. `label` may not be a `MaskFile`; a function
            receives the original URL, decoded. Without `classes`, a Spark job collects them from
            the archives' indices.

    Raises:
        ConfigurationError: if an option is invalid.
        DataError: if there is no archive, or if the URLs hold fewer than two classes; later, on
            executors, if a file is unusable.
        FileNotFoundError: if `url` does not exist.
    """
    reader = _batch_reader(options)
    check_on_error(on_error)
    files = list_files(url, extensions=("zip",), recursive=recursive)
    if not files:
        raise DataError(
            f"there must be at least one archive. Received: url={url!r}, where no file ends in "
            "`.zip`. Write archives with `write_file_batches`."
        )
    groups = url_groups(spark, files, partitions)
    if reader.encoder.classes is None and is_in_path(reader.label):
        found, example = _classes_in(spark, groups, reader.label)
        if example:  # otherwise no archive is readable, which is reported when reading
            check_found_classes(found, reader.label, url, example)
        reader = reader.with_classes(found)
    return read_groups(
        spark,
        groups,
        partial(read_batches, reader=reader),
        on_error=on_error,
        fingerprint=fingerprint_of(reader, files, on_error),
        class_names=reader.class_names(),
    )


class ImageBatchLoader:
    """Loader that reads one file batch as one DataSet, for use with minibatch sources.

    Example:
        >>> loader = ImageBatchLoader(size=(64, 64), classes=["cat", "dog"])
        >>> loader
        ImageBatchLoader(size=(64, 64))
    """

    def __init__(self, *, on_error: OnError = "raise", **options: Unpack[ImageArguments]) -> None:
        """Validate the options, which are those of `from_image_batches`.

        Raises:
            ConfigurationError: if an option is invalid, or if `classes` is missing while labels
                come from the URLs.
        """
        self._reader = _batch_reader(options)
        check_on_error(on_error)
        if self._reader.encoder.classes is None and is_in_path(self._reader.label):
            raise ConfigurationError(
                "`classes` must be given, because one archive may not contain all classes. "
                "Received: classes=None."
            )
        self._on_error: OnError = on_error

    def __repr__(self) -> str:
        return f"ImageBatchLoader(size={self._reader.options.size})"

    def __call__(self, source: Any) -> DataSet:
        """Return the images of an archive.

        Args:
            source: a URL, or an object with `url` and `read()`.

        Raises:
            DataError: if a file is unusable, or if all files were skipped.
        """
        url = source if isinstance(source, str) else str(source.url)
        content = read_bytes(url) if isinstance(source, str) else bytes(source.read())
        log = SkipLog(self._on_error)
        found = list(self._reader.read(_images_in(iterate(content, url), url, log), log))
        if not found:
            raise DataError(f"an archive must hold at least one image. Received: {url}.")
        return DataSet.concatenate(found)


def read_batches(urls: Iterable[str], log: SkipLog, *, reader: ImageReader) -> Iterator[DataSet]:
    """Yield the examples of archives, in order."""
    found = (image for url in urls for image in _images_in(_files_in(url, log), url, log))
    return reader.read(found, log)


def _files_in(url: str, log: SkipLog) -> Iterator[tuple[str, str, bytes | DataError]]:
    try:
        yield from iterate(read_bytes(url), url)
    except OSError as error:
        log.skip("unreadable file", str(error))
    except DataError as error:
        log.skip("damaged archive", str(error))


def _images_in(
    files: Iterable[tuple[str, str, bytes | DataError]], url: str, log: SkipLog
) -> Iterator[EncodedImage]:
    for uri, name, content in files:
        if isinstance(content, DataError):
            log.skip("damaged entry", str(content))
        else:
            yield EncodedImage(url_of(uri), f"{name} ({uri}) in {url}", content)


def _batch_reader(options: ImageArguments) -> ImageReader:
    reader = ImageReader.of(**options)
    if isinstance(reader.label, MaskFile):
        raise ConfigurationError(
            "`label` must not be a MaskFile, because file batches do not hold masks. Use "
            f"`from_images`, or a function. Received: label={reader.label!r}."
        )
    return reader


def _classes_in(
    spark: "SparkSession", groups: Sequence[Sequence[str]], label: Label
) -> tuple[tuple[str, ...], str]:
    """Collect the labels from the indices of all archives; also return the URL of an image."""

    def labels_of(urls: Sequence[str]) -> tuple[tuple[str, ...], str]:
        originals: list[str] = []
        for url in urls:
            # Unreadable archives are reported when the images are read.
            with contextlib.suppress(OSError, DataError), open_to_read(url) as file:
                originals += map(url_of, uris_in(file, url))
        return collect_classes(label, originals), next(iter(originals), "")

    rdd = context_of(spark).parallelize(list(groups), len(groups)).map(labels_of)
    found = run_job(spark, rdd.collect, description="collect classes")
    names = set[str]().union(*(names for names, _ in found))
    return tuple(sorted(names)), next((example for _, example in found if example), "")


def write_file_batches(
    source_url: str,
    out_url: str,
    *,
    batch_size: int = 32,
    spark: "SparkSession | None" = None,
    extensions: Sequence[str] | None = None,
    recursive: bool = True,
    seed: int | None = 0,
    overwrite: bool = False,
    partitions: int | None = None,
) -> list[str]:
    """Pack files unchanged into archives `batch-000000.zip`, `batch-000001.zip`, ….

    Args:
        source_url: a folder, a file or a pattern.
        out_url: a folder for the archives; with `spark`, all executors must be able to reach it.
        batch_size: files per archive, 1 to 9,999; the last may hold fewer. Default 32.
        spark: session to pack on the executors; default None: pack on this machine.
        extensions: file extensions to pack, case-insensitive; default None: all files.
        recursive: include subfolders; default True.
        seed: seed for shuffling the files, so that batches mix folders; default 0. None: sort by
            URL.
        overwrite: replace existing batches in `out_url` after all are written; default False.
        partitions: tasks of the Spark job; default None: Spark's default parallelism.

    Returns:
        The URLs of the archives, in order.

    Raises:
        ConfigurationError: if an option is invalid, or `out_url` holds batches already.
        DataError: if there is no file, or a batch exceeds the limits of readers.
        OSError: if a file cannot be read or written, naming it.
    """
    check_count("batch_size", batch_size, maximum=ENTRIES)
    check_count("partitions", partitions, optional=True)
    files = list_files(source_url, extensions=extensions, recursive=recursive)
    out_url = absolute(out_url)  # executors may have another working folder
    files = [file for file in files if not _is_batch_in(out_url, file.url)]
    if not files:
        raise DataError(
            "there must be at least one file to pack. Received: "
            f"source_url={source_url!r}, extensions={extensions!r}."
        )
    old = [name for name in list_folder(out_url) if _BATCH.fullmatch(name)]
    if old and not overwrite:
        raise ConfigurationError(
            f"`out_url` must be a folder without batches. Received: {out_url} with {len(old)}. Use "
            "another folder, or `overwrite=True`."
        )
    if seed is not None:
        files = [files[i] for i in np.random.default_rng(seed).permutation(len(files))]
    work: list[tuple[str, list[str]]] = []
    for start in range(0, len(files), batch_size):
        batch = files[start : start + batch_size]
        check_sizes([file.size_bytes for file in batch], what="a file batch")
        work.append((f"batch-{start // batch_size:06d}.zip", [file.url for file in batch]))
    names = [name for name, _ in work]
    present = exists(out_url)
    # A hidden folder until all are written, so that old archives are kept on a failure.
    new = join(out_url, f".batches.{uuid.uuid4().hex}")
    pack = partial(_write_archives, folder=new)
    try:
        if spark is None:
            written = list(pack(work))
        else:
            check_reached(spark, new)
            check_visible(spark, files[0].url)
            context = context_of(spark)
            tasks = min(len(work), partitions or context.defaultParallelism)
            rdd = context.parallelize(work, tasks).mapPartitions(pack)
            written = collect(spark, rdd, description="write file batches")
        check_complete(new, set(written))
        move_files(names, new, out_url)
        for name in set(old) - set(names):
            remove(join(out_url, name))
    finally:
        remove_tree(new)
        if not present:
            remove_empty_folder(out_url)
    return [join(out_url, name) for name in names]


def _write_archives(work: Iterable[tuple[str, list[str]]], folder: str) -> Iterator[str]:
    """Write the archives; a retried task overwrites them with the same content."""
    for name, urls in work:
        contents = tuple(map(read_bytes, urls))
        batch = FileBatch(uris=tuple(map(uri_of, urls)), contents=contents)
        with write_atomically(join(folder, name)) as file:
            file.write(batch.to_bytes())
        yield name


def _is_batch_in(folder: str, url: str) -> bool:
    parent, _, name = url.rpartition("/")
    return _BATCH.fullmatch(name) is not None and place_of(parent) == place_of(folder)

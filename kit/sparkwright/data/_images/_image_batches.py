"""Images out of file batches, distributed; and a loader of one batch."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkwright.data._dataset import DataSet
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import OnError, SkipLog, check_on_error, from_pieces, group_by_size
from sparkwright.data._session_first import session_first
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import open_to_read, read_bytes
from sparkwright.storage._listing import list_files

from ._augmentation import Augmentation
from ._file_batches import iterate, uris_in, url_of
from ._image_labels import Label, MaskFile, is_in_path
from ._image_reader import EncodedImage, ImageReader
from ._images import class_names_of, fingerprint_of, image_reader, partition_count
from ._path_classes import check_found_classes, collect_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@session_first
def from_image_batches(
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
    recursive: bool = True,
    on_error: OnError = "raise",
    partitions: int | None = None,
    threads: int = 4,
) -> DistributedDataSet:
    """Images that `write_file_batches` has packed, as `from_images` would have read them.

    Labels come from the original files' URLs. Archives are read in the order of their URLs, files
    in the order of each archive.

    Args:
        spark: the session.
        url: a folder with archives (`*.zip`), one archive, or a pattern.
        size: as in `from_images`, like all options that are not described here.
        channels: as there.
        label: as there, but no `MaskFile`. A function is given the original URL, decoded.
        classes: as there; default None: a Spark job reads the archives' indices, if the URL tells
            the label.
        one_hot: as there.
        scale: as there.
        resize: as there.
        upright: as there.
        draft: as there.
        augment: as there.
        recursive: with sub-folders (default).
        on_error: as there; an archive that cannot be opened, or has no index, counts as one item.
        partitions: as there.
        threads: as there.

    Raises:
        ConfigurationError: if an option cannot be meant.
        DataError: if there is no archive, or if URLs are to tell the classes and there are fewer
            than two; later, on executors, if a file cannot be used.
        FileNotFoundError: if there is nothing at `url`.
    """
    reader = _batch_reader(
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
    files = list_files(url, extensions=("zip",), recursive=recursive)
    if not files:
        raise DataError(
            f"there must be at least one archive. Received: url={url!r}, where no file ends in "
            "`.zip`. Write some: `write_file_batches`."
        )
    sizes = [file.size_bytes for file in files]
    wanted = partition_count(spark, sizes, partitions)
    groups = group_by_size(sizes, wanted)
    pieces = [[files[i].url for i in group] for group in groups]
    if reader.encoder.classes is None and is_in_path(label):
        found, example = _classes_in(spark, pieces, label)
        if example:  # otherwise no archive can be read: its reader says why
            check_found_classes(found, label, url, example)
        reader = reader.with_classes(found)
    return from_pieces(
        spark,
        pieces,
        _BatchReader(images=reader).read,
        sizes=[sum(sizes[i] for i in group) for group in groups],
        partitions=len(groups),
        on_error=on_error,
        fingerprint=fingerprint_of(reader, files, on_error),
        class_names=class_names_of(reader),
    )


class ImageBatchLoader:
    """Reads one archive as one DataSet: a loader for minibatches that are file batches.

    Example:
        >>> loader = ImageBatchLoader(size=(64, 64), classes=["cat", "dog"])
        >>> loader
        ImageBatchLoader(size=(64, 64))
    """

    def __init__(
        self,
        *,
        size: tuple[int, int],
        classes: Sequence[str] | None = None,
        on_error: OnError = "raise",
        label: Label = "parent",
        one_hot: bool = False,
        augment: Augmentation | None = None,
        threads: int = 4,
        **options: Any,
    ) -> None:
        """Options as those of `from_image_batches`; `classes` must be given if the URL tells them.

        Raises:
            ConfigurationError: if an option cannot be meant.
        """
        self._reader = _batch_reader(
            size=size,
            classes=classes,
            label=label,
            one_hot=one_hot,
            augment=augment,
            threads=threads,
            **options,
        )
        check_on_error(on_error)
        if classes is None and is_in_path(label):
            raise ConfigurationError(
                "`classes` must be given, because one archive does not tell them all. "
                "Received: classes=None."
            )
        self._on_error: OnError = on_error

    def __repr__(self) -> str:
        return f"ImageBatchLoader(size={self._reader.options.size})"

    def __call__(self, source: Any) -> DataSet:
        """The images of an archive.

        Args:
            source: a URL, or an object with `url` and `read()`.

        Raises:
            DataError: if a file cannot be used, or none is left.
        """
        url = source if isinstance(source, str) else str(source.url)
        content = read_bytes(url) if isinstance(source, str) else bytes(source.read())
        log = SkipLog(self._on_error)
        found = list(self._reader.read(_images_in(iterate(content, url), url, log), log))
        if not found:
            raise DataError(f"an archive must hold at least one image. Received: {url}.")
        return DataSet.concatenate(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class _BatchReader:
    """Reads a partition's archives; runs on executors."""

    images: ImageReader

    def read(self, urls: Sequence[str], log: SkipLog) -> Iterator[DataSet]:
        return self.images.read(_images_of(urls, log), log)


def _images_of(urls: Iterable[str], log: SkipLog) -> Iterator[EncodedImage]:
    for url in urls:
        yield from _images_in(_files_in(url, log), url, log)


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
            yield EncodedImage(url=url_of(uri), where=f"{name} ({uri}) in {url}", content=content)


def _batch_reader(*, label: Label, **options: Any) -> ImageReader:
    if isinstance(label, MaskFile):
        raise ConfigurationError(
            "`label` must not be a MaskFile with file batches, which hold no masks. Use "
            f"`from_images`, or a function. Received: label={label!r}."
        )
    return image_reader(label=label, **options)


def _classes_in(
    spark: "SparkSession", pieces: Sequence[Sequence[str]], label: Label
) -> tuple[tuple[str, ...], str]:
    """All labels of all archives, told by their indices; and the URL of an image, if any."""
    from sparkwright.spark._jobs import run_job

    def labels_of(urls: Sequence[str]) -> tuple[set[str], str]:
        found: set[str] = set()
        example = ""
        for url in urls:
            try:
                with open_to_read(url) as file:
                    uris = uris_in(file, url)
            except (OSError, DataError):
                continue  # reported when the images are read
            originals = [url_of(uri) for uri in uris]
            found.update(collect_classes(label, originals))
            example = example or next(iter(originals), "")
        return found, example

    rdd = spark.sparkContext.parallelize(list(pieces), len(pieces)).map(labels_of)
    found = run_job(spark, rdd.collect, description="collect classes")
    names = set[str]().union(*(names for names, _ in found))
    return tuple(sorted(names)), next((example for _, example in found if example), "")

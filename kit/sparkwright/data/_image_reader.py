"""Read, decode and label images on executors, in blocks of examples."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Required, TypedDict

import numpy as np

from sparkwright.options import check_count
from sparkwright.storage.files import read_bytes

from ._image_decoding import ImageOptions, decode, decode_mask, prepare, rows_at_once, scaled
from ._image_labels import Label, LabelEncoder, MaskFile, check_classes, check_label, found_label
from ._skipped import UnusableItem
from .dataset import Array, DataSet
from .loaders import read_ahead
from .pieces import SkipLog


class ImageArguments(TypedDict, total=False):
    """The options shared by all image sources, documented at `from_images`."""

    size: Required[tuple[int, int]]
    channels: int
    label: Label
    classes: Sequence[str] | None
    one_hot: bool
    scale: bool
    resize: str
    upright: bool
    draft: bool
    threads: int


class EncodedImage(NamedTuple):
    url: str  # location of the original file; the source of the label
    where: str  # name in messages
    content: bytes | None = None  # content of the file; None: read from `url` when decoded


# (pixels, label) of an image, or the reason why it is unusable.
_Decoded = tuple[Array, Any] | UnusableItem


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageReader:
    """Image reader with its options; serialized to executors."""

    options: ImageOptions
    label: Label
    encoder: LabelEncoder
    threads: int

    @classmethod
    def of(
        cls,
        *,
        classes: Sequence[str] | None = None,
        one_hot: bool = False,
        label: Label = "parent",
        threads: int = 4,
        **options: Any,
    ) -> "ImageReader":
        """Create from the options shared by all image sources; validates them."""
        checked = ImageOptions(**options)
        check_label(label)
        names = check_classes(classes, label=label, one_hot=one_hot)
        check_count("threads", threads, maximum=256)
        encoder = LabelEncoder(classes=names, one_hot=one_hot)
        return cls(options=checked, label=label, encoder=encoder, threads=threads)

    def with_classes(self, classes: tuple[str, ...] | None) -> "ImageReader":
        """Return a copy with the classes found in the paths."""
        return replace(self, encoder=replace(self.encoder, classes=classes))

    def class_names(self) -> dict[str, Sequence[str]]:
        """Return the names of the classes by output."""
        classes = self.encoder.classes
        return {} if classes is None or self.label is None else {"labels": classes}

    def read_files(self, urls: Iterable[str], log: SkipLog) -> Iterator[DataSet]:
        """Yield the examples of image files, in order."""
        return self.read((EncodedImage(url, url) for url in urls), log)

    def read(self, images: Iterable[EncodedImage], log: SkipLog) -> Iterator[DataSet]:
        """Yield the examples of `images`, in order, in blocks of about two chunks."""
        prepare()
        found = read_ahead(images, self._decoded, threads=self.threads, ahead=4 * self.threads)
        # Closed explicitly: garbage collection might join the threads while holding Python's
        # thread locks, and deadlock.
        with closing(found) as decoded:
            yield from self._blocks(decoded, log)

    def _blocks(
        self, images: Iterable[tuple[EncodedImage, _Decoded]], log: SkipLog
    ) -> Iterator[DataSet]:
        waiting: list[tuple[Array, Any]] = []
        first: Array | None = None
        for image, decoded in images:
            if isinstance(decoded, UnusableItem):
                log.skip(decoded.reason, decoded.message)
                continue
            if self.label is not None:
                label: Array = decoded[1]
                if first is None:
                    first = label
                if label.shape != first.shape or label.dtype != first.dtype:
                    log.skip(
                        "wrong shape of label",
                        "the labels of all images must have the same shape and dtype. Received: "
                        f"{label.dtype}{list(label.shape)} for {image.where}, "
                        f"{first.dtype}{list(first.shape)} for an earlier image.",
                    )
                    continue
            waiting.append(decoded)
            # Two chunks: a block slightly larger than one chunk would be cut in two.
            if len(waiting) >= 2 * rows_at_once(self.options):
                yield self._examples(waiting)
                waiting = []
        if waiting:
            yield self._examples(waiting)

    def _examples(self, decoded: list[tuple[Array, Any]]) -> DataSet:
        pixels, labels = zip(*decoded, strict=True)
        stacked = np.stack(pixels)
        features = scaled(stacked) if self.options.scale else stacked
        return DataSet(features, None if self.label is None else np.stack(labels))

    def _decoded(self, image: EncodedImage) -> tuple[EncodedImage, _Decoded]:
        """Decode an image on a worker thread; return the error if it is unusable."""
        known = image._replace(content=None)  # release the bytes
        try:
            content = _content(image.url) if image.content is None else image.content
            pixels = decode(content, image.where, self.options)
            label = None if self.label is None else self._label(image)
        except UnusableItem as error:
            return known, error
        return known, (pixels, label)

    def _label(self, image: EncodedImage) -> Array:
        if not isinstance(self.label, MaskFile):
            return self.encoder.encode(found_label(self.label, image.url), image.where)
        url = self.label.of(image.url)
        if url == image.url:
            raise UnusableItem(
                "unusable mask",
                f"a mask must be another file than its image. Received: {url} for both, with "
                f'{self.label}. Use, for example, `MaskFile(suffix="_mask")` or '
                '`MaskFile(folder="masks")`.',
            )
        mask = decode_mask(_content(url), url, self.options.size, binary=self.label.binary)
        classes = self.encoder.classes
        if classes is not None and not self.label.binary and int(mask.max()) >= len(classes):
            raise UnusableItem(
                "unknown class",
                f"each value of a mask must be from 0 to {len(classes) - 1}, the number of a "
                f"class. Received: {int(mask.max())} in {url}.",
            )
        return mask


def _content(url: str) -> bytes:
    try:
        return read_bytes(url)
    except OSError as error:
        raise UnusableItem(
            "unreadable file", f"an image must be a readable file. Received: {error}"
        ) from error

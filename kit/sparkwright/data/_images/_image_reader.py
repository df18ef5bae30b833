"""What executors do with images: read, decode, label, augment, in blocks of examples."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparkwright.data._chunks import CHUNK_BYTES
from sparkwright.data._dataset import Array, DataSet
from sparkwright.data._pieces import SkipLog
from sparkwright.storage._files import read_bytes

from ._augmentation import Augmentation
from ._image_decoding import ImageOptions, decode, decode_mask, prepare, scaled
from ._image_labels import Label, LabelEncoder, MaskFile, UnusableItem, found_label
from ._on_threads import on_threads


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedImage:
    """An image that is still to be decoded.

    Attributes:
        url: where it lies, or lay when it was packed: what the label is told from.
        where: its name in messages.
        content: the file; None: it is still to be read from `url`.
    """

    url: str
    where: str
    content: bytes | None = None


# Pixels of an image and its label, once or once a variant; or why there are none.
_Decoded = list[tuple[Array, Any]] | UnusableItem


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageReader:
    """Picklable: all that executors need to know.

    Attributes:
        options: how pixels are made.
        label: where labels come from.
        encoder: makes numbers of them.
        augment: random variants; None: none.
        threads: how many decode at the same time, in each task.
    """

    options: ImageOptions
    label: Label
    encoder: LabelEncoder
    augment: Augmentation | None
    threads: int

    def with_classes(self, classes: tuple[str, ...] | None) -> "ImageReader":
        """The same with the classes that a look at the data has found."""
        return replace(self, encoder=replace(self.encoder, classes=classes))

    def read_files(self, urls: Iterable[str], log: SkipLog) -> Iterator[DataSet]:
        """Examples of image files, in order."""
        return self.read((EncodedImage(url=url, where=url) for url in urls), log)

    def read(self, images: Iterable[EncodedImage], log: SkipLog) -> Iterator[DataSet]:
        """Examples of `images`, in order, in blocks of about two chunks."""
        prepare()
        # Closed at once if an image ends the reading: left to the garbage collector, it might join
        # its threads in the midst of Python's own work on threads, and hang.
        with contextlib.closing(on_threads(self._decoded, images, threads=self.threads)) as decoded:
            yield from self._blocks(decoded, log)

    def _blocks(
        self, images: Iterable[tuple[EncodedImage, _Decoded]], log: SkipLog
    ) -> Iterator[DataSet]:
        pixels: list[Array] = []
        labels: list[Array] = []
        first: Array | None = None
        for image, decoded in images:
            if isinstance(decoded, UnusableItem):
                log.skip(decoded.reason, decoded.message)
                continue
            if self.label is not None:
                label: Array = decoded[0][1]
                if first is None:
                    first = label
                if label.shape != first.shape or label.dtype != first.dtype:
                    log.skip("wrong shape of label", _unequal(image, label, first))
                    continue
            for variant, label in decoded:
                pixels.append(variant)
                labels.append(label)
            if len(pixels) >= self._block_rows:
                yield self._examples(pixels, labels)
                pixels, labels = [], []
        if pixels:
            yield self._examples(pixels, labels)

    @property
    def _block_rows(self) -> int:
        # Two chunks' worth: a single one would be cut in two again if it is one example too large.
        height, width = self.options.size
        if self.augment is not None:
            height, width = self.augment.output_size((height, width))
        row_bytes = height * width * self.options.channels * (4 if self.options.scale else 1)
        return 2 * max(1, CHUNK_BYTES // (row_bytes + 4))

    def _examples(self, pixels: list[Array], labels: list[Array]) -> DataSet:
        stacked = np.stack(pixels)
        features = scaled(stacked) if self.options.scale else stacked
        return DataSet(features, None if self.label is None else np.stack(labels))

    def _decoded(self, image: EncodedImage) -> tuple[EncodedImage, _Decoded]:
        """Runs on a thread; what cannot be used is for the calling thread to report."""
        known = replace(image, content=None)  # the bytes are needed no more
        try:
            content = _content(image.url) if image.content is None else image.content
            pixels = decode(content, image.where, self.options)
            label = None if self.label is None else self._label(image)
            if self.augment is None:
                return known, [(pixels, label)]
            return known, self.augment.apply(pixels, label, key=image.url)
        except UnusableItem as error:
            return known, error

    def _label(self, image: EncodedImage) -> Array:
        if not isinstance(self.label, MaskFile):
            return self.encoder.encode(found_label(self.label, image.url), image.where)
        url = self.label.of(image.url)
        if url == image.url:
            raise UnusableItem(
                "unusable mask",
                f"a mask must be another file than its image. Received: {url} for both, with "
                f'{self.label}. Tell them apart: `MaskFile(suffix="_mask")`, or '
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
        raise UnusableItem("unreadable file", f"{error}") from error


def _unequal(image: EncodedImage, label: Array, first: Array) -> str:
    return (
        "the labels of all images must have one shape and one type. Received: "
        f"{label.dtype}{list(label.shape)} for {image.where}, {first.dtype}{list(first.shape)} for "
        "an image before it."
    )

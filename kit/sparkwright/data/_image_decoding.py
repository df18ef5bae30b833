"""Decode images to pixels with Pillow: files, and columns of DataFrames."""

import io
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError, DataError

from ._skipped import UnusableItem
from .dataset import CHUNK_BYTES, Array

if TYPE_CHECKING:
    from PIL import Image
    from pyspark.sql import DataFrame

IMAGE_EXTENSIONS = ("bmp", "gif", "jpeg", "jpg", "png", "tif", "tiff", "webp")
# Only these formats are tried, because some others start programs (EPS: Ghostscript).
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
# The path column of the `binaryFile` source; only used in messages.
PATH = "path"
_FIELDS = {"origin", "height", "width", "nChannels", "mode", "data"}
# OpenCV type number of 8-bit images -> channel order that converts to Pillow's.
_ORDERS = {0: [0], 16: [2, 1, 0], 24: [2, 1, 0, 3]}
_FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")


@configuration
class ImageOptions(Configuration):
    """Options of decoding an image to an array."""

    size: tuple[int, int] = option(form=False, help="(height, width) in pixels.")
    channels: int = option(default=3, choices=(3, 1), help="3 (RGB) or 1 (gray).")
    scale: bool = option(default=True, help="float32 from 0 to 1; otherwise uint8 from 0 to 255.")
    resize: str = option(default="bilinear", choices=_FILTERS, help="Pillow's filter.")
    upright: bool = option(default=False, help="Rotate according to the EXIF orientation.")
    draft: bool = option(default=False, help="Decode large JPEGs at reduced size: faster.")

    def _check(self) -> None:
        size: Any = self.size
        pair = isinstance(size, tuple | list) and len(size) == 2  # pyright: ignore[reportUnknownArgumentType]
        if not pair or not all(type(side) is int and side >= 1 for side in size):
            raise ConfigurationError(
                f"`size` must be (height, width) in pixels. Received: {size=}."
            )
        object.__setattr__(self, "size", tuple(size))


def rows_at_once(options: ImageOptions) -> int:
    """Return the number of images per chunk."""
    height, width = options.size
    row_bytes = height * width * options.channels * (4 if options.scale else 1)
    return max(1, CHUNK_BYTES // (row_bytes + 4))  # 4: the label


def decode(content: bytes, where: str, options: ImageOptions) -> Array:
    """Return (height, width, channels) uint8 pixels, as Pillow's `convert` and `resize` do.

    16-bit gray is reduced to its upper 8 bits, as Pillow does for 16-bit colors.
    """
    from PIL import Image, ImageOps

    height, width = options.size
    mode = "RGB" if options.channels == 3 else "L"
    with _opened(content, where) as image:
        if options.draft:
            # At least twice the target size, so that the resize filter stays effective.
            image.draft(mode, (2 * width, 2 * height))
        image.load()
        found = ImageOps.exif_transpose(image) if options.upright else image
        if found.mode.startswith("I;16"):
            found = Image.fromarray((np.asarray(found) >> 8).astype(np.uint8))
        if found.mode in ("I", "F"):
            raise UnusableItem(
                "unusable depth",
                "an image must have 8 or 16 bits per channel, so that its range is known. "
                f"Received: {where} with mode={found.mode!r}. Convert it first.",
            )
        return fitted(found, options)


def fitted(image: "Image.Image", options: ImageOptions) -> Array:
    """Convert an open image to the channels and size of `options`."""
    from PIL import Image

    height, width = options.size
    mode = "RGB" if options.channels == 3 else "L"
    if image.mode != mode:
        image = image.convert(mode)
    image = image.resize((width, height), Image.Resampling[options.resize.upper()])
    return np.asarray(image).reshape(height, width, options.channels)


def decode_mask(content: bytes, where: str, size: tuple[int, int], *, binary: bool) -> Array:
    """Return the values of a single-channel or palette mask, resized by nearest neighbor."""
    from PIL import Image

    with _opened(content, where) as image:
        if image.mode not in ("1", "L", "P") and not image.mode.startswith("I"):
            raise UnusableItem(
                "unusable mask",
                "a mask must have one channel, or a palette. "
                f"Received: {where} with mode={image.mode!r}.",
            )
        resized = image.resize((size[1], size[0]), Image.Resampling.NEAREST)
        values = np.asarray(resized).astype(np.int32)
    return (values > 0).astype(np.float32)[..., None] if binary else values


def scaled(pixels: Array) -> Array:
    """Scale uint8 from 0 to 255 to float32 from 0 to 1."""
    return np.divide(pixels, np.float32(255), dtype=np.float32)


def prepare() -> None:
    """Load Pillow's formats once per process, before threads use them."""
    from PIL import Image

    Image.preinit()
    Image.init()


@contextmanager
def _opened(content: bytes, where: str) -> "Generator[Image.Image]":
    """Open an image and read its header; errors within the block mean that it is damaged."""
    from PIL import Image

    if not content:
        raise UnusableItem(
            "empty file", f"an image file must not be empty. Received: {where} with 0 bytes."
        )
    limit = Image.MAX_IMAGE_PIXELS
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            if limit is not None and image.width * image.height > limit:
                raise _too_large(where, limit, f"{image.width} x {image.height} pixels")
            yield image
    except UnusableItem:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(where, limit, str(error)) from None
    except Image.UnidentifiedImageError:
        raise UnusableItem(
            "no image",
            f"an image must be one of {', '.join(_FORMATS)}. Received: {where} with "
            f"{len(content):,} bytes that begin with {content[:8]!r}.",
        ) from None
    except Exception as error:  # Pillow raises nearly anything for damaged files
        raise UnusableItem(
            "damaged image",
            "an image must be complete and intact. Received: "
            f"{where} with {len(content):,} bytes: {str(error) or type(error).__name__}. "
            "Replace it.",
        ) from error


def _too_large(where: str, limit: int | None, found: str) -> UnusableItem:
    return UnusableItem(
        "too many pixels",
        f"an image must have at most {limit:,} pixels, as protection from decompression bombs. "
        f"Received: {where}, {found.rstrip('.')}. Make it smaller first.",
    )


# -- columns of DataFrames: structs of Spark's image source, and encoded bytes


def image_inputs(frame: "DataFrame", features: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the feature columns that hold images: structs of Spark's image source, or bytes."""
    from pyspark.sql.types import BinaryType, StructType

    images = {
        field.name
        for field in frame.schema.fields
        if isinstance(field.dataType, BinaryType)
        or (isinstance(field.dataType, StructType) and set(field.dataType.names) >= _FIELDS)
    }
    for name, columns in features.items():
        if len(columns) > 1 and images.intersection(columns):
            raise DataError(
                f"a column of images must be a separate input. Received: {list(columns)} in "
                f'input {name!r}. Name several inputs: `features={{"image": "…", "numbers": […]}}`.'
            )
    return images.intersection(n for columns in features.values() for n in columns)


def image_options(size: Any, images: set[str], **options: Any) -> ImageOptions:
    """Return the options of image columns; raise ConfigurationError if `size` is None."""
    if size is None:
        raise ConfigurationError(
            f"columns of images need one size. Received: {sorted(images)}, and size=None. Set it: "
            "`from_dataframe(frame, …, size=(height, width))`."
        )
    return ImageOptions(size=size, **options)


def images_of(batch: Any, name: str, options: ImageOptions) -> Array:
    """Decode a column of a record batch to (rows, height, width, channels)."""
    pixels: list[Array] = []
    for row in batch.select([n for n in batch.schema.names if n in (name, PATH)]).to_pylist():
        image: Any = row[name]
        found = image.get("origin") if isinstance(image, dict) else row.get(PATH)
        where = f"column {name!r}, {found or 'a row'}"
        try:
            if image is None:
                raise DataError(f"images must not be missing. Received: {where}. Drop such rows.")
            make: Any = decode if isinstance(image, bytes) else _of_row
            pixels.append(make(image, where, options))
        except UnusableItem as error:
            raise DataError(error.message) from None
    return scaled(np.stack(pixels)) if options.scale else np.stack(pixels)


def _of_row(row: Mapping[str, Any], where: str, options: ImageOptions) -> Array:
    from PIL import Image

    order = _ORDERS.get(row["mode"], [])
    shape = row["height"], row["width"], row["nChannels"]
    if row["nChannels"] != len(order) or min(shape) < 1 or len(row["data"]) != np.prod(shape):
        raise UnusableItem(
            "no image",
            "a row of Spark's image source must hold bytes of 1, 3 or 4 channels. Received: "
            f"{where} with mode={row['mode']} and (height, width, nChannels) = {shape}. Drop such "
            'rows: `spark.read.format("image").option("dropInvalid", True)`.',
        )
    values = np.frombuffer(row["data"], np.uint8).reshape(shape)[..., order]
    return fitted(Image.fromarray(values[..., 0] if len(order) == 1 else values), options)

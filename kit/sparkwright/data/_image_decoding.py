"""Decode images to pixels with Pillow."""

import io
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

from ._skipped import UnusableItem
from .dataset import Array

if TYPE_CHECKING:
    from PIL import Image

IMAGE_EXTENSIONS = ("bmp", "gif", "jpeg", "jpg", "png", "tif", "tiff", "webp")
# Only these formats are tried, because some others start programs (EPS: Ghostscript).
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
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


def decode(content: bytes, where: str, options: ImageOptions) -> Array:
    """Return the pixels of an encoded image, (height, width, channels) uint8.

    Equals Pillow's `Image.open(…).convert("RGB").resize((width, height), …)`, or "L" for gray:
    transparency is dropped, palettes and CMYK are converted, and only the first frame is used.
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
    """Return the values of a single-channel or palette mask, resized by nearest neighbor.

    The result is (height, width) int32; with `binary`, (height, width, 1) float32, 1 where the
    value is above 0.
    """
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

"""One encoded image to pixels, by Pillow."""

import io
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.data._dataset import Array
from sparkwright.errors import ConfigurationError

from ._image_labels import UnusableItem

if TYPE_CHECKING:
    from PIL import Image

IMAGE_EXTENSIONS = ("bmp", "gif", "jpeg", "jpg", "png", "tif", "tiff", "webp")
# Only these are ever tried, whatever a file's name says: some of Pillow's other formats start
# programs (EPS: Ghostscript).
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
_FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageOptions:
    """How an encoded image becomes an array.

    Attributes:
        size: (height, width) in pixels.
        channels: 3 (RGB) or 1 (grey).
        scale: float32 from 0 to 1 (True) or uint8 from 0 to 255.
        resize: Pillow's filter, by name.
        upright: turn as the EXIF orientation says.
        draft: let JPEGs be decoded at a half, a quarter or an eighth of their size.
    """

    size: tuple[int, int]
    channels: int = 3
    scale: bool = True
    resize: str = "bilinear"
    upright: bool = False
    draft: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        try:
            height, width = self.size
        except (TypeError, ValueError):
            height, width = 0, 0
        _check(_is_side(height) and _is_side(width), "size", self.size, "(height, width) in pixels")
        _check(self.channels in (1, 3), "channels", self.channels, "3 (colour) or 1 (grey)")
        names = ", ".join(f'"{name}"' for name in _FILTERS)
        _check(self.resize in _FILTERS, "resize", self.resize, f"one of {names}")
        for name in ("scale", "upright", "draft"):
            _check(
                isinstance(getattr(self, name), bool), name, getattr(self, name), "True or False"
            )
        object.__setattr__(self, "size", (height, width))

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def decode(content: bytes, where: str, options: ImageOptions) -> Array:
    """The pixels of an encoded image.

    The same as Pillow's `Image.open(…).convert("RGB").resize((width, height), …)`, or "L" for grey.
    So transparency is dropped, a palette and CMYK become colours, and of several frames the first
    counts. Grey of 16 bits keeps its upper 8, as Pillow does with colours of 16 bits.

    Args:
        content: the file.
        where: its name, for messages.
        options: what to make of it.

    Returns:
        (height, width, channels) uint8.

    Raises:
        UnusableItem: if it is no image, damaged, or larger than Pillow's limit of pixels.
    """
    from PIL import Image, ImageOps

    height, width = options.size
    mode = "RGB" if options.channels == 3 else "L"
    with _opened(content, where) as image:
        try:
            if options.draft:
                # Twice the wanted size at least, so that the filter has something to do.
                image.draft(mode, (2 * width, 2 * height))
            image.load()
            found = ImageOps.exif_transpose(image) if options.upright else image
            found = _eight_bits(found, where)
            if found.mode != mode:
                found = found.convert(mode)
            found = found.resize((width, height), Image.Resampling[options.resize.upper()])
            return np.asarray(found).reshape(height, width, options.channels)
        except UnusableItem:
            raise
        except Exception as error:  # Pillow raises nearly anything for damaged files
            raise _damaged(content, where, error) from error


def decode_mask(content: bytes, where: str, size: tuple[int, int], *, binary: bool) -> Array:
    """The values of a mask, resized by nearest neighbour.

    Args:
        content: the file: one channel, or a palette whose indices count.
        where: its name, for messages.
        size: (height, width).
        binary: False: (height, width) int32. True: (height, width, 1) float32, 1 above value 0.

    Raises:
        UnusableItem: as `decode`; or if it has several channels.
    """
    from PIL import Image

    with _opened(content, where) as image:
        if image.mode not in ("1", "L", "P") and not image.mode.startswith("I"):
            raise UnusableItem(
                "unusable mask",
                "a mask must have one channel, or a palette. "
                f"Received: {where} with mode={image.mode!r}.",
            )
        try:
            resized = image.resize((size[1], size[0]), Image.Resampling.NEAREST)
            values = np.asarray(resized).astype(np.int32)
        except Exception as error:  # as above
            raise _damaged(content, where, error) from error
    return (values > 0).astype(np.float32)[..., None] if binary else values


def scaled(pixels: Array) -> Array:
    """uint8 from 0 to 255 as float32 from 0 to 1."""
    return np.divide(pixels, np.float32(255), dtype=np.float32)


def _opened(content: bytes, where: str) -> "Image.Image":
    """The image, its header read."""
    from PIL import Image

    if not content:
        raise UnusableItem(
            "empty file", f"an image file must not be empty. Received: {where} with 0 bytes."
        )
    limit = Image.MAX_IMAGE_PIXELS
    try:
        image = Image.open(io.BytesIO(content), formats=_FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(where, limit, str(error)) from None
    except Image.UnidentifiedImageError:
        raise UnusableItem(
            "no image",
            f"an image must be one of {', '.join(_FORMATS)}. Received: {where} with "
            f"{len(content):,} bytes that begin with {content[:8]!r}.",
        ) from None
    except Exception as error:  # as above
        raise _damaged(content, where, error) from error
    if limit is not None and image.width * image.height > limit:
        raise _too_large(where, limit, f"{image.width} x {image.height} pixels")
    return image


def prepare() -> None:
    """Load Pillow's formats, once a process, before threads need them."""
    from PIL import Image

    Image.preinit()
    Image.init()


def _eight_bits(image: "Image.Image", where: str) -> "Image.Image":
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise UnusableItem(
            "unusable depth",
            "an image must have 8 or 16 bits a channel, so that its range is known. "
            f"Received: {where} with mode={image.mode!r}. Convert it first.",
        )
    return image


def _damaged(content: bytes, where: str, error: Exception) -> UnusableItem:
    return UnusableItem(
        "damaged image",
        "an image must be whole, so that it can be decoded. Received: "
        f"{where} with {len(content):,} bytes: {str(error) or type(error).__name__}. Replace it.",
    )


def _too_large(where: str, limit: int | None, found: str) -> UnusableItem:
    return UnusableItem(
        "too many pixels",
        f"an image must have at most {limit:,} pixels, lest a small file fill the memory. "
        f"Received: {where}, {found.rstrip('.')}. Make it smaller first.",
    )


def _is_side(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check(right: bool, name: str, value: Any, rule: str) -> None:
    if not right:
        raise ConfigurationError(f"`{name}` must be {rule}. Received: {name}={value!r}.")

"""Image columns of DataFrames: structs of Spark's image source, and encoded bytes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from ._image_decoding import ImageOptions, decode, fitted, scaled
from ._skipped import UnusableItem
from .chunks import CHUNK_BYTES
from .dataset import Array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The path column of the `binaryFile` source; only used in messages.
PATH = "path"
_FIELDS = {"origin", "height", "width", "nChannels", "mode", "data"}
# OpenCV type number of 8-bit images -> channel order that converts to Pillow's.
_ORDERS = {0: [0], 16: [2, 1, 0], 24: [2, 1, 0, 3]}


def image_inputs(frame: "DataFrame", features: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the feature columns that hold images: structs of Spark's image source, or bytes.

    Raises:
        DataError: if an input combines an image column with other columns.
    """
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


def rows_at_once(options: ImageOptions) -> int:
    """Return the number of images per chunk, to decode at a time."""
    height, width = options.size
    return max(1, CHUNK_BYTES // (height * width * options.channels * (4 if options.scale else 1)))


def images_of(batch: Any, name: str, options: ImageOptions) -> Array:
    """Decode a column of a record batch to (rows, height, width, channels).

    Raises:
        DataError: naming the column, and the image's file if known.
    """
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

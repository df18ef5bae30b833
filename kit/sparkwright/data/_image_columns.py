"""Columns of images in DataFrames: rows of Spark's image source, and bytes of files."""

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

_FIELDS = {"origin", "height", "width", "nChannels", "mode", "data"}
# OpenCV's number of a type, of bytes alone: the order of its channels in Pillow's.
_ORDERS = {0: [0], 16: [2, 1, 0], 24: [2, 1, 0, 3]}


def image_inputs(frame: "DataFrame", features: Mapping[str, Sequence[str]]) -> set[str]:
    """The columns of features that hold images: structs of Spark's image source, or bytes.

    Raises:
        DataError: if an input has other columns beside.
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
                f"a column of images must be an input of its own. Received: {list(columns)} in "
                f'input {name!r}. Name several inputs: `features={{"image": "…", "numbers": […]}}`.'
            )
    return images.intersection(n for columns in features.values() for n in columns)


def checked_size(size: Any, images: set[str], shown: Mapping[str, str]) -> tuple[int, int]:
    """Return the size of images; raise ConfigurationError if it is not given."""
    if size is None:
        received = ", ".join(f"{name!r} of type {shown[name]:.99}" for name in sorted(images))
        raise ConfigurationError(
            f"columns of images need one size. Received: {received}, and size=None. Give it: "
            "`from_dataframe(frame, …, size=(height, width))`."
        )
    return size


def rows_at_once(options: ImageOptions | None) -> int | None:
    """How many images to decode at a time, so that a task holds a chunk of pixels; None: any."""
    if options is None:
        return None
    row_bytes = options.size[0] * options.size[1] * options.channels * (4 if options.scale else 1)
    return max(1, CHUNK_BYTES // row_bytes)


def images_of(column: Any, name: str, options: ImageOptions) -> Array:
    """Return (rows, height, width, channels) of an Arrow column.

    Raises:
        DataError: naming the column, and the image's file where the row has it.
    """
    pixels: list[Array] = []
    for number, row in enumerate(column.to_pylist()):
        where = f"column {name!r}, row {number + 1} of a batch"
        try:
            if row is None:
                raise UnusableItem("missing", f"images must not be missing. Received: {where}.")
            if isinstance(row, bytes):
                pixels.append(decode(row, where, options))
            else:
                pixels.append(_of_row(row, f"{where}, {row['origin']}", options))
        except UnusableItem as error:
            raise DataError(error.message) from None
    stacked = np.stack(pixels)
    return scaled(stacked) if options.scale else stacked


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

"""Arrays of a timeline as plain JSON values, and back."""

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

_KINDS = ("<i4", "<i8", "|u1", "<f4", "<f8")


def array_to_dict(array: NDArray[Any]) -> dict[str, Any]:
    """An array with its type and shape; its bytes in base64, little-endian."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {
        "dtype": little.dtype.str,
        "shape": list(array.shape),
        "data": base64.b64encode(little.tobytes()).decode("ascii"),
    }


def array_from_dict(
    values: Mapping[str, Any], *, kind: str, shape: tuple[int | None, ...]
) -> NDArray[Any]:
    """The inverse of `array_to_dict`.

    Args:
        values: what it gave.
        kind: the type that is expected, such as "<f8".
        shape: likewise; None: any length.

    Raises:
        DataError: if it is another array, or damaged.
    """
    try:
        found = tuple(int(length) for length in values["shape"])
        raw = base64.b64decode(values["data"], validate=True)
        fits = (
            values["dtype"] == kind
            and kind in _KINDS
            and len(found) == len(shape)
            and all(length >= 0 for length in found)
            and all(want in (None, have) for want, have in zip(shape, found, strict=True))
            and len(raw) == math.prod(found) * np.dtype(kind).itemsize
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"An array of a timeline is damaged. Received: {error}.") from error
    if not fits:
        raise DataError(
            f"An array of a timeline must be {kind} of shape {shape}. Received: "
            f"{values['dtype']!r:.20} of shape {found}, {len(raw)} bytes."
        )
    native = np.frombuffer(raw, kind).reshape(found)
    return native.astype(native.dtype.newbyteorder("="))

"""Arrays of text: NumPy object arrays whose elements are `str`, and their UTF-8 bytes."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

Array = NDArray[Any]
TEXT = np.dtype(object)
# A text's end among the bytes, or its offset in an Arrow column.
_END_BYTES = 8


def is_text(array: Any) -> bool:
    """Whether a column of a DataSet, or what stands for one, holds text."""
    return array.dtype == TEXT


def is_string(kind: Any) -> bool:
    """Whether a column of Arrow type `kind` holds text."""
    return str(kind) in ("string", "large_string")


def may_be_text(array: Array) -> bool:
    """Whether `as_texts` may accept an array: one of objects, or of NumPy's texts or bytes."""
    return array.dtype.kind in "OSTU"


def as_texts(name: str, array: Array) -> Array:
    """`array` with `str` elements; bytes are decoded.

    Raises:
        DataError: naming the array, for missing values, for anything but text, and for bytes that
            are not UTF-8.
    """
    texts: list[Any] = array.ravel().tolist()
    kinds = set(map(type, texts))
    if kinds <= {str}:
        return array.astype(object, copy=False)
    missing = sum(map(_is_missing, texts))
    if missing:
        raise DataError(
            f"texts must have no missing values. Received: {missing} None, NaN or NA among "
            f'{len(texts)} in {name!r}. Fill them first, as by `frame.fillna("")`.'
        )
    if not all(issubclass(kind, str | bytes) for kind in kinds):
        raise DataError(
            "an array of objects must hold text. Received: "
            f"{', '.join(sorted(kind.__name__ for kind in kinds))} in {name!r}. Convert it to "
            "numbers or to `str`."
        )
    found = np.empty(len(texts), object)
    try:
        found[:] = [text.decode() if isinstance(text, bytes) else str(text) for text in texts]
    except UnicodeDecodeError as error:
        raise DataError(f"texts must be UTF-8. Received: {error} in {name!r}.") from None
    return found.reshape(array.shape)


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ == "NAType"  # pandas' own


def size_bytes(array: Array) -> int:
    """Bytes of an array; of text, those of its UTF-8 and of where each text ends."""
    if not is_text(array):
        return array.nbytes
    texts: list[str] = array.ravel().tolist()
    total = sum(len(text) if text.isascii() else _utf8_length(text) for text in texts)
    return total + _END_BYTES * len(texts)


def _utf8_length(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def to_utf8(array: Array) -> tuple[NDArray[np.int64], bytes]:
    """Where each text ends among the bytes of all, in row-major order, and these bytes.

    Args:
        array: of `str` or of UTF-8 bytes.

    Raises:
        DataError: for a surrogate, which UTF-8 does not know.
    """
    try:
        parts = [t if isinstance(t, bytes) else t.encode() for t in array.ravel().tolist()]
    except UnicodeEncodeError as error:
        raise DataError(f"texts must be valid Unicode. Received: {error}.") from None
    return np.cumsum([len(part) for part in parts], dtype=np.int64), b"".join(parts)


def from_utf8(ends: NDArray[np.int64], content: Any, shape: tuple[int, ...]) -> Array:
    """The inverse of `to_utf8`.

    Raises:
        ValueError: if `ends` is not in order or not within `content`, or `content` is not UTF-8.
    """
    edges = [0, *ends.tolist()]
    if sorted(edges) != edges or edges[-1] != len(content):
        raise ValueError("texts that do not end where they should")
    raw = bytes(content)
    found = np.empty(len(ends), object)
    found[:] = [raw[a:b].decode() for a, b in pairwise(edges)]
    return found.reshape(shape)

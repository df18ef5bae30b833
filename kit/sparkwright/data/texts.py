"""Arrays of text: NumPy object arrays whose elements are `str`, and their UTF-8 bytes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

Array = NDArray[Any]
TEXT = np.dtype(object)


def is_text(array: Any) -> bool:
    """Whether a column of a DataSet, or what stands for one, holds text."""
    return array.dtype == TEXT


def is_string(kind: Any) -> bool:
    """Whether a column of Arrow type `kind` holds text."""
    return str(kind) in ("string", "large_string")


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
    if not all(issubclass(kind, str | bytes) for kind in kinds):
        raise DataError(
            "text must be `str` or UTF-8 bytes, without missing values (None, NaN). Received: "
            f"{', '.join(sorted(kind.__name__ for kind in kinds))} in {name!r}. Fill missing "
            'values first, as by `frame.fillna("")`; make numbers of numbers.'
        )
    found = np.empty(array.shape, object)
    try:
        found.reshape(-1)[:] = [
            text.decode() if isinstance(text, bytes) else str(text) for text in texts
        ]
    except UnicodeDecodeError as error:
        raise DataError(f"text must be UTF-8. Received: {error} in {name!r}.") from None
    return found


def size_bytes(array: Array) -> int:
    """Bytes of an array; of text, those of its UTF-8, and 8 for each text."""
    if not is_text(array):
        return array.nbytes
    texts: list[str] = array.ravel().tolist()
    return 8 * len(texts) + sum(len(t) if t.isascii() else len(_utf8(t)) for t in texts)


def to_utf8(array: Array) -> tuple[NDArray[np.int64], bytes]:
    """Where each text begins and ends among the bytes of all, (..., 2), and these bytes.

    Raises:
        DataError: for a surrogate, which UTF-8 does not know.
    """
    parts = list(map(_utf8, array.ravel().tolist()))
    edges = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return np.stack([edges[:-1], edges[1:]], axis=-1).reshape(*array.shape, 2), b"".join(parts)


def from_utf8(edges: NDArray[np.int64], content: Any, *, decode: bool = True) -> Array:
    """The inverse of `to_utf8`; texts as their bytes without `decode`.

    Raises:
        ValueError: if `content` is not UTF-8.
    """
    found = np.empty(edges.shape[:-1], object)
    texts = [bytes(content[start:stop]) for start, stop in edges.reshape(-1, 2).tolist()]
    found.reshape(-1)[:] = [text.decode() for text in texts] if decode else texts
    return found


class TextColumn:
    """What stands for an array of text in files: indexed as one, it gives UTF-8 bytes.

    Attributes:
        dtype: that of text in a DataSet.
        shape: (rows, ...).
    """

    def __init__(self, edges: NDArray[np.int64], content: Any) -> None:
        """Use what `to_utf8` returned, memory-mapped."""
        self.dtype, self.shape = TEXT, edges.shape[:-1]
        self._edges, self._content = edges, memoryview(content)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        return from_utf8(self._edges[rows], self._content, decode=False)


def _utf8(text: str | bytes) -> bytes:
    try:
        return text if isinstance(text, bytes) else str.encode(text)
    except UnicodeEncodeError as error:
        raise DataError(f"text must be valid Unicode. Received: {error}.") from None
    except TypeError as error:
        raise TypeError(f"arrays must be of numbers, texts or times. Received: {error}") from None

"""Arrays of text: NumPy object arrays of `str`, and their encoding as UTF-8 bytes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

Array = NDArray[Any]
TEXT = np.dtype(object)


def is_text(array: Any) -> bool:
    """Whether an array of a DataSet, or a `TextColumn`, holds text."""
    return array.dtype == TEXT


def is_string(kind: Any) -> bool:
    """Whether Arrow type `kind` is a string type."""
    return str(kind) in ("string", "large_string")


def as_texts(name: str, array: Array) -> Array:
    """Return `array` with `str` elements; bytes are decoded."""
    texts: list[Any] = array.ravel().tolist()
    kinds = set(map(type, texts))
    if kinds <= {str}:
        return array.astype(object, copy=False)
    if not all(issubclass(kind, str | bytes) for kind in kinds):
        raise DataError(
            "text must be `str` or UTF-8 bytes, without missing values (None, NaN). Received: "
            f"{', '.join(sorted(kind.__name__ for kind in kinds))} in {name!r}. Fill missing "
            'values first (`frame.fillna("")`); convert numbers to a numeric array.'
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
    """Return the bytes of an array; for text, those of its UTF-8 plus 8 per element."""
    if not is_text(array):
        return array.nbytes
    texts: list[str] = array.ravel().tolist()
    return 8 * len(texts) + sum(len(t) if t.isascii() else len(_utf8(t)) for t in texts)


def to_utf8(array: Array) -> tuple[NDArray[np.int64], bytes]:
    """Return the (..., 2) start and end of each text in the concatenated bytes, and the bytes."""
    parts = list(map(_utf8, array.ravel().tolist()))
    edges = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return np.stack([edges[:-1], edges[1:]], axis=-1).reshape(*array.shape, 2), b"".join(parts)


def from_utf8(edges: NDArray[np.int64], content: Any, *, decode: bool = True) -> Array:
    """Invert `to_utf8`; without `decode`, return texts as bytes."""
    found = np.empty(edges.shape[:-1], object)
    texts = [bytes(content[start:stop]) for start, stop in edges.reshape(-1, 2).tolist()]
    found.reshape(-1)[:] = [text.decode() for text in texts] if decode else texts
    return found


class TextColumn:
    """A memory-mapped (rows, ...) array of text in a file; indexing returns UTF-8 bytes."""

    def __init__(self, edges: NDArray[np.int64], content: Any) -> None:
        """Use the memory-mapped result of `to_utf8`."""
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
        raise TypeError(f"arrays must hold numbers, text or times. Received: {error}") from None

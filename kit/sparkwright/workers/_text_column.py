"""A column of text in files, read by the same indexing as an array."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data.texts import TEXT, to_utf8

Array = NDArray[Any]


class TextColumn:
    """Texts of a shard: a memory-mapped file of where each one ends, and one of their UTF-8.

    Attributes:
        dtype: that of text in a DataSet.
        shape: (rows, ...).
    """

    def __init__(self, bytes_path: Path, shape: tuple[int, ...]) -> None:
        """Map what `TextFile` wrote to `bytes_path`, and beside it."""
        self.dtype, self.shape = TEXT, shape
        self._ends: Array = _mapped(_ends_path(bytes_path), np.int64)
        self._bytes = memoryview(_mapped(bytes_path, np.uint8))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        """The texts of some rows, a slice or any array of integers, as bytes: TensorFlow's texts.

        Returns:
            An object array, of the shape of `rows` and of one example.
        """
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        width = math.prod(self.shape[1:])
        places = (rows[..., None] * width + np.arange(width)).reshape(-1)
        stops = self._ends[places]
        starts = np.where(places > 0, self._ends[places - 1], 0)
        found = np.empty(len(places), object)
        pairs = zip(starts.tolist(), stops.tolist(), strict=True)
        found[:] = [bytes(self._bytes[start:stop]) for start, stop in pairs]
        return found.reshape(*rows.shape, *self.shape[1:])


class TextFile:
    """Appends texts to the files of a `TextColumn`."""

    def __init__(self, bytes_path: Path) -> None:
        """Create the files."""
        self._bytes = bytes_path.open("wb", buffering=1 << 20)
        self._ends = _ends_path(bytes_path).open("wb", buffering=1 << 20)
        self._size = 0

    def write(self, texts: Array) -> None:
        """Append an array of text.

        Raises:
            OSError: if the disk is full or fails.
        """
        ends, content = to_utf8(texts)
        self._ends.write((ends + self._size).data.cast("B"))
        self._bytes.write(content)
        self._size += len(content)

    def close(self) -> None:
        """Finish both files."""
        try:
            self._bytes.close()
        finally:
            self._ends.close()


def _ends_path(bytes_path: Path) -> Path:
    return bytes_path.with_suffix(".ends")


def _mapped(path: Path, dtype: Any) -> Array:
    # An empty file cannot be mapped.
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)

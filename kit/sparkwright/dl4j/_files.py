"""Read ZIP files of Deeplearning4j's `ModelSerializer`: JSON, ND4J arrays and a normalizer."""

import math
import struct
import zipfile
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright._yaml import strict_json
from sparkwright.data import ImageScale, MinMaxScale, Standardize
from sparkwright.errors import DataError
from sparkwright.normalizers.normalizer import Normalizer
from sparkwright.storage.archive import DAMAGE, read_entry

Array = NDArray[Any]
_JSON, _PARAMETERS = "configuration.json", "coefficients.bin"
_UPDATER, _NORMALIZER, _JAVA = "updaterState.bin", "normalizer.bin", "preprocessor.bin"
_NUMBERS = {"DOUBLE": ">f8", "FLOAT": ">f4", "HALF": ">f2", "LONG": ">i8", "INT": ">i4"}
_MOST_EXPANSION, _ALWAYS_ALLOWED_BYTES = 100, 1 << 28


class Unmapped(Exception):
    """A part of a network has no counterpart in Keras."""


class Stored(NamedTuple):
    """The content of a file."""

    configuration: dict[str, Any]
    parameters: Array  # all, flat
    updater: Array | None  # state of all updaters, flat; None: not saved
    normalizer: bytes | None  # for `read_normalizer`
    left_out: list[str]  # descriptions of content that is not read


def read_file(file: BinaryIO, url: str) -> Stored:
    """Read a file; raise a DataError that names `url` if it is damaged or not a network."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            packed = sum(entry.compress_size for entry in entries.values())
            unpacked = sum(entry.file_size for entry in entries.values())
            if unpacked > max(_ALWAYS_ALLOWED_BYTES, _MOST_EXPANSION * packed):
                raise ValueError(f"its {packed} bytes would become {unpacked}")
            names = (_JSON, _PARAMETERS, _UPDATER, _NORMALIZER)
            found = {n: read_entry(archive, entries[n]) for n in names if n in entries}
        configuration = dict(strict_json(found[_JSON]))
        parameters, updater = found[_PARAMETERS], found.get(_UPDATER)
        return Stored(
            configuration,
            # A network without parameters has an empty member.
            Reader(parameters).array().ravel() if parameters else np.zeros(0, np.float32),
            None if updater is None else Reader(updater).array().ravel(),
            found.get(_NORMALIZER),
            [f"{_JAVA}, a serialized Java object"] if _JAVA in entries else [],
        )
    except (*DAMAGE, TypeError, RecursionError) as error:
        raise damaged(url, str(error) or type(error).__name__) from None


def damaged(url: str, reason: str) -> DataError:
    """Return the error for a file that cannot be read."""
    return DataError(
        "a Deeplearning4j model must be a complete ZIP file written by `ModelSerializer`. "
        f"Received: {url} ({reason}). Save the network again."
    )


class Reader:
    """A reader for data of Java's `DataOutputStream`; raises ValueError if bytes are missing."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = memoryview(content), 0

    def value(self, form: str) -> Any:
        """Read a number; `form` is a format character of `struct`."""
        return struct.unpack(f">{form}", self._take(struct.calcsize(f">{form}")))[0]

    def text(self) -> str:
        """Read an ASCII string."""
        return bytes(self._take(self.value("H"))).decode("ascii")

    def array(self) -> Array:
        """Read an array that `Nd4j.write` wrote; return it in native byte order."""
        about = self._buffer()
        rank = int(about[0]) if about.size and about.dtype.kind == "i" else -1
        if not 0 <= rank <= 32 or about.size != 2 * rank + 4:
            raise ValueError(f"invalid array header {about.tolist()[:8]}")
        shape, values = about[1 : rank + 1].tolist(), self._buffer()
        if min(shape, default=0) < 0 or math.prod(shape) != values.size:
            raise ValueError(f"an array of shape {shape} has {values.size} numbers")
        return values.reshape(shape, order="F" if about[-1] == ord("f") else "C")

    def _buffer(self) -> Array:
        has_long_length = self.text() in ("MIXED_DATA_TYPES", "LONG_SHAPE")
        length, kind = self.value("q" if has_long_length else "i"), self.text()
        if kind not in _NUMBERS:
            raise ValueError(f"unsupported data type {kind[:20]!r}")
        dtype = np.dtype(_NUMBERS[kind])
        values = np.frombuffer(self._take(length * dtype.itemsize), dtype)
        return values.astype(dtype.newbyteorder("="))

    def _take(self, size_bytes: int) -> memoryview:
        left = len(self._content) - self._at
        if not 0 <= size_bytes <= left:
            raise ValueError(f"{size_bytes} bytes expected, {left} left")
        self._at += size_bytes
        return self._content[self._at - size_bytes : self._at]


def read_normalizer(content: bytes, inputs: Sequence[str], outputs: Sequence[str]) -> Normalizer:
    """Read a normalizer that Deeplearning4j's `NormalizerSerializer` wrote."""
    if content[:2] == b"\xac\xed":
        raise Unmapped("the normalizer, a serialized Java object")
    reader = Reader(content)
    if (header := reader.text()) != "NORMALIZER":
        raise ValueError(f"invalid normalizer header {header[:20]!r}")
    _, kind = reader.value("i"), reader.text()
    if kind == "IMAGE_MIN_MAX":
        return ImageScale(
            low=reader.value("d"), high=reader.value("d"), max_value=reader.value("d")
        )
    if kind.removeprefix("MULTI_") not in ("STANDARDIZE", "MIN_MAX"):
        raise Unmapped(f"unsupported normalizer {kind[:40]}")
    has_labels, names = reader.value("?"), (["features"], ["labels"])
    if kind.startswith("MULTI_"):
        names = list(inputs), list(outputs)
        counts = reader.value("i"), reader.value("i")
        if counts != (len(inputs), len(outputs) if has_labels else -1):
            raise ValueError(f"its normalizer is for {counts[0]} inputs, {counts[1]} outputs")
    settings: dict[str, Any] = {}
    if kind.endswith("MIN_MAX"):
        settings = {"low": reader.value("d"), "high": reader.value("d")}
    normalizer = MinMaxScale if settings else Standardize
    fields = ("minimum", "maximum") if settings else ("mean", "std")
    for group, arrays in zip(("features", "labels"), names, strict=True):
        settings[group] = {
            name: {"per": "feature", **{each: reader.array().ravel() for each in fields}}
            for name in (arrays if group == "features" or has_labels else ())
        }
    return normalizer.from_dict(settings)

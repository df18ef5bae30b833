"""How a file becomes a minibatch: our own Arrow files, NumPy archives, or a function of the user's.

The content of a file is never trusted: nothing is unpickled, and nothing is allocated that is out
of proportion to the file's length.
"""

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np

from sparkwright.errors import DataError
from sparkwright.storage._files import open_file, read_bytes

from ._arrow import from_bytes, row_count
from ._dataset import DataSet
from ._manifest import Columns, columns_of

_SHORT_NAMES = {"x": "features", "y": "labels", "sample_weight": "weights"}
_GROUPS = ("features", "labels", "features_masks", "labels_masks")
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_KNOWN_HEADERS = 64
# Deflate shrinks zeros a thousandfold: a small archive could fill an executor's memory.
_UNPACKED_BYTES = 64 << 20
_UNPACKED_RATIO = 100


class NoFeaturesError(DataError):
    """A file holds a data set without features, or without examples."""


@dataclass(frozen=True, slots=True)
class MinibatchSource:
    """A file that a loader turns into a DataSet.

    Attributes:
        url: where it lies.
    """

    url: str

    def read(self) -> bytes:
        """The whole content.

        Raises:
            OSError: whatever the store says, naming the URL.
        """
        return read_bytes(self.url)

    def open(self) -> BinaryIO:
        """Open for reading piece by piece, with `seek`; `with source.open() as file:` closes it.

        Raises:
            OSError: whatever the store says, naming the URL.
        """
        return open_file(self.url)


# A DataSet, or its features and labels.
Loaded = DataSet | tuple[Any, Any]
Loader = Callable[[MinibatchSource], Loaded]


def arrow_loader(source: MinibatchSource) -> DataSet:
    """Load a file that `export` or `to_minibatch_files` wrote; the default."""
    return checked_dataset(source.read())


def checked_dataset(content: bytes) -> DataSet:
    """`from_bytes` for bytes of unknown origin; the arrays are views of them."""
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            if "weights" not in reader.schema.names and not any(
                name.startswith("features/") for name in reader.schema.names
            ):
                raise NoFeaturesError(f"it has the columns {reader.schema.names}, no features")
            batch = reader.read_next_batch()
            batch.validate(full=True)
        dataset = from_bytes(content)
        if row_count(content) != len(dataset):
            raise DataError("it does not hold the examples that its header says")
        if not len(dataset):
            raise NoFeaturesError("it holds no examples")
    except (DataError, MemoryError):
        raise
    except Exception as error:  # PyArrow's own, and NumPy's, of many kinds
        raise DataError(f"it is no Arrow minibatch ({_short(error)})") from None
    return dataset


class ArrowChecker:
    """`checked_dataset` for many files of one layout, of which only the first is parsed.

    A stream's header holds all but the numbers themselves, so a file with the header and length of
    a checked one needs no check.
    """

    def __init__(self) -> None:
        """Nothing known yet."""
        self._known: dict[int, tuple[bytes, tuple[int, Columns]]] = {}

    def rows_and_columns(self, content: bytes) -> tuple[int, Columns]:
        """How many examples of which columns; raises what `checked_dataset` raises."""
        known = self._known.get(len(content))
        if known is not None and content.startswith(known[0]) and content.endswith(_END):
            return known[1]
        dataset = checked_dataset(content)
        found = len(dataset), columns_of(dataset.layout)
        if len(self._known) < _KNOWN_HEADERS and content.endswith(_END):
            self._known[len(content)] = content[: _header_bytes(content)], found
        return found


def _header_bytes(content: bytes) -> int:
    """Length of schema and record batch header, which `checked_dataset` has found well formed."""
    at = 0
    for _ in range(2):
        at += 8 + int.from_bytes(content[at + 4 : at + 8], "little")
    return at


def numpy_loader(source: MinibatchSource | str | os.PathLike[str]) -> DataSet:
    """Load an `.npz` archive, as `numpy.savez` writes it; object arrays are refused.

    Arrays are named `features` and `labels` (or `x` and `y`), with `features_masks`,
    `labels_masks` and `weights` (or `sample_weight`) if need be; with several inputs or outputs
    `features/NAME`, `labels/NAME` and so on. An archive that would unpack to more than 64 MiB and
    more than a hundred times its own length is refused.

    Example:
        np.savez("part-0.npz", features=images, labels=classes)
        data = sw.data.from_minibatches(spark, "parts/*.npz", loader=sw.data.numpy_loader)

    Raises:
        DataError: if it is no such archive.
        OSError: whatever the store says.
    """
    if not isinstance(source, MinibatchSource):
        source = MinibatchSource(os.fspath(source))
    content = source.read()
    try:
        arrays = _npz_arrays(content)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # NumPy's, zipfile's and zlib's, of many kinds
        raise DataError(f"it is no .npz archive of numbers ({_short(error)})") from None
    columns: dict[str, Any] = {}
    for key, array in arrays.items():
        group, _, name = _SHORT_NAMES.get(key, key).partition("/")
        if group not in ("weights", *_GROUPS):
            raise DataError(f"its arrays must be named features, labels, …; there is {key!r}")
        columns[group if group == "weights" else f"{group}/{name or group}"] = array
    if not any(name.startswith("features/") for name in columns):
        raise NoFeaturesError(f"it has the arrays {sorted(arrays)}, no features")
    for masks, masked in (("features_masks", "features"), ("labels_masks", "labels")):
        # A mask without a name belongs to the only array that it can belong to.
        names = [name for name in columns if name.startswith(f"{masked}/")]
        if len(names) == 1 and [n for n in columns if n.startswith(f"{masks}/")] == [
            f"{masks}/{masks}"
        ]:
            name = names[0].partition("/")[2]
            columns[f"{masks}/{name}"] = columns.pop(f"{masks}/{masks}")
    return DataSet.from_columns(columns)


def load(loader: Loader, source: MinibatchSource) -> DataSet:
    """What `loader` makes of a file, as a DataSet of at least one example."""
    found: Any = loader(source)
    if isinstance(found, tuple) and len(found) == 2:  # pyright: ignore[reportUnknownArgumentType]
        found = DataSet(*found)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(found, DataSet):
        raise DataError(
            "the loader must return a DataSet or (features, labels), it returned "
            f"{type(found).__name__}"
        )
    if not len(found):
        raise NoFeaturesError("it holds no examples")
    return found


def _npz_arrays(content: bytes) -> dict[str, np.ndarray[Any, Any]]:
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    with zipfile.ZipFile(BytesIO(content)) as archive:
        unpacked = sum(info.file_size for info in archive.infolist())
        if unpacked > max(_UNPACKED_BYTES, _UNPACKED_RATIO * len(content)):
            raise DataError(
                f"its {len(content)} bytes would unpack to {unpacked}: more than 64 MiB, and more "
                "than a hundredfold. Save it without compression (`numpy.savez`)"
            )
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                raise DataError(f"its member {info.filename} is no array")
            with archive.open(info) as file:
                raw = file.read()
            arrays[info.filename.removesuffix(".npy")] = _npy_array(info.filename, raw)
    return arrays


def _npy_array(name: str, raw: bytes) -> np.ndarray[Any, Any]:
    file = BytesIO(raw)
    version = np.lib.format.read_magic(file)
    read_header = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read_header(file)
    if dtype.kind not in "biuf":
        raise DataError(f"its array {name.removesuffix('.npy')} is of {dtype}, not of numbers")
    if min(shape, default=0) < 0:
        raise DataError(f"its array {name.removesuffix('.npy')} has the shape {shape}")
    values = np.frombuffer(raw, np.uint8, offset=file.tell()).view(dtype)
    return values.reshape(shape, order="F" if fortran else "C")


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]

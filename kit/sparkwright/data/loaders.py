"""Read files as examples: Sparkwright's Arrow files, NumPy archives, or a loader function.

File content is untrusted: nothing is unpickled, and allocations are limited by the file's length.
"""

import os
import socket
import zipfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import chain, islice
from typing import Any, BinaryIO, TypeVar

import numpy as np

from sparkwright.errors import DataError
from sparkwright.storage.archive import array_in
from sparkwright.storage.files import exists, is_on_this_machine, open_file, read_bytes

from ._manifest import Columns, columns_of, columns_text
from ._skipped import SkipLog, UnusableItem
from .chunks import from_bytes, row_count, to_bytes, to_chunks
from .dataset import GROUPS, DataSet
from .paths import FileToRead

Item = TypeVar("Item")
Result = TypeVar("Result")
_SHORT_NAMES = {"x": "features", "y": "labels", "sample_weight": "weights"}
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_KNOWN_HEADERS = 64
# Deflate compresses zeros by a factor of 1000: a small archive could fill an executor's memory.
_UNPACKED_BYTES = 64 << 20
_UNPACKED_RATIO = 100
# Object stores have high latency: read four files concurrently, hold at most eight in memory.
_THREADS = 4
_AHEAD = 8
_AHEAD_BYTES = 64 << 20


class NoFeaturesError(DataError):
    """The data set in a file has no features or no examples."""


@dataclass(frozen=True, slots=True)
class MinibatchSource:
    """A file to be read by a loader.

    Attributes:
        url: URL of the file.
    """

    url: str

    def read(self) -> bytes:
        """Return the whole content.

        Raises:
            OSError: if the file cannot be read, naming its URL.
        """
        return read_bytes(self.url)

    def open(self) -> BinaryIO:
        """Open the file for reading with `seek`; use `with source.open() as file:`.

        Raises:
            OSError: if the file cannot be read, naming its URL.
        """
        return open_file(self.url)


# A DataSet, or its features and labels.
Loaded = DataSet | tuple[Any, Any]
Loader = Callable[[MinibatchSource], Loaded]


def load(loader: Loader, source: MinibatchSource) -> DataSet:
    """Return the result of `loader` as a DataSet of at least one example."""
    found: Any = loader(source)
    if isinstance(found, tuple) and len(found) == 2:  # pyright: ignore[reportUnknownArgumentType]
        found = DataSet(*found)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(found, DataSet):
        raise DataError(
            "the loader must return a DataSet or (features, labels), but returned "
            f"{type(found).__name__}"
        )
    if not len(found):
        raise NoFeaturesError("it holds no examples")
    return found


def problem_of(url: str, error: Exception) -> UnusableItem:
    """Describe an invalid file at `url` by the exception from reading or loading it."""
    if isinstance(error, FileNotFoundError) and not exists(url):
        return UnusableItem(
            "missing file",
            f"a minibatch file must exist. Received: {url}, which does not exist on "
            f"{socket.gethostname()}. Check the path, or export again.",
        )
    reason, rule = "unreadable file", "be one that its loader can read"
    if isinstance(error, NoFeaturesError):
        reason, rule = "no features", "hold features of at least one example"
    what = str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
    return UnusableItem(
        reason,
        f"a minibatch file must {rule}. Received: {url}: {what}. "
        "`sparkwright.data.validate` finds all such files.",
    )


# -- reading many files


@dataclass(frozen=True, kw_only=True, slots=True)
class MinibatchReader:
    """Read files on an executor with `loader`, or as Arrow files with `columns`."""

    loader: Loader | None = None
    columns: Columns | None = None

    def read(self, files: Iterable[FileToRead], log: SkipLog) -> Iterator[bytes]:
        """Yield the chunks of `files`, in order; report invalid files to `log`."""
        if self.loader is not None:
            with closing(self.load(files, log)) as datasets:
                yield from to_chunks(datasets)
            return
        load_arrow = partial(self.load_arrow, checker=ArrowChecker())
        rest = iter(files)
        first = next(rest, None)
        if first is None:
            return
        files = chain([first], rest)
        if is_on_this_machine(first.url):
            # Threads do not pay off for local files.
            yield from _usable(map(load_arrow, files), log)
        else:
            ahead = max(1, min(_AHEAD, _AHEAD_BYTES // (first.size_bytes or _AHEAD_BYTES // 4)))
            with closing(read_ahead(files, load_arrow, threads=_THREADS, ahead=ahead)) as found:
                yield from _usable(found, log)

    def load(self, files: Iterable[FileToRead], log: SkipLog) -> Generator[DataSet]:
        """Yield the loader's DataSet of each file, in order; close the generator when done."""
        # Close explicitly: joining threads from the garbage collector can deadlock.
        with closing(read_ahead(files, self._loaded)) as found:
            yield from _usable(found, log)

    def load_arrow(self, file: FileToRead, *, checker: "ArrowChecker") -> bytes | UnusableItem:
        """Return the chunk of an Arrow file, or the requested range of its examples."""
        try:
            content = read_bytes(file.url)
            rows, columns = checker.rows_and_columns(content)
        except Exception as error:
            return problem_of(file.url, error)
        if self.columns is not None and columns != self.columns:
            return _unlike(file.url, columns_text(columns), columns_text(self.columns))
        if file.examples is not None and file.examples != rows:
            return _unlike(file.url, f"{rows} examples", f"{file.examples}")
        if not file.is_as_written(content):
            return _unlike(file.url, "other bytes", "bytes that match its checksum")
        if file.start or file.stop is not None:
            return to_bytes(from_bytes(content).take(slice(file.start, file.stop)))
        return content

    def _loaded(self, file: FileToRead) -> DataSet | UnusableItem:
        assert self.loader is not None
        try:
            return load(self.loader, MinibatchSource(file.url))
        except Exception as error:
            return problem_of(file.url, error)


def read_ahead(
    items: Iterable[Item], function: Callable[[Item], Result], *, threads: int = 2, ahead: int = 4
) -> Generator[Result]:
    """Yield `map(function, items)` in order, with at most `ahead` results computed on threads.

    Items are read on the calling thread. An exception of `function` is raised in place of its
    result. Close the generator to stop the threads early.
    """
    rest = iter(items)
    with ThreadPoolExecutor(threads, thread_name_prefix="sparkwright-read") as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            waiting.extend(pool.submit(function, item) for item in islice(rest, ahead))
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(rest, 1))
                yield result
        finally:
            for future in waiting:
                future.cancel()


def _unlike(url: str, found: str, wanted: str) -> UnusableItem:
    return UnusableItem(
        "unlike the manifest",
        f"every file of an export must hold what its manifest says. Received: {url} with {found} "
        f"instead of {wanted}. Export again with `overwrite=True`.",
    )


def _usable(found: Iterable[Any], log: SkipLog) -> Iterator[Any]:
    for item in found:
        if isinstance(item, UnusableItem):
            log.skip(item.reason, item.message)
        else:
            yield item


# -- Arrow


def checked_dataset(content: bytes) -> DataSet:
    """Validate untrusted bytes and return `from_bytes` of them; the arrays are views."""
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            if "weights" not in reader.schema.names and not any(
                name.startswith("features/") for name in reader.schema.names
            ):
                raise NoFeaturesError(f"it has no features. Its columns are {reader.schema.names}")
            batch = reader.read_next_batch()
            batch.validate(full=True)
        dataset = from_bytes(content)
        if row_count(content) != len(dataset):
            raise DataError("the number of examples differs from that in its header")
        if not len(dataset):
            raise NoFeaturesError("it holds no examples")
    except (DataError, MemoryError):
        raise
    except Exception as error:  # PyArrow and NumPy raise many types
        raise DataError(f"it is not an Arrow minibatch ({_short(error)})") from None
    return dataset


class ArrowChecker:
    """Validate files of one layout: an equal header and length need no second parsing."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[bytes, tuple[int, Columns]]] = {}

    def rows_and_columns(self, content: bytes) -> tuple[int, Columns]:
        """Return the number of examples and the columns; raises like `checked_dataset`."""
        known = self._known.get(len(content))
        if known is not None and content.startswith(known[0]) and content.endswith(_END):
            return known[1]
        dataset = checked_dataset(content)
        found = len(dataset), columns_of(dataset.layout)
        if len(self._known) < _KNOWN_HEADERS and content.endswith(_END):
            end = 0  # end of the two header messages: schema and record batch
            for _ in range(2):
                end += 8 + int.from_bytes(content[end + 4 : end + 8], "little")
            self._known[len(content)] = content[:end], found
        return found


# -- NumPy


def numpy_loader(source: MinibatchSource | str | os.PathLike[str]) -> DataSet:
    """Load an `.npz` archive written by `numpy.savez`; object arrays are an error.

    Arrays are named `features` and `labels` (or `x` and `y`), and optionally `features_masks`,
    `labels_masks` and `weights` (or `sample_weight`). With several inputs or outputs the names are
    `features/NAME`, `labels/NAME` and so on. An archive that would expand to more than 64 MiB and
    to more than 100 times its own length is an error.

    Example:
        np.savez("part-0.npz", features=images, labels=classes)
        data = sw.data.from_minibatches(spark, "parts/*.npz", loader=sw.data.numpy_loader)

    Raises:
        DataError: if the archive is invalid.
        OSError: if the file cannot be read.
    """
    url = source.url if isinstance(source, MinibatchSource) else os.fspath(source)
    content = read_bytes(url)
    try:
        arrays = _npz_arrays(content)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # NumPy, zipfile and zlib raise many types
        raise DataError(f"it is not an .npz archive of numbers ({_short(error)})") from None
    groups: dict[str, Any] = {group: {} for group in GROUPS}
    for key, array in arrays.items():
        group, _, name = _SHORT_NAMES.get(key, key).partition("/")
        if group == "weights":
            groups[group] = array
        elif group in groups:
            # A mask without a name belongs to the only input or output.
            alone = not any(other.startswith(f"{group}/") for other in arrays)
            bare = group.endswith("_masks") and not name and alone
            groups[group] = array if bare else groups[group] | {name or group: array}
        else:
            raise DataError(
                f"its arrays must be named features, labels, …, but one is named {key!r}"
            )
    if not groups["features"]:
        raise NoFeaturesError(f"it has no features. Its arrays are {sorted(arrays)}")
    return DataSet(**groups)


def _npz_arrays(content: bytes) -> dict[str, np.ndarray[Any, Any]]:
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    with zipfile.ZipFile(BytesIO(content)) as archive:
        unpacked = sum(info.file_size for info in archive.infolist())
        if unpacked > max(_UNPACKED_BYTES, _UNPACKED_RATIO * len(content)):
            raise DataError(
                f"its {len(content)} bytes would expand to {unpacked}: more than 64 MiB, and more "
                "than 100 times its length. Save it without compression (`numpy.savez`)"
            )
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                raise DataError(f"its member {info.filename} is not an array")
            arrays[info.filename.removesuffix(".npy")] = array_in(archive.read(info))
    return arrays


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]

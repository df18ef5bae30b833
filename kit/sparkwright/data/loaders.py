"""Files as examples: our own Arrow files, NumPy archives, or a function of the user's.

The content of a file is never trusted: nothing is unpickled, and nothing is allocated that is out
of proportion to the file's length.
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
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np

from sparkwright.errors import DataError
from sparkwright.storage.archive import array_in
from sparkwright.storage.files import exists, is_on_this_machine, open_file, read_bytes

from ._manifest import Columns, columns_of, columns_text
from ._skipped import UnusableItem
from .chunks import from_bytes, row_count, to_bytes, to_chunks
from .dataset import DataSet
from .paths import FileToRead

if TYPE_CHECKING:
    from .pieces import SkipLog

Item = TypeVar("Item")
Result = TypeVar("Result")
_SHORT_NAMES = {"x": "features", "y": "labels", "sample_weight": "weights"}
_GROUPS = ("features", "labels", "features_masks", "labels_masks")
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_KNOWN_HEADERS = 64
# Deflate shrinks zeros a thousandfold: a small archive could fill an executor's memory.
_UNPACKED_BYTES = 64 << 20
_UNPACKED_RATIO = 100
# A store answers late, but many at once: four files under way, eight at most in memory.
_THREADS = 4
_AHEAD = 8
_AHEAD_BYTES = 64 << 20


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


def problem_of(url: str, error: Exception) -> UnusableItem:
    """Why the file at `url` is invalid, by an exception from reading or loading it."""
    if isinstance(error, FileNotFoundError) and not exists(url):
        return UnusableItem(
            "missing file",
            f"a minibatch file must exist. Received: {url}, which {socket.gethostname()} does not "
            "see. Check the path, or export again.",
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


# -- many files as chunks


@dataclass(frozen=True, kw_only=True, slots=True)
class MinibatchReader:
    """Reads files on an executor: through `loader`, or as Arrow files that hold `columns`."""

    loader: Loader | None = None
    columns: Columns | None = None

    def read(self, files: Iterable[FileToRead], log: "SkipLog") -> Iterator[bytes]:
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
            # Here a thread would cost more than it saves.
            yield from _usable(map(load_arrow, files), log)
        else:
            ahead = max(1, min(_AHEAD, _AHEAD_BYTES // (first.size_bytes or _AHEAD_BYTES // 4)))
            with closing(read_ahead(files, load_arrow, threads=_THREADS, ahead=ahead)) as found:
                yield from _usable(found, log)

    def load(self, files: Iterable[FileToRead], log: "SkipLog") -> Generator[DataSet]:
        """Yield what the loader makes of each of `files`, in order; close it before its end."""
        # Closed here: left to the garbage collector, threads may be joined in the midst of
        # Python's own work on threads, which waits forever.
        with closing(read_ahead(files, self._loaded)) as found:
            yield from _usable(found, log)

    def load_arrow(self, file: FileToRead, *, checker: "ArrowChecker") -> bytes | UnusableItem:
        """Return the chunk of an Arrow file, or the part of it that is to be read."""
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
            return _unlike(file.url, "other bytes", "those of its checksum")
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
    """`map(function, items)` on threads, with at most `ahead` results computed ahead, in order.

    Items are taken on the calling thread. An exception of `function` is raised at its place. The
    threads end with the iterator: `close` it if it is left before its end.

    Example:
        >>> list(read_ahead([3, 1, 2], str))
        ['3', '1', '2']
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


def _usable(found: Iterable[Any], log: "SkipLog") -> Iterator[Any]:
    for item in found:
        if isinstance(item, UnusableItem):
            log.skip(item.reason, item.message)
        else:
            yield item


# -- Arrow


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
        self._known: dict[int, tuple[bytes, tuple[int, Columns]]] = {}

    def rows_and_columns(self, content: bytes) -> tuple[int, Columns]:
        """How many examples of which columns; raises what `checked_dataset` raises."""
        known = self._known.get(len(content))
        if known is not None and content.startswith(known[0]) and content.endswith(_END):
            return known[1]
        dataset = checked_dataset(content)
        found = len(dataset), columns_of(dataset.layout)
        if len(self._known) < _KNOWN_HEADERS and content.endswith(_END):
            end = 0  # of two messages: schema, and header of the record batch
            for _ in range(2):
                end += 8 + int.from_bytes(content[end + 4 : end + 8], "little")
            self._known[len(content)] = content[:end], found
        return found


# -- NumPy


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
    url = source.url if isinstance(source, MinibatchSource) else os.fspath(source)
    content = read_bytes(url)
    try:
        arrays = _npz_arrays(content)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # NumPy's, zipfile's and zlib's, of many kinds
        raise DataError(f"it is no .npz archive of numbers ({_short(error)})") from None
    groups: dict[str, Any] = {group: {} for group in _GROUPS}
    for key, array in arrays.items():
        group, _, name = _SHORT_NAMES.get(key, key).partition("/")
        if group == "weights":
            groups[group] = array
        elif group in groups:
            # A bare mask belongs to the only array that it can belong to.
            alone = not any(other.startswith(f"{group}/") for other in arrays)
            bare = group.endswith("_masks") and not name and alone
            groups[group] = array if bare else groups[group] | {name or group: array}
        else:
            raise DataError(f"its arrays must be named features, labels, …; there is {key!r}")
    if not groups["features"]:
        raise NoFeaturesError(f"it has the arrays {sorted(arrays)}, no features")
    return DataSet(**groups)


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
            arrays[info.filename.removesuffix(".npy")] = array_in(archive.read(info))
    return arrays


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]

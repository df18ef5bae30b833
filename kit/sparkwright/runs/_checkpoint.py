"""Checkpoints at a URL: what a run needs to go on later, written while it trains.

A checkpoint is one file, `checkpoint-<averagings>.swc`: a ZIP archive, stored and not compressed.
It holds `meta.json`, `vector.npy`, `history/<column>.npy` and `extras/<worker>.bin`. `meta.json`
has the SHA-256 of every other member; the archive's own CRC-32 covers `meta.json`. Reading one
executes nothing: arrays are plain numbers, the rest is JSON.
"""

import hashlib
import io
import json
import logging
import re
import struct
import threading
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError, SparkwrightError
from sparkwright.storage._files import (
    is_folder,
    join,
    list_folder,
    open_to_read,
    remove,
    write_atomically,
)

from ._protocol import Progress

_log = logging.getLogger(__name__)
_FORMAT = 1
_HEADER_LIMIT_BYTES = 4096
_VECTOR_TYPES = (np.dtype(np.float32).str, np.dtype(np.float64).str)
_BLOCK_BYTES = 1 << 20  # stays in a core's cache between its digest, its CRC and its writing
_NAME = re.compile(r"checkpoint-([0-9]{8,})\.swc")
_TEMPORARY = re.compile(r"\.checkpoint-([0-9]{8,})\.swc\.[0-9a-f]{8}\.tmp")
_META: dict[str, type] = {
    "progress": dict,
    "has_updater": bool,
    "master": dict,
    "fingerprint": str,
    "rows": list,
    "epochs": int,
    "run": str,
    "validation": list,
    "written": str,
    "versions": dict,
    "columns": list,
    "extras": int,
    "sha256": dict,
}
# What a damaged archive makes `zipfile` and the reading of its description raise.
_DAMAGE = (
    *(zipfile.BadZipFile, ValueError, LookupError, TypeError, AttributeError, EOFError),
    *(NotImplementedError, RuntimeError, ArithmeticError, struct.error, MemoryError),
)
_SAID = (ValueError, zipfile.BadZipFile)
# Besides data and seed, these decide which examples a minibatch consists of.
_OLD_KIND = "ParameterAveragingTrainingMaster"  # settings without a name are its
_DECISIVE = ("batch_size_per_worker", "shuffle", "repartition", "repartition_strategy")


class CheckpointNotFoundError(SparkwrightError, FileNotFoundError):
    """There is no whole checkpoint at a URL."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Checkpoint:
    """What a run needs to go on where it was.

    Attributes:
        progress: what has been averaged, and so counts.
        vector: the floating-point state, 1-D float32 or float64, see `ModelState.read`.
        extras: the packed integer state of every worker; default: none is kept.
        has_updater: whether `vector` ends with the optimizer's state.
        master: JSON-able settings, with the seed that the run used.
        fingerprint: of the network's definition.
        rows: examples of every worker.
        epochs: how many the run was to train.
        run: its id.
        history: 1-D columns of one length, see `History.rows`; default empty.
        validation: JSON-able validation points so far; default none.
        written: when, as ISO 8601 text; default empty (unknown).
        versions: of the libraries, by name; default empty.

    Raises:
        DataError: if an array or a number cannot be meant that way.
    """

    progress: Progress
    vector: NDArray[Any]
    has_updater: bool
    master: dict[str, Any]
    fingerprint: str
    rows: tuple[int, ...]
    epochs: int
    run: str
    extras: tuple[bytes, ...] = ()
    history: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    validation: Sequence[dict[str, Any]] = ()
    written: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Check what reading relies on."""
        if self.vector.ndim != 1 or self.vector.dtype.str not in _VECTOR_TYPES:
            raise DataError(
                "a checkpoint's vector must be 1-D, of float32 or float64. Received: "
                f"shape {self.vector.shape}, dtype {self.vector.dtype}."
            )
        for name, column in self.history.items():
            if column.ndim != 1 or column.dtype.kind not in "biuf" or not column.dtype.isnative:
                raise DataError(
                    "a history's columns must be 1-D, of numbers. Received: "
                    f"{name} of shape {column.shape}, dtype {column.dtype}."
                )
        if len({len(column) for column in self.history.values()}) > 1:
            raise DataError(
                "a history's columns must be of one length. Received: "
                f"{ {name: len(column) for name, column in self.history.items()} }."
            )
        if len(self.extras) not in (0, len(self.rows)):
            raise DataError(
                "a checkpoint must have the integer state of every worker or of none. Received: "
                f"{len(self.extras)} of {len(self.rows)} workers."
            )
        for name in ("epoch", "averagings"):
            if not isinstance(getattr(self.progress, name), int) or self.progress.averagings < 0:
                raise DataError(f"progress must count from 0. Received: {self.progress}.")

    def meta(self) -> dict[str, Any]:
        """JSON-able fields: all but the arrays and `extras`, of which only the number is here."""
        return {
            "progress": self.progress.to_dict(),
            "has_updater": self.has_updater,
            "master": self.master,
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "epochs": self.epochs,
            "run": self.run,
            "validation": list(self.validation),
            "written": self.written,
            "versions": dict(self.versions),
            "columns": list(self.history),
            "extras": len(self.extras),
        }


def write_checkpoint(folder_url: str, checkpoint: Checkpoint, *, keep: int) -> str:
    """Write `checkpoint` into a folder, then remove the oldest ones beyond `keep`.

    The file appears whole or not at all. Only checkpoints up to this one count and are removed:
    later ones, which another run left there, stay, with a warning. A file that cannot be removed
    is a warning too.

    Args:
        folder_url: where to; made if needed. A local path counts as a URL.
        checkpoint: what to write.
        keep: how many files stay, at least 1.

    Returns:
        The URL of the file.

    Raises:
        ConfigurationError: if `keep` is not a count.
        OSError: whatever the store says, naming the URL.
    """
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise ConfigurationError(
            f"`keep` must be an integer of at least 1. Received: keep={keep!r}."
        )
    name = f"checkpoint-{checkpoint.progress.averagings:08d}.swc"
    url = join(folder_url, name)
    with write_atomically(url) as file:
        _write_archive(file, checkpoint)
    try:
        _prune(folder_url, checkpoint.progress.averagings, keep)
    except OSError as error:
        _log.warning("old checkpoints could not be removed: %s", error)
    return url


def read_checkpoint(url: str) -> Checkpoint:
    """Read one checkpoint, or the newest whole one of a folder.

    In a folder, a damaged file is passed over with a warning that names it.

    Raises:
        CheckpointNotFoundError: if there is none.
        DataError: if `url` is one file and damaged; names the file and what is wrong.
        OSError: whatever the store says, naming the URL.
    """
    if not is_folder(url):
        try:
            return _read_file(url)
        except FileNotFoundError:
            raise CheckpointNotFoundError(
                f"there must be a checkpoint to go on from. Received: {url}, where there is "
                "nothing. Check the path and the host, or start without a checkpoint."
            ) from None
    damaged = 0
    for _, name in reversed(_numbered(list_folder(url), _NAME)):
        try:
            return _read_file(join(url, name))
        except DataError as error:
            damaged += 1
            _log.warning("passed over a damaged checkpoint: %s", error)
        except FileNotFoundError:
            continue  # its run has just removed it
    found = f"{damaged} damaged ones and no whole one" if damaged else "none"
    raise CheckpointNotFoundError(
        f"there must be a checkpoint to go on from. Received: {url}, which has {found}. "
        "Give the folder that the run wrote to, or start without a checkpoint."
    )


def check_resumable(
    checkpoint: Checkpoint,
    *,
    master: Mapping[str, Any],
    fingerprint: str,
    rows: Sequence[int],
    epochs: int,
) -> None:
    """Refuse to go on with another network, other data or settings that decide on minibatches.

    Settings that only one of the two masters knows, and all others (mesh, prefetching, XLA,
    statistics, checkpoints), may differ.

    Args:
        checkpoint: where to go on.
        master: the new run's settings; a `seed` of None takes the checkpoint's.
        fingerprint: of the new run's network.
        rows: examples of every worker of the new run.
        epochs: how many the new run is to train in all, the checkpoint's included.

    Raises:
        ConfigurationError: naming every difference.
    """
    old = checkpoint.master
    differences: list[str] = []
    if fingerprint != checkpoint.fingerprint:
        differences.append("another network")
    if len(rows) != len(checkpoint.rows):
        differences.append(f"{len(rows)} workers instead of {len(checkpoint.rows)}")
    elif tuple(rows) != checkpoint.rows:
        worker = next(w for w, count in enumerate(rows) if count != checkpoint.rows[w])
        differences.append(
            f"other data or partitioning (worker {worker} has {rows[worker]} examples instead of "
            f"{checkpoint.rows[worker]})"
        )
    if master.get("name", _OLD_KIND) != old.get("name", _OLD_KIND):
        differences.append(f"a {master.get('name')} instead of a {old.get('name', _OLD_KIND)}")
    differences += [
        f"{name}={master[name]!r} instead of {old[name]!r}"
        for name in _DECISIVE
        if name in master and name in old and master[name] != old[name]
    ]
    if master.get("seed") is not None and master["seed"] != old.get("seed"):
        differences.append(f"seed={master['seed']} instead of {old.get('seed')}")
    if differences:
        raise ConfigurationError(
            "a run goes on only with the network, the data and the minibatches of its checkpoint "
            f"(run {checkpoint.run}). Received: {'; '.join(differences)}. Change these back, or "
            "start without the checkpoint."
        )
    done = checkpoint.progress.epoch
    if epochs <= done and not checkpoint.progress.to_dict().get("todo"):
        raise ConfigurationError(
            f"the checkpointed run has already trained {'all ' if epochs == done else ''}{done} "
            f"epochs. Received: epochs={epochs}. Give more than {done}."
        )


class CheckpointWriter:
    """Writes checkpoints on a thread of its own; a failed one is logged, and the run goes on.

    At most one waits: a newer one takes the place of an older one that has not been begun.

    Attributes:
        last_url: of the last file written; None before the first.
        problem: why the last attempt failed; None once one has succeeded again.
    """

    def __init__(self, folder_url: str, *, keep: int = 3) -> None:
        """Start the thread; nothing is written yet."""
        self.last_url: str | None = None
        self.problem: Exception | None = None
        self._folder_url, self._keep = folder_url, keep
        self._changed = threading.Condition()
        self._waiting: Checkpoint | None = None
        self._closed = False
        self._thread = threading.Thread(
            target=self._main, name="sparkwright-checkpoints", daemon=True
        )
        self._thread.start()

    def submit(self, checkpoint: Checkpoint) -> None:
        """Have `checkpoint` written soon; returns at once. Its arrays must not change any more.

        Raises:
            RuntimeError: after `close`.
        """
        with self._changed:
            if self._closed:
                raise RuntimeError("this CheckpointWriter is closed.")
            self._waiting = checkpoint
            self._changed.notify()

    def close(self, timeout_s: float) -> bool:
        """Write what waits, then end the thread. Returns whether it ended within `timeout_s`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning(
                "the last checkpoint in %s is not written after %g s", self._folder_url, timeout_s
            )
        return not self._thread.is_alive()

    def _main(self) -> None:
        while (checkpoint := self._next()) is not None:
            try:
                self.last_url = write_checkpoint(self._folder_url, checkpoint, keep=self._keep)
                self.problem = None
            except Exception as error:  # a run must not die of its checkpoints
                self.problem = error
                _log.warning("no checkpoint written to %s: %s", self._folder_url, error)

    def _next(self) -> Checkpoint | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._closed)
            checkpoint, self._waiting = self._waiting, None
            return checkpoint


def _prune(folder_url: str, written: int, keep: int) -> None:
    names = list_folder(folder_url)
    numbered = _numbered(names, _NAME)
    if later := [name for number, name in numbered if number > written]:
        _log.warning(
            "%s holds %s, which is later than what this run has just written, and is what is read "
            "from that folder. Give each run a folder of its own.",
            *(folder_url, later[-1]),
        )
    old = [name for number, name in numbered if number <= written][:-keep]
    # What a killed writer left: nobody else writes what this run has passed.
    left = [name for number, name in _numbered(names, _TEMPORARY) if number <= written]
    for name in (*old, *left):
        try:
            remove(join(folder_url, name))
        except OSError as error:
            _log.warning("an old checkpoint stays: %s", error)


def _numbered(names: Sequence[str], pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    found = [match for name in names if (match := pattern.fullmatch(name))]
    return sorted((int(match[1]), match[0]) for match in found)


def _write_archive(file: BinaryIO, checkpoint: Checkpoint) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        members: list[tuple[str, tuple[Any, ...]]] = [
            ("vector.npy", _npy(checkpoint.vector)),
            *((_column(name), _npy(column)) for name, column in checkpoint.history.items()),
            *((f"extras/{w}.bin", (extra,)) for w, extra in enumerate(checkpoint.extras)),
        ]
        digests = {name: _write_member(archive, name, *parts) for name, parts in members}
        meta = {"format": _FORMAT, **checkpoint.meta(), "sha256": digests}
        text = json.dumps(meta, indent=1, default=_plain_number)
        _write_member(archive, "meta.json", text.encode())


def _write_member(archive: zipfile.ZipFile, name: str, *parts: Any) -> str:
    views = [memoryview(part) for part in parts]
    large = sum(len(view) for view in views) >= zipfile.ZIP64_LIMIT // 2
    digest = hashlib.sha256()
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=large) as member:
        for view in views:
            for start in range(0, len(view), _BLOCK_BYTES):
                block = view[start : start + _BLOCK_BYTES]
                digest.update(block)
                member.write(block)
    return digest.hexdigest()


def _npy(array: NDArray[Any]) -> tuple[Any, ...]:
    array = np.ascontiguousarray(array)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    return header.getvalue(), array.view(np.uint8)


def _column(name: str) -> str:
    return f"history/{quote(name, safe=' ')}.npy"


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a checkpoint's settings must be JSON-able. Received: {value!r}.")


def _read_file(url: str) -> Checkpoint:
    with open_to_read(url) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive, file.seek(0, io.SEEK_END))
        except _DAMAGE as error:
            reason = str(error) if isinstance(error, _SAID) else repr(error)
            raise DataError(
                f"a checkpoint must be whole and unchanged. Received: {url}, which is not: "
                f"{reason}. Go on from an earlier one."
            ) from error


def _read_archive(archive: zipfile.ZipFile, size_bytes: int) -> Checkpoint:
    members = {info.filename: info for info in archive.infolist()}
    if len(members) != len(archive.infolist()):
        raise ValueError("two members have the same name")
    for info in members.values():
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ValueError(f"{info.filename} is compressed")
        if not 0 <= info.header_offset <= size_bytes - info.file_size:
            raise ValueError(f"{info.filename} does not fit into the file")
    if sum(info.file_size for info in members.values()) > size_bytes:
        raise ValueError("its members are larger than the file")
    meta = json.loads(bytes(_read_member(archive, members["meta.json"])))
    if meta.get("format") != _FORMAT:
        raise ValueError(
            f"its format is {meta.get('format')!r}, this version of Sparkwright reads {_FORMAT}"
        )
    for name, kind in _META.items():
        if not isinstance(meta.get(name), kind):
            raise ValueError(f"its {name} is {meta.get(name)!r}")
    digests, columns = meta["sha256"], {name: _column(name) for name in meta["columns"]}
    extras = [f"extras/{worker}.bin" for worker in range(min(meta["extras"], len(members)))]
    if set(members) != {"meta.json", "vector.npy", *columns.values(), *extras}:
        raise ValueError(f"it should not consist of {sorted(members)}")

    def read(name: str) -> NDArray[np.uint8]:
        return _read_member(archive, members[name], digests[name])

    return Checkpoint(
        progress=Progress.from_dict(meta["progress"]),
        vector=_array("vector.npy", read("vector.npy")),
        history={name: _array(member, read(member)) for name, member in columns.items()},
        extras=tuple(read(name).tobytes() for name in extras),
        rows=tuple(int(count) for count in meta["rows"]),
        **{
            name: meta[name]
            for name in _META.keys() & Checkpoint.__dataclass_fields__.keys()
            if name not in ("progress", "extras", "rows")
        },
    )


def _read_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, sha256: str | None = None
) -> NDArray[np.uint8]:
    content = np.empty(info.file_size, np.uint8)
    digest, at = hashlib.sha256(), 0
    with archive.open(info) as member:
        while at < len(content):
            block = content[at : at + _BLOCK_BYTES]
            count = member.readinto(block.data)
            if not count:
                raise ValueError(f"{info.filename} ends early")
            digest.update(block[:count])
            at += count
    if sha256 is not None and digest.hexdigest() != sha256:
        raise ValueError(f"{info.filename} differs from its SHA-256")
    return content


def _array(name: str, content: NDArray[np.uint8]) -> NDArray[Any]:
    """The 1-D array of numbers in an .npy file, without a copy; never unpickles."""
    header = io.BytesIO(content[:_HEADER_LIMIT_BYTES].tobytes())
    try:
        if np.lib.format.read_magic(header) != (1, 0):
            raise ValueError("its version is not 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(header)
    except Exception as error:  # the parser's own errors and warnings are of many kinds
        raise ValueError(f"{name} is no array: {error}") from error
    if dtype.kind not in "biuf" or not dtype.isnative or len(shape) != 1:
        raise ValueError(f"{name} is not 1-D, of numbers: shape {shape}, dtype {dtype}")
    start = header.tell()
    if start + shape[0] * dtype.itemsize != len(content):
        raise ValueError(f"{name} has not the size that its header says")
    return content[start:].view(dtype)

"""Checkpoints and their file format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError
from sparkwright.storage.archive import ArchiveError, is_numbers, read_archive, write_archive
from sparkwright.workers.examples import Earlier
from sparkwright.workers.protocol import Progress

from ._callback_state import CallbackState, from_bytes, to_bytes, weights_of

_FORMAT = 2
_CALLBACKS = "callbacks.json"
_VECTOR_TYPES = (np.dtype(np.float32).str, np.dtype(np.float64).str)
# Types of the fields in `meta.json`: those copied from the checkpoint, and all.
_PLAIN: dict[str, type] = {
    **{"has_updater": bool, "master": dict, "fingerprint": str, "rows": list, "epochs": int},
    **{"run": str, "written": str, "versions": dict},
}
_META: dict[str, type] = {
    **_PLAIN,
    **{"progress": dict, "validation": list, "columns": list, "extras": int},
}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Checkpoint:
    """The state from which a run can be resumed."""

    progress: Progress
    vector: NDArray[Any]  # 1-D float32 or float64, see `ModelState.read`
    has_updater: bool  # whether `vector` holds the optimizer's moments
    master: dict[str, Any]  # JSON-serializable settings, with the seed of the run
    fingerprint: str  # of the network's definition
    rows: tuple[int, ...]  # of each worker
    epochs: int
    run: str  # id
    extras: tuple[bytes, ...] = ()  # of each worker, packed: the state that is not averaged
    # 1-D columns of equal length, see `History.rows`
    history: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    validation: Sequence[dict[str, Any]] = ()  # JSON-serializable points so far
    written: str = ""  # in ISO 8601; empty: unknown
    versions: Mapping[str, str] = field(default_factory=dict[str, str])  # library -> version
    callbacks: Sequence[CallbackState] = ()
    earlier: Earlier | None = None  # what is left of an epoch that other workers began

    def __post_init__(self) -> None:
        """Validate the fields."""
        if self.vector.ndim != 1 or self.vector.dtype.str not in _VECTOR_TYPES:
            raise DataError(
                "a checkpoint's vector must be 1-D, of float32 or float64. Received: "
                f"shape {self.vector.shape}, dtype {self.vector.dtype}."
            )
        for name, column in self.history.items():
            if not is_numbers(column):
                raise DataError(
                    "the columns of a history must be 1-D and numeric. Received: "
                    f"{name} of shape {column.shape}, dtype {column.dtype}."
                )
        if len({len(column) for column in self.history.values()}) > 1:
            raise DataError(
                "the columns of a history must have equal lengths. Received: "
                f"{ {name: len(column) for name, column in self.history.items()} }."
            )
        if len(self.extras) not in (0, len(self.rows)):
            raise DataError(
                "`extras` must hold the state of every worker, or be empty. Received: "
                f"the states of {len(self.extras)} of {len(self.rows)} workers."
            )
        counts: list[Any] = [self.progress.epoch, self.progress.averagings]
        if not all(isinstance(count, int) and count >= 0 for count in counts):
            raise DataError(
                "`epoch` and `averagings` of a checkpoint must be integers of at least 0. "
                f"Received: {counts}."
            )


def encode(file: BinaryIO, checkpoint: Checkpoint) -> None:
    """Write `checkpoint` to `file`, which need not be seekable, without copying its arrays."""
    write_archive(file, _meta(checkpoint), _members(checkpoint))


def decode(file: BinaryIO) -> Checkpoint:
    """Read a checkpoint written by `encode`, without executing code in the file."""
    meta, members = read_archive(file)
    try:
        return _from_archive(meta, members)
    except (ArchiveError, DataError):
        raise
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ArchiveError(f"its metadata is invalid ({error!r})") from error


def _from_archive(meta: Any, members: dict[str, Any]) -> Checkpoint:
    if meta.get("format") != _FORMAT:
        raise ArchiveError(
            f"its format is {meta.get('format')!r}, but this version of sparkwright reads {_FORMAT}"
        )
    if wrong := [name for name, kind in _META.items() if not isinstance(meta.get(name), kind)]:
        raise ArchiveError(f"its {wrong[0]} is {meta.get(wrong[0])!r}")
    extras = [name for name in members if name.startswith("extras/")]
    weights = {
        name.removeprefix("callbacks/").removesuffix(".bin"): content
        for name, content in members.items()
        if name.startswith("callbacks/")
    }
    checkpoint = Checkpoint(
        **{name: meta[name] for name in _PLAIN if name != "rows"},
        progress=Progress.from_dict(meta["progress"]),
        vector=members["vector.npy"],
        rows=tuple(int(count) for count in meta["rows"]),
        extras=tuple(members[_extra(worker)] for worker in range(len(extras))),
        history={name: members[_column(name)] for name in meta["columns"]},
        validation=tuple(meta["validation"]),
        callbacks=from_bytes(members[_CALLBACKS], weights),
        earlier=Earlier.of(meta.get("earlier")),
    )
    if _members(checkpoint).keys() != members.keys() or meta["extras"] != len(extras):
        raise ArchiveError(f"its members do not match its metadata: {sorted(members)}")
    return checkpoint


def _column(name: str) -> str:
    return f"history/{quote(name, safe=' ')}.npy"


def _extra(worker: int) -> str:
    return f"extras/{worker}.bin"


def _meta(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        **{name: getattr(checkpoint, name) for name in _PLAIN},
        "progress": checkpoint.progress.to_dict(),
        "earlier": checkpoint.earlier,
        "validation": list(checkpoint.validation),
        "versions": dict(checkpoint.versions),
        "columns": list(checkpoint.history),
        "extras": len(checkpoint.extras),
    }


def _members(checkpoint: Checkpoint) -> dict[str, NDArray[Any] | bytes]:
    weights = weights_of(checkpoint.callbacks)
    return {
        "vector.npy": checkpoint.vector,
        **{_column(name): column for name, column in checkpoint.history.items()},
        **{_extra(worker): extra for worker, extra in enumerate(checkpoint.extras)},
        _CALLBACKS: to_bytes(checkpoint.callbacks),
        **{f"callbacks/{name}.bin": content for name, content in weights.items()},
    }

"""Checkpoints and their file format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError
from sparkwright.mesh.framing import Message
from sparkwright.storage.archive import ArchiveError, is_numbers, read_archive, write_archive
from sparkwright.workers.examples import Earlier
from sparkwright.workers.protocol import Progress

_FORMAT = 1
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
class EpochState:
    """The state of a network at the end of an epoch.

    Attributes:
        epoch: the epoch, from 1.
        vector: the floating-point state, 1-D, see `ModelState.read`.
        counters: worker 0's packed state that is not averaged.
        iterations: the optimizer's count of minibatches.
    """

    epoch: int
    vector: NDArray[Any]
    counters: bytes
    iterations: int

    @classmethod
    def of(cls, message: Message, epoch: int) -> "EpochState":
        """Return the state in a worker's message."""
        fields = message.fields
        vector = np.frombuffer(message.payload, np.dtype(fields["dtype"]), int(fields["size"]))
        return cls(
            epoch=epoch,
            vector=vector,
            counters=bytes(memoryview(message.payload)[vector.nbytes :]),
            iterations=int(fields["progress"]["iterations"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Checkpoint:
    """The state from which a run can be resumed.

    Attributes:
        progress: the progress of training.
        vector: the floating-point state, 1-D float32 or float64, see `ModelState.read`.
        extras: packed state of each worker that is not averaged; default: empty.
        has_updater: whether `vector` holds the optimizer's moments.
        master: JSON-serializable settings, with the seed of the run.
        fingerprint: fingerprint of the network's definition.
        rows: number of examples of each worker.
        epochs: number of epochs of the run.
        run: the run's id.
        history: 1-D columns of equal length, see `History.rows`; default: empty.
        validation: JSON-serializable validation points so far; default: empty.
        written: time of writing in ISO 8601; default: empty (unknown).
        versions: library -> version; default: empty.
        early_stopping: JSON-serializable state of early stopping; default:
            empty.
        best: the best state so far; default None.
        earlier: what is left of an epoch that other workers began; default None.

    Raises:
        DataError: if an array or a number is invalid.
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
    early_stopping: Mapping[str, Any] = field(default_factory=dict[str, Any])
    best: EpochState | None = None
    earlier: Earlier | None = None

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
        if self.best is not None and (
            self.best.vector.shape != self.vector.shape
            or self.best.vector.dtype != self.vector.dtype
        ):
            raise DataError(
                "the best and the last state must have the same shape and dtype. Received: shapes "
                f"{self.best.vector.shape} and {self.vector.shape}."
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
    """Read a checkpoint written by `encode`, without executing code in the file.

    Raises:
        ValueError: if the file is damaged or invalid; the message names the problem.
    """
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
    best = meta.get("best")
    judged = meta.get("early_stopping", {})
    if not isinstance(judged, dict):
        raise ArchiveError(f"its early_stopping is {judged!r}")
    checkpoint = Checkpoint(
        **{name: meta[name] for name in _PLAIN if name != "rows"},
        progress=Progress.from_dict(meta["progress"]),
        vector=members["vector.npy"],
        rows=tuple(int(count) for count in meta["rows"]),
        extras=tuple(members[_extra(worker)] for worker in range(len(extras))),
        history={name: members[_column(name)] for name in meta["columns"]},
        validation=tuple(meta["validation"]),
        early_stopping=_checked_scores(judged),
        earlier=Earlier.of(meta.get("earlier")),
        best=None
        if best is None
        else EpochState(
            epoch=int(best["epoch"]),
            vector=members["best.npy"],
            counters=members["best.bin"],
            iterations=int(best["iterations"]),
        ),
    )
    if _members(checkpoint).keys() != members.keys() or meta["extras"] != len(extras):
        raise ArchiveError(f"its members do not match its metadata: {sorted(members)}")
    return checkpoint


def _checked_scores(judged: dict[str, Any]) -> dict[str, Any]:
    """Convert the state of early stopping to the types that `StoppingMonitor.restore` takes."""
    if not judged:
        return {}
    scores = [[int(epoch), float(score)] for epoch, score in judged["scores"]]
    seconds = float(judged["seconds"])
    return {"monitor": str(judged["monitor"]), "scores": scores, "seconds": seconds}


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
        "early_stopping": dict(checkpoint.early_stopping),
        "best": checkpoint.best
        and {"epoch": checkpoint.best.epoch, "iterations": checkpoint.best.iterations},
    }


def _members(checkpoint: Checkpoint) -> dict[str, NDArray[Any] | bytes]:
    best = checkpoint.best
    return {
        "vector.npy": checkpoint.vector,
        **{_column(name): column for name, column in checkpoint.history.items()},
        **{_extra(worker): extra for worker, extra in enumerate(checkpoint.extras)},
        **({} if best is None else {"best.npy": best.vector, "best.bin": best.counters}),
    }

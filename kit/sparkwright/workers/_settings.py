"""What a worker needs to know of its master and its run; see the masters for the options."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings:
    """What workers of all masters need to know.

    Attributes:
        worker: its number.
        attempt: of its task; a later one is greater.
        checkpoint: says when a checkpoint is due, or None.
        copies: whether the driver gets a copy of the state now and then, see `CopySchedule`.
        evaluate_every: epochs from one evaluation of the validation data to the next; the last
            epoch is evaluated in any case.
        judged: after an evaluation, wait for the driver's verdict.
        timeline: whether to tell the driver of each phase.
        time_source: see the master.
        authenticate: whether vectors in the ring are authenticated; None: unless on loopback.
        encrypt: whether the worker's port asks for encryption.
    """

    worker: int
    attempt: int
    seed: int
    epochs: int
    batch_size: int
    prefetch_batches: int
    shuffle: bool
    stop_at_non_finite: bool
    peer_timeout_s: float
    connect_timeout_s: float
    checkpoint: Any = None
    copies: bool = True
    evaluate_every: int = 1
    judged: bool = False
    timeline: bool = False
    time_source: Any = None
    authenticate: bool | None = None
    encrypt: bool = False
    hooks: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class AveragingSettings(WorkerSettings):
    """Of parameter averaging."""

    averaging_frequency: int
    save_updater: bool
    share_work: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SharingSettings(WorkerSettings):
    """Of gradient sharing.

    Attributes:
        threshold: the threshold algorithm.
        residual_clipping: or None.
        combine_mean: updates are divided by the number of workers.
        minibatches_per_message: None: as many as are over in a moment.
        adaptive_pieces: whether quick workers may ask for more than a piece at a time.
        mode: of the mesh.
        max_downstreams: likewise.
        max_pending_bytes: likewise.
        chunk_bytes: likewise.
    """

    threshold: Any
    residual_clipping: Any
    per_variable_thresholds: bool
    combine_mean: bool
    max_staleness: int | None
    encoding_debug_mode: bool
    periodic_gc: bool
    periodic_gc_interval_s: float
    minibatches_per_message: int | None
    adaptive_pieces: bool
    mode: str
    max_downstreams: int
    max_pending_bytes: int
    chunk_bytes: int

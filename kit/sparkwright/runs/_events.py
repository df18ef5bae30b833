"""What a run tells its listeners, and the snapshot of where it is."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ._early_stopping import EarlyStoppingResult, StopReason

RunState = Literal["queued", "starting", "training", "stopping", "done", "stopped", "failed"]
WorkerState = Literal[
    "waiting", "starting", "training", "validating", "stalled", "lost", "done", "stopped"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerStatus:
    """One worker, as last heard.

    Attributes:
        worker: its number, from 0; also the partition that it trains.
        state: what it is doing; of a run that has ended "done", or "stopped" if it did not end by
            itself.
        host: its machine; empty before it came.
        device: what it computes on, such as "CPU" or "GPU 0 (NVIDIA H200)"; empty while unknown.
        pid: its process on that machine; 0 while unknown.
        rows: examples that it holds.
        steps: minibatches that it has trained and that count.
        loss: of its last minibatch; None before the first.
        last_heard_s: seconds since it was last heard.
        restarts: how often Spark had to start it again.
        threshold: gradient sharing: of its last message; None otherwise, likewise the next two.
        sparsity: share of the parameters that its last message changed.
        staleness: minibatches that the slowest other worker is behind it.
        sent_bytes: of its messages so far.
    """

    worker: int
    state: WorkerState = "waiting"
    host: str = ""
    rows: int = 0
    steps: int = 0
    loss: float | None = None
    last_heard_s: float = 0.0
    restarts: int = 0
    threshold: float | None = None
    sparsity: float | None = None
    staleness: int | None = None
    sent_bytes: int = 0
    device: str = ""
    pid: int = 0

    @property
    def partition(self) -> int:
        """The partition of the data that it holds: each worker has the one of its number."""
        return self.worker


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationPoint:
    """The averaged network on the validation data.

    Attributes:
        epoch: after this epoch, from 1.
        step: the most minibatches that any worker had done by then.
        loss: mean over the validation examples.
        metrics: the compiled metrics over them.
    """

    epoch: int
    step: int
    loss: float
    metrics: dict[str, float] = field(default_factory=dict[str, float])

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStatus:
    """A snapshot of a run; cheap, and safe from any thread.

    Attributes:
        state: see `RunState`.
        message: one sentence.
        epoch: the current epoch, from 1; 0 before training.
        epochs: how many there will be.
        round: the averagings done in this epoch.
        rounds: averagings in an epoch, fewer where workers join; 0 while unknown.
        averagings: averagings done since the run began.
        examples_per_s: all workers together, over the last seconds.
        elapsed_s: since `start`.
        remaining_s: estimated; None while unknown.
        workers: one entry a worker.
        validation: the validation points so far.
        error: what went wrong, with the worker's traceback; None if nothing did.
        early_stopping: what early stopping has found so far; None without it.
        note: what must be known to read the scores, such as that the validation data is the test
            set; empty: nothing.
        tracked: tracker of `log_to` -> the run's id there.
    """

    state: RunState = "queued"
    message: str = ""
    epoch: int = 0
    epochs: int = 0
    round: int = 0
    rounds: int = 0
    averagings: int = 0
    examples_per_s: float = 0.0
    elapsed_s: float = 0.0
    remaining_s: float | None = None
    workers: tuple[WorkerStatus, ...] = ()
    validation: tuple[ValidationPoint, ...] = ()
    error: str | None = None
    early_stopping: EarlyStoppingResult | None = None
    note: str = ""
    tracked: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsLogged:
    """`count` rows from number `start` on have been added to the run's log."""

    start: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Validated:
    """The validation loss after an epoch."""

    point: ValidationPoint


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlyStoppingJudged:
    """Early stopping has judged `epoch`, from 1; `verdict`: why the run ends; None: it goes on."""

    epoch: int
    score: float
    is_best: bool
    verdict: StopReason | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StateChanged:
    """The run has passed into another state."""

    state: RunState
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLost:
    """A worker is gone; Spark is expected to start it again."""

    worker: int
    host: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerStalled:
    """A worker computes, but has trained no minibatch for `seconds`."""

    worker: int
    host: str
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerJoined:
    """A worker has registered, or registered again (`attempt` above 0)."""

    worker: int
    host: str
    attempt: int


RunEvent = (
    RowsLogged
    | Validated
    | EarlyStoppingJudged
    | StateChanged
    | WorkerLost
    | WorkerStalled
    | WorkerJoined
)

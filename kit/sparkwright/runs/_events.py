"""Events of a run for its listeners, and snapshots of its status."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

RunState = Literal["queued", "starting", "training", "stopping", "done", "stopped", "failed"]
WorkerState = Literal[
    "waiting", "starting", "training", "validating", "stalled", "lost", "done", "stopped"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerStatus:
    """The last reported status of one worker.

    Attributes:
        worker: its number, from 0; also the partition that it trains.
        state: its state; after the run "done", or "stopped" if the worker was stopped.
        host: its machine; empty before it connects.
        device: its device, such as "CPU" or "GPU 0 (NVIDIA H200)"; empty while unknown.
        pid: its process id on that machine; 0 while unknown.
        rows: number of examples that it holds.
        steps: number of trained minibatches that count.
        loss: loss of its last minibatch; None before the first.
        last_heard_s: seconds since its last message.
        restarts: how often Spark restarted it.
        threshold: gradient sharing: threshold of its last message; None otherwise.
        sparsity: fraction of the parameters that its last message changed; None otherwise.
        staleness: minibatches that the slowest other worker is behind it; None otherwise.
        sent_bytes: total size of its messages so far.
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
        """The partition of the data that the worker holds: the one with its number."""
        return self.worker


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationPoint:
    """Validation results of the averaged network.

    Attributes:
        epoch: the epoch after which it was evaluated, from 1.
        step: the largest number of minibatches of any worker at that time.
        loss: mean over the validation examples.
        metrics: the compiled metrics on the validation data.
    """

    epoch: int
    step: int
    loss: float
    metrics: dict[str, float] = field(default_factory=dict[str, float])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON-serializable dictionary."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStatus:
    """A snapshot of a run; cheap, and safe from any thread.

    Attributes:
        state: see `RunState`.
        message: a one-sentence description.
        epoch: the current epoch, from 1; 0 before training.
        epochs: the number of epochs of the run.
        round: number of averagings in this epoch so far.
        rounds: averagings per epoch, fewer where workers join; 0 while unknown.
        averagings: number of averagings since the run began.
        examples_per_s: throughput of all workers over the last seconds.
        elapsed_s: seconds since `start`.
        remaining_s: estimated remaining seconds; None while unknown.
        workers: one entry per worker.
        validation: the validation points so far.
        error: the error message, with the worker's traceback; None without an error.
        note: a caveat on the scores, such as that the validation data is the test set; empty: none.
        tracked: tracker of `log_to` -> its id of the run.
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
    note: str = ""
    tracked: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsLogged:
    """`count` rows were added to the run's log, beginning with row `start`."""

    start: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Validated:
    """The validation loss after an epoch."""

    point: ValidationPoint


@dataclass(frozen=True, kw_only=True, slots=True)
class StateChanged:
    """The state of the run changed."""

    state: RunState
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLost:
    """The connection to a worker was lost; Spark is expected to restart the worker."""

    worker: int
    host: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerStalled:
    """A worker is connected but has trained no minibatch for `seconds`."""

    worker: int
    host: str
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerJoined:
    """A worker registered; `attempt` is above 0 after a restart."""

    worker: int
    host: str
    attempt: int


RunEvent = RowsLogged | Validated | StateChanged | WorkerLost | WorkerStalled | WorkerJoined

"""Observations: the events of a run that coordinators process; pure."""

from dataclasses import dataclass

from sparkwright.workers.protocol import Ending, Failure, Progress
from sparkwright.workers.work import Span

# When callbacks run: number of complete epochs, and of averagings after them; 0: at an epoch's end.
Moment = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerRegistered:
    """A worker that holds its data has connected; later tasks of it have a higher `attempt`."""

    connection: int
    worker: int
    attempt: int
    host: str
    address: tuple[str, int]
    rows: int
    validation_rows: int = 0
    device: str = ""
    pid: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerReported:
    """A worker has left its ring; `progress` is None if it has never received a state."""

    connection: int
    generation: int
    ending: Ending
    progress: Progress | None
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkReported:
    """Gradient sharing: a worker has its state, has trained (part of) a piece, or requests one.

    Attributes:
        connection: the worker's connection.
        piece: the piece that it trained; None before the first.
        minibatches: number of minibatches trained of `piece`, from its beginning.
        examples: number of examples in them.
        iterations: the optimizer's count of minibatches.
        wants_more: whether it requests another piece.
        wanted: number of minibatches requested; 0: the size of a piece.
        thresholds: thresholds of its next message; empty if it has not sent one.
    """

    connection: int
    piece: Span | None = None
    minibatches: int = 0
    examples: int = 0
    iterations: int = 0
    wants_more: bool = True
    wanted: int = 0
    thresholds: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointReceived:
    """A state from which training can restart has arrived; `write`: also write it to a file."""

    progress: Progress
    write: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class CallbacksAwaited:
    """Averaging: a ring's first member waits until the callbacks of this moment have run."""

    connection: int
    moment: Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class CallbacksAnswered:
    """The driver's callbacks of this moment have run; `learning_rate` None: unchanged."""

    moment: Moment
    ends: bool
    learning_rate: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerFailed:
    """The driver ends the run with a failure."""

    failure: Failure


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskEnded:
    """A task of `worker` has ended; `failure` is None if it returned or was replaced."""

    worker: int
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerAlive:
    """A heartbeat: the number of trained minibatches, and whether the worker is computing."""

    connection: int
    steps: int
    computing: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLost:
    """A worker's connection is closed; `silent`: the driver closed it after a time-out."""

    connection: int
    silent: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultReceived:
    """A worker has delivered the averaged vector."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRequested:
    """The user requested that the run end with the next averaging."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimerFired:
    """The server's periodic tick."""


Event = (
    WorkerRegistered
    | WorkerReported
    | WorkReported
    | WorkerFailed
    | TaskEnded
    | WorkerAlive
    | ConnectionLost
    | ResultReceived
    | CheckpointReceived
    | CallbacksAwaited
    | CallbacksAnswered
    | StopRequested
    | TimerFired
)

"""Events that coordinators process, actions that they return, and notifications for the engine."""

from dataclasses import dataclass

from sparkwright.workers.protocol import Ending, Failure, Group, Progress
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
    """Gradient sharing: a worker has its state, has trained (part of) a piece, or requests one."""

    connection: int
    piece: Span | None = None  # that it trained; None before the first
    minibatches: int = 0  # trained of `piece`, from its beginning
    examples: int = 0  # in these minibatches
    iterations: int = 0  # of the optimizer
    wants_more: bool = True  # requests another piece
    wanted: int = 0  # minibatches requested; 0: the size of a piece
    thresholds: tuple[float, ...] = ()  # of its next message; empty if it has not sent one


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


@dataclass(frozen=True, kw_only=True, slots=True)
class SendGroup:
    """Send `group` to `connection`."""

    connection: int
    group: Group


@dataclass(frozen=True, kw_only=True, slots=True)
class SendPiece:
    """Gradient sharing: have `connection` train `piece`."""

    connection: int
    piece: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class SendMeeting:
    """Gradient sharing: have `connection` interrupt its piece and average with `group`."""

    connection: int
    group: Group
    validate: bool = False
    checkpoint: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SendRegroup:
    """Ask `connection` to leave the ring of `generation` and report."""

    connection: int
    generation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SendPause:
    """Averaging: ask `connection` to leave the ring of `generation` after the current round."""

    connection: int
    generation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SendStop:
    """Notify `connection` that the run ends with the next averaging."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestResult:
    """Request the averaged vector from `connection`."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestSnapshot:
    """Request the last average from `connection`, even if its training thread does not respond."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchTask:
    """Start a task for `worker`; `replaces`: end its remaining tasks first."""

    worker: int
    replaces: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Drop:
    """Close `connection`, whose worker makes no progress."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowStalled:
    """Show `worker` as stalled for `seconds`; 0: it has recovered."""

    worker: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowStandstill:
    """Show that the run has made no progress for `seconds`; 0: it goes on.

    Attributes:
        seconds: since something last counted.
        waits_for: whom the run waits for, for the message.
    """

    seconds: float
    waits_for: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestStacks:
    """Request the stacks of all threads of `connection`."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Dismiss:
    """Dismiss `connection`; `reason` is empty at the regular end."""

    connection: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepCheckpoint:
    """Keep the state that has arrived, at `progress`; `write`: also write it to a file."""

    progress: Progress
    write: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCallbacks:
    """Run the callbacks of this moment with the latest state that has arrived."""

    moment: Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class SendAnswer:
    """Averaging: send the callbacks' answer to `connection`."""

    connection: int
    answer: CallbacksAnswered


@dataclass(frozen=True, kw_only=True, slots=True)
class ResetHistory:
    """All workers were lost: training restarts, from the beginning or the last checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndRun:
    """The run is over.

    Attributes:
        stopped: whether it was stopped on request before its end.
        failure: the failure that ended it; None without one.
        timed_out: the error message of a time-out; empty without one.
    """

    stopped: bool = False
    failure: Failure | None = None
    timed_out: str = ""


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
Action = (
    SendGroup
    | SendPiece
    | SendMeeting
    | SendRegroup
    | SendPause
    | SendStop
    | RequestResult
    | RequestSnapshot
    | LaunchTask
    | Drop
    | ShowStalled
    | ShowStandstill
    | RequestStacks
    | Dismiss
    | KeepCheckpoint
    | RunCallbacks
    | SendAnswer
    | ResetHistory
    | EndRun
)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerDisconnected:
    """A worker's connection was lost before the run's end."""

    worker: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageReceived:
    """A worker has sent rows, phases, a validation or a heartbeat, in the accompanying message."""

    worker: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressSettled:
    """Training continues from, or has ended with, `progress`.

    No further rows up to `progress` will arrive. With `exact`, later rows do not count.
    """

    progress: Progress
    exact: bool


Notification = (
    WorkerRegistered
    | WorkerDisconnected
    | MessageReceived
    | ProgressSettled
    | KeepCheckpoint
    | RunCallbacks
    | LaunchTask
    | ShowStalled
    | ShowStandstill
    | ResetHistory
    | EndRun
)

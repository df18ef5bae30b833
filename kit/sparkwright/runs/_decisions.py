"""Events of a run, decisions of its coordinator, and actions for its engine; pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from sparkwright.workers.protocol import Ending, Failure, Group, Progress
from sparkwright.workers.work import Span

from ._early_stopping import Verdict

# When callbacks run: complete epochs, and averagings after them; 0 of these: at an epoch's end.
Moment = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerRegistered:
    """A worker has connected, holding its data; `attempt` is that of its task, and grows."""

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
    """A worker has left its ring; `progress` is None if it never got a state to start from."""

    connection: int
    generation: int
    ending: Ending
    progress: Progress | None
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkReported:
    """Gradient sharing: a worker has its state, has done (part of) a piece, or wants another.

    `piece` is None before the first; `minibatches` and `examples` are what it did of it. `wanted`
    minibatches would keep it busy for a moment; 0: as many as there are in a piece. `thresholds`
    are what its next message is encoded with; none: it has sent nothing.
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
    """A state from which training could begin again has arrived; `write`: into a file, too."""

    progress: Progress
    write: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochScored:
    """The workers have evaluated the network after `epoch`, and `connection` tells it for all."""

    connection: int
    epoch: int
    loss: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class BestReceived:
    """The state after `epoch`, the best so far, has arrived from `connection`."""

    connection: int
    epoch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CallbacksAwaited:
    """Averaging: `connection` waits, for all, until the callbacks of this moment have run."""

    connection: int
    moment: Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class CallbacksAnswered:
    """The driver's callbacks of this moment have run; `learning_rate` None: as before."""

    moment: Moment
    ends: bool
    learning_rate: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerFailed:
    """The driver found a reason to end the run with a failure."""

    failure: Failure


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskEnded:
    """A task of `worker` is over; `failure` is why, None if it returned or was replaced."""

    worker: int
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerAlive:
    """A heartbeat: minibatches trained so far, and whether the worker is computing."""

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
    """The user wants the run to end with the next averaging."""


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
    """Gradient sharing: let `connection` train `piece`."""

    connection: int
    piece: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class SendMeeting:
    """Gradient sharing: let `connection` break off its piece and average with `group`."""

    connection: int
    group: Group
    validate: bool = False
    checkpoint: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SendRegroup:
    """Tell `connection` to leave the ring of `generation` and report."""

    connection: int
    generation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SendPause:
    """Averaging: tell `connection` to leave the ring of `generation` after its present round."""

    connection: int
    generation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SendStop:
    """Tell `connection` that the run ends with the next averaging."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestResult:
    """Ask `connection` for the averaged vector."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestSnapshot:
    """Ask `connection` for the last average even if its training thread does not answer."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchTask:
    """Start a task for `worker`; `replaces`: end the tasks that it still has first."""

    worker: int
    replaces: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Drop:
    """Close `connection`: its worker makes no progress."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ShowStalled:
    """Show `worker` as stalled for `seconds`; 0: it makes progress again."""

    worker: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Dismiss:
    """Let `connection` go; `reason` is empty at the regular end."""

    connection: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepCheckpoint:
    """The state that has arrived is where `progress` says; `write`: into a file, too."""

    progress: Progress
    write: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class SendVerdict:
    """Tell `connection` the verdict on an epoch; `keep`: its state is wanted first."""

    connection: int
    verdict: Verdict
    ends: bool
    keep: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepBest:
    """The state that has arrived is the best so far; keep it, then tell `connection` so."""

    connection: int
    epoch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCallbacks:
    """Run the callbacks of this moment, whose state is the latest that has arrived."""

    moment: Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class SendAnswer:
    """Averaging: tell `connection` what the callbacks answered."""

    connection: int
    answer: CallbacksAnswered


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetHistory:
    """All workers were lost: training restarts, or continues from the last checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndRun:
    """The run is over. `timed_out` and `failure` say what went wrong, if anything did."""

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
    | EpochScored
    | BestReceived
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
    | Dismiss
    | KeepCheckpoint
    | SendVerdict
    | KeepBest
    | RunCallbacks
    | SendAnswer
    | ForgetHistory
    | EndRun
)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerGone:
    """A worker's connection is gone before the run's end."""

    worker: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerHeard:
    """A worker has sent rows, phases, a score or a heartbeat: the message that comes along."""

    worker: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressSettled:
    """Training goes on from, or has ended with, `progress`.

    All rows that will ever arrive up to there have arrived; with `exact`, later ones do not count.
    """

    progress: Progress
    exact: bool


News = (
    WorkerRegistered
    | WorkerGone
    | WorkerHeard
    | ProgressSettled
    | KeepCheckpoint
    | KeepBest
    | SendVerdict
    | RunCallbacks
    | LaunchTask
    | ShowStalled
    | ForgetHistory
    | EndRun
)

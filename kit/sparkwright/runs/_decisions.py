"""Decisions: the actions that coordinators return, and what the server tells the engine; pure."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from sparkwright.workers.protocol import Failure, Group, Progress
from sparkwright.workers.work import Span

from ._observations import CallbacksAnswered, Moment, WorkerRegistered


@dataclass(frozen=True, kw_only=True, slots=True)
class AbstractOrder:
    """A message of this `kind` to the worker at `connection`."""

    kind: ClassVar[str]
    connection: int

    def content(self) -> dict[str, Any]:
        """The message's fields."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        del found["connection"]
        return {n: v.to_dict() if isinstance(v, Group) else v for n, v in found.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class SendGroup(AbstractOrder):
    """Send `group` to `connection`."""

    kind: ClassVar[str] = "group"
    group: Group


@dataclass(frozen=True, kw_only=True, slots=True)
class SendPiece(AbstractOrder):
    """Gradient sharing: have `connection` train `piece`."""

    kind: ClassVar[str] = "piece"
    piece: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class SendMeeting(AbstractOrder):
    """Gradient sharing: have `connection` interrupt its piece and average with `group`."""

    kind: ClassVar[str] = "meet"
    group: Group
    validate: bool = False
    checkpoint: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SendRegroup(AbstractOrder):
    """Ask `connection` to leave the ring of `generation` and report."""

    kind: ClassVar[str] = "regroup"
    generation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SendPause(AbstractOrder):
    """Averaging: ask `connection` to leave the ring of `generation` after the current round."""

    kind: ClassVar[str] = "pause"
    generation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SendStop(AbstractOrder):
    """Notify `connection` that the run ends with the next averaging."""

    kind: ClassVar[str] = "stop"


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestResult(AbstractOrder):
    """Request the averaged vector from `connection`."""

    kind: ClassVar[str] = "deliver"


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestSnapshot(AbstractOrder):
    """Request the last average from `connection`, even if its training thread does not respond."""

    kind: ClassVar[str] = "snapshot"


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
    """Show that the run has made no progress for `seconds`; 0: it goes on."""

    seconds: float  # since something last counted
    waits_for: str  # whom the run waits for


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestStacks(AbstractOrder):
    """Request the stacks of all threads of `connection`."""

    kind: ClassVar[str] = "stacks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Dismiss(AbstractOrder):
    """Dismiss `connection`; `reason` is empty at the regular end."""

    kind: ClassVar[str] = "dismiss"
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
class SendAnswer(AbstractOrder):
    """Averaging: send the callbacks' answer to `connection`."""

    kind: ClassVar[str] = "answered"
    answer: CallbacksAnswered

    def content(self) -> dict[str, Any]:
        """The message's fields."""
        epoch, round = self.answer.moment
        rate = self.answer.learning_rate
        return {"epoch": epoch, "round": round, "ends": self.answer.ends, "learning_rate": rate}


@dataclass(frozen=True, kw_only=True, slots=True)
class ResetHistory:
    """All workers were lost: training restarts, from the beginning or the last checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndRun:
    """The run is over."""

    stopped: bool = False  # on request before its end
    failure: Failure | None = None
    timed_out: str = ""  # the error message; empty without one


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
    """Training continues from, or has ended with, `progress`; `exact`: later rows do not count."""

    # No further rows up to `progress` will arrive.

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

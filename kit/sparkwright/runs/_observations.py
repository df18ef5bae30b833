"""Observations: the events of a run that coordinators process, as messages tell them; pure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError
from sparkwright.mesh.framing import Message
from sparkwright.workers.protocol import Ending, Failure, Progress
from sparkwright.workers.work import Span

# When callbacks run: number of complete epochs, and of averagings after them; 0: at an epoch's end.
Moment = tuple[int, int]
Columns = tuple[NDArray[np.float32], NDArray[np.int32], dict[str, NDArray[np.float32]]]
_LONGEST_NAME = 100  # of a device


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
    piece: Span | None = None  # that it trained
    minibatches: int = 0  # of `piece`, from its beginning
    examples: int = 0  # in these minibatches
    iterations: int = 0  # of the optimizer
    wants_more: bool = True
    wanted: int = 0  # minibatches of another piece; 0: the usual size
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


# -- messages -------------------------------------------------------------------------------


def registration_of(number: int, message: Message, *, workers: int) -> WorkerRegistered:
    """Return the registration over connection `number`; raise if the run has no such worker."""
    fields = message.fields
    worker = int(fields["worker"])
    if not 0 <= worker < workers:
        raise NetworkError(f"`worker` must be from 0 to {workers - 1}. Received: worker={worker}.")
    return WorkerRegistered(
        connection=number,
        worker=worker,
        attempt=int(fields["attempt"]),
        host=str(fields["host"]),
        address=(str(fields["address"][0]), int(fields["address"][1])),
        rows=int(fields["rows"]),
        validation_rows=int(fields["validation_rows"]),
        device=str(fields.get("device", ""))[:_LONGEST_NAME],
        pid=int(fields.get("pid", 0)),
    )


def observation_of(
    number: int, message: Message
) -> WorkerAlive | WorkerReported | WorkReported | CallbacksAwaited | None:
    """Return what a message tells the coordinator; None: nothing."""
    fields = message.fields
    match message.kind:
        case "alive":
            return WorkerAlive(
                connection=number,
                steps=int(fields["steps"]),
                computing=bool(fields["computing"]),
            )
        case "report":
            failure, progress = fields["failure"], fields["progress"]
            return WorkerReported(
                connection=number,
                generation=int(fields["generation"]),
                ending=fields["ending"],
                progress=Progress.from_dict(progress) if progress else None,
                failure=Failure(**failure) if failure else None,
            )
        case "work":
            piece = fields["piece"]
            return WorkReported(
                connection=number,
                piece=None if piece is None else Span(*map(int, piece)),
                minibatches=int(fields["minibatches"]),
                examples=int(fields["examples"]),
                iterations=int(fields["iterations"]),
                wants_more=bool(fields["wants_more"]),
                wanted=int(fields["wanted"]),
                thresholds=tuple(map(float, fields["thresholds"])),
            )
        case "callbacks":
            moment = int(fields["epoch"]), int(fields["round"])
            return CallbacksAwaited(connection=number, moment=moment)
        case _:
            return None


# -- payloads -------------------------------------------------------------------------------


def columns_of(message: Message) -> Columns:
    """Return the losses, the examples and the further columns of a message with rows."""
    count = sum(int(block["count"]) for block in message.fields["blocks"])
    losses = np.frombuffer(message.payload, np.float32, count)
    examples = np.frombuffer(message.payload, np.int32, count, 4 * count)
    further = {
        name: np.frombuffer(message.payload, np.float32, count, 4 * count * place)
        for place, name in enumerate(message.fields["columns"], start=2)
    }
    return losses, examples, further


def vector_of(message: Message) -> NDArray[Any]:
    """Return the flat vector at the beginning of a message's payload."""
    dtype = np.dtype(message.fields["dtype"])
    return np.frombuffer(message.payload, dtype, int(message.fields["size"]))


def order_of(message: Message) -> tuple[int, ...]:
    """Return the order of a delivered state; larger is later, see `Progress.order`."""
    return Progress.from_dict(message.fields["progress"]).order


def is_finite(message: Message) -> bool:
    """Whether all values of a delivered state are finite."""
    return bool(np.isfinite(vector_of(message)).all())

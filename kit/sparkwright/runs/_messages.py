"""Messages of workers, as observations of the coordinator and as rows of the log; pure."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError
from sparkwright.mesh.framing import Message
from sparkwright.workers.protocol import Failure, Progress
from sparkwright.workers.work import Span

from ._observations import (
    CallbacksAwaited,
    WorkerAlive,
    WorkerRegistered,
    WorkerReported,
    WorkReported,
)

_LONGEST_NAME = 100  # of a device
Columns = tuple[NDArray[np.float32], NDArray[np.int32], dict[str, NDArray[np.float32]]]


def registration_of(number: int, message: Message, *, workers: int) -> WorkerRegistered:
    """Return the registration over connection `number`.

    Raises:
        NetworkError: if the run has no such worker.
    """
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

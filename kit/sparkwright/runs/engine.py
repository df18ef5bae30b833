"""The protocols of a run: its engine, and the launcher of its workers."""

from collections.abc import Callable
from typing import Any, Protocol

from sparkwright.data import TfData
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Failure

from ._queue import Claim
from .outcome import Outcome
from .record import RunRecord


class Engine(Protocol):
    """Trains a network; see `PeerEngine` and `SparkRoundsEngine`."""

    def run(self, record: RunRecord) -> Outcome:
        """Train to the end; blocks."""
        ...

    def stop(self) -> None:
        """End with the next averaging; non-blocking, from any thread."""
        ...

    def cancel(self) -> None:
        """End immediately; from any thread."""
        ...

    def request_histograms(self) -> bool:
        """Request histograms after the next averaging; False if no worker is training yet."""
        ...


class Launcher(Protocol):
    """Starts the workers' tasks, on Spark or as processes of this machine.

    Attributes:
        workers: maximum number of workers.
        required: number of workers that hold data and must be present; the others may join.
        max_failures: number of failed tasks of a worker, without a trained minibatch in between,
            that ends the run.
        replacement_timeout_s: default time-out for the replacement of a lost worker.
        slots: number of task slots; None: unknown.
        claim: the slots of Spark that the workers hold; None: without Spark.
        bind_host: address on which the coordinator listens.
        advertised_host: address at which workers connect to the coordinator.
        worker_host: address on which workers listen; empty: that of the connection to the
            coordinator.
        consume: whether a worker's files are used by only one attempt.
        facts: JSON-serializable facts about the data, from `prepare`.
        stream: the data from which workers read their examples; None: `prepare` stores them.
    """

    workers: int
    required: int
    max_failures: int
    replacement_timeout_s: float
    slots: int | None
    claim: Claim | None
    bind_host: str
    advertised_host: str
    worker_host: str
    consume: bool
    facts: dict[str, Any]
    stream: TfData | None

    def prepare(self, enter: Callable[[PhaseCode], None]) -> tuple[int, ...] | None:
        """Store the data for the workers.

        Args:
            enter: called with each phase of the timeline when it begins; the caller ends the last
                one.

        Returns:
            Number of examples of each required worker, or None if not counted yet.
        """
        ...

    def launch(
        self, worker: int, template: Any, ended: Callable[[Failure | None], None], *, replaces: bool
    ) -> None:
        """Start a task for `worker`; non-blocking.

        Args:
            worker: the worker's number.
            template: a `TrainRequest` to complete.
            ended: called once, from any thread, when the task ends: with its failure, or None if
                it returned or was replaced.
            replaces: whether to end the remaining tasks of the worker first.
        """
        ...

    def withdraw(self, worker: int) -> None:
        """End the tasks of a worker, which may wait for a slot, without a failure."""
        ...

    def finish(self, timeout_s: float) -> bool:
        """Wait until no task is left; return whether that was so within `timeout_s`."""
        ...

    def cancel(self) -> None:
        """End the tasks immediately."""
        ...

    def clean_up(self) -> None:
        """Release the resources that `prepare` took."""
        ...

"""The launcher of a run's workers, and the requests that their tasks send to trainers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from sparkwright.data import TfData
from sparkwright.masters import SharedTrainingMaster
from sparkwright.masters.training_master import TrainingMaster
from sparkwright.partitions import DefaultRepartitioner
from sparkwright.timeline import PhaseCode
from sparkwright.workers.examples import Earlier
from sparkwright.workers.protocol import Failure
from sparkwright.workers.requests import TrainRequest, WorkerSettings

from ._queue import Claim
from .begin import RunBeginning


class Launcher(Protocol):
    """Starts the workers' tasks, on Spark or as processes of this machine."""

    workers: int  # at most
    required: int  # those that hold data and must be present; the others may join
    max_failures: int  # failed tasks of a worker, without a minibatch in between, that end the run
    replacement_timeout_s: float  # default of the master's option
    slots: int | None  # for tasks; None: unknown
    claim: Claim | None  # the slots of Spark that the workers hold; None: without Spark
    bind_host: str  # where the coordinator listens
    advertised_host: str  # where workers reach the coordinator
    worker_host: str  # where workers listen; empty: that of the connection to the coordinator
    consume: bool  # whether a worker's files are used by only one attempt
    facts: dict[str, Any]  # JSON-serializable, about the data, from `prepare`
    stream: TfData | None  # where workers read their examples; None: `prepare` stores them

    def prepare(self, enter: Callable[[PhaseCode], None]) -> tuple[int, ...] | None:
        """Store the data; return the examples of each required worker, None if not counted yet."""

    def launch(
        self, worker: int, template: Any, ended: Callable[[Failure | None], None], *, replaces: bool
    ) -> None:
        """Start a task, non-blocking; `ended` is called once, with None if it did not fail."""

    def withdraw(self, worker: int) -> None:
        """End the tasks of a worker, which may wait for a slot, without a failure."""

    def finish(self, timeout_s: float) -> bool:
        """Wait until no task is left; return whether that was so within `timeout_s`."""
        ...

    def cancel(self) -> None:
        """End the tasks immediately."""

    def clean_up(self) -> None:
        """Release the resources that `prepare` took."""


def train_request(
    beginning: RunBeginning,
    launcher: Launcher,
    *,
    rows: tuple[int, ...],
    earlier: Earlier | None,
    secret: bytes,
    port: int,
) -> Any:
    """Return a template of the request to train, which `fill_in` completes."""
    master = beginning.master
    callbacks = beginning.callbacks
    settings = replace(
        settings_of(master, epochs=beginning.epochs),
        histograms=beginning.histograms,
        callbacks=callbacks.given,
        callback_frequency=callbacks.frequency if callbacks.given else 0,
        rows=rows,
        earlier=earlier,
    )
    return TrainRequest(
        definition=beginning.definition,
        run=beginning.id,
        controller=(launcher.advertised_host, port),
        secret=secret,
        listen_host=launcher.worker_host,
        shard="",
        validation="",
        consume=launcher.consume,
        settings=settings,
        stream=launcher.stream,
        shards=launcher.workers,
    )


def settings_of(master: TrainingMaster, *, epochs: int) -> Any:
    """Return a template of the workers' settings, which `fill_in` completes."""
    assert master.seed is not None  # set by `seeded`
    if isinstance(master, SharedTrainingMaster):  # workers do not need the user's repartitioner
        master = replace(master, repartitioner=DefaultRepartitioner())
    return WorkerSettings(master=master, epochs=epochs)


def count_text(launcher: Launcher, one: str, several: str) -> str:
    """Describe the number of workers: "1 worker", "4 workers" or "2 to 8 workers"."""
    least, most = launcher.required, launcher.workers
    count = f"{least}" if least == most else f"{least} to {most}"
    return f"{count} {one if most == 1 else several}"

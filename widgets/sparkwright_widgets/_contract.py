"""Types that the widgets read from a training run. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sparkwright.runs import (
    RunStatus,
    StoredRun,
    TrainingRun,
    ValidationPoint,
    WorkerStatus,
)

Rows = Mapping[str, NDArray[Any]]
Run = TrainingRun
ComparedRun = TrainingRun | StoredRun
Status = RunStatus
Validation = ValidationPoint
Worker = WorkerStatus

ENDED = ("done", "stopped", "failed")

MEAN_NAME = "mean of the workers"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharing:
    """Settings of a run with gradient sharing."""

    batch_size: int = 0  # examples per minibatch; 0: unknown

    def planned(self, status: Status) -> int:
        """Minibatches of all workers in the whole run; 0 while unknown."""
        rows = [worker.rows for worker in status.workers]
        if not self.batch_size or not all(rows):
            return 0
        return status.epochs * sum(-(-count // self.batch_size) for count in rows)


def sharing_of(run: ComparedRun) -> Sharing | None:
    """The settings of gradient sharing; None if `run` averages parameters."""
    master: Any = run.configuration.get("master")
    if not isinstance(master, dict) or master.get("name") != "SharedTrainingMaster":
        return None
    return Sharing(batch_size=int(master.get("batch_size_per_worker") or 0))

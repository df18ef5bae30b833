"""Runs: the coordinator on the driver, the run that users see, its events and history."""

from ._events import (
    RunStatus as RunStatus,
    ValidationPoint as ValidationPoint,
    WorkerStatus as WorkerStatus,
)
from ._history import History as History
from ._run import TrainingRun as TrainingRun

"""Runs: the coordinator on the driver, the run that users see, its events and history."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from ._events import (
        RunStatus as RunStatus,
        ValidationPoint as ValidationPoint,
        WorkerStatus as WorkerStatus,
    )
    from ._history import History as History
    from ._run import TrainingRun as TrainingRun
    from .comparing import differing as differing
    from .fit_options import FitOptions as FitOptions
    from .store import RunStore as RunStore, RunTable as RunTable, StoredRun as StoredRun

__getattr__, __dir__ = _lazy_names(__name__)

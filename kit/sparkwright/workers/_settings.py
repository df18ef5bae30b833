"""What a worker needs to know: the training master, and its own place in the run."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sparkwright.masters import TrainingMaster

M = TypeVar("M", bound=TrainingMaster)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings(Generic[M]):
    """The training master and the run, as one worker sees them.

    Attributes:
        master: with a seed.
        epochs: passes over the data.
        worker: its number; -1 in a template that is still to be completed.
        attempt: of its task; a later one is greater.
        copies: whether the driver gets a copy of the state at intervals, see `CopySchedule`.
        evaluate_every: epochs from one evaluation of the validation data to the next; the last
            epoch is evaluated in any case.
        judged: after an evaluation, wait for the driver's verdict.
    """

    master: M = field(repr=False)
    epochs: int
    worker: int = -1
    attempt: int = -1
    copies: bool = True
    evaluate_every: int = 1
    judged: bool = False

    @property
    def stop_at_non_finite(self) -> bool:
        """Whether a NaN or infinite loss or parameter ends the run."""
        return self.master.non_finite == "stop"

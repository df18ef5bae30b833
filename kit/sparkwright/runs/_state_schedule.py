"""When workers of gradient sharing send their state to the driver; pure."""

from sparkwright.masters import Checkpointing
from sparkwright.masters.checkpointing import CopySchedule


class StateSchedule:
    """When the driver gets the state of training: as a copy in memory, and for a checkpoint.

    Attributes:
        writes: whether the state of the meeting that was called last is also written to a file.
    """

    def __init__(self, checkpoints: Checkpointing | None, *, copies: bool, now_s: float) -> None:
        """Prepare; see `SharingCoordinator` for the arguments."""
        self.writes = False
        self._checkpoints, self._copies = checkpoints, CopySchedule() if copies else None
        self._written_s = self._called_s = now_s

    def begin(self, now_s: float) -> None:
        """Begin to train from the state that the driver has."""
        self._written_s = now_s
        if self._copies is not None:
            self._copies.begin(now_s)

    def is_due(self, steps: int, now_s: float) -> bool:
        """Whether workers must meet for it, after `steps` minibatches beyond the driver's state."""
        copies = self._copies
        is_copy_due = steps > 0 and copies is not None and copies.is_due(now_s)
        return is_copy_due or self._is_checkpoint_due(steps, now_s)

    def call(self, steps: int, now_s: float) -> bool:
        """Record the call to a meeting; return whether the workers send their state there."""
        self._called_s, self.writes = now_s, self._is_checkpoint_due(steps, now_s)
        is_cheap = self._copies is not None and self._copies.is_due(now_s, averaged=True)
        return self.writes or is_cheap

    def keep(self, now_s: float) -> None:
        """Record that the driver has the state of the meeting."""
        if self.writes:
            self._written_s = now_s
        if self._copies is not None:
            self._copies.record_copy(now_s - self._called_s, now_s=now_s)

    def _is_checkpoint_due(self, steps: int, now_s: float) -> bool:
        schedule = self._checkpoints
        return schedule is not None and schedule.due(steps, now_s - self._written_s)

"""When a run writes checkpoints and sends copies of its state to the driver."""

import math

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

_DEFAULT_EVERY_S = 60.0
# Seconds of training per second of copying: copies cost less than 1 %.
_SECONDS_FOR_A_COPY = 150.0
_SHORTEST_PAUSE_S = 10.0


@configuration
class Checkpointing(Configuration):
    """Location and interval of a run's checkpoints.

    With both `every_rounds` and `every_s`, the one reached first since the last checkpoint counts.

    Example:
        >>> Checkpointing("/data/runs/7")
        Checkpointing(url='/data/runs/7', every_rounds=None, every_s=60.0, keep=3)
        >>> Checkpointing("/data/runs/7", every_rounds=10).due(9, 3600)
        False
    """

    url: str = option(
        kw_only=False,
        label="Folder",
        help="Folder for checkpoints: a path or a URL supported by fsspec, such as "
        "s3://bucket/runs/7. Use a separate folder for each run.",
    )
    every_rounds: int | None = option(
        default=None,
        minimum=1,
        none_text="none: by time only",
        unit="rounds",
        label="After",
        help="Averagings between checkpoints; with gradient sharing, minibatches of a worker.",
    )
    every_s: float | None = option(
        default=None,
        above=0,
        none_text="60 s; none if rounds are set",
        unit="s",
        label="Or after",
        help="Seconds between checkpoints. A crash loses at most the training of this time.",
    )
    keep: int = option(
        default=3,
        minimum=1,
        unit="checkpoints",
        help="Number of newest checkpoints to keep. More than 1 is safer: if the newest is "
        "damaged, the previous one is used.",
    )

    def _check(self) -> None:
        if not self.url.strip():
            raise ConfigurationError(
                f"`url` must be the path or URL of a folder. Received: url={self.url!r}."
            )
        if self.every_s is None and self.every_rounds is None:
            object.__setattr__(self, "every_s", _DEFAULT_EVERY_S)

    def due(self, rounds_since: int, seconds_since: float) -> bool:
        """Return whether a checkpoint is due; never without training since the last one.

        Args:
            rounds_since: rounds since the last checkpoint, or since the start.
            seconds_since: seconds since then.
        """
        if rounds_since <= 0:
            return False
        enough_rounds = self.every_rounds is not None and rounds_since >= self.every_rounds
        return enough_rounds or (self.every_s is not None and seconds_since >= self.every_s)


class CopySchedule:
    """Schedule of copies: at least ten seconds and 150 times the duration of a copy apart.

    If a run loses all workers at the same time, it ends with or continues from the copy.
    """

    def __init__(self) -> None:
        self._made_s, self._pause_s = -math.inf, 0.0

    def begin(self, now_s: float) -> None:
        """Start, once: a copy is due after ten seconds, or with the next averaging."""
        if self._made_s == -math.inf:
            self._made_s = now_s

    def is_due(self, now_s: float, *, averaged: bool = False) -> bool:
        """Whether a copy is due; after an averaging (`averaged`) only the transfer takes time."""
        pause_s = self._pause_s if averaged else max(_SHORTEST_PAUSE_S, self._pause_s)
        return now_s - self._made_s >= pause_s

    def record_copy(self, seconds: float, *, now_s: float) -> None:
        """Record a copy that stopped training for `seconds`."""
        self._made_s, self._pause_s = now_s, _SECONDS_FOR_A_COPY * seconds


class StateSchedule:
    """When the driver gets the state of training: as a copy in memory, and for a checkpoint."""

    def __init__(self, checkpoints: Checkpointing | None, *, copies: bool, now_s: float) -> None:
        """Prepare; see `SharingCoordinator` for the arguments."""
        self.writes = False  # whether the state of the last meeting is also written to a file
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

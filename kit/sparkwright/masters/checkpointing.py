"""Schedules of checkpoints, and of copies of the training state on the driver."""

import math

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

_DEFAULT_EVERY_S = 60.0
# Seconds of training per second of copying, so that copies cost less than 1 %.
_SECONDS_FOR_A_COPY = 150.0
_SHORTEST_PAUSE_S = 10.0


@configuration
class Checkpointing(Configuration):
    """Location and frequency of the checkpoints that a run can be resumed from.

    With both `every_rounds` and `every_s`, the next checkpoint is due when either is reached.

    Example:
        >>> Checkpointing("/data/runs/7")
        Checkpointing(url='/data/runs/7', every_rounds=None, every_s=60.0, keep=3)
        >>> Checkpointing("/data/runs/7", every_rounds=10).due(9, 3600)
        False
    """

    url: str = option(
        kw_only=False,
        label="Folder",
        help="Folder for the checkpoints: a path, or the URL of any file system that fsspec knows, "
        "such as s3://bucket/runs/7. Each run should have a folder of its own.",
    )
    every_rounds: int | None = option(
        default=None,
        minimum=1,
        none_text="only time counts",
        unit="rounds",
        label="After",
        help="Averagings from one checkpoint to the next; with gradient sharing, minibatches of a "
        "worker.",
    )
    every_s: float | None = option(
        default=None,
        above=0,
        none_text="60 s, or by rounds alone",
        unit="s",
        label="Or after",
        help="Seconds from one checkpoint to the next. A crash loses at most what was learned in "
        "this time.",
    )
    keep: int = option(
        default=3,
        minimum=1,
        unit="checkpoints",
        help="How many checkpoints stay, the newest. More than 1 is safer: if the newest is "
        "damaged, the one before serves.",
    )

    def _check(self) -> None:
        if not self.url.strip():
            raise ConfigurationError(
                f"`url` must be the path or URL of a folder. Received: url={self.url!r}."
            )
        if self.every_s is None and self.every_rounds is None:
            object.__setattr__(self, "every_s", _DEFAULT_EVERY_S)

    def due(self, rounds_since: int, seconds_since: float) -> bool:
        """Whether a checkpoint is due; never if there was no training since the last one.

        Args:
            rounds_since: rounds since the last checkpoint, or since the run began.
            seconds_since: seconds since then.
        """
        if rounds_since <= 0:
            return False
        enough_rounds = self.every_rounds is not None and rounds_since >= self.every_rounds
        return enough_rounds or (self.every_s is not None and seconds_since >= self.every_s)


class CopySchedule:
    """Schedule of copies, at intervals of at least ten seconds and 150 times a copy's duration.

    If a run loses all workers at the same time, it ends with the copy or continues from it.
    """

    def __init__(self) -> None:
        self._made_s, self._pause_s = -math.inf, 0.0

    def begin(self, now_s: float) -> None:
        """Start the schedule: a copy is due in ten seconds, or with the next averaging."""
        self._made_s = now_s

    def is_due(self, now_s: float, *, averaged: bool = False) -> bool:
        """Whether a copy is due; with `averaged`, whether a copy is cheap enough now.

        Args:
            now_s: the current time of the clock.
            averaged: the workers have just averaged, so only sending the copy takes time.
        """
        pause_s = self._pause_s if averaged else max(_SHORTEST_PAUSE_S, self._pause_s)
        return now_s - self._made_s >= pause_s

    def took(self, seconds: float, *, now_s: float) -> None:
        """Record a copy that interrupted training for `seconds`."""
        self._made_s, self._pause_s = now_s, _SECONDS_FOR_A_COPY * seconds

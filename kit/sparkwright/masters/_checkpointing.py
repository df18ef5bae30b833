"""Where, and how often, a run writes checkpoints."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from sparkwright.errors import ConfigurationError

from ._options import check_count, check_seconds
from ._serialisation import checked_dict, options_of, refuse_unknown

_DEFAULT_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """Where a run keeps checkpoints to go on from, and how often it writes one.

    With both `every_rounds` and `every_s`, whichever is reached first counts, from the last
    checkpoint on.

    Attributes:
        url: folder for the checkpoints: a path, or the URL of any file system that fsspec knows,
            such as "s3://bucket/runs/7". Each run should have a folder of its own.
        every_rounds: averagings from one checkpoint to the next; with gradient sharing the
            minibatches of a worker. Default None: only time counts.
        every_s: seconds from one checkpoint to the next; default None: only rounds count; 60 if
            `every_rounds` is None too.
        keep: how many checkpoints stay, the newest (default 3). More than 1 is safer: if the
            newest is damaged, the one before serves.

    Example:
        >>> Checkpointing("/data/runs/7")
        Checkpointing(url='/data/runs/7', every_rounds=None, every_s=60.0, keep=3)
        >>> Checkpointing("/data/runs/7", every_rounds=10).due(9, 3600)
        False
    """

    url: str
    _: KW_ONLY
    every_rounds: int | None = None
    every_s: float | None = None
    keep: int = 3

    def __post_init__(self) -> None:
        """Check every option and fill in the default interval."""
        if not isinstance(self.url, str) or not self.url.strip():
            raise ConfigurationError(
                f"`url` must be the path or URL of a folder. Received: url={self.url!r}."
            )
        check_count("every_rounds", self.every_rounds, optional=True)
        check_count("keep", self.keep)
        if self.every_s is not None:
            check_seconds("every_s", self.every_s)
        elif self.every_rounds is None:
            object.__setattr__(self, "every_s", _DEFAULT_EVERY_S)

    def due(self, rounds_since: int, seconds_since: float) -> bool:
        """Whether it is time for a checkpoint; never, if nothing has been learnt since the last.

        Args:
            rounds_since: rounds since the last checkpoint, or since the run began.
            seconds_since: seconds since then.
        """
        if rounds_since <= 0:
            return False
        enough_rounds = self.every_rounds is not None and rounds_since >= self.every_rounds
        return enough_rounds or (self.every_s is not None and seconds_since >= self.every_s)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return options_of(self)

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; fields left out take their defaults.

        Raises:
            ConfigurationError: if a field is unknown or has a value that it cannot have.
        """
        given = checked_dict(settings)
        refuse_unknown(cls, given)
        url: Any = given.pop("url", None)  # refused by name if it is missing
        return cls(url, **given)

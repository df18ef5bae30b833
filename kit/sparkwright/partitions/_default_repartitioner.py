"""How small the pieces are in which an epoch's work is dealt out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from sparkwright._option import MAX_COUNT
from sparkwright.errors import ConfigurationError

# With so many pieces for each worker, one that is slow or late holds the others up for a
# sixteenth of an epoch at most.
_PIECES_PER_WORKER = 16


@runtime_checkable
class Repartitioner(Protocol):
    """Decides into how many pieces the data of an epoch is cut; may be the user's own."""

    def partitions(self, total: int, batch_size: int) -> int:
        """How many pieces to make.

        Args:
            total: examples in the data.
            batch_size: examples of a minibatch on one worker.
        """
        ...


@dataclass(frozen=True, slots=True)
class DefaultRepartitioner:
    """Pieces of one minibatch, or of more where there would be too many pieces.

    Small pieces let workers of unequal speed finish an epoch together: who is free takes the next.

    Attributes:
        max_partitions: most pieces of an epoch (default 5000).

    Example:
        >>> DefaultRepartitioner().partitions(total=1000, batch_size=16)
        63

    References:
        Deeplearning4j's class of the same name, which makes Spark partitions of that number. Here
        data stays with its worker and only the work is cut.
    """

    max_partitions: int = 5000

    def __post_init__(self) -> None:
        """Refuse anything but a positive integer."""
        most = self.max_partitions
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ConfigurationError(
                "`max_partitions` must be an integer of at least 1. "
                f"Received: max_partitions={most!r}."
            )
        if most > MAX_COUNT:
            raise ConfigurationError(
                f"`max_partitions` must be at most {MAX_COUNT}. "
                f"Received: max_partitions={most!r:.40}."
            )

    def partitions(self, total: int, batch_size: int) -> int:
        """min(max_partitions, ceil(total / batch_size)); see `Repartitioner`."""
        return min(self.max_partitions, -(-total // batch_size))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able: name and configuration."""
        return {"name": "default", "configuration": {"max_partitions": self.max_partitions}}


@dataclass(frozen=True, slots=True)
class NoRepartitioner:
    """Pieces as large as possible: least to hand out, most to wait for at the end of an epoch."""

    def partitions(self, total: int, batch_size: int) -> int:
        """1, or 0 without data; see `Repartitioner`."""
        return min(1, total)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able: name and configuration."""
        return {"name": "none", "configuration": {}}


def repartitioner_from_dict(settings: dict[str, Any]) -> DefaultRepartitioner | NoRepartitioner:
    """The inverse of `to_dict` of the repartitioners of this module.

    Raises:
        ConfigurationError: if the name or an option is unknown or has a value it cannot have.
    """
    name, configuration = settings.get("name"), settings.get("configuration", {})
    known = {"default": {"max_partitions"}, "none": set[str]()}
    if name not in list(known):
        raise ConfigurationError(
            "`repartitioner` must be named 'default' or 'none' in settings. Received: "
            f"name={name!r}. One of your own is no part of them: set it on the master that was "
            "read, with `dataclasses.replace(master, repartitioner=…)`."
        )
    if not isinstance(configuration, dict) or set(configuration) - known[name]:
        raise ConfigurationError(
            f"`repartitioner` {name!r} knows the options {sorted(known[name])}. "
            f"Received: configuration={configuration!r}."
        )
    return DefaultRepartitioner(**configuration) if name == "default" else NoRepartitioner()


def piece_size(
    rows: Sequence[int],
    batch_size: int,
    repartitioner: Repartitioner,
    *,
    pieces_per_worker: int = _PIECES_PER_WORKER,
) -> int:
    """Minibatches in a piece of work, so that an epoch has about as many as `repartitioner` says.

    Never so large that workers get fewer than `pieces_per_worker` pieces each on average, if there
    are minibatches enough.

    Args:
        rows: examples of each worker.
        batch_size: examples of a minibatch.
        repartitioner: how many pieces are wanted.
        pieces_per_worker: pieces that each worker should have at least; default 16.

    Returns:
        At least 1.

    Raises:
        ConfigurationError: if the repartitioner answers anything but an integer of at least 0.

    Example:
        >>> piece_size([1_600_000, 1_600_000], 16, DefaultRepartitioner())
        40
    """
    # As if the data were one: the short last minibatches of many workers must not make pieces of
    # one minibatch into pieces of two.
    minibatches = -(-sum(rows) // batch_size)
    wanted: Any = repartitioner.partitions(sum(rows), batch_size)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 0:
        raise ConfigurationError(
            "`repartitioner.partitions` must give an integer of at least 0. "
            f"Received: {wanted!r} from {type(repartitioner).__name__}."
        )
    fair = minibatches // (pieces_per_worker * max(1, len(rows)))
    return max(1, min(-(-minibatches // max(1, wanted)), fair))

"""How small the pieces are in which an epoch's work is dealt out."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from sparkwright.configuration import Configuration, configuration, option
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


@configuration
class DefaultRepartitioner(Configuration):
    """Pieces of one minibatch, or of more where there would be too many pieces.

    Small pieces let workers of unequal speed finish an epoch together: who is free takes the next.

    Example:
        >>> DefaultRepartitioner().partitions(total=1000, batch_size=16)
        63

    References:
        Deeplearning4j's class of the same name, which makes Spark partitions of that number. Here
        data stays with its worker and only the work is cut.
    """

    _kind: ClassVar[str] = "default"

    max_partitions: int = option(
        default=5000,
        kw_only=False,
        minimum=1,
        unit="pieces",
        label="Pieces of an epoch, at most",
        help="Up to this number a piece is one minibatch.",
    )

    def partitions(self, total: int, batch_size: int) -> int:
        """min(max_partitions, ceil(total / batch_size)); see `Repartitioner`."""
        return min(self.max_partitions, -(-total // batch_size))


@configuration
class NoRepartitioner(Configuration):
    """Pieces as large as possible: least to hand out, most to wait for at the end of an epoch."""

    _kind: ClassVar[str] = "none"

    def partitions(self, total: int, batch_size: int) -> int:
        """1, or 0 without data; see `Repartitioner`."""
        return min(1, total)


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

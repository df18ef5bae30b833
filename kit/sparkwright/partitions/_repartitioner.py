"""Choose the size of the pieces in which an epoch's work is assigned to workers."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

# With this many pieces per worker, a slow or late worker delays the others by at most a sixteenth
# of an epoch.
_PIECES_PER_WORKER = 16


@runtime_checkable
class Repartitioner(Protocol):
    """Protocol for choosing the number of pieces of an epoch; users can implement it."""

    def partitions(self, total: int, batch_size: int) -> int:
        """Return the number of pieces.

        Args:
            total: number of examples in the data.
            batch_size: examples per minibatch on one worker.
        """
        ...


@configuration
class DefaultRepartitioner(Configuration):
    """One piece per minibatch, or larger pieces if there would be too many.

    Small pieces let workers of unequal speed finish an epoch together: an idle worker takes the
    next piece.

    Example:
        >>> DefaultRepartitioner().partitions(total=1000, batch_size=16)
        63

    References:
        Deeplearning4j's class of the same name, which creates this number of Spark partitions.
        Here the data stays on its worker, and only the work is split.
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
        """Return min(max_partitions, ceil(total / batch_size)); see `Repartitioner`."""
        return min(self.max_partitions, -(-total // batch_size))


@configuration
class NoRepartitioner(Configuration):
    """Pieces as large as possible: the least coordination, the longest wait at an epoch's end."""

    _kind: ClassVar[str] = "none"

    def partitions(self, total: int, batch_size: int) -> int:
        """Return 1, or 0 without data; see `Repartitioner`."""
        return min(1, total)


def piece_size(
    rows: Sequence[int],
    batch_size: int,
    repartitioner: Repartitioner,
    *,
    pieces_per_worker: int = _PIECES_PER_WORKER,
) -> int:
    """Return the number of minibatches in each piece of work.

    An epoch then has about as many pieces as `repartitioner` returns. If there are enough
    minibatches, workers get at least `pieces_per_worker` pieces on average.

    Args:
        rows: examples on each worker.
        batch_size: examples per minibatch.
        repartitioner: chooses the number of pieces.
        pieces_per_worker: minimum number of pieces per worker, on average; default 16.

    Returns:
        Minibatches per piece, at least 1.

    Raises:
        ConfigurationError: if the repartitioner returns anything but an integer of at least 0.

    Example:
        >>> piece_size([1_600_000, 1_600_000], 16, DefaultRepartitioner())
        40
    """
    # Count as if all data were on one worker. Otherwise the short last minibatches of many workers
    # would turn pieces of one minibatch into pieces of two.
    minibatches = -(-sum(rows) // batch_size)
    wanted: Any = repartitioner.partitions(sum(rows), batch_size)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 0:
        raise ConfigurationError(
            "`repartitioner.partitions` must give an integer of at least 0. "
            f"Received: {wanted!r} from {type(repartitioner).__name__}."
        )
    fair = minibatches // (pieces_per_worker * max(1, len(rows)))
    return max(1, min(-(-minibatches // max(1, wanted)), fair))

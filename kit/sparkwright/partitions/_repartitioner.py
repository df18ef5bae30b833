"""Choose the size of the pieces into which an epoch's work is split."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

# With 16 pieces per worker, a slow or late worker delays the others by at most a sixteenth of an
# epoch.
_PIECES_PER_WORKER = 16


@runtime_checkable
class Repartitioner(Protocol):
    """Chooses the number of pieces of an epoch; users can write their own."""

    def partitions(self, total: int, batch_size: int) -> int:
        """Return the number of pieces.

        Args:
            total: examples in the data.
            batch_size: examples of a minibatch on one worker.
        """
        ...


@configuration
class DefaultRepartitioner(Configuration):
    """Pieces of one minibatch, or of more if there would be too many pieces.

    With small pieces, workers of unequal speed finish an epoch together: a free worker takes the
    next piece.

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
        label="Maximum pieces per epoch",
        help="Up to this number of minibatches, a piece is one minibatch.",
    )

    def partitions(self, total: int, batch_size: int) -> int:
        """min(max_partitions, ceil(total / batch_size)); see `Repartitioner`."""
        return min(self.max_partitions, -(-total // batch_size))


@configuration
class NoRepartitioner(Configuration):
    """Pieces as large as possible: fewest requests, longest wait at the end of an epoch."""

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
    """Return the minibatches of a piece, so that an epoch has about the pieces of `repartitioner`.

    Workers get at least `pieces_per_worker` pieces each on average if there are enough
    minibatches.

    Args:
        rows: examples of each worker.
        batch_size: examples of a minibatch.
        repartitioner: chooses the number of pieces.
        pieces_per_worker: minimum number of pieces per worker; default 16.

    Returns:
        At least 1.

    Raises:
        ConfigurationError: if the repartitioner does not return an integer of at least 0.

    Example:
        >>> piece_size([1_600_000, 1_600_000], 16, DefaultRepartitioner())
        40
    """
    # Count over all data: the short last minibatches of many workers must not turn pieces of one
    # minibatch into pieces of two.
    minibatches = -(-sum(rows) // batch_size)
    wanted: Any = repartitioner.partitions(sum(rows), batch_size)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 0:
        raise ConfigurationError(
            "`repartitioner.partitions` must give an integer of at least 0. "
            f"Received: {wanted!r} from {type(repartitioner).__name__}."
        )
    fair = minibatches // (pieces_per_worker * max(1, len(rows)))
    return max(1, min(-(-minibatches // max(1, wanted)), fair))

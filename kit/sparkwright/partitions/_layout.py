"""Rows and labels of some partitions, and what uneven ones cost; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class PartitionLayout:
    """How rows and labels lie in partitions, at one moment.

    Attributes:
        rows: of each partition.
        labels: (partitions, classes) float64 labels of each class; no columns: not known.
    """

    rows: tuple[int, ...]
    labels: NDArray[np.float64]

    @property
    def skew(self) -> float:
        """The fullest partition over the mean; 1 is even."""
        total = sum(self.rows)
        return max(self.rows) * len(self.rows) / total if total else 1.0

    @property
    def empty(self) -> int:
        """Partitions without rows."""
        return sum(n == 0 for n in self.rows)

    @property
    def label_distances(self) -> NDArray[np.float64]:
        """(partitions,) how far each one's mix of labels is from that of all, 0 to 1.

        The total variation distance: the share of its labels that would have to be others. 0
        where there are none.

        Example:
            >>> layout = PartitionLayout(rows=(4, 4), labels=np.array([[4.0, 0.0], [2.0, 2.0]]))
            >>> layout.label_distances.round(2).tolist(), layout.label_skew
            ([0.25, 0.25], 0.25)
        """
        sums = self.labels.sum(axis=1)
        whole = self.labels.sum(axis=0)
        if not whole.sum():
            return np.zeros(len(self.rows))
        shares = self.labels / np.maximum(sums, 1e-300)[:, None]
        distances = np.abs(shares - whole / whole.sum()).sum(axis=1) / 2
        return np.where(sums > 0, distances, 0.0)

    @property
    def label_skew(self) -> float:
        """The largest of `label_distances`."""
        return float(self.label_distances.max(initial=0.0))

    def chance_distances(self, seen: Sequence[float]) -> NDArray[np.float64]:
        """(partitions,) the distance to be expected if rows were drawn from all by chance.

        Args:
            seen: labels that were looked at in each partition; few of them differ by chance.
        """
        whole = self.labels.sum(axis=0)
        if not whole.sum():
            return np.zeros(len(self.rows))
        shares = whole / whole.sum()
        # Mean absolute deviation of a binomial share, p (1 - p) / n its variance; half their sum.
        spread = np.sqrt(shares * (1 - shares)).sum() / np.sqrt(2 * np.pi)
        return np.minimum(1.0, spread / np.sqrt(np.maximum(np.asarray(seen, np.float64), 1.0)))

    def minibatches(self, batch_size: int) -> tuple[int, ...]:
        """Of each partition in an epoch, a smaller last one included."""
        return tuple(-(-n // batch_size) for n in self.rows)

    def ragged(self, batch_size: int) -> tuple[int, ...]:
        """Rows of each partition's last minibatch where it is a smaller one, else 0."""
        return tuple(n % batch_size for n in self.rows)

    def slowest(self, batch_size: int, *, helps: bool = False) -> int:
        """Minibatches that the worker with most of them trains in an epoch.

        Args:
            batch_size: rows of a minibatch.
            helps: whether workers that are done take over minibatches of others.
        """
        minibatches = self.minibatches(batch_size)
        if helps:
            return -(-sum(minibatches) // max(1, len(minibatches)))
        return max(minibatches, default=0)

    def idle_share(self, batch_size: int, *, helps: bool = False) -> float:
        """Share of the workers' time spent waiting for the last one, 0 to 1; as `slowest`."""
        most = self.slowest(batch_size, helps=helps) * len(self.rows)
        return 1 - sum(self.minibatches(batch_size)) / most if most else 0.0

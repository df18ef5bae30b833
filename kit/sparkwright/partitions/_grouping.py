"""Whole partitions onto workers: what is left to do when nothing may be repartitioned."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._placement import Counts, Destinations, Tally


def group_partitions(counts: Sequence[int], workers: int) -> tuple[int, ...]:
    """Give each partition, whole, to a worker.

    With no more partitions than workers, partition i goes to worker i. Otherwise the fullest
    partitions are given out first, each to the worker that has the fewest examples so far, which
    ends at most 4/3 above the best possible maximum. Ties go to the worker with fewer partitions,
    then to the lower index, so the result depends only on the arguments.

    Args:
        counts: examples in each partition.
        workers: how many workers there are, at least 1.

    Returns:
        The worker of each partition.

    Example:
        >>> group_partitions([5, 1, 4, 2], 2)
        (0, 0, 1, 1)

    References:
        R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17 (1969).
    """
    if len(counts) <= workers:
        return tuple(range(len(counts)))
    groups = [0] * len(counts)
    load = [(0, 0, worker) for worker in range(workers)]  # examples, partitions, worker
    for partition in sorted(range(len(counts)), key=lambda p: (-counts[p], p)):
        rows, held, worker = load[0]
        groups[partition] = worker
        heapq.heapreplace(load, (rows + counts[partition], held + 1, worker))
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class Grouped:
    """All examples of source partition i go to target `groups[i]`."""

    source_counts: tuple[int, ...]
    targets: int
    groups: tuple[int, ...]

    def tally(self) -> Tally:
        """See `AbstractPlacement`."""
        counts = np.zeros(self.targets, np.int64)
        np.add.at(counts, np.asarray(self.groups, np.int64), self.source_counts)
        moved = [
            count
            for source, count in enumerate(self.source_counts)
            if self.groups[source] != source
        ]
        return Tally(counts, sum(moved))

    def destinations(self, source: int, start: int, stop: int) -> Destinations:
        """See `AbstractPlacement`."""
        return np.full(stop - start, self.groups[source], np.int32)

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        """See `AbstractPlacement`."""
        return np.full(len(numbers), self.groups[source], np.int32)

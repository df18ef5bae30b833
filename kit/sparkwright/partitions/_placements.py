"""Compute the target partition of each example without moving data; pure.

A placement is a frozen value that depends on the counts of the source partitions. It gives the
targets of any range of a partition's examples. So the driver plans a billion examples, and an
executor places one chunk at a time, without an array of all examples.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.data.column_statistics import split_mix

Counts = NDArray[np.int64]
Destinations = NDArray[np.int32]

# P. L'Ecuyer, "Tables of linear congruential generators of different sizes and good lattice
# structure", Mathematics of Computation 68 (1999): the multiplier for modulus 2**64.
_MULTIPLIER = np.uint64(2862933555777941757)
_ONE = np.uint64(1)
_SHIFT = np.uint64(33)
_BLOCK = 1 << 20  # examples counted per step: arrays of 8 MB


class Tally(NamedTuple):
    """Totals of a placement."""

    target_counts: Counts  # (targets,) examples that each target partition receives
    rows_moved: int  # examples whose partition index changes


@dataclass(frozen=True)
class Placement:
    """A rule that maps the examples of each source partition to target partitions."""

    source_counts: tuple[int, ...]
    targets: int

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        """(k,) int32 target partitions of the examples at the positions `numbers` of `source`."""
        raise NotImplementedError

    def destinations(self, source: int, start: int, stop: int) -> Destinations:
        """(stop - start,) int32 target partition of examples `start` to `stop` of `source`."""
        return self.destinations_of(source, np.arange(start, stop, dtype=np.int64))

    def tally(self) -> Tally:
        """Count the targets of all examples of all source partitions."""
        counts, stayed = self._counts()
        return Tally(counts, self.total - int(stayed[: self.targets].sum()))

    def _counts(self) -> tuple[Counts, Counts]:
        """Examples that each target receives, and that each source in both keeps: (sources,)."""
        raise NotImplementedError

    @cached_property
    def total(self) -> int:
        return sum(self.source_counts)

    @cached_property
    def rows(self) -> Counts:
        """(sources,) `source_counts` as an array."""
        return np.array(self.source_counts, np.int64)

    @cached_property
    def starts(self) -> Counts:
        """(sources,) position of each source partition's first example in the whole data."""
        return np.cumsum(self.rows) - self.rows


@dataclass(frozen=True)
class Grouped(Placement):
    """All examples of source partition i go to target `groups[i]`."""

    groups: tuple[int, ...]

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        return np.full(len(numbers), self.groups[source], np.int32)

    def _counts(self) -> tuple[Counts, Counts]:
        groups, counts = np.array(self.groups, np.int64), np.zeros(self.targets, np.int64)
        np.add.at(counts, groups, self.rows)
        return counts, np.where(groups == np.arange(len(groups)), self.rows, 0)


@dataclass(frozen=True)
class Balanced(Placement):
    """Split the examples, in order over all source partitions, into `targets` blocks."""

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        index = numbers + self.starts[source]
        return np.searchsorted(self._block_ends, index, side="right").astype(np.int32)

    def _counts(self) -> tuple[Counts, Counts]:
        counts, both = np.diff(self._block_ends, prepend=0), min(len(self.rows), self.targets)
        ends = np.minimum((self.starts + self.rows)[:both], self._block_ends[:both])
        starts = np.maximum(self.starts[:both], (self._block_ends - counts)[:both])
        return counts, np.maximum(ends - starts, 0)

    @cached_property
    def _block_ends(self) -> Counts:
        """(targets,) index just past each block."""
        size, surplus = divmod(self.total, self.targets)
        number = np.arange(1, self.targets + 1, dtype=np.int64)
        return number * size + np.minimum(number, surplus)


@dataclass(frozen=True)
class SparkDefault(Placement):
    """Deal examples to the targets in turn; each source partition has its own first target."""

    seed: int

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        return ((numbers + self._first_targets[source]) % self.targets).astype(np.int32)

    def _counts(self) -> tuple[Counts, Counts]:
        rounds, extra = np.divmod(self.rows, self.targets)
        # Each source deals its extra examples in turn, starting at its first target.
        change = np.zeros(2 * self.targets, np.int64)
        np.add.at(change, self._first_targets, 1)
        np.add.at(change, self._first_targets + extra, -1)
        dealt = np.cumsum(change).reshape(2, self.targets).sum(axis=0)
        place = (np.arange(len(extra)) - self._first_targets) % self.targets
        return rounds.sum() + dealt, rounds + (place < extra)

    @cached_property
    def _first_targets(self) -> Counts:
        """(sources,) the target of each source partition's first example."""
        seed = np.array([self.seed & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)
        # Not NumPy's generator: its stream may differ between the versions of driver and executor.
        hashed = split_mix(split_mix(seed) + np.arange(len(self.rows), dtype=np.uint64))
        return (hashed % np.uint64(self.targets)).astype(np.int64)


@dataclass(frozen=True)
class ApproximateBalanced(Placement):
    """Move few examples; target counts are close to the mean, not equal to it."""

    # The rules are those of Deeplearning4j's HashingBalancedPartitioner, with exact weights. A
    # partition above the mean keeps an example with probability mean / count. The others go to
    # partitions below the mean, in proportion to their deficits.

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        if not self._may_leave(source):
            return np.full(len(numbers), source, np.int32)
        # Not `position * partitions + partition`, as in Deeplearning4j: for some numbers of
        # partitions (29, 33), the draws would be correlated, and targets up to half too small.
        number = numbers.astype(np.uint64) + np.uint64(self.starts[source])
        first = number * _MULTIPLIER + _ONE
        second = first * _MULTIPLIER + _ONE
        leaves = _uniform(first) < self._leave_probability(source)
        elsewhere = np.searchsorted(self._cumulative_shortage, _uniform(second), side="left")
        return np.where(leaves, elsewhere, source).astype(np.int32)

    def _counts(self) -> tuple[Counts, Counts]:
        # About 0.1 s for ten million examples that may leave.
        counts, stayed = np.zeros(self.targets, np.int64), self.rows.copy()
        for source, count in enumerate(self.source_counts):
            if not self._may_leave(source):
                counts[source] += count
                continue
            stayed[source] = 0
            for start in range(0, count, _BLOCK):
                goes_to = self.destinations(source, start, min(start + _BLOCK, count))
                counts += np.bincount(goes_to, minlength=self.targets)
                stayed[source] += np.count_nonzero(goes_to == source)
        return counts, stayed

    def _may_leave(self, source: int) -> bool:
        return source >= self.targets or self.source_counts[source] * self.targets > self.total

    def _leave_probability(self, source: int) -> float:
        if source >= self.targets:
            return 2.0  # more than any draw: the partition vanishes
        return 1.0 - self.total / (self.source_counts[source] * self.targets)

    @cached_property
    def _cumulative_shortage(self) -> NDArray[np.float64]:
        """(targets,) cumulative share of the missing examples of partitions 0 to i; ends at 1."""
        kept = np.zeros(self.targets, np.int64)
        shared = min(self.targets, len(self.source_counts))
        kept[:shared] = self.source_counts[:shared]
        cumulative = np.cumsum(np.maximum(self.total - kept * self.targets, 0))
        # Not 0: if an example may leave, some partition has a deficit.
        return cumulative / cumulative[-1]


def group_partitions(counts: Sequence[int], workers: int) -> tuple[int, ...]:
    """Assign whole partitions to workers.

    With no more partitions than workers, partition i goes to worker i. Otherwise the largest
    partitions are assigned first, each to the worker with the fewest examples so far. The maximum
    is at most 4/3 of the best possible one. Ties go to the worker with fewer partitions,
    then to the lower index, so the result depends only on the arguments.

    Args:
        counts: examples in each partition.
        workers: number of workers, at least 1.

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


def _uniform(state: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number in (0, 1] from the generator's 31 highest bits."""
    return ((state >> _SHIFT) + _ONE).astype(np.float64) / 2.0**31

"""Compute the target partition of each example, without moving data. All functions are pure.

A placement is a frozen value computed from the counts of the source partitions. It can be
evaluated on any range of a partition's examples, so it never needs an array of all examples. The
driver can plan a billion examples, and an executor can place one chunk at a time.
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
_BLOCK = 1 << 20  # examples counted at a time: 8 MB per array


class Tally(NamedTuple):
    """Summary of a placement."""

    target_counts: Counts  # (targets,) examples that each target partition receives
    rows_moved: int  # examples whose partition index changes


@dataclass(frozen=True)
class Placement:
    """A mapping from the examples of each source partition to target partitions.

    Attributes:
        source_counts: examples in each source partition.
        targets: number of target partitions.
    """

    source_counts: tuple[int, ...]
    targets: int

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        """(k,) int32 target partition of the examples at positions `numbers` of `source`."""
        raise NotImplementedError

    def destinations(self, source: int, start: int, stop: int) -> Destinations:
        """(stop - start,) int32 target partition of examples `start` to `stop` of `source`."""
        return self.destinations_of(source, np.arange(start, stop, dtype=np.int64))

    def tally(self) -> Tally:
        """Summarize `destinations` over all examples of all source partitions."""
        counts, stayed = self._counts()
        return Tally(counts, self.total - int(stayed[: self.targets].sum()))

    def _counts(self) -> tuple[Counts, Counts]:
        """Count the examples that each target receives, and those that stay in their partition."""
        raise NotImplementedError

    @cached_property
    def total(self) -> int:
        """Total number of examples."""
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
        """See `Placement`."""
        return np.full(len(numbers), self.groups[source], np.int32)

    def _counts(self) -> tuple[Counts, Counts]:
        groups, counts = np.array(self.groups, np.int64), np.zeros(self.targets, np.int64)
        np.add.at(counts, groups, self.rows)
        return counts, np.where(groups == np.arange(len(groups)), self.rows, 0)


@dataclass(frozen=True)
class Balanced(Placement):
    """Split the examples, in order over all source partitions, into `targets` blocks.

    With `total = targets * size + surplus`, the first `surplus` blocks hold `size + 1` examples,
    the others `size`.

    Deeplearning4j's BalancedPartitioner fixes the size beforehand. Examples that do not fit go to
    a partition drawn without a seed, and too little data leaves the last partitions empty. Neither
    can happen here.
    """

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        """See `Placement`."""
        index = numbers + self.starts[source]
        return np.searchsorted(self._block_ends, index, side="right").astype(np.int32)

    def _counts(self) -> tuple[Counts, Counts]:
        counts, both = np.diff(self._block_ends, prepend=0), min(len(self.rows), self.targets)
        ends = np.minimum((self.starts + self.rows)[:both], self._block_ends[:both])
        starts = np.maximum(self.starts[:both], (self._block_ends - counts)[:both])
        return counts, np.maximum(ends - starts, 0)

    @cached_property
    def _block_ends(self) -> Counts:
        """(targets,) exclusive end index of each block."""
        size, surplus = divmod(self.total, self.targets)
        number = np.arange(1, self.targets + 1, dtype=np.int64)
        return number * size + np.minimum(number, surplus)


@dataclass(frozen=True)
class SparkDefault(Placement):
    """Round robin over the targets; each source partition starts at its own target.

    This is the rule of `RDD.repartition`, with two differences. It distributes single examples,
    where Spark would distribute whole chunks. And the first targets depend on `seed`.

    The first targets are hashed rather than drawn from NumPy's generator. That generator's stream
    may differ between NumPy versions, and so between driver and executor.
    """

    seed: int

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        """See `Placement`."""
        return ((numbers + self._first_targets[source]) % self.targets).astype(np.int32)

    def _counts(self) -> tuple[Counts, Counts]:
        rounds, extra = np.divmod(self.rows, self.targets)
        # Each source sends its extra examples to consecutive targets, starting at its first one
        # and wrapping around.
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
        hashed = split_mix(split_mix(seed) + np.arange(len(self.rows), dtype=np.uint64))
        return (hashed % np.uint64(self.targets)).astype(np.int64)


@dataclass(frozen=True)
class ApproximateBalanced(Placement):
    """Move few examples; target counts are approximately, not exactly, equal.

    The rules are those of Deeplearning4j's HashingBalancedPartitioner. A partition's weight is its
    count over the mean count.

    - An example of a partition of weight `w > 1` leaves with probability `1 - 1 / w`.
    - An example of a partition that is removed always leaves.
    - All other examples stay.

    Examples that leave are distributed over the partitions of weight below 1, in proportion to the
    shortage of each. The draws come from a linear congruential generator seeded by the example's
    number. A plan is therefore reproducible and needs no exchange between partitions.

    There are three differences from Deeplearning4j:

    - Deeplearning4j numbers examples `position in partition * partitions + partition`, which avoids
      counting. For some numbers of partitions (29, 33) the draws are then correlated, and targets
      are up to half too small. Here the counts are known, and an example's number is its position
      in the whole data.
    - Deeplearning4j assumes that an example is in partition `number mod targets`, which is wrong
      when partitions are added. Here it is the example's actual partition.
    - Deeplearning4j rounds the mean down (to 0 for few examples). Here weights are compared
      exactly, as integers.
    """

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        """See `Placement`."""
        if not self._may_leave(source):
            return np.full(len(numbers), source, np.int32)
        number = numbers.astype(np.uint64) + np.uint64(self.starts[source])
        first = number * _MULTIPLIER + _ONE
        second = first * _MULTIPLIER + _ONE
        leaves = _uniform(first) < self._leave_probability(source)
        elsewhere = np.searchsorted(self._cumulative_shortage, _uniform(second), side="left")
        return np.where(leaves, elsewhere, source).astype(np.int32)

    def _counts(self) -> tuple[Counts, Counts]:
        # Takes about 0.1 s for ten million examples that may leave.
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
            return 2.0  # above any draw: the partition is removed
        return 1.0 - self.total / (self.source_counts[source] * self.targets)

    @cached_property
    def _cumulative_shortage(self) -> NDArray[np.float64]:
        """(targets,) share of the total shortage in partitions 0 to i; ends at 1.

        If an example may leave, some partition has a shortage, because counts sum to the total.
        """
        kept = np.zeros(self.targets, np.int64)
        shared = min(self.targets, len(self.source_counts))
        kept[:shared] = self.source_counts[:shared]
        cumulative = np.cumsum(np.maximum(self.total - kept * self.targets, 0))
        return cumulative / cumulative[-1]


def group_partitions(counts: Sequence[int], workers: int) -> tuple[int, ...]:
    """Assign whole partitions to workers.

    With no more partitions than workers, partition i goes to worker i. Otherwise partitions are
    assigned in descending order of size, each to the worker with the fewest examples so far. The
    largest worker then has at most 4/3 of the smallest possible maximum. Ties go to the worker with
    fewer partitions, then to the lower index, so the result is deterministic.

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
    """Map the generator's 31 highest bits to (0, 1]."""
    return ((state >> _SHIFT) + _ONE).astype(np.float64) / 2.0**31

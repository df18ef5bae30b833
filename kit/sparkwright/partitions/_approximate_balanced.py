"""Strategy `approximate_balanced`: only what is too much somewhere moves to where too little is.

The rules are those of Deeplearning4j's HashingBalancedPartitioner. A partition's weight is its
count over the mean count. An example of a partition of weight `w > 1` leaves it with probability
`1 - 1 / w`; one of a partition that will no longer exist always leaves; the others stay. Those
that leave are spread over the partitions of weight below 1, in proportion to what each lacks. The
draws come from a linear congruential generator seeded by the example's number, so a plan can be
repeated and needs no exchange between partitions.

Three departures. Deeplearning4j numbers examples `place in partition * partitions + partition`,
which spares it counting; but for some numbers of partitions (29, 33) the generator's draws then
fall in step, and targets come out up to half too small. Counts are known here, so an example's
number is its place in the whole data. Deeplearning4j takes `number mod targets` for the partition
that an example is in, wrong when partitions are added; here it is where the example is. And its
mean is rounded down (to 0 for few examples); here weights are compared exactly, as integers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._placement import Counts, Destinations, Tally

# P. L'Ecuyer, "Tables of linear congruential generators of different sizes and good lattice
# structure", Mathematics of Computation 68 (1999): the multiplier for modulus 2**64.
_MULTIPLIER = np.uint64(2862933555777941757)
_ONE = np.uint64(1)
_SHIFT = np.uint64(33)
_BLOCK = 1 << 20  # examples looked at together while counting: 8 MB an array


@dataclass(frozen=True, slots=True)
class ApproximateBalanced:
    """Moves few examples; target counts come out near, not at, the mean."""

    source_counts: tuple[int, ...]
    targets: int

    def tally(self) -> Tally:
        """See `AbstractPlacement`. Costs about 0.1 s per ten million examples that may leave."""
        counts = np.zeros(self.targets, np.int64)
        stayed = 0
        for source, count in enumerate(self.source_counts):
            if not self._may_leave(source):
                counts[source] += count
                stayed += count
                continue
            for start in range(0, count, _BLOCK):
                goes_to = self.destinations(source, start, min(start + _BLOCK, count))
                found = np.bincount(goes_to, minlength=self.targets)
                counts += found
                stayed += int(found[source]) if source < self.targets else 0
        return Tally(counts, sum(self.source_counts) - stayed)

    def destinations(self, source: int, start: int, stop: int) -> Destinations:
        """See `AbstractPlacement`."""
        return self.destinations_of(source, np.arange(start, stop, dtype=np.int64))

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        """See `AbstractPlacement`."""
        if not self._may_leave(source):
            return np.full(len(numbers), source, np.int32)
        number = numbers.astype(np.uint64) + np.uint64(sum(self.source_counts[:source]))
        first = number * _MULTIPLIER + _ONE
        second = first * _MULTIPLIER + _ONE
        leaves = _uniform(first) < self._leave_probability(source)
        elsewhere = np.searchsorted(self._cumulative_shortage(), _uniform(second), side="left")
        return np.where(leaves, elsewhere, source).astype(np.int32)

    def _may_leave(self, source: int) -> bool:
        above_mean = self.source_counts[source] * self.targets > sum(self.source_counts)
        return source >= self.targets or above_mean

    def _leave_probability(self, source: int) -> float:
        if source >= self.targets:
            return 2.0  # more than any draw: the partition vanishes
        return 1.0 - sum(self.source_counts) / (self.source_counts[source] * self.targets)

    def _cumulative_shortage(self) -> NDArray[np.float64]:
        """(targets,) share of all missing examples that partitions 0 to i lack; ends at 1.

        Whenever an example may leave, something is missing somewhere: counts sum to the total.
        """
        total = sum(self.source_counts)
        kept = np.zeros(self.targets, np.int64)
        shared = min(self.targets, len(self.source_counts))
        kept[:shared] = self.source_counts[:shared]
        cumulative = np.cumsum(np.maximum(total - kept * self.targets, 0))
        return cumulative / cumulative[-1]


def _uniform(state: NDArray[np.uint64]) -> NDArray[np.float64]:
    """In (0, 1], from the generator's 31 highest bits."""
    return ((state >> _SHIFT) + _ONE).astype(np.float64) / 2.0**31

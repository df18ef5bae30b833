"""Strategy `spark_default`: each source partition deals its examples out like cards."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._placement import Counts, Destinations, Tally


@dataclass(frozen=True, slots=True)
class SparkDefault:
    """Round robin over the targets, each source partition from a first target of its own.

    What `RDD.repartition` does, with two differences: single examples are dealt (Spark would deal
    whole chunks of them), and the first targets follow from `seed`. They are hashed here rather
    than drawn from NumPy's generator, whose stream may differ between two NumPy versions and so
    between driver and executor.
    """

    source_counts: tuple[int, ...]
    targets: int
    seed: int

    def tally(self) -> Tally:
        """See `AbstractPlacement`."""
        count = np.asarray(self.source_counts, np.int64)
        source = np.arange(count.size)
        first = self._first_targets()
        rounds, extra = np.divmod(count, self.targets)
        # Each source gives one more to `extra` targets from its first one on, around the circle:
        # +1 where such a run begins, -1 where it ends, summed up.
        change = np.zeros(2 * self.targets + 1, np.int64)
        np.add.at(change, first, 1)
        np.add.at(change, first + extra, -1)
        runs = np.cumsum(change)[: 2 * self.targets].reshape(2, self.targets).sum(axis=0)
        until_own = (source - first) % self.targets
        stayed = np.where(
            source < self.targets, (count - until_own + self.targets - 1) // self.targets, 0
        )
        return Tally(runs + rounds.sum(), int(count.sum() - np.maximum(stayed, 0).sum()))

    def destinations(self, source: int, start: int, stop: int) -> Destinations:
        """See `AbstractPlacement`."""
        return self.destinations_of(source, np.arange(start, stop, dtype=np.int64))

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        """See `AbstractPlacement`."""
        first = int(self._first_targets()[source])
        return ((numbers + first) % self.targets).astype(np.int32)

    def _first_targets(self) -> NDArray[np.int64]:
        """(sources,) int64 target of each source partition's first example."""
        source = np.arange(len(self.source_counts), dtype=np.uint64)
        seed = np.array([self.seed & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)
        return (_mixed(_mixed(seed) + source) % np.uint64(self.targets)).astype(np.int64)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit depends on every bit."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))

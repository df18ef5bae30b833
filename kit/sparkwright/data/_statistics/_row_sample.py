"""A sample of rows that merges: those with the smallest of seeded random priorities."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._dataset import Array

Priorities = NDArray[np.uint64]


@dataclass(frozen=True, eq=False, slots=True)
class RowSample:
    """At most `size` rows of those seen, each set of them as likely as any other.

    A row's priority depends on its place alone, so any grouping of merges gives the same sample.

    Attributes:
        size: most rows kept.
        priorities: (rows,) uint64, increasing.
        values: (rows, columns) numbers.

    References:
        E. Cohen, H. Kaplan, "Summarizing data using bottom-k sketches", PODC 2007.
    """

    size: int
    priorities: Priorities
    values: Array

    @classmethod
    def of(cls, values: Array, priorities: Priorities, size: int) -> "RowSample":
        """The rows of smallest priority.

        Args:
            values: (n, columns).
            priorities: (n,), from `priorities_of`.
            size: most rows kept.
        """
        if len(priorities) > size:
            chosen = np.argpartition(priorities, size - 1)[:size]
            values, priorities = values[chosen], priorities[chosen]
        order = np.argsort(priorities, kind="stable")
        return cls(size, priorities[order], values[order])

    def merge(self, other: "RowSample") -> "RowSample":
        """The sample of both together."""
        first, second = self, other
        if len(first.priorities) == first.size:
            second = second._below(first.priorities[-1])
        if len(second.priorities) == second.size:
            first = first._below(second.priorities[-1])
        if not len(second.priorities):
            return first
        return RowSample.of(
            np.concatenate([first.values, second.values]),
            np.concatenate([first.priorities, second.priorities]),
            self.size,
        )

    def _below(self, limit: np.uint64) -> "RowSample":
        count = int(np.searchsorted(self.priorities, limit))
        return RowSample(self.size, self.priorities[:count], self.values[:count])


def priorities_of(numbers: NDArray[np.int64], *, seed: int, partition: int) -> Priorities:
    """(n,) pseudo-random uint64 of rows, which differ within a partition.

    Args:
        numbers: (n,) of each row in its partition.
        seed: other seeds give other samples.
        partition: its number.
    """
    start = np.array([seed & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)
    stream = _mixed(_mixed(start) + np.uint64(partition))
    return _mixed(stream + numbers.astype(np.uint64))


def _mixed(state: Priorities) -> Priorities:
    """SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): one to one, every bit of every bit."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))

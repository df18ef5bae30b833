"""Strategy `balanced`: consecutive blocks of the data, sizes differing by at most one."""

from dataclasses import dataclass

import numpy as np

from ._placement import Counts, Destinations, Tally


@dataclass(frozen=True, slots=True)
class Balanced:
    """Cuts the examples, in their order over all source partitions, into `targets` blocks.

    With `total = targets * size + surplus`, the first `surplus` blocks hold `size + 1` examples,
    the others `size`. Deeplearning4j's BalancedPartitioner fixes the size beforehand: what does
    not fit goes to a partition drawn without a seed, and too little data leaves the last
    partitions empty. Here neither can happen.
    """

    source_counts: tuple[int, ...]
    targets: int

    def tally(self) -> Tally:
        """See `AbstractPlacement`."""
        ends = self._block_ends()
        sizes = np.diff(ends, prepend=0)
        shared = min(len(self.source_counts), self.targets)
        source_ends = np.cumsum(np.asarray(self.source_counts, np.int64))
        source_starts = source_ends - np.asarray(self.source_counts, np.int64)
        overlap = np.minimum(source_ends[:shared], ends[:shared]) - np.maximum(
            source_starts[:shared], (ends - sizes)[:shared]
        )
        total = int(sum(self.source_counts))
        return Tally(sizes, total - int(np.maximum(overlap, 0).sum()))

    def destinations(self, source: int, start: int, stop: int) -> Destinations:
        """See `AbstractPlacement`."""
        return self.destinations_of(source, np.arange(start, stop, dtype=np.int64))

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        """See `AbstractPlacement`."""
        index = numbers + sum(self.source_counts[:source])
        return np.searchsorted(self._block_ends(), index, side="right").astype(np.int32)

    def _block_ends(self) -> Counts:
        """(targets,) index just past each block."""
        size, surplus = divmod(int(sum(self.source_counts)), self.targets)
        number = np.arange(1, self.targets + 1, dtype=np.int64)
        return number * size + np.minimum(number, surplus)

"""A shuffle's placement: examples drawn by chance into partitions of equal size, in blocks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._splits import assigned, balanced_sizes, draw_quotas


class RandomBlocks:
    """Where a shuffle sends each example: to one of `partitions * blocks` blocks.

    Any choice of the examples of a target partition is equally likely. In it each example falls
    into each block with the same chance, whatever the others do, as if the block were the first
    digit of a random key. With a uniform permutation in each block, any order of all examples is
    equally likely. Blocks differ in size by chance; a block is small enough for memory, however
    large a partition is.

    Attributes:
        source_counts: examples in each source partition.
        partitions: target partitions; sizes differ by at most one.
        blocks: consecutive blocks of each target partition.
        quotas: (sources, partitions) int32 examples of each source in each target partition.
    """

    def __init__(
        self, source_counts: tuple[int, ...], *, partitions: int, blocks: int, seed: int
    ) -> None:
        """Draw how many examples of each source go into each target partition."""
        self.source_counts, self.partitions, self.blocks = source_counts, partitions, blocks
        self._seed = seed
        sizes = balanced_sizes(sum(source_counts), partitions)
        self.target_counts = tuple(sizes.tolist())
        self.quotas: NDArray[np.int32] = draw_quotas(source_counts, sizes, [seed, 1]).astype(
            np.int32
        )
        self._known: tuple[int, NDArray[np.int32]] | None = None

    def destinations(self, source: int, start: int, stop: int) -> NDArray[np.int32]:
        """(stop - start,) int32 block of examples `start` to `stop` of `source`."""
        if self._known is None or self._known[0] != source:
            targets = assigned(self.quotas[source], [self._seed, 2, source])
            chance = np.random.default_rng([self._seed, 4, source])
            targets *= self.blocks
            targets += chance.integers(self.blocks, size=len(targets), dtype=np.int32)
            self._known = source, targets
        return self._known[1][start:stop]

    def __getstate__(self) -> dict[str, Any]:
        """Without what one source was asked for last."""
        return {**self.__dict__, "_known": None}


def partition_of(block: int, *, blocks: int) -> int:
    """The target partition that a block belongs to, with `blocks` in each."""
    return block // blocks


def order_of(block: int, count: int, *, seed: int) -> NDArray[np.int64]:
    """(count,) the order in which a block's examples come."""
    return np.random.default_rng([seed, 3, block]).permutation(count)

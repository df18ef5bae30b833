"""Assign examples to random splits and shuffles: sizes, quotas, draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

Counts = NDArray[np.int64]
# NumPy draws hypergeometric numbers only from populations below this.
_MAX_POPULATION = 10**9 - 1


def check_weights(weights: Sequence[float]) -> NDArray[np.float64]:
    """Validate weights; normalize them to a sum of 1."""
    try:
        shares = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        shares = np.full(1, np.nan)
    fits = shares.ndim == 1 and shares.size and np.isfinite(shares).all() and (shares >= 0).all()
    if not fits or shares.sum() <= 0:
        raise ConfigurationError(
            "`weights` must be numbers of at least 0 with a sum above 0. "
            f"Received: weights={weights!r}."
        )
    return shares / shares.sum()


def apportion(total: int, weights: Sequence[float] | NDArray[np.float64]) -> Counts:
    """Apportion `total` in proportion to `weights` (largest remainders; ties go to the first)."""
    return stratified_sizes([total], list(weights))[0]


def balanced_sizes(total: int, parts: int) -> Counts:
    """Return `parts` sizes that differ by at most one, larger ones first."""
    size, surplus = divmod(total, parts)
    return size + (np.arange(parts) < surplus).astype(np.int64)


def equal_sizes(total: int, largest: int) -> Counts:
    """Return the fewest sizes of at most `largest`; sizes differ by at most one."""
    return balanced_sizes(total, max(1, -(-total // largest)))


def stratified_sizes(counts: Sequence[int], weights: Sequence[float]) -> Counts:
    """Return (classes, parts) numbers of examples, each within one example of its share.

    Remaining examples go to the parts furthest below their share of all previous classes, so that
    many small classes do not all favor the same part.
    """
    shares = check_weights(weights)
    sizes = np.zeros((len(counts), len(shares)), np.int64)
    behind = np.zeros(len(shares))
    for row, count in zip(sizes, counts, strict=True):
        exact = count * shares
        row[:] = np.floor(exact + 1e-9)
        behind += exact - row
        # At most one more per part, and none if the share is an integer.
        open_parts = np.flatnonzero(exact - row > 1e-9)
        rest = int(count - row.sum())
        chosen = open_parts[np.argsort(-behind[open_parts], kind="stable")[:rest]]
        row[chosen] += 1
        behind[chosen] -= 1
    return sizes


def draw_quotas(
    counts: Sequence[int], sizes: Sequence[int] | Counts, seed: Sequence[int]
) -> Counts:
    """Draw the number of examples per partition and part, as if without replacement from one urn.

    With `assigned`, every split into these sizes is equally likely. While more than a billion
    examples remain, each partition contributes its proportional share, exact to one example.

    Returns:
        (partitions, parts) int64, with row sums `counts` and column sums `sizes`.
    """
    random = np.random.default_rng(list(seed))
    left = np.array(sizes, np.int64)
    quotas = np.zeros((len(counts), len(left)), np.int64)
    for quota, count in zip(quotas, counts, strict=True):
        quota[:] = (
            random.multivariate_hypergeometric(left, count, method="marginals")
            if left.sum() <= _MAX_POPULATION
            else np.minimum(apportion(count, left.astype(np.float64)), left)
        )
        left -= quota
    return quotas


def assigned(quotas: NDArray[Any], seed: Sequence[int]) -> NDArray[np.int32]:
    """Return the (examples,) int32 part of each example of a partition, uniformly shuffled."""
    parts = np.repeat(np.arange(len(quotas), dtype=np.int32), quotas)
    np.random.default_rng(list(seed)).shuffle(parts)
    return parts


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class PartQuotas:
    """Number of examples per partition, class and part.

    A few arrays for all partitions serialize much faster than one dict per partition.
    """

    starts: Counts  # (partitions + 1,): the rows of partition i are `starts[i]:starts[i + 1]`
    classes: Counts  # (rows,) class of each row; only classes that occur in the partition
    counts: Counts  # (rows, parts) numbers of examples

    @classmethod
    def of(cls, drawn: Mapping[int, Counts]) -> "PartQuotas":
        """Create quotas from class -> (partitions, parts), with at least one class."""
        stacked = np.stack(list(drawn.values()), axis=1)  # (partitions, classes, parts)
        place, row = np.nonzero(stacked.any(axis=2))
        return cls(
            starts=np.searchsorted(place, np.arange(len(stacked) + 1)),
            classes=np.array(list(drawn), np.int64)[row],
            counts=stacked[place, row],
        )

    def of_partition(self, partition: int) -> dict[int, Counts]:
        """Return class -> (parts,) numbers of examples of one partition."""
        rows = slice(self.starts[partition], self.starts[partition + 1])
        return dict(zip(self.classes[rows].tolist(), self.counts[rows], strict=True))

    def part_counts(self, part: int) -> tuple[int, ...]:
        """Return the number of examples of each partition in `part`."""
        total = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts[:, part])])
        return tuple(np.diff(total[self.starts]).tolist())


class Assignment:
    """Assignment of the examples of one partition to parts, chunk by chunk and per class.

    Args:
        quotas: class -> (parts,) numbers of examples; a single class 0 if classes do not matter.
        seed: seed of the random order.
        partition: index of the partition, for error messages.
    """

    def __init__(
        self, quotas: Mapping[int, Counts], seed: Sequence[int], *, partition: int
    ) -> None:
        self._parts = {
            number: assigned(row, [*seed, index])
            for index, (number, row) in enumerate(sorted(quotas.items()))
        }
        self._used = dict.fromkeys(self._parts, 0)
        self._partition = partition

    def take(self, classes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the part of each of the next examples."""
        found = np.empty(len(classes), np.int32)
        for number in np.unique(classes).tolist():
            rows = np.flatnonzero(classes == number)
            start = self._used.get(number, 0)
            parts = self._parts.get(number, found[:0])[start : start + len(rows)]
            if len(parts) < len(rows):
                raise self._changed("more than")
            found[rows] = parts
            self._used[number] = start + len(rows)
        return found

    def finish(self) -> None:
        """Raise DataError if there were fewer examples than counted."""
        if any(self._used[number] < len(parts) for number, parts in self._parts.items()):
            raise self._changed("fewer than")

    def _changed(self, how: str) -> DataError:
        counted = sum(map(len, self._parts.values()))
        return DataError(
            "the data must be the same each time it is read. Received: in partition "
            f"{self._partition} {how} the {counted} examples of the count, or other classes. "
            "Seed its random steps, or persist or export it before the split."
        )


class RandomBlocks:
    """Placement of a shuffle: assigns each example to one of `partitions * blocks` blocks.

    All choices of the examples of a target partition are equally likely. Within the partition,
    each example falls into a block independently and uniformly, as if the block were the first
    digit of a random key. With a uniform permutation of each block (`order_of`), all orders of the
    examples are equally likely. Block sizes are random, and small enough for memory even if the
    partition is not.
    """

    def __init__(
        self, source_counts: tuple[int, ...], *, partitions: int, blocks: int, seed: int
    ) -> None:
        """Draw the number of examples per source and target partition."""
        self.source_counts, self.partitions, self.blocks = source_counts, partitions, blocks
        self._seed = seed
        sizes = balanced_sizes(sum(source_counts), partitions)
        self.target_counts = tuple(sizes.tolist())
        self.quotas: NDArray[np.int32] = draw_quotas(source_counts, sizes, [seed, 1]).astype(
            np.int32
        )
        self._known: tuple[int, NDArray[np.int32]] | None = None

    def destinations(self, source: int, start: int, stop: int) -> NDArray[np.int32]:
        """Return the (stop - start,) int32 blocks of examples [start, stop) of `source`."""
        if self._known is None or self._known[0] != source:
            targets = assigned(self.quotas[source], [self._seed, 2, source])
            chance = np.random.default_rng([self._seed, 4, source])
            targets *= self.blocks
            targets += chance.integers(self.blocks, size=len(targets), dtype=np.int32)
            self._known = source, targets
        return self._known[1][start:stop]

    def __getstate__(self) -> dict[str, Any]:
        """Omit the cached destinations of the most recent source."""
        return {**self.__dict__, "_known": None}


def order_of(block: int, count: int, *, seed: int) -> NDArray[np.int64]:
    """Return the random order of the `count` examples of a block."""
    return np.random.default_rng([seed, 3, block]).permutation(count)

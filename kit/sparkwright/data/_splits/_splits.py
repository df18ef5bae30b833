"""Who goes where when data is split or shuffled by chance: sizes, quotas, draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

Counts = NDArray[np.int64]
# NumPy draws hypergeometric numbers only from populations below this.
_MAX_POPULATION = 10**9 - 1


def check_seed(seed: Any) -> None:
    """Refuse anything but an integer of at least 0.

    Raises:
        ConfigurationError: naming the option.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigurationError(
            f"`seed` must be an integer of at least 0. Received: seed={seed!r}."
        )


def check_weights(weights: Sequence[float]) -> NDArray[np.float64]:
    """The shares, with a sum of 1.

    Raises:
        ConfigurationError: if one is negative or not finite, or all are 0.
    """
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
    """Cut `total` into whole numbers in proportion to `weights`, each off by less than 1.

    By largest remainders; of equal ones the first wins.

    Example:
        >>> apportion(10, [0.5, 0.25, 0.25]).tolist()
        [5, 3, 2]
    """
    exact = total * check_weights(list(weights))
    sizes = np.floor(exact + 1e-9).astype(np.int64)
    rest = int(total - sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:rest]] += 1
    return sizes


def equal_sizes(total: int, largest: int) -> Counts:
    """As few parts of at most `largest` as possible, sizes differing by one at most.

    Example:
        >>> equal_sizes(250, 100).tolist()
        [84, 83, 83]
    """
    return balanced_sizes(total, max(1, -(-total // largest)))


def balanced_sizes(total: int, parts: int) -> Counts:
    """`parts` sizes that differ by one at most, larger ones first."""
    size, surplus = divmod(total, parts)
    return size + (np.arange(parts) < surplus).astype(np.int64)


def stratified_sizes(counts: Sequence[int], weights: Sequence[float]) -> Counts:
    """How much of each class goes into each part: within one example of its share.

    The examples that rounding leaves over go to the parts that are furthest behind their share of
    all classes so far, so that many small classes do not all favour the same part.

    Returns:
        (classes, parts) int64.

    Example:
        >>> stratified_sizes([3, 3], [1, 1]).tolist()
        [[2, 1], [1, 2]]
    """
    shares = check_weights(weights)
    sizes = np.zeros((len(counts), len(shares)), np.int64)
    behind = np.zeros(len(shares))
    for row, count in zip(sizes, counts, strict=True):
        exact = count * shares
        row[:] = np.floor(exact + 1e-9)
        behind += exact - row
        # At most one more for a part, and none where the share is a whole number.
        open_parts = np.flatnonzero(exact - row > 1e-9)
        rest = int(count - row.sum())
        chosen = open_parts[np.argsort(-behind[open_parts], kind="stable")[:rest]]
        row[chosen] += 1
        behind[chosen] -= 1
    return sizes


def draw_quotas(
    counts: Sequence[int], sizes: Sequence[int] | Counts, seed: Sequence[int]
) -> Counts:
    """How many examples of each partition go into each part, drawn as if from one urn.

    Every set of examples of these sizes is equally likely, if in each partition the examples are
    then drawn with equal chances (`assigned`). Beyond a billion examples, partitions are taken in
    groups below a billion whose shares are exact to one example.

    Args:
        counts: examples in each partition.
        sizes: examples in each part; as many in all.
        seed: one or more numbers of at least 0.

    Returns:
        (partitions, parts) int64, with row sums `counts` and column sums `sizes`.

    Example:
        >>> quotas = draw_quotas([4, 6], [5, 5], [7])
        >>> quotas.sum(axis=1).tolist(), quotas.sum(axis=0).tolist()
        ([4, 6], [5, 5])
    """
    random = np.random.default_rng(list(seed))
    left = np.array(sizes, np.int64)
    quotas = np.zeros((len(counts), len(left)), np.int64)
    urn, urn_left = left.copy(), 0
    for partition, count in enumerate(counts):
        if urn_left < count:
            urn = _urn(left, counts[partition:])
            urn_left = int(urn.sum())
        drawn = (
            random.multivariate_hypergeometric(urn, count, method="marginals")
            if urn_left <= _MAX_POPULATION
            else _rounded_share(count, left)
        )
        quotas[partition] = drawn
        left -= drawn
        urn = urn - drawn
        urn_left -= count
    return quotas


def _urn(left: Counts, counts: Sequence[int]) -> Counts:
    """What the next partitions draw from: all that is left, or a share NumPy can draw from."""
    if int(left.sum()) <= _MAX_POPULATION:
        return left.copy()
    taken = 0
    for count in counts:
        if taken and taken + count > _MAX_POPULATION:
            break
        taken += count
    return _rounded_share(taken, left)


def _rounded_share(count: int, left: Counts) -> Counts:
    return np.minimum(apportion(count, left.astype(np.float64)), left)


def assigned(quotas: NDArray[Any], seed: Sequence[int]) -> NDArray[np.int32]:
    """The part of each example of a partition, in a uniformly random order.

    Args:
        quotas: (parts,) examples for each part.
        seed: one or more numbers of at least 0.

    Returns:
        (examples,) int32.
    """
    parts = np.repeat(np.arange(len(quotas), dtype=np.int32), quotas)
    np.random.default_rng(list(seed)).shuffle(parts)
    return parts


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class PartQuotas:
    """How many examples of each class go from each partition into each part.

    Few arrays for all partitions: quick to send and to read, where a dict for each is not. Only
    classes that a partition has take room.

    Attributes:
        starts: (partitions + 1,) int64: the rows of partition i are `starts[i]:starts[i + 1]`.
        classes: (rows,) int64 class of each row.
        counts: (rows, parts) int64 examples.

    Example:
        >>> drawn = {0: np.array([[1, 2], [0, 0]]), 7: np.array([[3, 0], [2, 2]])}
        >>> quotas = PartQuotas.of(drawn)
        >>> [quotas.of_partition(i) for i in (0, 1)]
        [{0: array([1, 2]), 7: array([3, 0])}, {7: array([2, 2])}]
        >>> quotas.part_counts(0)
        (4, 2)
    """

    starts: Counts
    classes: Counts
    counts: Counts

    @classmethod
    def of(cls, drawn: Mapping[int, Counts]) -> "PartQuotas":
        """From class -> (partitions, parts); one class at least."""
        partitions = len(next(iter(drawn.values())))
        places = [np.flatnonzero(quotas.any(axis=1)) for quotas in drawn.values()]
        place = np.concatenate(places)
        order = np.argsort(place, kind="stable")
        rows = [quotas[chosen] for quotas, chosen in zip(drawn.values(), places, strict=True)]
        return cls(
            starts=np.searchsorted(place[order], np.arange(partitions + 1)),
            classes=np.repeat(np.array(list(drawn), np.int64), [len(p) for p in places])[order],
            counts=np.concatenate(rows)[order],
        )

    def of_partition(self, partition: int) -> dict[int, Counts]:
        """Class -> (parts,) examples."""
        rows = slice(self.starts[partition], self.starts[partition + 1])
        return dict(zip(self.classes[rows].tolist(), self.counts[rows], strict=True))

    def part_counts(self, part: int) -> tuple[int, ...]:
        """Examples of each partition in `part`."""
        total = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts[:, part])])
        return tuple(np.diff(total[self.starts]).tolist())


class Assignment:
    """Hands out the parts of a partition's examples, chunk after chunk, class by class.

    Args:
        quotas: class -> (parts,) examples for each part; one class 0 where classes do not matter.
        seed: numbers of at least 0; the class is added.
        partition: for the message.
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
        """The part of each of the next examples.

        Raises:
            DataError: if there are more examples, or other classes, than were counted.
        """
        found = np.empty(len(classes), np.int32)
        for number in np.unique(classes).tolist():
            rows = np.flatnonzero(classes == number)
            start = self._used.get(number, 0)
            parts = self._parts.get(number, found[:0])[start : start + len(rows)]
            if len(parts) < len(rows):
                self._refuse("more than")
            found[rows] = parts
            self._used[number] = start + len(rows)
        return found

    def finish(self) -> None:
        """Check that all that were counted have come.

        Raises:
            DataError: if some are missing.
        """
        if any(self._used[number] < len(parts) for number, parts in self._parts.items()):
            self._refuse("fewer than")

    def _refuse(self, how: str) -> None:
        counted = sum(map(len, self._parts.values()))
        raise DataError(
            "the data must be the same each time it is read. Received: in partition "
            f"{self._partition} {how} the {counted} examples that were counted, or other classes. "
            "Seed its random steps, or persist or export it before it is split."
        )

"""How what is left of each partition is joined to full minibatches: arithmetic only."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """Examples of one leftover.

    Attributes:
        source: number of the leftover.
        start: its first example taken.
        stop: one past the last.
    """

    source: int
    start: int
    stop: int


def join_leftovers(counts: Sequence[int], batch_size: int) -> list[tuple[Slice, ...]]:
    """Minibatches of exactly `batch_size` made of leftovers, in their order; the last one smaller.

    Args:
        counts: examples of each leftover, from 0.
        batch_size: examples of a minibatch.

    Returns:
        The slices of each minibatch, in order; every example is in exactly one.

    Example:
        >>> [[(s.source, s.start, s.stop) for s in m] for m in join_leftovers([3, 0, 4], 5)]
        [[(0, 0, 3), (2, 0, 2)], [(2, 2, 4)]]
    """
    minibatches: list[tuple[Slice, ...]] = []
    slices: list[Slice] = []
    rows = 0
    for source, count in enumerate(counts):
        start = 0
        while start < count:
            stop = min(count, start + batch_size - rows)
            slices.append(Slice(source=source, start=start, stop=stop))
            rows += stop - start
            start = stop
            if rows == batch_size:
                minibatches.append(tuple(slices))
                slices, rows = [], 0
    return [*minibatches, tuple(slices)] if slices else minibatches

"""Who sends which part of the vector when, in a ring all-reduce; pure.

Reduce-scatter, then all-gather (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", JPDC 2009): each worker sends 2 (n - 1) / n of the vector in all,
whatever the number n of workers. The order of the additions depends only on ranks, so the same
contributions give the same bits, and every worker ends with the same bits.
"""

from itertools import pairwise
from typing import NamedTuple


class Step(NamedTuple):
    """In one step, send segment `send` to the next worker and receive `receive`."""

    send: int
    receive: int


def segment_bounds(length: int, parts: int) -> list[tuple[int, int]]:
    """Split `range(length)` into `parts` consecutive pieces whose sizes differ by at most one.

    Example:
        >>> segment_bounds(7, 3)
        [(0, 3), (3, 5), (5, 7)]
    """
    size, extra = divmod(length, parts)
    starts = [i * size + min(i, extra) for i in range(parts + 1)]
    return list(pairwise(starts))


def reduce_scatter_steps(rank: int, size: int) -> list[Step]:
    """After these, worker `rank` holds the whole sum of segment `(rank + 1) % size`.

    Example:
        >>> reduce_scatter_steps(0, 3)
        [Step(send=0, receive=2), Step(send=2, receive=1)]
    """
    return [Step((rank - s) % size, (rank - s - 1) % size) for s in range(size - 1)]


def all_gather_steps(rank: int, size: int) -> list[Step]:
    """After these, every worker holds every segment's sum.

    Example:
        >>> all_gather_steps(0, 3)
        [Step(send=1, receive=0), Step(send=0, receive=2)]
    """
    return [Step((rank - s + 1) % size, (rank - s) % size) for s in range(size - 1)]

"""Summaries of chunks, merged in order: the pure half of a pass over the data."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from sparkwright.errors import DataError

from ._chunks import cut
from ._dataset import DataSet

Summary = TypeVar("Summary")
# Chunk, number of its partition, number of its first example in it -> what is to be known of it.
Summarise = Callable[[DataSet, int, int], Summary]
Merge = Callable[[Summary, Summary], Summary]


def fold(
    chunks: Iterable[DataSet],
    summarise: Summarise[Summary],
    merge: Merge[Summary],
    *,
    partition: int | None = None,
) -> Summary | None:
    """Summarise the chunks of a partition one after the other.

    Args:
        chunks: of any size; large ones are cut.
        summarise: chunk, partition, number of the chunk's first example -> summary.
        merge: two summaries -> that of both, the earlier one first.
        partition: its number; errors name it. Default None: the data is on one machine.

    Returns:
        The summary of all; None where there is no example.

    Raises:
        DataError: of `summarise` or `merge`, with the partition added.
    """
    total: Summary | None = None
    start = 0
    try:
        for whole in chunks:
            for chunk in cut(whole):
                found = summarise(chunk, partition or 0, start)
                total = found if total is None else merge(total, found)
                start += len(chunk)
    except DataError as error:
        where = "" if partition is None else f" This is in partition {partition}."
        raise DataError(f"{error}{where}") from None
    return total


def merge_all(summaries: Iterable[Summary | None], merge: Merge[Summary]) -> Summary | None:
    """Several summaries as one, in order; None stands for no examples."""
    total: Summary | None = None
    for found in summaries:
        if found is not None:
            total = found if total is None else merge(total, found)
    return total

"""Minibatches whose training repeatedly ends its process; pure."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from sparkwright.masters.plan import epoch_minibatches, minibatch_count
from sparkwright.masters.training_master import TrainingMaster
from sparkwright.workers.examples import Earlier, calls_of, order_in
from sparkwright.workers.work import Span

REMEDY = "Look for a row there that the network or its preprocessing cannot take, and leave it out."
_ROWS_NAMED = 5
_CHANCE = 0.01


class Deaths:
    """What workers trained when their processes ended.

    Failures are counted by minibatch, not by worker: other minibatches count in between, and the
    next worker that trains this one ends too. In the next epoch a row is in another minibatch, so
    they are counted by row as well, unless chance explains it: processes that are killed while
    they train much of a partition have rows in common.
    """

    def __init__(self, rows_of: Callable[[Span], tuple[Sequence[int], int]]) -> None:
        """Take `rows_of(span)`: the span's rows and the number of rows of its partition."""
        self._rows_of = rows_of
        # Minibatches, their rows, and the number of rows of their partition.
        self._deaths: list[tuple[Span, frozenset[int], int]] = []

    def add(self, span: Span) -> tuple[Span, int]:
        """Add a death; return the minibatches of it with the most deaths, and their number."""
        rows, count = self._rows_of(span)
        self._deaths.append((span, frozenset(rows), count))
        same = [s for s, _, _ in self._deaths if s[:2] == span[:2]]
        deaths = [sum(s.start <= n < s.stop for s in same) for n in range(span.start, span.stop)]
        most = max(deaths)
        first, last = deaths.index(most), len(deaths) - deaths[::-1].index(most)
        found = span._replace(start=span.start + first, stop=span.start + last)
        return max((found, most), self._of_a_row(), key=lambda each: each[1])

    def _of_a_row(self) -> tuple[Span, int]:
        """Return the shortest span with the last death's row of most deaths, and their number."""
        last, suspects, _ = self._deaths[-1]
        deaths = [each for each in self._deaths if each[0].owner == last.owner]
        often = Counter(row for _, rows, _ in deaths for row in rows & suspects)
        if not often:
            return last, 0
        row = often.most_common(1)[0][0]
        total, deaths = len(deaths), [each for each in deaths if row in each[1]]
        # The expected number of rows that so many of all deaths have in common by chance.
        by_chance = math.comb(total, len(deaths)) * deaths[0][2]
        by_chance *= math.prod(len(rows) / count for _, rows, count in deaths)
        shortest = min((span for span, _, _ in deaths), key=lambda span: span.size)
        return shortest, len(deaths) if by_chance < _CHANCE else 0


def rows_of(
    span: Span, *, rows: Sequence[int], master: TrainingMaster, earlier: Earlier | None = None
) -> tuple[list[int], int]:
    """Return the rows of minibatches in order, and those of their partition; none if unknown."""
    if not rows or not rows[span.owner]:
        return [], 0
    count, size = rows[span.owner], master.batch_size_per_worker
    per_epoch = epoch_minibatches(rows, size, master.steps_per_epoch)[span.owner]
    order = partial(order_in, owner=span.owner, rows=rows, master=master, earlier=earlier)
    parts = calls_of(
        span,
        count=minibatch_count(count, size),
        per_epoch=per_epoch,
        batch_size=size,
        order=order,
    )
    return [row for _, part in parts for row in np.ravel(part).tolist()], count


def place_of(
    span: Span, *, rows: Sequence[int], master: TrainingMaster, earlier: Earlier | None = None
) -> str:
    """Name minibatches of a worker's data: partition, epoch, and its rows if they are known.

    Example:
        >>> from sparkwright.masters import ParameterAveragingTrainingMaster
        >>> master = ParameterAveragingTrainingMaster(batch_size_per_worker=8, seed=1)
        >>> place_of(Span(1, 0, 2, 4), rows=(40, 40), master=master)
        'minibatches 3 to 4 of partition 1 in epoch 1 (16 rows: 11, 9, 4, 15, 37, …)'
    """
    last = f" to {span.stop}" if span.size > 1 else ""
    text = (
        f"minibatch{'es' if last else ''} {span.start + 1}{last} of partition {span.owner} in "
        f"epoch {span.epoch + 1}"
    )
    found, _ = rows_of(span, rows=rows, master=master, earlier=earlier)
    if not found:
        return text
    if found == [*range(found[0], found[0] + len(found))]:
        return f"{text} (rows {found[0]} to {found[-1]})"
    more = ", …" if len(found) > _ROWS_NAMED else ""
    return f"{text} ({len(found)} rows: {', '.join(map(str, found[:_ROWS_NAMED]))}{more})"

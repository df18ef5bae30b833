"""Which examples the minibatches of a span hold; pure."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.masters.plan import calls, epoch_order, minibatch_count, passes
from sparkwright.masters.training_master import TrainingMaster

from .work import Span

Order = NDArray[np.int64]


class Earlier(NamedTuple):
    """Work that a run left when it had other workers; their data was in the same order."""

    rows: tuple[int, ...]  # of each worker then
    todo: tuple[Span, ...]  # its remaining minibatches
    # The same of a run before that one, with others again; None: there was none.
    before: "Earlier | None" = None

    @classmethod
    def of(cls, value: Any) -> "Earlier | None":
        """Convert from JSON types; None stays None."""
        if value is None:
            return None
        rows, todo, before = value
        spans = tuple(Span(*map(int, span)) for span in todo)
        return cls(tuple(map(int, rows)), spans, cls.of(before))


def order_in(
    number: int,
    owner: int,
    *,
    rows: Sequence[int],
    master: TrainingMaster,
    earlier: Earlier | None = None,
) -> Order:
    """Return the order of a worker's examples in pass `number` (from 0) over the data.

    In a pass that workers of `earlier` began, only the examples that they left.
    """
    assert master.seed is not None
    order = epoch_order(
        rows[owner], seed=master.seed, epoch=number, worker=owner, shuffle=master.shuffle
    )
    if earlier is None or all(span.epoch != number for span in earlier.todo):
        return order
    is_left, first = np.zeros(rows[owner], bool), sum(rows[:owner])
    edges = pairwise(np.cumsum([0, *earlier.rows]))
    for then, (start, stop) in enumerate(edges):
        if stop <= first or start >= first + rows[owner]:
            continue
        old = order_in(number, then, rows=earlier.rows, master=master, earlier=earlier.before)
        size = master.batch_size_per_worker
        for span in earlier.todo:
            if (span.owner, span.epoch) == (then, number):
                here = old[span.start * size : span.stop * size] + (start - first)
                is_left[here[(here >= 0) & (here < rows[owner])]] = True
    return order[is_left[order]]


def spans_left(
    earlier: Earlier, *, rows: Sequence[int], master: TrainingMaster
) -> tuple[Span, ...]:
    """Return the minibatches of workers with `rows` examples that hold what `earlier` left.

    Example:
        >>> from sparkwright.masters import ParameterAveragingTrainingMaster
        >>> master = ParameterAveragingTrainingMaster(batch_size_per_worker=10, seed=1)
        >>> earlier = Earlier(rows=(40, 40), todo=(Span(0, 2, 3, 4), Span(1, 2, 0, 4)))
        >>> spans_left(earlier, rows=(80,), master=master)
        (Span(owner=0, epoch=2, start=0, stop=5),)
    """
    size = master.batch_size_per_worker
    return tuple(
        Span(owner, epoch, 0, minibatch_count(left, size))
        for epoch in sorted({span.epoch for span in earlier.todo})
        for owner in range(len(rows))
        if (left := len(order_in(epoch, owner, rows=rows, master=master, earlier=earlier)))
    )


def calls_of(
    span: Span, *, count: int, per_epoch: int, batch_size: int, order: Callable[[int], Order]
) -> Iterator[tuple[int, Order]]:
    """Yield the passes that a span belongs to, each with its (steps, batch) examples."""
    for number, position, minibatches in passes(
        span.start, span.stop, epoch=span.epoch, count=count, per_epoch=per_epoch
    ):
        found = order(number)
        for each in calls(found, position=position, minibatches=minibatches, batch_size=batch_size):
            yield number, each

"""Minibatches whose training repeatedly ends its process; pure."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from sparkwright.masters.plan import epoch_minibatches, minibatch_count
from sparkwright.masters.training_master import TrainingMaster
from sparkwright.workers.examples import Earlier, calls_of, order_in
from sparkwright.workers.work import Span

_ROWS_NAMED = 5


class Deaths:
    """What workers trained when their processes ended.

    Failures are counted by minibatch, not by worker: other minibatches count in between, and the
    next worker that trains this one ends too.
    """

    def __init__(self) -> None:
        self._spans: list[Span] = []

    def add(self, span: Span) -> tuple[Span, int]:
        """Add a death; return the minibatches of it with the most deaths, and their number."""
        self._spans.append(span)
        same = [s for s in self._spans if s[:2] == span[:2]]
        deaths = [sum(s.start <= n < s.stop for s in same) for n in range(span.start, span.stop)]
        most = max(deaths)
        first, last = deaths.index(most), len(deaths) - deaths[::-1].index(most)
        return span._replace(start=span.start + first, stop=span.start + last), most


def place_of(
    span: Span, *, rows: Sequence[int], master: TrainingMaster, earlier: Earlier | None = None
) -> str:
    """Name minibatches of a worker's data: partition, epoch, and its rows if they are known.

    Args:
        span: the minibatches.
        rows: examples of each worker; empty: unknown.
        master: the training master, with its seed.
        earlier: what the checkpointed run left, if it had other workers; default None.

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
    if not rows or not rows[span.owner]:
        return text
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
    found = [row for _, part in parts for row in np.ravel(part).tolist()]
    if found == [*range(found[0], found[0] + len(found))]:
        return f"{text} (rows {found[0]} to {found[-1]})"
    more = ", …" if len(found) > _ROWS_NAMED else ""
    return f"{text} ({len(found)} rows: {', '.join(map(str, found[:_ROWS_NAMED]))}{more})"

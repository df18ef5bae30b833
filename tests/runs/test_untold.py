from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sparkwright.masters import TrainingPlan
from sparkwright.masters.plan import minibatch_count
from sparkwright.runs._history import unreported_rows
from sparkwright.runs._ledger import Ledger
from sparkwright.workers.protocol import Progress

BATCH, EPOCHS = 10, 3


def plan_of(*rows, frequency=2, kind="sharing"):
    return TrainingPlan(
        rows=rows, batch_size=BATCH, averaging_frequency=frequency, epochs=EPOCHS, kind=kind
    )


def sizes(plan, span):
    """The examples of each minibatch of a span."""
    rows = plan.rows[span.owner]
    return [min(rows, (n + 1) * BATCH) - n * BATCH for n in range(span.start, span.stop)]


def columns(rows):
    table = np.array(rows, np.int64).reshape(-1, 3)
    return dict(zip(("worker", "epoch", "examples"), table.T, strict=True))


@pytest.mark.thorough
@settings(max_examples=30)
@given(
    rows=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    piece=st.integers(1, 3),
    stop_after=st.integers(1, 40),
    data=st.data(),
)
def test_every_epoch_has_the_minibatches_that_count(rows, piece, stop_after, data):
    plan = plan_of(*rows)
    workers = range(len(rows))
    ledger = Ledger(
        Progress.first(workers=len(rows)),
        epochs=EPOCHS,
        minibatches=lambda counts: [minibatch_count(n, BATCH) for n in counts],
        piece_size=lambda _counts: piece,
    )
    ledger.begin(rows)
    ledger.open_epoch()
    counted = []
    told = []
    for _ in range(stop_after):
        # Data of workers that are lost must wait; it is trained in a later epoch, if ever.
        present = data.draw(st.sets(st.sampled_from(workers), min_size=1))
        worker = data.draw(st.sampled_from(workers))
        span = ledger.hand_out(worker, present=present)
        if span is None:
            ledger.progress = ledger.progress.after_epoch()
            ledger.open_epoch()
            continue
        done = data.draw(st.integers(0, span.size))
        trained = [(worker, span.epoch + 1, n) for n in sizes(plan, span)[:done]]
        ledger.count(
            worker, span, minibatches=done, examples=sum(n for *_, n in trained), iterations=0
        )
        counted += trained
        told += trained if data.draw(st.booleans()) else []

    found = [
        (worker, int(epoch), int(examples))
        for worker, found in unreported_rows(plan, ledger.progress, columns(told)).items()
        for epoch, examples in zip(found["epoch"], found["examples"], strict=True)
    ]
    log = told + found
    assert all(0 < examples <= BATCH for *_, examples in found)
    for which in (0, 1):  # worker, epoch
        assert Counter(row[which] for row in log) == Counter(row[which] for row in counted)
    assert _examples(log, 0) == _examples(counted, 0)
    silent = Counter(counted) - Counter(told)
    if len({worker for worker, *_ in silent}) <= 1:
        assert Counter(row[:2] for row in log) == Counter(row[:2] for row in counted)
        assert _examples(log, 1) == _examples(counted, 1)


def _examples(rows, which):
    """Of each worker or epoch."""
    found = Counter()
    for row in rows:
        found[row[which]] += row[2]
    return found


def test_untold_minibatches_count_again_and_in_rounds_of_their_frequency():
    progress = Progress(epoch=1, opened=1, steps=(3, 5), examples=(30, 50))
    # Worker 1 was lost before it reported its second minibatch, which worker 0 trained again.
    told = columns([(0, 1, 10)] * 3 + [(1, 1, 10)] * 6)
    assert unreported_rows(plan_of(40, 40), progress, told) == {}
    plan = plan_of(40, 40, frequency={1: 1, 2: 2, 3: 4}, kind="averaging")
    progress = Progress(epoch=3, opened=3, steps=(12, 12), examples=(120, 120))
    told = columns([(0, epoch, 10) for epoch in (1, 2, 3) for _ in range(4)])
    (found,) = unreported_rows(plan, progress, told).values()
    assert found["round"].tolist() == [1, 2, 3, 4, 1, 1, 2, 2, 1, 1, 1, 1]

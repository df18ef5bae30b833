from collections import Counter

import numpy as np
from hypothesis import given, strategies as st

from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.masters.plan import epoch_minibatches, minibatch_count
from sparkwright.workers.examples import Earlier, calls_of, order_in, spans_left
from sparkwright.workers.work import epoch_spans


def examples_in(spans, rows, master, earlier):
    """(Epoch, position in the whole data) of each example in minibatches."""
    found = []
    size = master.batch_size_per_worker
    for span in spans:
        for number, part in calls_of(
            span,
            count=minibatch_count(rows[span.owner], size),
            per_epoch=epoch_minibatches(rows, size)[span.owner],
            batch_size=size,
            order=lambda number, owner=span.owner: order_in(
                number, owner, rows=rows, master=master, earlier=earlier
            ),
        ):
            found += [(number, sum(rows[: span.owner]) + row) for row in np.ravel(part).tolist()]
    return found


@given(data=st.data(), size=st.integers(1, 9), shuffle=st.booleans())
def test_each_example_is_in_one_minibatch_however_often_the_workers_change(data, size, shuffle):
    master = ParameterAveragingTrainingMaster(batch_size_per_worker=size, seed=3, shuffle=shuffle)
    total, epoch = data.draw(st.integers(1, 60)), data.draw(st.integers(0, 2))

    def workers():
        cuts = sorted(data.draw(st.lists(st.integers(0, total), max_size=4)))
        return tuple(np.diff([0, *cuts, total]).tolist())

    rows, earlier = workers(), None
    todo = epoch_spans(epoch_minibatches(rows, size), epoch)
    todo += epoch_spans(epoch_minibatches(rows, size), epoch + 1)
    trained = []
    for _ in range(data.draw(st.integers(1, 3))):
        done, left = [], []
        for span in todo:
            first, last = sorted(data.draw(st.integers(span.start, span.stop)) for _ in range(2))
            done.append(span._replace(start=first, stop=last))
            left += [span._replace(stop=first), span._replace(start=last)]
        trained += examples_in(done, rows, master, earlier)
        later = workers()
        earlier = Earlier(rows, tuple(span for span in left if span.size), earlier)
        todo, rows = spans_left(earlier, rows=later, master=master), later
        assert Earlier.of([earlier.rows, earlier.todo, earlier.before]) == earlier
    trained += examples_in(todo, rows, master, earlier)
    assert Counter(trained) == Counter((e, n) for e in (epoch, epoch + 1) for n in range(total))

import hypothesis.strategies as st
from hypothesis import given
from tests.cases import cases

from sparkwright.workers.protocol import Progress
from sparkwright.workers.work import Span, epoch_spans, quotas_by_speed, share_out, without

totals_of = st.lists(st.integers(0, 12), min_size=1, max_size=5)


def minibatches(spans):
    return sorted((s.owner, s.epoch, i) for s in spans for i in range(s.start, s.stop))


@given(totals_of, st.integers(1, 5), st.booleans(), st.data())
def test_all_work_is_done_exactly_once_under_any_membership(totals, frequency, lend, data):
    """Workers come and go, stop short in their shares; in the end nothing is left or done twice."""
    workers, epochs = len(totals), 2
    progress = Progress.first(workers=workers)
    trained = []
    for round_ in range(10_000):
        # For a while anything may happen; then everybody stays and works.
        wild = round_ < 15
        present = (
            data.draw(st.sets(st.integers(0, workers - 1), min_size=1))
            if wild
            else set(range(workers))
        )
        if progress.epoch < epochs:
            progress = progress.with_epoch_opened(totals)
        quotas = {w: data.draw(st.integers(1, frequency)) if wild else frequency for w in present}
        shares = share_out(progress.todo, epoch=progress.epoch, quotas=quotas, lend=lend)
        assert all(0 < share.size <= quotas[worker] for worker, share in shares.items())
        if not shares:
            if progress.epoch == epochs and not progress.todo:
                break
            progress = progress.after_epoch() if progress.epoch < epochs else progress
            continue
        done = {w: data.draw(st.integers(0, s.size)) if wild else s.size for w, s in shares.items()}
        for worker, share in shares.items():
            whole = range(share.start, share.stop)
            chosen = whole[: done[worker]] if worker == share.owner else whole[::-1][: done[worker]]
            trained += [(share.owner, share.epoch, i) for i in chosen]
        progress = progress.after_round(
            shares, {w: (n, 3 * n) for w, n in done.items()}, iterations=0
        )
    expected = [s for e in range(epochs) for s in epoch_spans(totals, e)]
    assert sorted(trained) == minibatches(expected)
    assert sum(progress.steps) == len(trained)
    assert sum(progress.examples) == 3 * len(trained)


@given(totals_of, st.integers(1, 5))
def test_with_all_present_and_nothing_lent_each_trains_its_own_in_order(totals, frequency):
    todo = epoch_spans(totals, 0)
    quotas = dict.fromkeys(range(len(totals)), frequency)
    for round_ in range(-(-max(totals, default=0) // frequency)):
        shares = share_out(todo, epoch=0, quotas=quotas, lend=False)
        for worker, total in enumerate(totals):
            start, stop = round_ * frequency, min((round_ + 1) * frequency, total)
            assert shares.get(worker) == (Span(worker, 0, start, stop) if start < stop else None)
        todo = without(todo, shares, {w: s.size for w, s in shares.items()})
    assert todo == ()


def test_owed_work_comes_first_and_is_split_among_all_workers():
    todo = [Span(1, 0, 2, 12), Span(0, 1, 0, 9), Span(1, 1, 0, 9)]
    quotas = {0: 5, 1: 5}
    shares = share_out(todo, epoch=1, quotas=quotas, lend=False)
    assert shares == {1: Span(1, 0, 2, 7), 0: Span(1, 0, 7, 12)}
    left = without(todo, shares, {0: 5, 1: 5})
    assert share_out(left, epoch=1, quotas=quotas, lend=False) == {
        0: Span(0, 1, 0, 5),
        1: Span(1, 1, 0, 5),
    }


def test_an_absent_workers_data_waits():
    todo = epoch_spans([3, 4], 0)
    assert share_out(todo, epoch=0, quotas={0: 5}, lend=True) == {0: Span(0, 0, 0, 3)}
    assert share_out(todo[1:], epoch=0, quotas={0: 5}, lend=True) == {}


@cases(
    "seconds, quotas",
    ({}, {0: 5, 1: 5}),
    ({0: 0.1, 1: 0.1}, {0: 5, 1: 5}),
    ({0: 0.1, 1: 10.0}, {0: 5, 1: 1}),
    ({0: 0.3, 1: 0.1, 7: 0.001}, {0: 2, 1: 5}),
)
def test_quotas_follow_measured_speed(seconds, quotas):
    assert quotas_by_speed(seconds, members=[0, 1], frequency=5) == quotas


def test_progress_survives_its_journey():
    progress = Progress.first(workers=2).with_epoch_opened([3, 4])
    assert Progress.from_dict(progress.to_dict()) == progress

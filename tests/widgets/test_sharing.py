import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright_widgets._curve import EPOCH, MEAN, Curve
from sparkwright_widgets._quantities import LINES_APART, QUANTITIES, QuantityNumbers
from sparkwright_widgets._quantity_means import QuantityMeans
from sparkwright_widgets._sharing import Sharing, sharing_of

NAMES = [quantity.column for quantity in QUANTITIES]


def new_means():
    return QuantityMeans(QuantityNumbers())


def rows_of(workers, times, **columns):
    """Rows of the log; a worker's steps count from 1, and what is not given is 1."""
    workers, times = np.asarray(workers), np.asarray(times, float)
    steps = [int((workers[: i + 1] == worker).sum()) for i, worker in enumerate(workers)]
    rows = {name: np.ones(len(workers)) for name in NAMES}
    rows |= {"worker": workers, "step": np.array(steps, int), "time_s": times}
    return rows | {name: np.asarray(column, float) for name, column in columns.items()}


def cut(rows, start, stop=None):
    return {name: column[start:stop] for name, column in rows.items()}


def line(points, quantity, worker):
    number = (NAMES.index(quantity) + 1) * LINES_APART + worker
    return points[points[:, 0] == number, 1:].tolist()


def test_a_stretch_becomes_one_point_once_its_worker_is_past_it():
    means = new_means()
    rows = rows_of([0, 0, 0], [0.01, 0.02, 0.25], threshold=[1, 3, 9])
    points = means.add(rows)
    assert line(points, "threshold", 0) == [[2, 2]]
    assert line(means.finish(), "threshold", 0) == [[3, 9]]
    assert means.finish().shape == (0, 3)


def test_stretches_are_looked_at_once_a_second_and_none_is_lost():
    means = new_means()
    reported = [
        len(line(means.add(rows_of([0], [time_s])), "threshold", 0))
        for time_s in (0.1, 0.3, 0.5, 0.9, 1.2, 1.4)
    ]
    assert reported == [0, 0, 0, 0, 4, 0]
    assert len(line(means.finish(), "threshold", 0)) == 2


def test_values_are_in_the_unit_of_their_label():
    means = new_means()
    means.add(rows_of([2], [0.0], sparsity=[0.25], message_bytes=[512]))
    points = means.finish()
    assert line(points, "sparsity", 2) == [[1, 25]]
    assert line(points, "message_bytes", 2) == [[1, 0.5]]


def test_what_is_not_known_is_left_out_of_means_and_lines():
    means = new_means()
    nan = np.nan
    rows = rows_of([0, 0, 0], [0.0, 0.1, 0.5], residual_p99=[nan, 4, nan], sparsity=[nan, nan, 1])
    points = np.concatenate([means.add(rows), means.finish()])
    assert line(points, "residual_p99", 0) == [[2, 4]]
    assert line(points, "sparsity", 0) == [[3, 100]]


def test_columns_that_the_log_does_not_have_give_no_lines():
    rows = rows_of([0], [0.0])
    del rows["staleness"]
    means = new_means()
    means.add(rows)
    points = means.finish()
    assert line(points, "staleness", 0) == []
    assert line(points, "threshold", 0) == [[1, 1]]


def test_an_hour_has_about_a_point_a_second_and_its_beginning_five():
    times = np.arange(0, 3600, 0.05)
    means = new_means()
    points = means.add(rows_of(np.zeros(len(times), int), times))
    in_line = line(points, "threshold", 0)
    assert len(in_line) == pytest.approx(5 * 20 + 3580, abs=2)


@given(data=st.data())
def test_points_do_not_depend_on_how_the_rows_are_cut(data):
    workers = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=40))
    gaps = st.floats(0, 0.5) | st.floats(5, 30)
    times = np.cumsum([data.draw(gaps) for _ in workers])
    rows = rows_of(workers, times, threshold=np.arange(len(workers)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(workers)), max_size=6)))
    whole, pieces = new_means(), new_means()
    expected = [whole.add(rows), whole.finish()]
    found = [
        pieces.add(cut(rows, start, stop))
        for start, stop in zip([0, *cuts], [*cuts, None], strict=True)
    ]
    found.append(pieces.finish())
    assert sorted(np.concatenate(found).tolist()) == sorted(np.concatenate(expected).tolist())


def test_only_a_run_that_shares_gradients_is_sharing(run, sharing_run):
    assert sharing_of(run) is None
    assert sharing_of(sharing_run) == Sharing(batch_size=32)
    sharing_run.configuration = {}
    assert sharing_of(sharing_run) is None


def test_minibatches_planned_count_the_last_small_one_of_each_shard(fake, run):
    workers = (fake.FakeWorker(worker=0, rows=65), fake.FakeWorker(worker=1, rows=64))
    run.set(epochs=3, workers=workers)
    assert Sharing(batch_size=32).planned(run.status) == 3 * (3 + 2)
    assert Sharing().planned(run.status) == 0
    run.set(workers=(*workers, fake.FakeWorker(worker=2, rows=0)))
    assert Sharing(batch_size=32).planned(run.status) == 0  # one has not come yet


def test_the_mean_is_that_of_ten_minibatches_of_each_worker(sharing_run):
    for step in range(1, 21):
        for worker in (0, 1):
            sharing_run.report(worker, step, float(step <= 10) + worker, round=step)
    curve = Curve(sharing=True)
    curve.add_rows(sharing_run.log.rows())
    curve.finish()
    assert curve.lines()[MEAN].tolist() == [[10, 1.5], [20, 0.5]]


def test_the_mean_never_turns_back_when_one_worker_did_more_than_its_share(sharing_run):
    for step in range(1, 31):
        sharing_run.report(0, step, 1.0, round=step)
    for step in range(1, 11):
        sharing_run.report(1, step, 1.0, round=step)
        sharing_run.report(1, step + 10, 1.0, epoch=2, round=step)
    curve = Curve(sharing=True)
    curve.add_rows(sharing_run.log.rows())
    curve.finish()
    assert curve.lines()[MEAN][:, 0].tolist() == [10, 20, 30, 30]


def test_lines_of_messages_stay_apart_from_those_of_the_loss(sharing_run):
    for step in range(1, 4):
        sharing_run.report(1, step, 2.0, round=step, threshold=0.5, sparsity=0.01)
    curve = Curve(sharing=True)
    sent = np.concatenate([curve.add_rows(sharing_run.log.rows()), curve.finish()])
    assert list(curve.lines()) == [1, MEAN, EPOCH]
    assert {name: list(lines) for name, lines in curve.quantity_lines().items()} == {
        "examples_per_s": [1],
        "threshold": [1],
        "sparsity": [1],
    }
    assert curve.quantity_lines()["threshold"][1][-1].tolist() == [3, 0.5]
    assert sorted(curve.points().tolist()) == sorted(sent.tolist())


@pytest.mark.parametrize("kind", ["run", "sharing_run"])
def test_a_minibatch_of_which_nothing_was_told_is_a_gap_and_no_alarm(kind, request):
    run = request.getfixturevalue(kind)
    run.report(0, 1, 2.0, round=1)
    run.report(0, 2, np.nan, round=1, examples_per_s=np.nan)
    curve = Curve(sharing=kind == "sharing_run")
    curve.add_rows(run.log.rows())
    curve.finish()
    assert curve.not_finite is None
    assert curve.mean_loss == 2.0
    assert len(curve.lines()[0]) == 2
    assert np.isnan(curve.lines()[0][-1, 1])

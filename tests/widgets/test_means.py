import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright.runs.round_means import RoundMeans
from sparkwright_widgets._means import QuantityMeans
from sparkwright_widgets._quantities import LINES_APART, QUANTITIES, QuantityNumbers


def rows(*entries):
    """Rows of (worker, epoch, round, step, loss, examples)."""
    names = ("worker", "epoch", "round", "step", "loss", "examples")
    columns = zip(*entries, strict=True)
    return {name: np.array(column) for name, column in zip(names, columns, strict=True)}


def test_mean_of_a_round_is_centered_and_reported_once_every_worker_has_passed():
    means = RoundMeans()
    assert means.add(rows((0, 1, 7, 5, 2.0, 30), (1, 1, 7, 5, 4.0, 10))).tolist() == []
    assert means.add(rows((0, 2, 1, 10, 1.0, 32))).tolist() == []
    assert means.add(rows((1, 2, 1, 10, 3.0, 32))).tolist() == [[5.0, 2.5]]
    assert means.finish().tolist() == [[10.0, 2.0]]
    means = RoundMeans()
    found = []
    for round, steps in ((1, (1, 2, 3)), (1, (4, 5)), (2, (6, 7, 8, 9, 10))):
        found += means.add(rows(*((0, 1, round, step, 10.0 - step, 32) for step in steps))).tolist()
    # Few examples: the mean of them and round 2.
    found += means.add(rows((0, 1, 3, 11, -1.0, 32))).tolist()
    found += means.finish().tolist()
    assert found == [[3.0, 7.0], [8.0, 2.0], [8.5, 1.5]]


def test_silent_worker_delays_a_few_rounds_and_its_late_rows_change_none():
    means = RoundMeans(patience_rounds=3)
    means.add(rows((0, 1, 1, 1, 1.0, 1), (1, 1, 1, 1, 1.0, 1)))
    reported = [len(means.add(rows((0, 1, k, k, 1.0, 1)))) for k in range(2, 9)]
    assert reported == [0, 0, 1, 1, 1, 1, 1]
    means = RoundMeans(patience_rounds=1)
    means.add(rows((0, 1, 1, 1, 1.0, 1), (0, 1, 2, 2, 1.0, 1), (0, 1, 3, 3, 1.0, 1)))
    assert means.add(rows((1, 1, 1, 1, 9.0, 1))).tolist() == []
    assert means.finish().tolist() == [[3.0, 1.0]]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_loss_affects_only_its_round(bad):
    means = RoundMeans()
    means.add(rows((0, 1, 1, 1, bad, 1), (0, 1, 1, 2, 1.0, 1), (0, 1, 2, 3, 1.0, 1)))
    assert means.finish().tolist() == [[3.0, 1.0]]


# Quantities


NAMES = [quantity.column for quantity in QUANTITIES]


def new_means():
    return QuantityMeans(QuantityNumbers())


def log_of(workers, times, **columns):
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


def test_interval_becomes_one_point_once_its_worker_has_passed_it():
    means = new_means()
    rows = log_of([0, 0, 0], [0.01, 0.02, 0.25], threshold=[1, 3, 9])
    points = means.add(rows)
    assert line(points, "threshold", 0) == [[2, 2]]
    assert line(means.finish(), "threshold", 0) == [[3, 9]]
    assert means.finish().shape == (0, 3)


def test_means_are_updated_five_times_a_second_and_later_once():
    means = new_means()
    times = (0.1, 0.3, 0.5, 0.9, 1.2, 1.4)
    added = [line(means.add(log_of([0], [time_s])), "threshold", 0) for time_s in times]
    assert [len(points) for points in added] == [0, 0, 0, 0, 4, 0]
    assert len(line(means.finish(), "threshold", 0)) == 2
    times = np.arange(0, 80, 0.05)
    points = new_means().add(log_of(np.zeros(len(times), int), times))
    assert len(line(points, "threshold", 0)) == pytest.approx(5 * 20 + 60, abs=2)


def test_values_have_the_unit_of_their_label_and_missing_ones_are_omitted():
    means = new_means()
    means.add(log_of([2], [0.0], sparsity=[0.25], message_bytes=[512]))
    points = means.finish()
    assert line(points, "sparsity", 2) == [[1, 25]]
    assert line(points, "message_bytes", 2) == [[1, 0.5]]
    means = new_means()
    nan = np.nan
    rows = log_of([0, 0, 0], [0.0, 0.1, 0.5], residual_p99=[nan, 4, nan], sparsity=[nan, nan, 1])
    points = np.concatenate([means.add(rows), means.finish()])
    assert line(points, "residual_p99", 0) == [[2, 4]]
    assert line(points, "sparsity", 0) == [[3, 100]]


def test_columns_missing_from_the_log_give_no_lines():
    rows = log_of([0], [0.0])
    del rows["staleness"]
    means = new_means()
    means.add(rows)
    points = means.finish()
    assert line(points, "staleness", 0) == []
    assert line(points, "threshold", 0) == [[1, 1]]


@given(data=st.data())
def test_points_do_not_depend_on_row_batching(data):
    workers = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=40))
    gaps = st.floats(0, 0.5) | st.floats(5, 30)
    times = np.cumsum([data.draw(gaps) for _ in workers])
    rows = log_of(workers, times, threshold=np.arange(len(workers)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(workers)), max_size=6)))
    whole, pieces = new_means(), new_means()
    expected = [whole.add(rows), whole.finish()]
    found = [
        pieces.add(cut(rows, start, stop))
        for start, stop in zip([0, *cuts], [*cuts, None], strict=True)
    ]
    found.append(pieces.finish())
    assert sorted(np.concatenate(found).tolist()) == sorted(np.concatenate(expected).tolist())

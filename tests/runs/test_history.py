import re
import threading
from functools import partial

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from tests.cases import cases

from sparkwright.runs import History
from sparkwright.runs._history import COLUMNS


def some_rows(count, *, worker=0, first_step=1, **more):
    return {
        "worker": np.full(count, worker),
        "epoch": np.ones(count),
        "round": np.ones(count),
        "step": np.arange(first_step, first_step + count),
        "loss": np.linspace(2, 1, count),
        "examples": np.full(count, 32),
        "time_s": np.arange(count) / 10,
        "examples_per_s": np.full(count, 100.0),
        **more,
    }


@given(counts=st.lists(st.integers(0, 3000), max_size=6))
def test_appended_rows_are_read_in_order(counts):
    log = History()
    for number, count in enumerate(counts):
        log.append(some_rows(count, worker=number))
    assert len(log) == sum(counts)
    rows = log.rows()
    np.testing.assert_array_equal(rows["worker"], np.repeat(np.arange(len(counts)), counts))
    steps = np.concatenate([np.empty(0), *(np.arange(1, c + 1) for c in counts)])
    np.testing.assert_array_equal(rows["step"], steps)
    for part in (slice(2, 5), slice(4, None), slice(5000, 9000)):
        np.testing.assert_array_equal(log.rows(part.start, part.stop)["step"], steps[part])


def test_metrics_become_columns_that_are_nan_where_they_are_not_known():
    log = History()
    log.append(some_rows(2))
    log.append(some_rows(2, accuracy=np.array([np.nan, 0.5])))
    log.append(some_rows(10_000))  # grows
    np.testing.assert_array_equal(log.rows()["accuracy"], [np.nan] * 3 + [0.5] + [np.nan] * 10_000)
    log.rows()["loss"][:] = -1  # a copy
    assert log.rows()["loss"].min() >= 1


@cases("drop", History.clear, partial(History.discard, worker=1, after_step=0))
def test_dropped_rows_do_not_reappear(drop):
    log = History()
    log.append(some_rows(5, worker=1, accuracy=np.full(5, 0.9)))
    drop(log)
    assert len(log) == 0
    log.append({"worker": np.zeros(2), "step": np.arange(2)})
    rows = log.rows()
    assert np.isnan(rows["accuracy"]).all()
    assert rows["epoch"].tolist() == rows["examples"].tolist() == [0, 0]


@given(
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=30),
    worker=st.integers(0, 2),
    after_step=st.integers(0, 10),
)
def test_discarding_drops_one_workers_later_rows_and_keeps_the_order(steps, worker, after_step):
    log = History()
    for of, step in steps:
        log.append(some_rows(1, worker=of, first_step=step, accuracy=np.array([of + step / 10])))
    log.discard(worker, after_step=after_step)
    expected = [(of, step) for of, step in steps if of != worker or step <= after_step]
    rows = log.rows()
    assert list(zip(rows["worker"].tolist(), rows["step"].tolist(), strict=True)) == expected
    if expected:
        np.testing.assert_allclose(rows["accuracy"], [of + step / 10 for of, step in expected])


def test_the_frame_has_the_same_columns_and_rows():
    log = History()
    log.append(some_rows(3, accuracy=np.full(3, 0.5)))
    frame = log.to_frame()
    assert list(frame.columns) == [*COLUMNS, "accuracy"]
    assert frame["step"].tolist() == [1, 2, 3]
    assert {name: frame[name].dtype for name in COLUMNS} == COLUMNS
    assert all(re.search(rf"\b{name}\b", str(History.__doc__)) for name in COLUMNS)


def test_it_can_be_read_while_it_grows():
    log = History()
    done = threading.Event()

    def write():
        for number in range(300):
            log.append(some_rows(100, first_step=1 + 100 * number))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while not done.is_set() or seen < len(log):
        steps = log.rows(seen)["step"]
        np.testing.assert_array_equal(steps, np.arange(seen + 1, seen + 1 + len(steps)))
        seen += len(steps)
    writer.join()
    assert seen == 30_000

import logging
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from tests.cases import cases
from tests.waiting import join_threads

from sparkwright.masters import TrainingPlan
from sparkwright.runs import ValidationPoint
from sparkwright.runs._events import RowsLogged, StateChanged, Validated, WorkerJoined, WorkerLost
from sparkwright.runs.record import RunRecord
from sparkwright.workers.protocol import Progress
from sparkwright.workers.work import Span


@pytest.fixture
def record():
    found = RunRecord(workers=2, epochs=3, name="test")
    yield found
    found.close()


def plan_of(*rows):
    return TrainingPlan(rows=rows, batch_size=10, averaging_frequency=2, epochs=3)


def train(record, worker=0, *, losses, epoch=1, round=1, age_s=0.0, metrics=None, **more):
    """One round of minibatches of 10 examples."""
    block = {
        "epoch": epoch,
        "round": round,
        "count": len(losses),
        "age_s": age_s,
        "seconds": 0.5,
        "metrics": metrics or {},
        **more,
    }
    examples = np.full(len(losses), 10, np.int32)
    record.rows_trained(worker, [block], np.array(losses, np.float32), examples)


def told(record):
    """Collects events; complete once the record is closed."""
    events = []
    record.events.add_listener(events.append)
    return events


def test_rows_become_status_and_log(record):
    status = record.status()
    assert (status.state, status.epoch, status.epochs, status.rounds) == ("queued", 0, 3, 0)
    assert status.examples_per_s == 0
    assert [(w.state, w.loss) for w in status.workers] == [("waiting", None)] * 2
    record.set_plan(plan_of(50, 30))
    train(record, 1, losses=[2.0, 1.5], metrics={"accuracy": 0.25}, averagings=1)
    status = record.status()
    assert (status.state, status.epoch, status.round, status.averagings) == ("training", 1, 1, 1)
    assert (status.rounds, [w.rows for w in status.workers]) == (3, [50, 30])
    worker = status.workers[1]
    assert (worker.state, worker.steps, worker.loss) == ("training", 2, 1.5)
    rows = record.log.rows()
    assert rows["worker"].tolist() == [1, 1]
    assert rows["step"].tolist() == [1, 2]
    assert rows["loss"].tolist() == [2.0, 1.5]
    assert rows["examples"].tolist() == [10, 10]
    np.testing.assert_allclose(rows["examples_per_s"], 40.0)
    np.testing.assert_array_equal(rows["accuracy"], [np.nan, 0.25])
    np.testing.assert_allclose(np.diff(rows["time_s"]), 0.25)
    train(record, losses=[])  # a worker without data takes part without a loss
    worker = record.status().workers[0]
    assert (worker.state, worker.steps, worker.loss) == ("training", 0, None)


def test_an_epochs_rounds_follow_the_frequency_of_the_epoch(record):
    record.set_plan(replace(plan_of(50, 30), averaging_frequency={1: 1, 3: 4}))
    assert record.status().rounds == 5
    train(record, 0, losses=[1.0], epoch=3, round=1, averagings=11)
    train(record, 1, losses=[1.0], epoch=2, round=5, averagings=10)  # a slower worker's come later
    status = record.status()
    assert (status.epoch, status.rounds, status.averagings) == (3, 2, 11)


def test_readings_are_columns_known_of_a_rounds_last_minibatch(record):
    train(record, losses=[2.0, 1.5], readings={"learning_rate": 0.1, "update_ratio": 1e-3})
    train(record, losses=[1.0], round=2, readings={"learning_rate": 0.05})
    rows = record.log.rows()
    np.testing.assert_array_equal(rows["learning_rate"], [np.nan, 0.1, 0.05])
    np.testing.assert_array_equal(rows["update_ratio"], [np.nan, 1e-3, np.nan])


def test_worker_reports_its_location(record):
    record.worker_joined(1, host="a", rows=5, device="GPU 0 (X)", pid=42)
    worker = record.status().workers[1]
    assert (worker.partition, worker.host, worker.device, worker.pid) == (1, "a", "GPU 0 (X)", 42)
    record.worker_placed(0, host="b", device="CPU", pid=7)
    worker = record.status().workers[0]
    assert (worker.host, worker.device, worker.pid, worker.restarts) == ("b", "CPU", 7, 0)
    record.silence_s = lambda: {1: 7.5}  # the server knows only of worker 1
    assert [w.last_heard_s < 5 or w.last_heard_s for w in record.status().workers] == [True, 7.5]


def test_times_are_those_of_the_worker_and_do_not_decrease_after_a_slow_message(record):
    record.began_s -= 10.0
    train(record, losses=[2.0], age_s=4.0)
    assert record.log.rows()["time_s"][0] == pytest.approx(6.0, abs=0.5)
    train(record, losses=[3.0], age_s=0.0)
    train(record, losses=[2.0, 1.0], age_s=0.5)
    assert (np.diff(record.log.rows()["time_s"]) >= 0).all()


def test_several_rounds_in_one_message(record):
    blocks = [
        {"epoch": 1, "round": r, "count": n, "age_s": 0, "seconds": 1, "metrics": {}}
        for r, n in ((1, 2), (2, 0), (3, 1))
    ]
    losses = np.array([3, 2, 1], np.float32)
    record.rows_trained(0, blocks, losses, np.full(3, 10, np.int32))
    assert record.log.rows()["round"].tolist() == [1, 1, 3]
    assert record.log.rows()["step"].tolist() == [1, 2, 3]
    assert (record.status().round, record.status().workers[0].loss) == (3, 1.0)


def test_late_rows_of_a_lost_worker_count_but_do_not_revive_it(record):
    record.worker_joined(1, host="a", rows=5)
    train(record, 1, losses=[1.0] * 2)
    record.worker_lost(1)
    train(record, 1, losses=[1.0])
    record.worker_alive(1)
    worker = record.status().workers[1]
    assert (worker.state, worker.steps, worker.restarts) == ("lost", 3, 0)
    record.worker_joined(1, host="b", rows=9)
    worker = record.status().workers[1]
    assert (worker.state, worker.host, worker.restarts) == ("starting", "b", 1)
    train(record, 1, losses=[1.0])
    assert record.status().workers[1].state == "training"


def test_status_never_waits_for_the_server_while_holding_the_lock(record):
    # The server adds rows to the record while it holds its own lock, which `silence_s` takes.
    server = threading.Lock()
    inside = threading.Event()

    def silence_s():
        inside.set()
        with server:
            return {}

    def tell():
        inside.wait(5.0)
        train(record, losses=[1.0])
        server.release()

    record.silence_s = silence_s
    server.acquire()
    threads = [threading.Thread(target=w, daemon=True) for w in (record.status, tell)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5.0)
    assert not any(thread.is_alive() for thread in threads)


def test_the_last_seconds_make_the_rate_and_the_remaining_time(record):
    record.set_plan(plan_of(5000, 5000))
    assert record.status().remaining_s is None
    began_s = time.monotonic()
    train(record, losses=[1.0] * 10)
    first_s = time.monotonic()
    for number in range(1, 5):
        time.sleep(0.1)
        train(record, number % 2, losses=[1.0] * 10, round=number + 1)
    asked_s = time.monotonic()
    status = record.status()
    now_s = time.monotonic()
    assert 500 / (now_s - began_s) <= status.examples_per_s <= 500 / (asked_s - first_s)
    assert (record.first_loss_s or 1e9) <= first_s - record.began_s
    assert status.remaining_s is not None
    assert status.remaining_s > 0
    record.state_changed("done", "done")
    assert record.status().remaining_s is None


def test_the_clock_stops_with_the_run(record):
    record.state_changed("failed", "no", error="Traceback")
    elapsed_s = record.status().elapsed_s
    time.sleep(0.05)
    assert record.status().elapsed_s == elapsed_s
    assert record.status().error == "Traceback"


@cases(
    "states, last",
    (["starting", "training"], "training"),
    (["starting", "stopping", "training"], "stopping"),
    (["stopping", "stopped"], "stopped"),
    (["done", "stopping"], "done"),
    (["failed", "done"], "failed"),
)
def test_states_do_not_revert(record, states, last):
    for state in states:
        record.state_changed(state, state)
    assert record.status().state == record.status().message == last


def test_a_validation_point_stands_at_the_step_of_the_furthest_worker(record):
    train(record, 0, losses=[1.0] * 3)
    train(record, 1, losses=[1.0] * 2)
    record.validated(epoch=1, loss=0.5, metrics={"accuracy": 0.9})
    assert record.status().validation == (
        ValidationPoint(epoch=1, step=3, loss=0.5, metrics={"accuracy": 0.9}),
    )
    for epoch, loss in ((2, 0.4), (2, 0.3)):  # validated again
        record.validated(epoch=epoch, loss=loss, metrics={})
    assert [(p.epoch, p.loss) for p in record.status().validation] == [(1, 0.5), (2, 0.3)]


def test_rows_that_do_not_count_are_dropped(record):
    record.set_plan(plan_of(50, 50))
    for worker in range(2):
        train(record, worker, losses=[3.0, 2.0])
    train(record, 1, losses=[1.5, 1.0], round=2)  # then it died, and the others had to repeat it
    record.progress_settled(Progress(round=1, averagings=1, steps=(2, 2), examples=(20, 20)))
    assert [w.steps for w in record.status().workers] == [2, 2]
    assert record.log.rows()["round"].tolist() == [1, 1, 1, 1]


def test_rows_that_count_but_never_arrived_are_filled_in(record):
    record.set_plan(plan_of(50, 45))
    for worker in range(2):
        train(record, worker, losses=[3.0, 2.0])
    record.progress_settled(
        Progress(
            epoch=1,
            round=1,
            averagings=4,
            opened=2,
            todo=(Span(0, 1, 2, 5), Span(1, 1, 2, 5)),
            steps=(7, 7),
            examples=(70, 65),
        )
    )
    rows = record.log.rows()
    missing = rows["worker"] == 1
    assert rows["step"][missing].tolist() == list(range(1, 8))
    assert rows["epoch"][missing].tolist() == [1] * 5 + [2] * 2
    assert rows["round"][missing].tolist() == [1, 1, 2, 2, 3, 1, 1]
    assert rows["examples"][missing].tolist() == [10, 10, 10, 10, 5, 10, 10]
    assert np.isnan(rows["loss"][missing][2:]).all()
    assert [w.steps for w in record.status().workers] == [7, 7]


def test_restarted_training_discards_the_log(record):
    record.set_plan(plan_of(50, 50))
    train(record, 0, losses=[3.0, 2.0], epoch=2)
    record.validated(epoch=1, loss=0.5, metrics={})
    record.history_forgotten()
    status = record.status()
    assert (status.epoch, status.round, status.averagings, status.validation) == (0, 0, 0, ())
    assert [(w.steps, w.loss) for w in status.workers] == [(0, None), (0, None)]
    train(record, 0, losses=[3.0])
    assert record.log.rows()["step"].tolist() == [1]
    assert record.status().epoch == 1


@cases("stopped, state", (False, "done"), (True, "stopped"))
def test_the_end_counts_averagings_exactly_and_workers_of_a_stopped_run_are_not_done(
    record, stopped, state
):
    train(record, losses=[1.0])
    record.averagings_counted(17, stopped=stopped)
    status = record.status()
    assert status.averagings == 17
    assert {worker.state for worker in status.workers} == {state}


def test_listeners_receive_all_events_in_order(record):
    events = told(record)
    record.state_changed("starting", "waiting for 2 workers")
    record.worker_joined(0, host="a", rows=5)
    train(record, losses=[2.0, 1.0])
    record.validated(epoch=1, loss=0.5, metrics={})
    record.worker_lost(0)
    train(record, 1, losses=[1.0])
    record.close()
    assert events == [
        StateChanged(state="starting", message="waiting for 2 workers"),
        WorkerJoined(worker=0, host="a", attempt=0),
        StateChanged(state="training", message="training"),
        RowsLogged(start=0, count=2),
        Validated(point=ValidationPoint(epoch=1, step=2, loss=0.5)),
        WorkerLost(worker=0, host="a"),
        RowsLogged(start=2, count=1),
    ]
    table = record.events.rows(record.began_s)  # the same without rows
    assert [entry["event"] for entry in table] == [
        type(event).__name__ for event in events if not isinstance(event, RowsLogged)
    ]
    assert (table[0]["message"], table[-1]["worker"]) == ("waiting for 2 workers", 0)
    times = [0, *(entry["time_s"] for entry in table), record.status().elapsed_s]
    assert times == sorted(times)


def test_failing_or_removed_listener_does_not_affect_the_run(record, caplog):
    def fail(_):
        raise ValueError("no")

    record.events.add_listener(fail)
    events = told(record)
    unheard = []
    record.events.add_listener(unheard.append)()
    with caplog.at_level(logging.ERROR):
        record.state_changed("starting", "")
        record.close()
    assert (len(events), unheard) == (1, [])
    assert "a listener failed on StateChanged; the run continues" in caplog.text


def test_slow_listener_does_not_delay_the_run(record):
    enough = threading.Event()
    in_time = []

    def wait(_):
        in_time.append(enough.wait(30.0))

    record.events.add_listener(wait)
    for number in range(100):
        train(record, losses=[1.0], round=number + 1)
    enough.set()
    record.close()
    assert len(in_time) >= 100
    assert all(in_time)


def test_a_listener_may_close_the_record():
    record = RunRecord(workers=1, epochs=1, name="closing")
    closed = threading.Event()

    def close(_):
        record.close()
        closed.set()

    record.events.add_listener(close)
    record.state_changed("starting", "")
    assert closed.wait(2.0)
    record.close()
    join_threads("closing")


def test_many_threads_may_write_at_once(record):
    events = told(record)

    def work(worker):
        for number in range(200):
            train(record, worker, losses=[1.0, 2.0], round=number + 1)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record.close()
    rows = record.log.rows()
    for worker in range(2):
        steps = rows["step"][rows["worker"] == worker]
        np.testing.assert_array_equal(steps, np.arange(1, 401))
    spans = sorted((e.start, e.count) for e in events if isinstance(e, RowsLogged))
    assert spans == [(start, 2) for start in range(0, 800, 2)]

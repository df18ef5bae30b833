import random
from dataclasses import replace
from functools import partial

import pytest

from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.masters.checkpointing import CopySchedule
from sparkwright.runs._decisions import Drop, LaunchTask, RequestSnapshot, ShowStalled
from sparkwright.runs._observations import WorkerAlive, WorkerRegistered
from sparkwright.runs._watching import DriverClock
from sparkwright.runs.membership import Membership
from sparkwright.runs.poison import rows_of
from sparkwright.workers.protocol import Failure
from sparkwright.workers.work import Span


def roll(workers=2, **options):
    return Membership(
        workers=workers,
        slots=None,
        rendezvous_timeout_s=60.0,
        queue_timeout_s=600.0,
        replacement_timeout_s=120.0,
        now_s=0.0,
        **options,
    )


def came(worker, attempt=0):
    return WorkerRegistered(
        connection=10 * worker + attempt,
        worker=worker,
        attempt=attempt,
        host=f"host-{worker}",
        address=(f"10.0.0.{worker}", 7000 + attempt),
        rows=100 + worker,
        validation_rows=worker,
    )


def test_lost_worker_is_a_problem_until_it_rejoins():
    found = roll()
    found.admit(came(0), 0.0)
    found.admit(came(1), 0.0)
    found.lose(10, 5.0)
    assert found.refusal(came(1, 0)) == ""  # nobody else is at work
    assert found.replacement_problem(125.0) == ""
    assert found.replacement_problem(125.1).startswith("worker 1 was lost, and its replacement")
    found.admit(came(1, 1), 126.0)
    assert found.replacement_problem(1000.0) == ""


# -- tasks ----------------------------------------------------------------------------------

KILLED = Failure(worker=1, reason="killed")


def test_a_lost_worker_is_launched_when_no_task_of_it_is_left():
    found = roll()
    found.admit(came(1), 0.0)
    found.lose(10, 1.0)
    assert found.launch(1) == []  # Spark restarts the task that is left
    assert found.task_ended(1, None, steps=(0, 0)) is None
    assert found.launch(1) == [LaunchTask(worker=1)]
    assert found.launch(1) == []


def test_a_silent_worker_is_replaced_unless_its_task_ends():
    found = roll()
    for worker in (0, 1):
        found.admit(came(worker), 0.0)
        found.lose(10 * worker, 5.0, silent=True)
    found.task_ended(0, None, steps=(0, 0))
    assert found.replace_silent(14.9) == []
    assert found.replace_silent(15.0) == [LaunchTask(worker=1, replaces=True)]
    assert found.replace_silent(99.0) == []


def test_failures_count_until_a_minibatch_of_the_worker_counts():
    found = roll(max_failures=3)
    assert [found.task_ended(1, KILLED, steps=(9, 0)) for _ in range(2)] == [None, None]
    assert found.task_ended(1, KILLED, steps=(9, 1)) is None
    assert found.task_ended(1, KILLED, steps=(99, 1)) is None
    final = found.task_ended(1, KILLED, steps=(99, 1))
    assert final == replace(KILLED, reason="killed (3 attempts failed)")


def test_a_minibatch_that_ends_its_process_again_and_again_ends_the_run():
    """Whoever trains it, and although others count in between."""
    found = roll(3, max_failures=3, place_of=lambda span: f"minibatches {span.start}, {span.stop}")
    for worker, at in enumerate([(1, 0, 4, 9), (1, 0, 0, 6), (2, 0, 4, 9)]):
        failure = replace(KILLED, worker=worker, at=at)
        assert found.task_ended(worker, failure, steps=(100 + worker,) * 3) is None
    last = found.task_ended(2, replace(KILLED, worker=2, at=(1, 0, 5, 7)), steps=(200,) * 3)
    assert last.reason.startswith(
        "minibatches 5, 6 ended the process that trained its rows 3 times; "
    )


# Of a partition of 50 minibatches, which each epoch shuffles.
ROWS_OF = partial(
    rows_of, rows=(500,), master=ParameterAveragingTrainingMaster(batch_size_per_worker=10, seed=3)
)


def test_a_row_that_ends_its_process_in_each_epoch_ends_the_run():
    found, ends = roll(max_failures=4, rows_of=ROWS_OF), []
    for epoch in range(4):
        spans = [Span(0, epoch, n, n + 1) for n in range(50)]
        deadly = next(span for span in spans if 7 in ROWS_OF(span)[0])
        ends.append(found.task_ended(0, replace(KILLED, at=deadly), steps=(epoch + 1, 0)))
    assert ends[:3] == [None] * 3
    assert "ended the process that trained its rows 4 times" in ends[3].reason


def test_processes_that_are_killed_anywhere_in_their_data_do_not_blame_a_row():
    ended = 0
    for seed in range(50):
        chance, found = random.Random(seed), roll(max_failures=4, rows_of=ROWS_OF)
        for epoch in range(8):
            start, size = chance.randrange(40), chance.randrange(1, 11)
            failure = replace(KILLED, at=Span(0, epoch, start, start + size))
            ended += found.task_ended(0, failure, steps=(epoch + 1, 0)) is not None
    assert ended <= 1


@pytest.mark.parametrize("kind", ["data", "configuration", "non_finite"])
def test_a_permanent_failure_is_not_retried(kind):
    failure = replace(KILLED, kind=kind)
    assert roll().task_ended(1, failure, steps=(0, 0)) == failure


def beat(found, worker, now_s, *, steps, computing=True):
    event = WorkerAlive(connection=10 * worker, steps=steps, computing=computing)
    return found.heartbeat(event, now_s)


def test_a_worker_that_computes_without_progress_is_shown_as_stalled_once():
    found = roll(stall_timeout_s=5.0)
    for worker in (0, 1):
        found.admit(came(worker), 0.0)
        beat(found, worker, 1.0, steps=3, computing=worker == 1)  # worker 0 waits for others
    assert found.stalled(5.9) == []
    assert found.stalled(6.0) == [ShowStalled(worker=1, seconds=5.0)]
    assert found.stalled(7.0) == []
    assert beat(found, 1, 8.0, steps=4) == [ShowStalled(worker=1, seconds=0.0)]


@pytest.mark.parametrize("asked", ["replace", "stop"])
def test_a_stalled_worker_is_dropped_after_its_average_was_requested(asked):
    found = roll(stall_timeout_s=10.0, replace_stalled=asked == "replace")
    found.admit(came(1), 0.0)
    beat(found, 1, 0.0, steps=3)
    if asked == "stop":
        found.stop_requested(0.0)
    assert RequestSnapshot(connection=10) not in found.stalled(9.9)
    assert RequestSnapshot(connection=10) in found.stalled(10.0)
    assert found.stalled(12.9) == []
    assert found.stalled(13.0) == [Drop(connection=10)]


def test_the_drivers_clock_stands_still_while_the_driver_does():
    clock = DriverClock(0.0, longest_gap_s=1.0)
    assert clock.tick(0.2) == pytest.approx(0.2)
    assert clock.at(20.2) == pytest.approx(1.2)  # before the tick that was held up
    assert clock.tick(20.2) == pytest.approx(1.2)
    assert clock.tick(20.4) == pytest.approx(1.4)


def test_copies_take_less_than_one_percent():
    schedule = CopySchedule()
    assert schedule.is_due(0.0)
    schedule.begin(0.0)
    assert not schedule.is_due(9.9)
    assert schedule.is_due(0.0, averaged=True)
    schedule.record_copy(0.01, now_s=1.0)
    assert not schedule.is_due(10.9)
    assert not schedule.is_due(2.4, averaged=True)
    assert schedule.is_due(2.6, averaged=True)
    assert schedule.is_due(11.0)
    schedule.record_copy(1.0, now_s=11.0)
    assert not schedule.is_due(110.0)
    assert schedule.is_due(161.0)


def test_workers_without_data_are_launched_when_all_required_ones_are_there():
    membership = roll(4, required=2)
    membership.admit(came(0), 0.0)
    assert (membership.all_present, membership.launch_joining()) == (False, [])
    membership.admit(came(1), 0.0)
    assert membership.all_present
    assert membership.launch_joining() == [LaunchTask(worker=2), LaunchTask(worker=3)]
    assert membership.launch_joining() == []
    membership.admit(came(2), 0.0)
    assert membership.all_rows == (100, 101, 0, 0)


def test_a_lost_worker_without_data_is_not_waited_for():
    membership = roll(4, required=2)
    for worker in (0, 1, 2):
        membership.admit(came(worker), 0.0)
    membership.lose(20, 1.0)
    assert membership.all_present
    assert membership.replacement_problem(1000.0) == ""


def test_a_worker_without_data_leaves_its_slot_once_to_a_lost_one():
    membership = roll(4, required=2)
    for worker in (0, 1, 2, 3):
        membership.admit(came(worker), 0.0)
    membership.lose(10, 0.0)
    assert membership.cede_slots(19.0) == []
    assert membership.cede_slots(20.0) == [30]
    membership.lose(30, 20.0)
    assert membership.cede_slots(50.0) == []
    assert "replacement" in membership.refusal(came(3, 1))
    assert membership.task_ended(3, None, steps=(0,) * 4) is None
    assert membership.launch(3) == []
    membership.admit(came(1, 1), 0.0)
    assert membership.refusal(came(3, 1)) == ""
    membership.admit(came(3, 1), 0.0)
    membership.lose(11, 60.0)
    assert membership.cede_slots(80.0) == [31]


def test_failures_of_a_worker_without_data_never_end_the_run():
    membership = roll(4, required=2, max_failures=2)
    membership.admit(came(0), 0.0)
    membership.admit(came(1), 0.0)
    membership.launch_joining()
    failure = Failure(worker=2, reason="killed")
    assert membership.task_ended(2, failure, steps=(0,) * 4) is None
    assert membership.launch(2) == [LaunchTask(worker=2)]
    assert membership.task_ended(2, failure, steps=(0,) * 4) is None
    assert membership.launch(2) == []
    invalid = Failure(worker=3, kind="configuration", reason="no GPU")
    assert membership.task_ended(3, invalid, steps=(0,) * 4) is None
    assert membership.launch(3) == []

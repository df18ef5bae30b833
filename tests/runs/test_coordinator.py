"""Event scripts with the exact actions that follow."""

from typing import Any

from tests.runs.scripts import FAILURE, GRACE_S, NOTHING, AveragingScript, after

from sparkwright.runs._coordinator import MAX_FRUITLESS_GROUPS
from sparkwright.runs._decisions import (
    ConnectionLost,
    Dismiss,
    EndRun,
    ForgetHistory,
    SendGroup,
    SendStop,
)
from sparkwright.workers.protocol import Failure


def training(workers: int = 3, **settings: Any) -> AveragingScript:
    """A run whose first group trains."""
    script = AveragingScript(workers, **settings)
    for worker in range(workers):
        script.register(worker)
    assert script.coordinator.phase == "training"
    return script


START = after(0)


# -- the regular run ------------------------------------------------------------------------


def test_a_run_ends_when_all_have_finished_and_one_has_delivered() -> None:
    script = training()
    end = after(9, epoch=2)
    assert script.report(1, "finished", end) == NOTHING
    assert script.report(2, "finished", end) == NOTHING
    assert script.report(0, "finished", end) == script.request(0)
    assert script.coordinator.phase == "delivering"
    assert script.deliver(0) == [*script.dismissals(0, 1, 2), EndRun()]
    assert script.coordinator.phase == "over"
    assert script.coordinator.progress == end


def test_a_ring_of_one_worker_needs_nobody_else() -> None:
    script = training(1)
    assert script.report(0, "finished", after(3, workers=1, epoch=1)) == script.request(0)


# -- a worker is lost -----------------------------------------------------------------------


def test_a_lost_worker_that_comes_back_soon_is_in_the_next_group() -> None:
    script = training()
    assert script.lose(1) == script.regroups(1, 0, 2)
    assert script.report(0, "broken", after(3)) == NOTHING
    assert script.report(2, "broken", after(3)) == NOTHING
    script.now_s += 0.5
    sent = script.register(1, attempt=1)
    assert sent == script.groups(2, [0, 1, 2], after(3), source=0, order=[0, 2, 1])


def test_survivors_go_on_alone_after_the_grace_and_take_the_lost_one_back() -> None:
    script = training()
    script.lose(1)
    script.report(0, "broken", after(3))
    script.report(2, "broken", after(3))
    assert script.tick(GRACE_S - 0.1) == NOTHING
    assert script.tick(0.1) == script.groups(2, [0, 2], after(3), source=0)
    assert script.coordinator.phase == "training"
    # It comes back while the two are in the middle of a round.
    assert script.register(1, attempt=1) == script.regroups(2, 0, 2)
    assert script.report(0, "broken", after(7)) == NOTHING
    sent = script.report(2, "broken", after(7))
    assert sent == script.groups(3, [0, 1, 2], after(7), source=0, order=[0, 2, 1])


def test_everybody_starts_from_the_member_that_is_furthest() -> None:
    script = training()
    script.lose(0)
    script.report(1, "broken", after(3))
    script.report(2, "broken", after(4))  # it had all of the fourth average when the ring broke
    assert script.tick(GRACE_S) == script.groups(2, [1, 2], after(4), source=1)


def test_what_counts_is_what_a_survivor_has() -> None:
    script = training()
    script.lose(0)
    script.report(2, "broken", after(4))
    script.lose(2)  # and with it the fourth average
    assert script.report(1, "broken", after(3)) == NOTHING
    assert script.tick(GRACE_S) == script.groups(2, [1], after(3), source=0)
    assert script.coordinator.progress == after(3)


def test_a_survivor_in_the_middle_of_a_long_round_is_waited_for() -> None:
    script = training()
    script.lose(1)
    script.report(0, "broken", after(3))
    assert script.tick(100.0) == NOTHING
    assert script.report(2, "broken", after(3)) == script.groups(2, [0, 2], after(3), source=0)


def test_the_newcomer_is_never_the_source() -> None:
    script = training()
    script.lose(0)
    script.report(1, "broken", START)
    script.report(2, "broken", START)
    sent = script.register(0, attempt=1)
    assert sent == script.groups(2, [0, 1, 2], START, source=1, order=[1, 2, 0])


def test_a_worker_whose_first_ring_broke_has_no_state_to_start_from() -> None:
    script = training()
    script.lose(2)
    script.report(0, "broken", None)
    script.report(1, "broken", START)
    assert script.tick(GRACE_S) == script.groups(2, [0, 1], START, source=1)


def test_when_nobody_has_a_state_training_begins_anew() -> None:
    script = training()
    script.lose(2)
    script.report(0, "broken", None)
    script.report(1, "broken", None)
    assert script.tick(GRACE_S) == [
        ForgetHistory(),
        *script.groups(2, [0, 1], START, source=-1),
    ]


def test_a_finished_worker_waits_for_the_replacement_of_a_lost_one() -> None:
    script = training()
    end = after(9, epoch=2)
    script.report(0, "finished", end)
    script.report(1, "finished", end)
    assert script.lose(2) == NOTHING  # died before it could report
    assert script.tick(GRACE_S) == script.groups(2, [0, 1], end, source=0)
    script.report(0, "finished", end)
    assert script.report(1, "finished", end) == script.request(0)


def test_nobody_is_called_back_twice() -> None:
    script = training()
    assert script.lose(1) == script.regroups(1, 0, 2)
    assert script.lose(2) == NOTHING
    assert script.report(0, "broken", after(3)) == NOTHING
    assert script.tick(GRACE_S) == script.groups(2, [0], after(3), source=0)


def test_all_are_lost_and_training_begins_anew() -> None:
    script = training(2)
    script.report(0, "broken", after(3, workers=2))
    script.lose(0)
    assert script.lose(1) == NOTHING
    assert script.tick(GRACE_S) == NOTHING
    script.now_s += 1.0
    assert script.register(1, attempt=1) == [
        ForgetHistory(),
        *script.groups(2, [1], after(0, workers=2), source=-1),
    ]
    assert script.coordinator.progress == after(0, workers=2)
    assert script.register(0, attempt=1) == script.regroups(2, 1)


# -- attempts -------------------------------------------------------------------------------


def test_a_newer_attempt_takes_the_place_of_an_older_one_not_yet_known_to_be_lost() -> None:
    script = training()
    old = script.connection(1)
    assert script.register(1, attempt=1) == [
        Dismiss(connection=old, reason="attempt 1 of worker 1 has taken its place"),
        *script.regroups(1, 0, 2),
    ]
    assert script.handle(ConnectionLost(connection=old)) == NOTHING
    assert script.coordinator.attempts == {0: 1, 1: 2, 2: 1}
    assert script.coordinator.present[1].attempt == 1


# -- rings that break -----------------------------------------------------------------------


def test_a_broken_ring_with_nobody_lost_is_formed_again_at_once() -> None:
    script = training()
    assert script.report(1, "broken", after(3)) == script.regroups(1, 0, 2)
    assert script.report(0, "broken", after(3)) == NOTHING
    assert script.report(2, "broken", after(3)) == script.groups(2, [0, 1, 2], after(3), source=0)


def test_rings_that_break_again_and_again_without_an_averaging_end_the_run() -> None:
    script = training(2)
    for generation in range(1, MAX_FRUITLESS_GROUPS):
        script.report(0, "broken", None, generation=generation)
        last = script.report(1, "broken", None, generation=generation)
        assert isinstance(last[-1], SendGroup)
    script.report(0, "broken", None)
    reason = (
        "the workers' ring broke 5 times without one averaging. The workers reach the driver but "
        "not one another: open the ports between them (`MeshConfig(ports=…)`) or use "
        '`communication="spark"`.'
    )
    assert script.report(1, "broken", None) == [
        *script.dismissals(0, 1),
        EndRun(timed_out=reason),
    ]


def test_rings_that_average_may_break_as_often_as_they_like() -> None:
    script = training(2)
    for number in range(1, 5 * MAX_FRUITLESS_GROUPS):
        script.report(0, "broken", after(number, workers=2))
        assert isinstance(script.report(1, "broken", after(number, workers=2))[-1], SendGroup)


def test_workers_that_come_one_by_one_do_not_count_as_broken_rings() -> None:
    workers = 2 * MAX_FRUITLESS_GROUPS
    script = training(workers)
    for worker in range(1, workers):
        script.lose(worker)
    start = after(0, workers=workers)
    script.report(0, "broken", start)
    script.tick(GRACE_S)
    present = [0]
    for worker in range(1, workers):
        script.register(worker, attempt=1)
        for member in present:
            script.report(member, "broken", start)
        present.append(worker)
        script.tick(GRACE_S)
        assert script.coordinator.phase == "training"


def test_reports_of_older_generations_and_of_newcomers_are_ignored() -> None:
    script = training()
    script.lose(1)
    script.report(0, "broken", after(3))
    script.report(2, "broken", after(3))
    script.tick(GRACE_S)
    assert script.report(0, "broken", after(9), generation=1) == NOTHING
    script.register(1, attempt=1)
    assert script.report(1, "broken", after(9)) == NOTHING
    assert script.coordinator.progress == after(3)


def test_a_repeated_report_changes_nothing() -> None:
    script = training()
    script.report(1, "broken", after(3))
    assert script.report(1, "broken", after(3)) == NOTHING
    script.report(0, "broken", after(3))
    assert script.report(0, "broken", after(3)) == NOTHING
    assert script.coordinator.generation == 1


# -- waiting for an absent worker -----------------------------------------------------------


def without_worker_1() -> AveragingScript:
    """Workers 0 and 2 have used up their data; that of worker 1 is missing."""
    script = training()
    script.lose(1)
    script.report(0, "broken", after(3))
    script.report(2, "broken", after(3))
    script.tick(GRACE_S)
    assert script.report(0, "waiting", after(8)) == NOTHING
    assert script.report(2, "waiting", after(8)) == NOTHING
    return script


def test_workers_wait_for_an_absent_one_and_go_on_when_it_comes() -> None:
    script = without_worker_1()
    assert script.tick(60.0) == NOTHING
    sent = script.register(1, attempt=1)
    assert sent == script.groups(3, [0, 1, 2], after(8), source=0, order=[0, 2, 1])


def test_an_absent_worker_is_not_waited_for_without_end() -> None:
    script = without_worker_1()
    reason = (
        "worker 1 was lost, and its replacement did not register within 120 s. The log of its "
        "executor shows why; raise `MeshConfig(replacement_timeout_s=…)` if the cluster is only "
        "slow."
    )
    assert script.tick(117.0) == NOTHING
    # What was averaged last is not thrown away.
    assert script.tick(2.0) == script.request(0)
    assert script.deliver(0) == [*script.dismissals(0, 2), EndRun(timed_out=reason)]


def test_while_waiting_a_stop_ends_the_run() -> None:
    script = without_worker_1()
    assert script.stop() == [
        SendStop(connection=0),
        SendStop(connection=20),
        *script.request(0),
    ]
    assert script.deliver(0) == [*script.dismissals(0, 2), EndRun(stopped=True)]


# -- stop -----------------------------------------------------------------------------------


def test_stop_while_training_ends_with_the_next_averaging() -> None:
    script = training()
    assert script.stop() == [SendStop(connection=c) for c in (0, 10, 20)]
    assert script.stop() == NOTHING
    script.report(0, "stopped", after(4))
    script.report(2, "stopped", after(4))
    assert script.report(1, "stopped", after(4)) == script.request(0)
    assert script.deliver(0) == [*script.dismissals(0, 1, 2), EndRun(stopped=True)]


def test_stop_that_comes_too_late_to_stop_anything_is_a_regular_end() -> None:
    script = training()
    script.stop()
    for worker in range(3):
        script.report(worker, "finished", after(9, epoch=2))
    assert script.deliver(0)[-1] == EndRun(stopped=False)


def test_stop_while_regrouping_keeps_what_has_been_averaged() -> None:
    script = training()
    script.lose(1)
    script.report(0, "broken", after(3))
    assert script.stop() == [SendStop(connection=0), SendStop(connection=20)]
    assert script.report(2, "broken", after(4)) == script.request(2)
    assert script.deliver(2)[-1] == EndRun(stopped=True)


def test_stop_in_the_grace_does_not_wait_for_it() -> None:
    script = training()
    script.lose(1)
    script.report(0, "broken", after(3))
    script.report(2, "broken", after(3))
    assert script.stop()[-1:] == script.request(0)


def test_a_worker_lost_after_stop_is_not_waited_for() -> None:
    script = training()
    script.stop()
    assert script.lose(1) == script.regroups(1, 0, 2)
    script.report(0, "stopped", after(4))
    assert script.report(2, "broken", after(3)) == script.request(0)


def test_stop_when_all_are_lost_keeps_nothing() -> None:
    script = training(2)
    script.lose(0)
    script.lose(1)
    assert script.stop() == [ForgetHistory(), EndRun(stopped=True)]


# -- failure --------------------------------------------------------------------------------


def test_a_failing_worker_ends_the_run_and_the_last_average_is_kept() -> None:
    script = training()
    assert script.report(1, "failed", after(3), failure=FAILURE) == script.regroups(1, 0, 2)
    assert script.coordinator.phase == "halting"
    assert script.report(0, "broken", after(3)) == NOTHING
    assert script.report(2, "broken", after(4)) == script.request(2)
    assert script.deliver(2) == [*script.dismissals(0, 1, 2), EndRun(failure=FAILURE)]


def test_workers_that_fail_alike_end_the_run_without_delay_and_the_first_is_named() -> None:
    script = training(2)
    other = Failure(worker=0, reason="second")
    assert script.report(1, "failed", None, failure=FAILURE) == script.regroups(1, 0)
    assert script.report(0, "failed", None, failure=other) == [
        *script.dismissals(0, 1),
        EndRun(failure=FAILURE),
    ]


def test_a_failing_replacement_ends_a_run_that_trains_or_regroups() -> None:
    script = training()
    script.lose(1)
    script.report(0, "broken", after(3))
    assert script.fail() == NOTHING
    assert script.report(2, "broken", after(3)) == script.request(0)


def test_a_worker_that_does_not_answer_is_not_waited_for_after_a_failure() -> None:
    script = training()
    script.report(1, "failed", after(3), failure=FAILURE)
    script.report(0, "broken", after(3))
    assert script.tick(2 * GRACE_S) == NOTHING
    assert script.tick(0.1) == script.request(0)


def test_a_late_report_does_not_bring_a_failed_run_back_to_life() -> None:
    script = training()
    script.report(1, "failed", after(3), failure=FAILURE)
    script.report(0, "broken", after(3))
    script.tick(2 * GRACE_S + 0.1)
    assert script.report(2, "broken", after(4)) == NOTHING
    assert script.deliver(0) == [*script.dismissals(0, 1, 2), EndRun(failure=FAILURE)]


def test_workers_lost_after_a_failure_are_not_waited_for() -> None:
    script = training()
    script.report(1, "failed", after(3), failure=FAILURE)
    assert script.lose(0) == NOTHING
    assert script.lose(2) == script.request(1)
    assert script.lose(1) == [EndRun(failure=FAILURE)]


def test_who_comes_after_a_failure_is_sent_away() -> None:
    script = training()
    script.report(1, "failed", after(3), failure=FAILURE)
    assert script.register(2, attempt=1) == [Dismiss(connection=21, reason="the run has ended")]


# -- delivering -----------------------------------------------------------------------------


def test_a_stopped_run_stays_a_stopped_one_when_only_an_earlier_average_is_left() -> None:
    script = training(2)
    script.stop()
    assert script.report(1, "broken", after(3, workers=2)) == script.regroups(1, 0)
    assert script.report(0, "finished", after(4, workers=2, epoch=1)) == script.request(0)
    assert script.lose(0) == script.request(1)
    assert script.deliver(1)[-1] == EndRun(stopped=True)

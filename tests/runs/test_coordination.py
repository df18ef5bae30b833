import pytest
from tests.runs.scripts import FAILURE, GRACE_S, NOTHING, AveragingScript, SharingScript

from sparkwright.runs._decisions import Dismiss, EndRun, SendGroup, ShowStalled
from sparkwright.runs._observations import ConnectionLost, WorkerAlive
from sparkwright.workers.protocol import Failure, Progress


@pytest.fixture(params=[AveragingScript, SharingScript], ids=["averaging", "sharing"])
def make(request):
    return request.param


def gathered(make, workers=2):
    """All have come and are in the first group."""
    script = make(workers)
    for worker in range(workers):
        script.register(worker)
    assert script.coordinator.phase == "training"
    return script


def training(make, workers=2):
    """Likewise, and all have a state and work."""
    script = gathered(make, workers)
    if isinstance(script, SharingScript):
        for worker in range(workers):
            script.asks(worker)
    return script


def delivering(make, workers=3):
    """All have trained everything, and worker 0 is asked for the result."""
    if make is AveragingScript:
        script = training(make, workers)
        assert script.finish(*range(workers)) == script.request(0)
        return script
    script = SharingScript(workers, epochs=1)
    for worker in range(workers):
        script.register(worker)
    for worker in range(workers):
        script.asks(worker)
    for worker in [*range(workers), *range(workers)]:
        script.works(worker)
    assert script.all_meet(*range(workers)) == script.request(0)
    return script


def test_run_continues_from_the_given_progress(make):
    start = Progress(epoch=2, averagings=7, opened=2, steps=(9,), examples=(90,), iterations=70)
    (sent,) = make(1, start=start).register(0)
    assert isinstance(sent, SendGroup)
    assert sent.group.progress == start


@pytest.mark.parametrize("came", [(), (2, 0)])
def test_when_not_all_come_in_time_the_run_ends_and_names_the_missing(make, came):
    script = make(4, slots=3, rendezvous_timeout_s=60, queue_timeout_s=600)
    script.tick(500.0)
    for worker in came:
        script.register(worker)
    assert script.tick(60.0 if came else 100.0) == NOTHING
    *dismissed, end = script.tick(0.1)
    expected = "2 registrations; missing: workers [1, 3]" if came else "Other jobs may use"
    assert isinstance(end, EndRun)
    assert expected in end.timed_out
    assert "Spark has 3 task slots" in end.timed_out
    assert dismissed == script.dismissals(*came, reason=end.timed_out)


def test_newer_attempt_replaces_an_older_one_still_thought_alive(make):
    script = training(make)
    old = script.connection(1)
    reason = "attempt 1 of worker 1 has taken its place"
    assert script.register(1, attempt=1)[0] == Dismiss(connection=old, reason=reason)
    assert script.handle(ConnectionLost(connection=old)) == NOTHING
    assert script.coordinator.present[1].attempt == 1


def test_a_lost_worker_is_waited_for_during_the_grace(make):
    script = gathered(make, 3)
    assert script.lose(1) == script.regroups(1, 0, 2)
    for worker in (0, 2):
        assert script.reports(worker, "broken", None) == NOTHING
    assert script.tick(GRACE_S - 0.1) == NOTHING
    sent = [action for action in script.tick(0.1) if isinstance(action, SendGroup)]
    assert sorted(action.connection for action in sent) == [0, 20]


def test_stop_before_all_have_come_ends_at_once(make):
    script = make(2)
    script.register(0)
    assert script.stop() == [*script.dismissals(0), EndRun(stopped=True)]
    assert script.register(1) == script.dismissals(1, reason="the run has ended")


def test_the_first_failure_is_named_and_neither_stop_nor_others_hide_it(make):
    script = training(make)
    sent = [*script.fail(), *script.fail(Failure(worker=0, reason="second")), *script.stop()]
    sent += [*script.lose(0), *script.lose(1)]
    (end,) = [action for action in sent if isinstance(action, EndRun)]
    assert end.failure == FAILURE


def test_only_the_requested_worker_delivers(make):
    script = delivering(make)
    assert script.deliver(1) == NOTHING
    assert script.coordinator.phase == "delivering"
    assert script.deliver(0) == [*script.dismissals(0, 1, 2), EndRun()]
    assert script.coordinator.phase == "over"


def test_when_all_are_lost_before_one_delivered_the_run_fails(make):
    script = delivering(make, 2)
    script.lose(0)
    assert script.lose(1) == [
        EndRun(timed_out="all workers were lost before one delivered the result.")
    ]


def test_an_attempt_that_was_replaced_while_it_computed_never_stalls(make):
    script = training(make)
    old = script.connection(1)
    script.handle(WorkerAlive(connection=old, steps=1, computing=True))
    script.register(1, attempt=1)
    assert script.handle(ConnectionLost(connection=old)) == NOTHING
    assert not any(isinstance(action, ShowStalled) for action in script.tick(100.0))

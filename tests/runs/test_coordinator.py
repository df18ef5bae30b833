from tests.runs.scripts import FAILURE, GRACE_S, NOTHING, AveragingScript, after

from sparkwright.runs._averaging_coordinator import MAX_FRUITLESS_GROUPS
from sparkwright.runs._decisions import Dismiss, EndRun, LaunchTask, SendGroup, SendPause, SendStop


def training(workers=3, **settings):
    """A run whose first group trains."""
    script = AveragingScript(workers, **settings)
    for worker in range(workers):
        script.register(worker)
    assert script.coordinator.phase == "training"
    return script


def test_rings_that_break_again_and_again_without_an_averaging_end_the_run():
    script = training(2)
    for generation in range(1, MAX_FRUITLESS_GROUPS):
        script.report(0, "broken", None, generation=generation)
        last = script.report(1, "broken", None, generation=generation)
        assert isinstance(last[-1], SendGroup)
    script.report(0, "broken", None)
    reason = (
        "the workers' ring broke 5 times in a row without an averaging. The workers reach the "
        "driver but not each other. Open the ports between them (`MeshConfig(ports=…)`), or use "
        '`communication="driver"`.'
    )
    assert script.report(1, "broken", None) == [*script.dismissals(0, 1), EndRun(timed_out=reason)]


def without_worker_1():
    """Workers 0 and 2 have used up their data; that of worker 1 is missing."""
    script = training()
    script.lose(1)
    script.report(0, "broken", after(3))
    script.report(2, "broken", after(3))
    script.tick(GRACE_S)
    assert script.report(0, "waiting", after(8)) == NOTHING
    assert script.report(2, "waiting", after(8)) == NOTHING
    return script


def test_an_absent_worker_is_not_waited_for_without_end():
    script = without_worker_1()
    reason = (
        "worker 1 was lost, and its replacement did not register within 120 s. See the log "
        "of its executor. For slow clusters, raise `MeshConfig(replacement_timeout_s=…)`."
    )
    assert script.tick(117.0) == NOTHING
    # What was averaged last is not thrown away.
    assert script.tick(2.0) == script.request(0)
    assert script.deliver(0) == [*script.dismissals(0, 2), EndRun(timed_out=reason)]


def test_while_waiting_a_stop_ends_the_run():
    script = without_worker_1()
    assert script.stop() == [SendStop(connection=0), SendStop(connection=20), *script.request(0)]
    assert script.deliver(0) == [*script.dismissals(0, 2), EndRun(stopped=True)]


def test_stop_while_training_ends_with_the_next_averaging():
    script = training()
    assert script.stop() == [SendStop(connection=c) for c in (0, 10, 20)]
    assert script.stop() == NOTHING
    script.report(0, "stopped", after(4))
    script.report(2, "stopped", after(4))
    assert script.report(1, "stopped", after(4)) == script.request(0)
    assert script.deliver(0) == [*script.dismissals(0, 1, 2), EndRun(stopped=True)]


def test_a_worker_that_does_not_answer_is_not_waited_for_after_a_failure():
    script = training()
    script.report(1, "failed", after(3), failure=FAILURE)
    script.report(0, "broken", after(3))
    assert script.tick(2 * GRACE_S) == NOTHING
    assert script.tick(0.1) == script.request(0)


def test_a_worker_that_joins_waits_for_the_average_of_the_round_in_progress():
    script = AveragingScript(3, required=2)
    script.register(0)
    assert script.register(1)[0] == LaunchTask(worker=2)
    pauses = [SendPause(connection=script.connection(w), generation=1) for w in (0, 1)]
    assert script.register(2) == pauses
    assert script.report(0, "stopped", after(4)) == NOTHING
    groups = script.report(1, "stopped", after(4))
    assert [action.connection for action in groups] == [0, 10, 20]
    assert script.progress == after(4)


def test_a_worker_that_cedes_its_slot_is_in_no_later_group():
    script = AveragingScript(3, required=2)
    for worker in range(3):
        script.register(worker)
    script.lose(1)
    ceded = [action for action in script.tick(21.0) if isinstance(action, Dismiss)]
    assert [action.connection for action in ceded] == [20]
    assert set(script.coordinator.present) == {0}
    script.lose(2)  # its connection ends later
    sent = [*script.register(1, attempt=1), *script.tick(1.0)]
    assert all(getattr(action, "connection", 0) != 20 for action in sent)

from tests.runs.scripts import FAILURE, NOTHING, SharingScript

from sparkwright.masters import Checkpointing
from sparkwright.runs._averaging_coordinator import MAX_FRUITLESS_GROUPS
from sparkwright.runs._decisions import Drop, EndRun, RequestSnapshot, RequestStacks, ShowStandstill


def starting(workers=2, epochs=2, **settings):
    """All have come and are about to get the driver's state."""
    script = SharingScript(workers, epochs, **settings)
    for worker in range(workers):
        script.register(worker)
    return script


def training(workers=2, epochs=2, **settings):
    """All have their first piece."""
    script = starting(workers, epochs, **settings)
    for worker in range(workers):
        assert script.asks(worker) == script.piece(worker, worker, 0, 0, 2)
    return script


def meeting(workers=2, epochs=2, **settings):
    """All have done their part of the first epoch, and are called to meet."""
    script = training(workers, epochs, **settings)
    for worker in [*range(workers), *range(workers)]:
        script.works(worker)
    assert script.coordinator.phase == "meeting"
    return script


def owed():
    """One epoch; worker 1 was lost in it; worker 0 has done its part and met."""
    script = training(epochs=1)
    script.lose(1)
    script.works(0)
    script.works(0)
    assert script.all_meet(0) == NOTHING
    return script


def test_data_that_a_worker_cannot_read_is_left_to_others_for_a_while():
    script = training()
    assert script.works(0) == script.piece(0, 0, 0, 2, 4)
    assert script.works(0) == script.piece(0, 1, 0, 2, 4)
    assert script.works(0, 0) == NOTHING
    assert script.tick(9.0) == NOTHING
    assert script.tick(2.0) == script.piece(0, 1, 0, 2, 4)
    assert script.works(0, 0) == NOTHING
    assert script.works(1) == script.piece(1, 1, 0, 2, 4)
    assert script.works(1) == script.meeting([0, 1], validate=True)


def test_a_run_in_which_nothing_counts_is_noticed_with_whom_it_waits_for():
    script = training(stall_timeout_s=60.0)
    script.works(0)
    script.lives(0, steps=2)
    assert script.tick() == NOTHING
    pieces = [f"worker {w} to train 2 minibatches of worker {w}'s data" for w in range(2)]
    stacks = [RequestStacks(connection=script.connection(worker)) for worker in range(2)]
    assert script.tick(59.0) == NOTHING
    script.lives(0, steps=2)  # heartbeats alone are no progress
    shown = [ShowStandstill(seconds=60.0, waits_for="; ".join(pieces)), *stacks]
    assert script.tick(1.0) == shown
    assert script.tick(100.0) == NOTHING
    script.works(0)
    (over,) = script.tick()
    assert isinstance(over, ShowStandstill)
    assert over.seconds == 0.0


def test_stop_ends_a_run_whose_workers_never_leave_their_meeting():
    script = meeting(stall_timeout_s=60.0)
    script.stop()
    both = [script.connection(worker) for worker in range(2)]
    script.tick()
    assert [RequestSnapshot(connection=c) for c in both] == script.tick(60.0)[-2:]
    assert script.tick(3.0) == [Drop(connection=c) for c in both]
    script.lose(0)
    assert script.lose(1)[-1] == EndRun(stopped=True)


def test_joining_worker_gets_its_state_from_a_ready_worker_and_all_owed_work_is_done():
    script = owed()
    assert script.coordinator.phase == "training"
    assert script.register(1, attempt=1) == script.groups([0, 1], source=0)
    assert script.tick(60.0) == NOTHING
    assert script.asks(1) == script.piece(0, 1, 0, 2, 4) + script.piece(1, 1, 0, 0, 2)
    assert script.works(1) == NOTHING
    # Worker 0 did not say that it validated the epoch.
    assert script.works(0) == script.meeting([0, 1], validate=True)
    assert script.all_meet(0, 1, validated=1) == script.request(0)
    assert script.deliver(0)[-1] == EndRun()
    assert sum(script.progress.examples) == 80


def test_a_lost_workers_piece_is_trained_only_while_another_worker_keeps_the_state():
    script = training(epochs=1)
    script.works(0)  # its second piece
    script.works(1)
    script.lose(1)  # with minibatches 2 to 4, which may have ended its process
    script.works(0)
    script.all_meet(0)
    risky = script.piece(0, 1, 0, 2, 4)
    script.register(1, attempt=1)
    assert script.asks(1) == risky  # worker 0 waited for work
    script.lose(0)
    assert script.tick(60.0) == NOTHING  # worker 1 has the only state
    script.register(0, attempt=1)
    assert script.asks(0) == script.piece(0, 1, 0, 2, 4)
    assert script.works(0)[0] in script.meeting([0, 1], validate=True)


def test_repeatedly_failing_meeting_ends_the_run_with_the_learned_state():
    script = meeting()
    for _ in range(MAX_FRUITLESS_GROUPS - 1):
        script.report(0, "broken")
        assert script.report(1, "broken")[0:1] != script.request(0)
    sent = script.report(0, "broken")
    assert sent == script.regroups(script.coordinator.generation, 1) + script.request(0)
    end = script.deliver(0)[-1]
    assert isinstance(end, EndRun)
    assert end.timed_out.startswith("the workers failed to average 5 times in a row.")


def test_a_newcomer_that_never_gets_a_state_ends_the_run_with_a_last_meeting():
    script = training()
    script.lose(1)
    script.register(1, attempt=1)
    before = script.progress
    for _ in range(MAX_FRUITLESS_GROUPS - 1):
        assert script.report(1, "broken") == script.groups([0, 1], source=0)
    assert script.report(1, "broken") == script.meeting([0])
    assert script.report(0, "met") == [
        *script.groups([0, 1], source=0, progress=before),
        *script.request(0),
    ]


def test_a_checkpoint_is_due_after_seconds_if_anything_was_learned():
    script = training(checkpoints=Checkpointing("unused", every_s=60.0))
    assert script.tick(100.0) == NOTHING
    assert script.works(0) == script.meeting([0, 1], checkpoint=True)
    script.works(1, 0, wants_more=False)
    script.checkpoint()
    script.all_meet(0, 1)
    script.works(0)
    assert script.tick(59.0) == NOTHING
    assert script.tick(1.0) == script.meeting([0, 1], checkpoint=True)


def test_stop_while_training_ends_with_a_last_meeting():
    script = training()
    assert script.stop() == script.meeting([0, 1])
    assert script.stop() == NOTHING
    script.works(0, 1, wants_more=False)
    script.works(1, 0, wants_more=False)
    assert script.all_meet(0, 1) == script.request(0)
    assert script.deliver(0) == [*script.dismissals(0, 1), EndRun(stopped=True)]
    assert script.progress.steps == (1, 0)


def test_worker_that_joins_after_stop_is_released_and_not_missed():
    script = training()
    script.lose(1)
    script.stop()
    assert script.register(1, attempt=1) == script.dismissals(1, reason="the run has ended")
    assert script.tick(1000.0) == NOTHING


def test_failing_worker_causes_a_last_meeting_that_keeps_the_state():
    script = training()
    script.works(1, 1, wants_more=False)
    assert script.report(1, "failed", generation=1, failure=FAILURE) == script.meeting([0, 1])
    script.works(0, 0, wants_more=False)
    assert script.all_meet(0, 1) == script.request(0)
    assert script.deliver(0) == [*script.dismissals(0, 1), EndRun(failure=FAILURE)]


def test_wait_for_a_lost_worker_times_out_and_keeps_the_state():
    script = owed()
    assert script.tick(120.0) == NOTHING
    assert script.tick(0.1) == script.meeting([0])
    assert script.all_meet(0) == script.request(0)
    end = script.deliver(0)[-1]
    assert isinstance(end, EndRun)
    assert end.timed_out.startswith("worker 1 was lost, and its replacement did not register")
    assert not end.stopped

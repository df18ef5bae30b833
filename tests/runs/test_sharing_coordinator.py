"""Gradient sharing: event scripts with the exact actions that follow."""

from dataclasses import replace
from typing import Any

from tests.runs.scripts import FAILURE, NOTHING, SharingScript

from sparkwright.runs._coordinator import MAX_FRUITLESS_GROUPS
from sparkwright.runs._decisions import (
    CheckpointReceived,
    Drop,
    EndRun,
    KeepCheckpoint,
    RequestSnapshot,
    RequestStacks,
    ResetHistory,
    ShowStandstill,
)
from sparkwright.workers.work import Span


class Due:
    """A checkpoint every so many minibatches or seconds."""

    def __init__(self, minibatches: int = 10**9, seconds: float = 1e9) -> None:
        self.minibatches, self.seconds = minibatches, seconds

    def due(self, rounds_since: int, seconds_since: float) -> bool:
        enough = rounds_since >= self.minibatches or seconds_since >= self.seconds
        return rounds_since > 0 and enough


def starting(workers: int = 2, epochs: int = 2, **settings: Any) -> SharingScript:
    """All have come and are about to get the driver's state."""
    script = SharingScript(workers, epochs, **settings)
    for worker in range(workers):
        script.register(worker)
    return script


def training(workers: int = 2, epochs: int = 2, **settings: Any) -> SharingScript:
    """All have their first piece."""
    script = starting(workers, epochs, **settings)
    for worker in range(workers):
        assert script.asks(worker) == script.piece(worker, worker, 0, 0, 2)
    return script


def meeting(workers: int = 2, epochs: int = 2, **settings: Any) -> SharingScript:
    """All have done their part of the first epoch, and are called to meet."""
    script = training(workers, epochs, **settings)
    for worker in [*range(workers), *range(workers)]:
        script.works(worker)
    assert script.coordinator.phase == "meeting"
    return script


def owed() -> SharingScript:
    """One epoch; worker 1 was lost in it; worker 0 has done its part and met."""
    script = training(epochs=1)
    script.lose(1)
    script.works(0)
    script.works(0)
    assert script.all_meet(0) == NOTHING
    return script


def test_work_that_was_not_given_does_not_count() -> None:
    script = training()
    script.pieces[0] = Span(1, 0, 0, 2)
    assert script.works(0) == NOTHING
    assert script.progress.steps == (0, 0)


def test_data_that_a_worker_cannot_read_is_left_to_others_for_a_while() -> None:
    script = training()
    assert script.works(0) == script.piece(0, 0, 0, 2, 4)
    assert script.works(0) == script.piece(0, 1, 0, 2, 4)
    assert script.works(0, 0) == NOTHING
    assert script.tick(9.0) == NOTHING
    assert script.tick(2.0) == script.piece(0, 1, 0, 2, 4)
    assert script.works(0, 0) == NOTHING
    assert script.works(1) == script.piece(1, 1, 0, 2, 4)
    assert script.works(1) == script.meeting([0, 1], validate=True)


def test_a_run_in_which_nothing_counts_is_noticed_with_whom_it_waits_for() -> None:
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


def test_stop_ends_a_run_whose_workers_never_leave_their_meeting() -> None:
    script = meeting(stall_timeout_s=60.0)
    script.stop()
    both = [script.connection(worker) for worker in range(2)]
    script.tick()
    assert [RequestSnapshot(connection=c) for c in both] == script.tick(60.0)[-2:]
    assert script.tick(3.0) == [Drop(connection=c) for c in both]
    script.lose(0)
    assert script.lose(1)[-1] == EndRun(stopped=True)


def test_joining_worker_gets_its_state_from_a_ready_worker_and_all_owed_work_is_done() -> None:
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


def test_a_lost_workers_piece_is_trained_only_while_another_worker_keeps_the_state() -> None:
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


def test_second_joining_worker_does_not_disturb_the_first() -> None:
    script = training(3)
    script.lose(1)
    script.lose(2)
    assert script.register(1, attempt=1) == script.groups([0, 1], source=0)
    assert script.register(2, attempt=1) == script.groups([0, 1, 2], source=0, to=[0, 2])
    before = script.progress
    assert script.asks(1) == [
        *script.groups([0, 1, 2], source=0, to=[0, 1], progress=before),
        *script.piece(1, 1, 0, 2, 4),
    ]


def test_a_newcomer_lost_while_others_meet_does_not_disturb_them() -> None:
    script = training(3, checkpoints=Due(minibatches=2))
    script.lose(2)
    script.register(2, attempt=1)
    assert script.works(0) == script.meeting([0, 1], checkpoint=True)
    assert script.lose(2) == script.groups([0, 1], source=0)


def test_repeatedly_failing_meeting_ends_the_run_with_the_learned_state() -> None:
    script = meeting()
    for _ in range(MAX_FRUITLESS_GROUPS - 1):
        script.report(0, "broken")
        assert script.report(1, "broken")[0:1] != script.request(0)
    sent = script.report(0, "broken")
    assert sent == script.regroups(script.coordinator.generation, 1) + script.request(0)
    end = script.deliver(0)[-1]
    assert isinstance(end, EndRun)
    assert end.timed_out.startswith("the workers failed to average 5 times in a row.")


def test_a_newcomer_that_never_gets_a_state_ends_the_run_with_a_last_meeting() -> None:
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


def test_a_newcomer_may_try_as_often_as_it_likes_while_the_others_meet() -> None:
    script = meeting(3)
    script.lose(2)
    script.register(2, attempt=1)
    for _ in range(2 * MAX_FRUITLESS_GROUPS):
        assert script.report(2, "broken") == script.groups([0, 1, 2], source=0)


def test_joining_worker_resets_the_retry_count() -> None:
    script = training(3)
    script.lose(1)
    script.lose(2)
    script.register(1, attempt=1)
    for _ in range(MAX_FRUITLESS_GROUPS - 1):
        script.report(1, "broken")
    script.register(2, attempt=1)
    assert script.report(1, "broken", generation=script.coordinator.generation - 1) == (
        script.groups([0, 1, 2], source=0, to=[0, 1])
    )


def test_a_checkpoint_is_due_after_seconds_if_anything_was_learned() -> None:
    script = training(checkpoints=Due(seconds=60))
    assert script.tick(100.0) == NOTHING
    assert script.works(0) == script.meeting([0, 1], checkpoint=True)
    script.works(1, 0, wants_more=False)
    script.checkpoint()
    script.all_meet(0, 1)
    script.works(0)
    assert script.tick(59.0) == NOTHING
    assert script.tick(1.0) == script.meeting([0, 1], checkpoint=True)


def test_checkpoint_at_the_end_of_an_epoch_needs_no_extra_meeting() -> None:
    script = training(1, epochs=2, checkpoints=Due(minibatches=4))
    script.works(0)
    assert script.works(0) == script.meeting([0], checkpoint=True)
    script.checkpoint()
    assert script.all_meet(0)[1:] == script.piece(0, 0, 1, 0, 2)


def test_a_checkpoint_of_another_meeting_is_not_kept() -> None:
    script = meeting()
    script.handle(CheckpointReceived(progress=replace(script.progress, averagings=5)))
    assert not any(isinstance(action, KeepCheckpoint) for action in script.all_meet(0, 1))


def test_stop_while_training_ends_with_a_last_meeting() -> None:
    script = training()
    assert script.stop() == script.meeting([0, 1])
    assert script.stop() == NOTHING
    script.works(0, 1, wants_more=False)
    script.works(1, 0, wants_more=False)
    assert script.all_meet(0, 1) == script.request(0)
    assert script.deliver(0) == [*script.dismissals(0, 1), EndRun(stopped=True)]
    assert script.progress.steps == (1, 0)


def test_worker_that_joins_after_stop_is_released_and_not_missed() -> None:
    script = training()
    script.lose(1)
    script.stop()
    assert script.register(1, attempt=1) == script.dismissals(1, reason="the run has ended")
    assert script.tick(1000.0) == NOTHING


def test_stop_in_the_last_meeting_is_a_regular_end() -> None:
    script = meeting(epochs=1)
    script.stop()
    script.all_meet(0, 1)
    assert script.deliver(0)[-1] == EndRun(stopped=False)


def test_repeated_last_meeting_skips_validation_and_checkpoint() -> None:
    script = meeting(checkpoints=Due(minibatches=4))
    script.stop()
    script.report(0, "broken")
    assert script.report(1, "broken") == script.meeting([0, 1])


def test_failing_worker_causes_a_last_meeting_that_keeps_the_state() -> None:
    script = training()
    script.works(1, 1, wants_more=False)
    assert script.report(1, "failed", generation=1, failure=FAILURE) == script.meeting([0, 1])
    script.works(0, 0, wants_more=False)
    assert script.all_meet(0, 1) == script.request(0)
    assert script.deliver(0) == [*script.dismissals(0, 1), EndRun(failure=FAILURE)]


def test_stopped_run_without_a_delivered_state_keeps_nothing() -> None:
    script = training(1)
    script.stop()
    script.works(0, 1, wants_more=False)
    assert script.all_meet(0) == script.request(0)
    assert script.lose(0) == [ResetHistory(), EndRun(stopped=True)]
    assert script.progress.steps == (0,)


def test_wait_for_a_lost_worker_times_out_and_keeps_the_state() -> None:
    script = owed()
    assert script.tick(120.0) == NOTHING
    assert script.tick(0.1) == script.meeting([0])
    assert script.all_meet(0) == script.request(0)
    end = script.deliver(0)[-1]
    assert isinstance(end, EndRun)
    assert end.timed_out.startswith("worker 1 was lost, and its replacement did not register")
    assert not end.stopped

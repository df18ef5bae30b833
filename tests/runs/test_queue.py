"""A run that waits for task slots names the run that holds them."""

import contextlib
from collections.abc import Iterator

import pytest

from sparkwright.runs._queue import Claim, RunQueue
from sparkwright.runs.record import RunRecord


@pytest.fixture
def queue() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as ends:
        yield ends


def record() -> RunRecord:
    return RunRecord(workers=2, epochs=1, name="sparkwright-test")


def claim(workers: int = 2, slots: int | None = 4, place: str = "app-1") -> Claim:
    return Claim(place, workers, slots)


def test_a_queued_run_names_the_runs_that_it_waits_for(queue: contextlib.ExitStack) -> None:
    runs, waiting = RunQueue(), record()
    first = runs.turn("brisk-heron", claim(3), record())
    first.__enter__()
    queue.enter_context(runs.turn("calm-otter", claim(), waiting))
    waiting.state_changed("starting", "waiting for 2 workers")
    assert waiting.status().state == "queued"
    assert waiting.status().message == "Waiting for run brisk-heron to end"
    last = record()
    queue.enter_context(runs.turn("keen-wren", claim(), last))
    assert last.status().message == "Waiting for run brisk-heron or calm-otter to end"
    first.__exit__(None, None, None)
    assert (waiting.status().state, waiting.status().message) == (
        "starting",
        "waiting for 2 workers",
    )
    assert last.status().state == "starting"


def test_runs_that_have_slots_of_their_own_wait_for_nothing(queue: contextlib.ExitStack) -> None:
    runs = RunQueue()
    queue.enter_context(runs.turn("brisk-heron", claim(), record()))
    for other in (claim(), claim(place="app-2"), claim(4, slots=None)):
        free = record()
        queue.enter_context(runs.turn("calm-otter", other, free))
        free.state_changed("starting", "waiting for 2 workers")
        assert free.status().state == "starting"
        free.state_changed("training", "training")
        free.set_waiting_for(("brisk-heron",))  # too late to be shown
        assert free.status().state == "training"


def test_workers_that_joined_hold_slots_too(queue: contextlib.ExitStack) -> None:
    runs, grown, waiting = RunQueue(), record(), record()
    queue.enter_context(runs.turn("brisk-heron", claim(1, slots=2), grown))
    for worker in range(2):
        grown.worker_joined(worker, host="a", rows=1)
    queue.enter_context(runs.turn("calm-otter", claim(1, slots=2), waiting))
    assert waiting.status().message == "Waiting for run brisk-heron to end"

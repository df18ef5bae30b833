import threading
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st
from tests.waiting import wait_until

from sparkwright.cluster.held_slots import check_free_slot, holding
from sparkwright.errors import SlotsError
from sparkwright.runs._queue import Claim, Place, RunQueue
from sparkwright.runs.record import RunRecord


def record():
    return RunRecord(workers=2, epochs=1, name="sparkwright-test")


def claim(workers=2, slots=4, place="app-1"):
    return Claim(place, workers, slots)


class Runs:
    """A queue and the threads of its runs."""

    def __init__(self):
        self.queue = RunQueue()
        self.at_work = []

    def start(self, name, claimed):
        return Run(self, name, claimed)


class Run:
    def __init__(self, runs, name, claimed):
        self.record, self.stopped, self._ends = record(), threading.Event(), threading.Event()
        place = Place(name, claimed, self.record)
        runs.queue.enter(place)

        def work():
            with runs.queue.turn(place, is_stopped=self.stopped.is_set):
                runs.at_work.append(name)
                self._ends.wait(30)

        self.thread = threading.Thread(target=work)
        self.thread.start()

    def end(self):
        self.stopped.set()
        self._ends.set()
        self.thread.join(10)
        assert not self.thread.is_alive()


@contextmanager
def started(runs, *claims):
    with ExitStack() as ends:
        found = [runs.start(name, claimed) for name, claimed in claims]
        for run in found:
            ends.callback(run.end)
        yield found


def test_a_run_starts_when_it_can_have_all_its_slots_in_the_order_of_asking():
    runs = Runs()
    claims = ("brisk-heron", claim(3)), ("calm-otter", claim()), ("keen-wren", claim(1))
    with started(runs, *claims) as (first, second, third):
        second.record.state_changed("starting", "waiting for 2 workers")
        assert second.record.status().state == "queued"
        assert second.record.status().message == "Waiting for run brisk-heron to end"
        # One slot is free, but the second run asked first.
        assert third.record.status().message == "Waiting for run brisk-heron or calm-otter to end"
        assert runs.at_work == ["brisk-heron"]
        first.end()
        wait_until(lambda: len(runs.at_work) == 3)
        assert sorted(runs.at_work[1:]) == ["calm-otter", "keen-wren"]
        assert second.record.status().message == "waiting for 2 workers"


def test_a_queued_run_can_be_stopped():
    runs = Runs()
    with started(runs, ("brisk-heron", claim(4)), ("calm-otter", claim())) as (_, second):
        second.end()
        assert runs.at_work == ["brisk-heron", "calm-otter"]


@pytest.mark.parametrize("other", [claim(), claim(4, place="app-2"), claim(4, slots=None)])
def test_runs_that_have_slots_of_their_own_wait_for_nothing(other):
    runs = Runs()
    with started(runs, ("brisk-heron", claim()), ("calm-otter", other)):
        wait_until(lambda: len(runs.at_work) == 2)


def test_workers_that_joined_hold_slots_too():
    runs = Runs()
    with started(runs, ("brisk-heron", claim(1, slots=2))) as (grown,):
        for worker in range(2):
            grown.record.worker_joined(worker, host="a", rows=1)
        with started(runs, ("calm-otter", claim(1, slots=2))) as (waiting,):
            assert waiting.record.behind == ("brisk-heron",)
            grown.record.worker_lost(1)
            grown.end()
            wait_until(lambda: runs.at_work == ["brisk-heron", "calm-otter"])


@given(
    wanted=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    ends=st.lists(st.integers(0, 5), max_size=6),
)
def test_runs_that_do_not_wait_never_need_more_slots_than_there_are(wanted, ends):
    queue = RunQueue()
    with ExitStack() as left:
        turns = []
        for number, workers in enumerate(wanted):
            place = Place(f"run-{number}", claim(workers), record())
            queue.enter(place)
            turns.append((place, left.enter_context(ExitStack())))
        for end in (*ends, *range(6)):
            present = [place for place, _ in turns if not place.record.behind]
            assert sum(place.claim.workers for place in present if place.claim) <= 4
            assert present or not turns, "somebody always goes on"
            # Without overtaking.
            assert present == [place for place, _ in turns][: len(present)]
            if present:
                gone = present[end % len(present)]
                with queue.turn(gone, is_stopped=lambda: False):
                    pass
                turns = [each for each in turns if each[0] is not gone]


def test_a_job_of_a_callback_raises_instead_of_waiting_for_its_own_run():
    context = SimpleNamespace(applicationId="app-1")
    with holding("app-1", 2, 2), pytest.raises(SlotsError, match="slots=2, of which the run holds"):
        check_free_slot(context)
    for free in (("app-1", 2, 3), ("app-2", 2, 2), ("app-1", 2, None)):
        with holding(*free):
            check_free_slot(context)
    check_free_slot(context)

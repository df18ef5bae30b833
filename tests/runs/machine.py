"""What the state machines of both coordinators have in common: the world around a run."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparkwright.runs._decisions import Action, Dismiss
from sparkwright.runs._observations import (
    CallbacksAnswered,
    CallbacksAwaited,
    CheckpointReceived,
    ConnectionLost,
    StopRequested,
    TaskEnded,
    TimerFired,
    WorkerFailed,
    WorkerRegistered,
)
from sparkwright.workers.protocol import Failure, Group

WORKERS, EPOCHS = 3, 2
# The callbacks end the run after the second of four epochs; after each they set a learning rate.
CALLED_EPOCHS, LAST_CALLED = 4, 2


def rate_after(epoch, round):
    """The learning rate that the callbacks of this moment want."""
    return 1 / (epoch + round / 100)


going_on = precondition(lambda self: self.end is None)
under_way = precondition(lambda self: self.end is None and self.generation > 2)


@dataclass(eq=False)
class Ring:
    """The members of a group that meet."""

    group: Group

    @property
    def connections(self):
        return [seat.port for seat in self.group.seats]


@dataclass(eq=False, kw_only=True)
class Attempt:
    """One attempt of one worker."""

    connection: int
    worker: int
    attempt: int
    alive: bool = True
    silent: bool = False  # neither does anything nor closes its connections
    sent: deque[Any] = field(default_factory=deque[Any])  # on its way to the driver
    orders: deque[Action] = field(default_factory=deque[Action])  # on their way from it
    ring: Any = None
    asked: tuple[int, Any] = (0, 0)  # the generation and the moment that it asked about
    calls_back: bool = False
    frequency: int = 0  # averagings between callbacks

    def wait_for_callbacks(self, ring, progress):
        """The first of the ring sends the state, and asks; the others wait for it."""
        moment = progress.epoch, progress.round
        about = (ring.group.generation, moment)
        if self.connection != ring.connections[0] or self.asked == about:
            return False
        self.asked = about
        self.sent.append(CheckpointReceived(progress=progress, write=False))
        self.sent.append(CallbacksAwaited(connection=self.connection, moment=moment))
        return True

    @property
    def in_a_ring(self):
        return self.ring is not None and not self.silent

    may_fail = in_a_ring


class RunMachine(RuleBasedStateMachine):
    """What happens to a run, in any order; the coordinator and its workers are the subclass's."""

    epochs = EPOCHS
    required = WORKERS  # hold data; the others join and leave
    calls_back = False
    frequency = 0
    coordinator: Any

    def __init__(self):
        super().__init__()
        self.now_s = 0.0
        self.attempts = {}  # by connection
        self.latest = {}  # by worker
        self.rings = {}
        self.past = []
        self.generation = 0
        self.end = None
        self.asked_to_stop = False
        self.failures = []
        self.gone = set()  # connections that are lost or dismissed
        self.any_lost = False
        self.breaks = 0  # rings that broke without a loss
        self.called = []  # moments whose callbacks were asked for
        self.answered = 0  # how many of them have run
        common = {
            "workers": WORKERS,
            "required": self.required,
            "rendezvous_timeout_s": 1e9,
            "queue_timeout_s": 1e9,
            "replacement_timeout_s": 1e9,
            "max_failures": 1 << 30,
        }
        self.coordinator = self.coordinate(common)
        for worker in range(self.required):
            self.begin(worker, attempt=0)

    # -- what the subclass says -------------------------------------------------------------

    def coordinate(self, common):
        raise NotImplementedError

    def new_worker(self, **fields):
        raise NotImplementedError

    def rows(self, worker):
        """Examples and validation examples."""
        raise NotImplementedError

    def handle(self, event):
        raise NotImplementedError

    def everything_goes_well_for_a_moment(self):
        raise NotImplementedError

    def check_the_time_out(self, timed_out):
        raise NotImplementedError

    def check_the_end(self, progress):
        raise NotImplementedError

    # -- workers ----------------------------------------------------------------------------

    def begin(self, worker, *, attempt):
        connection = 100 * attempt + worker
        found = self.new_worker(
            connection=connection,
            worker=worker,
            attempt=attempt,
            calls_back=self.calls_back,
            frequency=self.frequency,
        )
        self.attempts[connection] = self.latest[worker] = found
        rows, validation_rows = self.rows(worker)
        found.sent.append(
            WorkerRegistered(
                connection=connection,
                worker=worker,
                attempt=attempt,
                host="",
                address=("", connection),
                rows=rows,
                validation_rows=validation_rows,
            )
        )

    def launch(self, worker, *, replaces):
        """A retry of a required worker's task is left to the rules; a joining one's begins here."""
        latest = self.latest.get(worker)
        if latest is not None and replaces:  # the task is cancelled, and the trainer with it
            latest.alive = False
        if worker >= self.required:
            self.begin(worker, attempt=0 if latest is None else latest.attempt + 1)

    def one(self, data, suits=lambda worker: True):
        """One of those alive that suit, or None."""
        found = [w for w in self.attempts.values() if w.alive and suits(w)]
        return data.draw(st.sampled_from(found)) if found else None

    def fails(self, worker):
        self.failures.append(Failure(worker=worker))
        return self.failures[-1]

    # -- what may happen --------------------------------------------------------------------

    @initialize(moments=st.sampled_from([6, 12, 3, 20, 9, 0]))
    def all_went_well_before(self, moments):
        self.all_goes_well(moments)

    @going_on
    @rule(data=st.data())
    def a_ring_breaks_at_one_worker(self, data):
        if (worker := self.one(data, lambda w: w.in_a_ring)) is not None:
            self.breaks += 1
            worker.leave("broken")

    @under_way
    @rule(data=st.data())
    def a_worker_fails(self, data):
        if (worker := self.one(data, lambda w: w.may_fail)) is not None:
            worker.fail(self.fails(worker.worker))

    @going_on
    @rule(data=st.data())
    def a_worker_is_given_up_but_goes_on(self, data):
        """Until it notices that its connection is closed."""
        worker = self.one(data, lambda w: not w.silent)
        if worker is not None and worker.connection not in self.gone:
            self.any_lost = True
            worker.sent.clear()
            worker.orders.append(Dismiss(connection=worker.connection))
            self.handle(ConnectionLost(connection=worker.connection, silent=True))

    @going_on
    @rule(moments=st.integers(1, 6))
    def all_goes_well(self, moments):
        for _ in range(moments):
            if self.end is None:
                self.everything_goes_well_for_a_moment()

    @under_way
    @rule()
    def a_worker_fails_before_it_registers(self):
        self.handle(WorkerFailed(failure=self.fails(0)))

    @precondition(lambda self: self.end is None and self.generation > 1)
    @rule()
    def the_user_stops_the_run(self):
        self.asked_to_stop = True
        self.handle(StopRequested())

    @going_on
    @rule(data=st.data())
    def a_lost_worker_is_started_again(self, data):
        lost = [w for w in self.latest.values() if not w.alive or w.silent]
        if lost:
            worker = data.draw(st.sampled_from(lost))
            self.begin(worker.worker, attempt=worker.attempt + 1)

    @going_on
    @rule(data=st.data(), fails=st.booleans())
    def the_task_of_a_lost_worker_ends(self, data, fails):
        """A retry within the same job is `a_lost_worker_is_started_again`."""
        lost = [w for w in self.latest.values() if not w.alive]
        if lost:
            worker = data.draw(st.sampled_from(lost)).worker
            failure = Failure(worker=worker, reason="killed") if fails else None
            self.handle(TaskEnded(worker=worker, failure=failure))

    @going_on
    @rule(later_s=st.floats(0.1, 6.0))
    def time_passes(self, later_s):
        self.now_s += later_s
        self.handle(TimerFired())

    @precondition(lambda self: self.end is None and self.answered < len(self.called))
    @rule()
    def the_callbacks_answer(self):
        moment = self.called[self.answered]
        self.answered += 1
        ends = moment == (LAST_CALLED, 0)
        self.handle(CallbacksAnswered(moment=moment, ends=ends, learning_rate=rate_after(*moment)))

    @rule(data=st.data())
    def a_message_is_repeated(self, data):
        if self.past:
            self.handle(data.draw(st.sampled_from(self.past[-20:])))

    # -- what must hold ---------------------------------------------------------------------

    @invariant()
    def generations_only_grow(self):
        assert self.coordinator.generation >= self.generation
        self.generation = self.coordinator.generation

    @invariant()
    def a_run_that_is_over_has_ended(self):
        assert (self.coordinator.phase == "over") == (self.end is not None)

    def teardown(self):
        """Left alone, with lost workers replaced, every run ends."""
        self.all_goes_well(400)
        assert self.end is not None, f"the run did not end: {self.coordinator.phase}"
        end = self.end
        if end.failure is not None:
            assert end.failure in self.failures
        elif end.timed_out:
            self.check_the_time_out(end.timed_out)
        elif end.stopped:
            assert self.asked_to_stop
        else:
            self.check_the_end(self.coordinator.progress)


class CalledBack(RunMachine):
    """Runs with callbacks."""

    epochs = CALLED_EPOCHS
    calls_back = True

    @invariant()
    def callbacks_run_once_for_each_moment_in_order(self):
        assert self.called == sorted(set(self.called))
        epochs = [epoch for epoch, round in self.called if not round]
        assert epochs == [*range(1, len(epochs) + 1)]
        assert len(epochs) <= LAST_CALLED

    def check_the_answers(self, progress):
        """Nobody trains on before the callbacks have run, and then with their learning rate."""
        moment = progress.answered, progress.answered_round
        if progress.opened > progress.epoch:
            assert progress.answered == progress.epoch
            if self.frequency:
                assert progress.round - progress.answered_round <= self.frequency
        if moment != (0, 0):
            assert moment in self.called[: self.answered]
            assert progress.learning_rate == rate_after(*moment)

    def check_the_end(self, progress):
        assert progress.epoch == progress.opened == LAST_CALLED
        assert self.called[-1] == (LAST_CALLED, 0)


def case_of(machine, *, examples, steps=50):
    """The test case of a machine, for pytest."""
    case = machine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    return case

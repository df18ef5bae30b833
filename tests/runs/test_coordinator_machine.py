from collections import deque
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.runs.machine import (
    EPOCHS,
    WORKERS,
    Attempt,
    CalledBack,
    Ring,
    RunMachine,
    case_of,
    going_on,
)

from sparkwright.runs._averaging_coordinator import Coordinator
from sparkwright.runs._decisions import (
    Dismiss,
    Drop,
    EndRun,
    KeepCheckpoint,
    LaunchTask,
    RequestResult,
    RequestSnapshot,
    RequestStacks,
    ResetHistory,
    RunCallbacks,
    SendAnswer,
    SendGroup,
    SendPause,
    SendRegroup,
    SendStop,
    ShowStalled,
    ShowStandstill,
)
from sparkwright.runs._observations import (
    CallbacksAnswered,
    CheckpointReceived,
    ConnectionLost,
    ResultReceived,
    StopRequested,
    TimerFired,
    WorkerAlive,
    WorkerReported,
)
from sparkwright.workers.protocol import Progress
from sparkwright.workers.work import share_out

MINIBATCHES = 4  # of each worker in an epoch; one a round
_REPEATED = (WorkerReported, ConnectionLost, ResultReceived, StopRequested)


@dataclass(eq=False)
class AveragingRing(Ring):
    """One group's all-reduces: nobody has round n before all have contributed to it."""

    joined: set[int] = field(default_factory=set[int])  # connections
    contributed: dict[int, int] = field(default_factory=dict[int, int])
    stopping: set[int] = field(default_factory=set[int])  # rounds to which "stop" was contributed
    answers: dict[Any, CallbacksAnswered] = field(default_factory=dict[Any, CallbacksAnswered])


@dataclass(eq=False, kw_only=True)
class Worker(Attempt):
    """One attempt of one worker, obeying the rule: one report a generation."""

    ring: AveragingRing | None = None
    rounds: int = 0  # averagings in this ring
    progress: Progress | None = None
    stopping: bool = False
    paused: int = 0  # a generation
    required: int = WORKERS
    epochs: int = EPOCHS
    hung: bool = False  # its training thread, not the one that reads and sends heartbeats

    @property
    def has_average(self):
        return self.progress is not None and self.progress.averagings > 0

    def take(self, action, rings):
        match action:
            case SendGroup(group=group):
                assert self.ring is None, "a group came before the report about the last one"
                self.ring = rings.setdefault(group.generation, AveragingRing(group))
                self.ring.joined.add(self.connection)
                self.rounds = 0
            case SendRegroup(generation=generation):
                if self.ring is not None and self.ring.group.generation <= generation:
                    self.leave("broken")
            case SendStop():
                self.stopping = True
            case SendPause(generation=generation):
                self.paused = generation
            case RequestSnapshot():
                if self.has_average:
                    self.sent.append(ResultReceived(connection=self.connection))
            case RequestResult():
                assert self.ring is None
                assert self.progress is not None, "there is nothing to deliver"
                self.sent.append(ResultReceived(connection=self.connection))
            case SendAnswer(answer=answer):
                if self.ring and self.asked == (self.ring.group.generation, answer.moment):
                    self.ring.answers[answer.moment] = answer
            case Dismiss():
                self.alive, self.ring = False, None
                self.sent.append(ConnectionLost(connection=self.connection))
            case _:
                raise AssertionError(action)

    def work(self):
        """The next thing that the ring allows; False if there is none."""
        ring = self.ring
        if ring is None or self.hung or not ring.joined.issuperset(ring.connections):
            return False
        if self.connection not in ring.contributed:
            self.progress = ring.group.progress
            ring.contributed[self.connection] = 0
        elif ring.contributed[self.connection] == self.rounds:
            ending = self.prepare(ring)
            if ending == "calling":
                assert self.progress is not None
                return self.wait_for_callbacks(ring, self.progress)
            if ending is not None:
                self.leave(ending)
                return True
            ring.contributed[self.connection] += 1
            if self.stopping or self.paused >= ring.group.generation:
                ring.stopping.add(self.rounds)
        elif min(ring.contributed.get(c, 0) for c in ring.connections) > self.rounds:
            self.average(ring)
            if self.rounds - 1 in ring.stopping:
                self.leave("stopped")
        else:
            return False
        return True

    def prepare(self, ring):
        while True:
            epoch = self.progress.epoch
            if self.calls_back and self.progress.awaits_callbacks(self.frequency):
                answer = ring.answers.get((epoch, self.progress.round))
                if answer is None:
                    return "calling"
                if answer.ends:
                    return "stopped"
                self.progress = self.progress.after_callbacks(answer.learning_rate)
            if self.progress.epoch < self.epochs:
                self.progress = self.progress.with_epoch_opened([MINIBATCHES] * self.required)
            if self.shares(ring):
                return None
            if self.progress.epoch == self.epochs:
                return "waiting" if self.progress.todo else "finished"
            self.progress = self.progress.after_epoch()

    def shares(self, ring):
        assert self.progress is not None
        quotas = {seat.worker: 1 for seat in ring.group.seats}
        lend = ring.group.has_joined
        return share_out(self.progress.todo, epoch=self.progress.epoch, quotas=quotas, lend=lend)

    def average(self, ring):
        assert self.progress is not None
        shares = self.shares(ring)
        done = {worker: (share.size, share.size) for worker, share in shares.items()}
        self.progress = self.progress.after_round(shares, done, iterations=0)
        self.rounds += 1

    def fail(self, failure):
        self.leave("failed", failure)

    def leave(self, ending, failure=None):
        generation, self.ring = self.ring.group.generation, None
        self.sent.append(
            WorkerReported(
                connection=self.connection,
                generation=generation,
                ending=ending,
                progress=self.progress,
                failure=failure,
            )
        )


class Runs(RunMachine):
    """Runs of parameter averaging."""

    def __init__(self):
        self.copy = Progress.first(workers=WORKERS)
        self.beats = 0
        self.delivered = False
        self.reports = {}  # by connection: the last
        super().__init__()

    def coordinate(self, common):
        return Coordinator(**common)

    def new_worker(self, **fields):
        return Worker(epochs=self.epochs, required=self.required, **fields)

    def rows(self, worker):
        return MINIBATCHES if worker < self.required else 0, 0

    # -- the driver's side ------------------------------------------------------------------

    def handle(self, event):
        if self.end is not None:
            return
        if isinstance(event, _REPEATED):
            self.past.append(event)
        if isinstance(event, WorkerReported):
            self.reports[event.connection] = event.progress
        self.delivered |= isinstance(event, ResultReceived)
        actions = self.coordinator.handle(event, now_s=self.now_s)
        present = {found.connection for found in self.coordinator.present.values()}
        groups = [action.group for action in actions if isinstance(action, SendGroup)]
        if groups:
            assert all(group == groups[0] for group in groups)
            self.check(groups[0], actions)
        for action in actions:
            match action:
                case EndRun():
                    assert self.end is None, "a run ends once"
                    assert action is actions[-1]
                    self.end = action
                    self.check_that_no_average_is_lost(present)
                case ResetHistory():
                    assert self.coordinator.progress == self.copy
                case KeepCheckpoint(progress=progress):
                    self.copy = max(self.copy, progress, key=lambda found: found.order)
                case LaunchTask(worker=worker, replaces=replaces):
                    self.launch(worker, replaces=replaces)
                case Drop(connection=connection):
                    self.handle(ConnectionLost(connection=connection, silent=True))
                case ShowStalled() | ShowStandstill() | RequestStacks():
                    pass
                case RunCallbacks(moment=moment):
                    self.called.append(moment)
                case Dismiss(connection=c, reason=r) if r.startswith("a newer attempt"):
                    assert not self.attempts[c].alive, "it is the newest that is alive"
                case (
                    SendGroup(connection=c)
                    | SendRegroup(connection=c)
                    | SendPause(connection=c)
                    | SendStop(connection=c)
                    | SendAnswer(connection=c)
                    | RequestResult(connection=c)
                    | RequestSnapshot(connection=c)
                    | Dismiss(connection=c)
                ):
                    self.attempts[c].orders.append(action)
                case _:
                    raise AssertionError(action)

    def check_that_no_average_is_lost(self, present):
        """A run ends with an average if the driver or a connected worker has one."""
        holders = [
            c
            for c in present
            if c in self.attempts and self.attempts[c].alive
            if self.attempts[c].has_average and not self.attempts[c].hung
        ]
        assert self.delivered or self.copy.averagings or not holders

    def check(self, group, actions):
        sent = [action.connection for action in actions if isinstance(action, SendGroup)]
        assert group.generation == self.generation + 1
        assert any(seat.worker < self.required for seat in group.seats), "nobody has data"
        assert sorted(sent) == sorted(seat.port for seat in group.seats)
        workers = [seat.worker for seat in group.seats]
        assert workers == sorted(set(workers))
        assert group.progress == self.coordinator.progress
        # A worker leaves its ring before it reports, so what it reported is what it still has.
        has = [self.reported(seat.port) for seat in group.seats]
        orders = [progress.order for progress in has if progress is not None]
        if group.source < 0:
            assert not orders
            assert group.progress == self.copy
        else:
            assert has[group.source] == group.progress
            assert group.progress.order == max(orders)

    def reported(self, connection):
        worker = self.attempts[connection]
        if worker.alive:
            assert worker.ring is None, "somebody is still in the last ring"
            return worker.progress
        # Dead, but the driver does not know yet: what counts is its last report.
        return self.reports.get(connection)

    # -- what may happen --------------------------------------------------------------------

    @going_on
    @rule(data=st.data())
    def a_message_arrives_at_the_driver(self, data):
        waiting = [w for w in self.attempts.values() if w.sent]
        if waiting:
            self.handle(data.draw(st.sampled_from(waiting)).sent.popleft())

    @going_on
    @rule(data=st.data())
    def an_order_arrives_at_a_worker(self, data):
        waiting = [w for w in self.attempts.values() if w.orders and w.alive and not w.hung]
        if waiting:
            worker = data.draw(st.sampled_from(waiting))
            worker.take(worker.orders.popleft(), self.rings)

    @going_on
    @rule(data=st.data())
    def one_worker_works(self, data):
        self.one_in_a_ring(data, Worker.work)

    def one_in_a_ring(self, data, act):
        worker = self.one(data, lambda w: w.ring is not None)
        if worker is not None:
            act(worker)

    def a_worker_is_killed(self, data):
        worker = self.one(data)
        if worker is None:
            return
        worker.alive, worker.ring = False, None
        # Some of what it sent still arrives, late.
        arrives = data.draw(st.integers(0, len(worker.sent)))
        worker.sent = deque(list(worker.sent)[:arrives])
        worker.sent.append(ConnectionLost(connection=worker.connection))

    @going_on
    @rule(data=st.data(), moments=st.integers(0, 6))
    def a_worker_is_killed_and_replaced(self, data, moments):
        self.a_worker_is_killed(data)
        self.all_goes_well(moments)

    @going_on
    @rule(data=st.data())
    def the_driver_gets_a_copy(self, data):
        """From the first of a ring, as right after an averaging."""
        firsts = [
            w
            for w in self.attempts.values()
            if w.alive and w.has_average and w.ring is not None
            if w.connection == w.ring.connections[0]
        ]
        if firsts:
            progress = data.draw(st.sampled_from(firsts)).progress
            assert progress is not None
            self.handle(CheckpointReceived(progress=progress, write=False))

    @precondition(lambda self: self.end is None and self.generation > 0)
    @rule(data=st.data())
    def a_training_thread_hangs(self, data):
        self.one_in_a_ring(data, lambda worker: setattr(worker, "hung", True))

    # -- what must hold ---------------------------------------------------------------------

    def teardown(self):
        """A run with a hung worker ends if it is stopped."""
        if self.end is None and any(worker.hung for worker in self.attempts.values()):
            self.asked_to_stop = True
            self.handle(StopRequested())
        super().teardown()

    def check_the_time_out(self, timed_out):
        assert timed_out.startswith(("the workers' ring broke", "all workers were lost"))

    def check_the_end(self, progress):
        assert (progress.epoch, progress.todo) == (EPOCHS, ())
        assert sum(progress.examples) == EPOCHS * MINIBATCHES * self.required

    def everything_goes_well_for_a_moment(self):
        for latest in list(self.latest.values()):
            if not latest.alive and not latest.sent:
                self.begin(latest.worker, attempt=latest.attempt + 1)
        self.beats += 1
        for worker in list(self.attempts.values()):
            if worker.alive and self.beats % 5 == 0 and self.end is None:
                self.handle(
                    WorkerAlive(connection=worker.connection, steps=0, computing=worker.hung)
                )
            while worker.sent and self.end is None:
                self.handle(worker.sent.popleft())
            while worker.orders and worker.alive:
                order = worker.orders.popleft()
                # A hung worker's reader thread answers still, its training thread does not.
                if not worker.hung or isinstance(order, RequestSnapshot | Dismiss):
                    worker.take(order, self.rings)
            self.generations_only_grow()
        for worker in self.attempts.values():
            idle = not worker.work() and worker.ring is not None and not worker.hung
            if idle and worker.ring is not None and self.is_broken(worker.ring):
                worker.leave("broken")
        self.now_s += 0.2
        self.handle(TimerFired())
        if self.answered < len(self.called):
            self.the_callbacks_answer()

    def is_broken(self, ring):
        """Whether a member is gone from it, and so closed its connections."""
        members = [self.attempts[connection] for connection in ring.connections]
        left = [m for m in members if m.connection in ring.joined and m.ring is not ring]
        return bool(left) or not all(member.alive for member in members)


class JoinedRuns(Runs):
    """Runs with a worker that joins and leaves."""

    required = WORKERS - 1


class CalledBackRuns(CalledBack, Runs):
    """Runs with callbacks."""

    @invariant()
    def nobody_trains_on_before_an_answer(self):
        for worker in self.attempts.values():
            if worker.progress is not None:
                self.check_the_answers(worker.progress)


class CalledBackAtAveragingsRuns(CalledBackRuns):
    """Runs with callbacks after every other averaging, too."""

    frequency = 2


TestRuns = case_of(Runs, examples=100, steps=60)
TestJoinedRuns = case_of(JoinedRuns, examples=100, steps=60)
TestCalledBackRuns = case_of(CalledBackRuns, examples=40, steps=60)
TestCalledBackAtAveragingsRuns = case_of(CalledBackAtAveragingsRuns, examples=40, steps=60)

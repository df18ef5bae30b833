from collections import deque
from dataclasses import dataclass, field, replace

import hypothesis.strategies as st
from hypothesis.stateful import invariant, rule
from tests.runs.machine import (
    EPOCHS,
    LAST_CALLED,
    WORKERS,
    Attempt,
    CalledBack,
    Ring,
    RunMachine,
    case_of,
    going_on,
)

from sparkwright.masters import Checkpointing
from sparkwright.runs._decisions import (
    Action,
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
    SendGroup,
    SendMeeting,
    SendPiece,
    SendRegroup,
    ShowStalled,
    ShowStandstill,
)
from sparkwright.runs._observations import (
    CheckpointReceived,
    ConnectionLost,
    ResultReceived,
    StopRequested,
    TimerFired,
    WorkerReported,
    WorkReported,
)
from sparkwright.runs._sharing_coordinator import SharingCoordinator
from sparkwright.workers.protocol import Group, Progress
from sparkwright.workers.work import Span

MINIBATCHES = (5, 3, 4)  # of each worker in an epoch, of one example each
PIECE = 2  # minibatches; some workers ask for more
ALWAYS = 1 << 62

Learned = set[tuple[int, int, int]]  # the minibatches that a state has seen


def everything(epochs):
    return {
        (worker, epoch, number)
        for epoch in range(epochs)
        for worker, count in enumerate(MINIBATCHES)
        for number in range(count)
    }


def members(span):
    return {(span.owner, span.epoch, number) for number in range(span.start, span.stop)}


@dataclass(frozen=True)
class Validation:
    """Travels to the driver, but not to its rules."""

    epoch: int


@dataclass(frozen=True)
class Checkpoint:
    """What arrives with `CheckpointReceived`."""

    progress: Progress
    learned: frozenset[tuple[int, int, int]]


@dataclass(eq=False)
class Meeting(Ring):
    """One meeting, or the common beginning: nobody is through before all have contributed."""

    order: SendMeeting | None  # None: the common beginning
    learned: Learned = field(default_factory=Learned)  # where those who begin begin
    contributed: set[int] = field(default_factory=set[int])  # connections
    left: set[int] = field(default_factory=set[int])  # before its end


@dataclass(eq=False, kw_only=True)
class Worker(Attempt):
    """One attempt of one worker; does one thing at a time, as `SharingWorker` does."""

    inbox: deque[Action] = field(default_factory=deque[Action])
    abandoned: int = 0  # rings up to this generation are not to be waited for
    group: Group | None = None
    learned: Learned | None = None  # shared by all who share updates; None: no state
    progress: Progress | None = None
    ring: Meeting | None = None
    source: "Worker | None" = None  # from whom it is fetching its state
    waited: int = 0
    piece: Span | None = None
    done: int = 0

    def arrive(self, order):
        """The reader's thread: what ends a wait acts at once."""
        if isinstance(order, SendRegroup):
            self.abandoned = max(self.abandoned, order.generation)
            return
        if isinstance(order, RequestSnapshot):
            if self.learned is not None:
                self.sent.append(ResultReceived(connection=self.connection))
            return
        if isinstance(order, Dismiss):
            self.abandoned = ALWAYS
        self.inbox.append(order)

    def turn(self, world):
        """The next thing that this worker does; False if it has to wait."""
        if not self.alive:
            return False
        if self.ring is not None:
            return self.meet(self.ring, world)
        if self.source is not None:
            return self.fetch(self.source, world)
        if self.inbox:
            self.obey(self.inbox.popleft(), world)
            return True
        return self.train(world)

    def obey(self, order, world):
        match order:
            case SendGroup(group=group):
                self.group = group
                if self.learned is None and group.source < 0:
                    self.ring = world.ring(group, None)
                elif self.learned is None:
                    self.source, self.waited = world.attempts[group.seats[group.source].port], 0
                    assert self.source.learned is not None, "the source has no state"
            case SendPiece(piece=piece):
                assert self.learned is not None
                assert self.piece is None, "it has a piece already"
                self.piece, self.done = piece, 0
            case SendMeeting(group=group):
                assert self.learned is not None, "it has nothing to average"
                if self.piece is not None:
                    self.report_work(wants_more=False)
                self.ring = world.ring(group, order)
            case RequestResult():
                assert self.learned is not None
                self.sent.append(ResultReceived(connection=self.connection))
            case Dismiss():
                self.die()
            case _:
                raise AssertionError(order)

    def die(self, arriving=ALWAYS):
        """Only the first `arriving` messages that are on their way still arrive."""
        self.alive, self.ring, self.source = False, None, None
        while len(self.sent) > arriving:
            self.sent.pop()
        self.sent.append(ConnectionLost(connection=self.connection))

    # -- with others ------------------------------------------------------------------------

    def meet(self, ring, world):
        is_cut = world.is_cut(ring)
        world.breaks += is_cut
        if ring.group.generation <= self.abandoned or is_cut or world.is_broken(ring):
            self.leave("broken")
        elif self.connection not in ring.contributed:
            ring.contributed.add(self.connection)
        elif not ring.contributed.issuperset(ring.connections):
            return False
        elif ring.order is None:
            self.ring, self.learned, self.progress = None, ring.learned, ring.group.progress
            self.report_work()
        else:
            self.average(ring.group, ring.order)
        return True

    def average(self, group, order):
        assert self.learned is not None
        self.progress = group.progress
        first = group.rank_of(self.worker) == 0
        if order.validate:
            self.progress = replace(self.progress, validated=self.progress.epoch)
            if first:
                self.sent.append(Validation(self.progress.epoch))
        if order.checkpoint and first:
            self.sent.append(Checkpoint(self.progress, frozenset(self.learned)))
        self.ring = None
        self.report(group, "met")

    def leave(self, ending, failure=None):
        assert self.ring is not None
        ring, self.ring = self.ring, None
        ring.left.add(self.connection)
        self.report(ring.group, ending, failure)

    def fetch(self, source, world):
        self.waited += 1
        busy = source.silent or source.ring is not None or source.source is not None
        busy |= {self.worker, source.worker} in world.cut
        if source.alive and busy and self.waited < 10:
            return False
        self.source = None
        if source.alive and not busy:
            self.learned, self.progress = source.learned, self.group.progress
            self.report_work()
        else:
            self.report(self.group, "broken")
        return True

    # -- alone ------------------------------------------------------------------------------

    def train(self, world):
        if self.piece is None:
            return False
        if self.piece.owner != self.worker:
            seats = [seat for seat in self.group.seats if seat.worker == self.piece.owner]
            owner = world.attempts[seats[0].port] if seats else None
            unreadable = (self.worker, self.piece.owner) in world.unreadable
            unreadable |= {self.worker, self.piece.owner} in world.cut
            if owner is None or not owner.alive or owner.silent or unreadable:
                self.report_work()
                return True
        self.learned.add((self.piece.owner, self.piece.epoch, self.piece.start + self.done))
        self.done += 1
        if self.done == self.piece.size:
            self.report_work()
        return True

    @property
    def may_fail(self):
        return self.group is not None and not self.silent

    def fail(self, failure):
        if self.ring is not None:
            self.leave("failed", failure)
            return
        assert self.group is not None
        self.source = None
        if self.piece is not None:
            self.report_work(wants_more=False)
        self.report(self.group, "failed", failure)

    def report_work(self, *, wants_more=True):
        self.sent.append(
            WorkReported(
                connection=self.connection,
                piece=self.piece,
                minibatches=self.done if self.piece else 0,
                examples=self.done if self.piece else 0,
                wants_more=wants_more,
                wanted=2 * self.worker,
            )
        )
        self.piece = None

    def report(self, group, ending, failure=None):
        self.sent.append(
            WorkerReported(
                connection=self.connection,
                generation=group.generation,
                ending=ending,
                progress=self.progress,
                failure=failure,
            )
        )


class Runs(RunMachine):
    """Runs of gradient sharing."""

    def __init__(self):
        self.told = {}  # by connection: as the driver sees it
        self.pieces = {}  # likewise
        self.arrived = None
        self.kept = frozenset()  # in the last checkpoint
        self.validated = []
        self.deliverer = None
        self.deadly = set()  # what workers had that were lost
        # (who reads, whose data); for good, although the others reach both.
        self.unreadable = set()
        self.cut = set()  # pairs of workers that do not reach each other for now
        super().__init__()

    @property
    def minibatches(self):
        """Of all workers in an epoch."""
        return sum(MINIBATCHES[: self.required])

    def everything(self, epochs):
        return {part for part in everything(epochs) if part[0] < self.required}

    def coordinate(self, common):
        return SharingCoordinator(
            **common,
            epochs=self.epochs,
            minibatches=lambda rows: rows,
            piece_size=lambda _: PIECE,
            checkpoints=Checkpointing("unused", every_rounds=4, every_s=5.0),
            copies=True,
            callbacks=self.calls_back,
        )

    def new_worker(self, **fields):
        return Worker(**fields)

    def rows(self, worker):
        if worker >= self.required:
            return 0, 0
        return MINIBATCHES[worker], worker

    def ring(self, group, order):
        ring = Meeting(group, order, set(self.kept))
        return self.rings.setdefault(group.generation, ring)

    def is_broken(self, ring):
        """Whether a member has closed its connections; a silent one has not."""
        inside = [c for c in ring.connections if c not in ring.contributed]
        return bool(ring.left) or not all(self.attempts[c].alive for c in inside)

    def is_cut(self, ring):
        """Whether members that have not all contributed do not reach each other."""
        workers = {self.attempts[connection].worker for connection in ring.connections}
        is_through = ring.contributed.issuperset(ring.connections)
        return not is_through and any(pair <= workers for pair in self.cut)

    # -- the driver's side ------------------------------------------------------------------

    def take(self, sent):
        match sent:
            case Validation(epoch=epoch):
                self.validated.append(epoch)
            case Checkpoint(progress=progress):
                self.arrived = sent
                self.handle(CheckpointReceived(progress=progress))
            case _:
                self.handle(sent)

    def handle(self, event):
        if isinstance(event, WorkerReported | ConnectionLost | ResultReceived | StopRequested):
            self.past.append(event)
        match event:
            case ConnectionLost(connection=c):
                self.gone.add(c)
                self.lose_piece(c)
            case WorkReported(connection=c, piece=piece) if piece is not None and c in self.pieces:
                assert self.pieces.pop(c) == piece
            case _:
                pass
        for action in self.coordinator.handle(event, now_s=self.now_s):
            self.perform(action)
        self.check_the_ledger()

    def perform(self, action):
        assert self.end is None or isinstance(action, Dismiss), "the run has ended"
        match action:
            case EndRun():
                self.end = action
                return
            case LaunchTask(worker=worker, replaces=replaces):
                self.launch(worker, replaces=replaces)
                return
            case ShowStalled() | ShowStandstill() | RequestStacks():
                return
            case Drop(connection=c):  # the worker notices when it looks at its connection
                self.attempts[c].sent.clear()
                self.attempts[c].orders.append(Dismiss(connection=c))
                self.handle(ConnectionLost(connection=c, silent=True))
                return
            case RunCallbacks(moment=moment):
                self.called.append(moment)
                return
            case ResetHistory():
                assert not self.pieces
                assert self.coordinator.progress.steps == self.coordinator.progress.examples
                self.validated = [e for e in self.validated if e <= self.coordinator.progress.epoch]
                return
            case KeepCheckpoint(progress=progress):
                assert self.arrived is not None
                left = {part for span in progress.todo for part in members(span)}
                opened = self.everything(progress.opened)
                assert self.arrived.learned >= opened - left, "what counts is not in it"
                self.kept = self.arrived.learned
                return
            case SendGroup(connection=c, group=group):
                self.told[c] = group
            case SendPiece(connection=c, piece=piece):
                assert c not in self.pieces, "it has a piece already"
                seats = {seat.worker: seat.port for seat in self.told[c].seats}
                assert seats[piece.owner] not in self.gone, "it does not know where the data is"
                assert piece.size
                self.pieces[c] = piece
                self.check_who_keeps_the_state(c)
            case RequestResult(connection=c):
                self.deliverer = self.attempts[c]
            case Dismiss(connection=c):
                self.lose_piece(c)
            case _:
                pass
        connection = getattr(action, "connection")  # noqa: B009 (all others have one)
        assert connection not in self.gone, f"it is gone: {action}"
        if isinstance(action, Dismiss):
            self.gone.add(connection)
        self.attempts[connection].orders.append(action)

    def lose_piece(self, connection):
        if (piece := self.pieces.pop(connection, None)) is not None:
            self.deadly |= members(piece)

    def check_who_keeps_the_state(self, connection):
        """What a worker was lost with is trained while another has the state, or by one alone."""
        at_risk = {c for c, piece in self.pieces.items() if members(piece) & self.deadly}
        present = {r.connection for r in self.coordinator.present.values()}
        having = {c for c in present if self.attempts[c].learned is not None}
        alone = present == {connection} and self.required == 1
        assert connection not in at_risk or alone or having - at_risk, "the state would be lost"

    def check_the_ledger(self):
        """Each minibatch is left, handed out or done: once."""
        progress = self.coordinator.progress
        spans = [*progress.todo, *(self.pieces.values() if self.end is None else ())]
        places = [part for span in spans for part in members(span)]
        assert len(places) == len(set(places)), "pieces overlap"
        if self.end is None:
            assert len(places) + sum(progress.steps) == progress.opened * self.minibatches

    # -- what may happen --------------------------------------------------------------------

    @going_on
    @rule(data=st.data())
    def messages_arrive_at_the_driver(self, data):
        waiting = [w for w in self.attempts.values() if w.sent and not w.silent]
        if waiting:
            self.take(data.draw(st.sampled_from(waiting)).sent.popleft())

    @going_on
    @rule(data=st.data())
    def orders_arrive_at_a_worker(self, data):
        worker = self.one(data, lambda w: bool(w.orders))
        while worker is not None and worker.orders:
            worker.arrive(worker.orders.popleft())

    @going_on
    @rule(data=st.data(), turns=st.integers(1, 4))
    def one_worker_works(self, data, turns):
        worker = self.one(data, lambda w: not w.silent)
        while worker is not None and turns and worker.turn(self):
            turns -= 1

    @going_on
    @rule(data=st.data(), arriving=st.sampled_from([ALWAYS, 0, 1, 2]), moments=st.integers(0, 4))
    def a_worker_is_killed(self, data, arriving, moments):
        worker = self.one(data, lambda w: not w.silent)
        if worker is not None:
            self.any_lost = True
            worker.die(arriving)
            self.all_goes_well(moments)

    @rule(pair=st.permutations(range(WORKERS)))
    def a_worker_cannot_read_the_data_of_another(self, pair):
        self.unreadable.add((pair[0], pair[1]))

    @rule(pair=st.permutations(range(WORKERS)))
    def a_link_is_cut(self, pair):
        self.cut.add(frozenset(pair[:2]))

    @rule()
    def all_links_are_mended(self):
        self.cut.clear()
        self.unreadable.clear()

    def teardown(self):
        self.cut.clear()
        super().teardown()

    @going_on
    @rule(data=st.data(), replaced=st.booleans())
    def a_worker_falls_silent(self, data, replaced):
        worker = self.one(data, lambda w: not w.silent)
        if worker is None:
            return
        worker.sent.clear()
        self.any_lost = worker.silent = True
        if replaced:  # before it is missed
            self.begin(worker.worker, attempt=self.latest[worker.worker].attempt + 1)
            self.take(self.latest[worker.worker].sent.popleft())

    # -- what must hold ---------------------------------------------------------------------

    def check_the_time_out(self, timed_out):
        if timed_out.startswith("the workers failed to average"):
            assert self.breaks >= 5
        else:
            assert timed_out == "all workers were lost before one delivered the result."

    def check_the_end(self, progress):
        assert (progress.epoch, progress.todo) == (EPOCHS, ())
        assert sum(progress.steps) == sum(progress.examples) == EPOCHS * self.minibatches
        assert self.deliverer.learned == self.everything(EPOCHS)
        if not self.any_lost:
            assert self.validated == [*range(1, progress.validated + 1)]
            assert self.asked_to_stop or progress.validated == EPOCHS

    def everything_goes_well_for_a_moment(self):
        for latest in list(self.latest.values()):
            if not latest.sent and (latest.silent or not latest.alive):
                self.begin(latest.worker, attempt=latest.attempt + 1)
        for worker in list(self.attempts.values()):
            if worker.silent and worker.connection not in self.gone:
                worker.sent = deque([ConnectionLost(connection=worker.connection)])
            while worker.sent and self.end is None:
                self.take(worker.sent.popleft())
            while worker.orders:
                worker.arrive(worker.orders.popleft())
            for _ in range(0 if worker.silent else 3):
                source = worker.source
                worker.turn(self)
                self.breaks += source is not None and worker.waited >= 10
        self.now_s += 0.2
        if self.end is None:
            self.handle(TimerFired())
        if self.end is None and self.answered < len(self.called):
            self.the_callbacks_answer()


class JoinedRuns(Runs):
    """Runs with a worker that joins and leaves."""

    required = 2


class CalledBackRuns(CalledBack, Runs):
    """Runs with callbacks."""

    def check_the_end(self, progress):
        super().check_the_end(progress)
        assert self.deliverer.learned is not None
        owed = {part for span in progress.todo for part in members(span)}
        assert self.deliverer.learned >= everything(LAST_CALLED) - owed

    @invariant()
    def nobody_trains_on_before_an_answer(self):
        self.check_the_answers(self.coordinator.progress)


TestRuns = case_of(Runs, examples=100)
TestJoinedRuns = case_of(JoinedRuns, examples=100)
TestCalledBackRuns = case_of(CalledBackRuns, examples=40)

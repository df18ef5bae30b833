"""The rules by which the driver leads a run of gradient sharing: events in, actions out; pure.

    gathering --all came--> training --no work left, stop, or a checkpoint is due--> meeting
    meeting --all met--> training (the next epoch) | delivering
    delivering --result--> over

Work is handed out piece by piece, so that a slow worker only has less of it. When a worker is lost,
the others go on; its pieces wait until its data is back, also beyond the end of the epoch: they are
owed. A newcomer takes its state from one of the others and asks for work. Workers stop for one
another only at meetings, where they average what is not shared by updates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from ._coordinator import MAX_FRUITLESS_GROUPS
from ._decisions import (
    Action,
    CheckpointReceived,
    ConnectionLost,
    Dismiss,
    EndRun,
    Event,
    ForgetHistory,
    KeepCheckpoint,
    RequestResult,
    ResultReceived,
    SendGroup,
    SendMeeting,
    SendPiece,
    SendRegroup,
    StopRequested,
    TimerFired,
    WorkerFailed,
    WorkerRegistered,
    WorkerReported,
    WorkReported,
)
from ._protocol import Failure, Group, Progress
from ._roll import Roll
from ._work import Span, next_piece, without

Phase = Literal["gathering", "training", "meeting", "delivering", "over"]


class CheckpointSchedule(Protocol):
    """Says when a checkpoint is due."""

    def due(self, rounds_since: int, seconds_since: float) -> bool:
        """Whether it is, so many minibatches and seconds after the last one."""
        ...


@dataclass(slots=True)
class _Member:
    """One connected worker.

    Invariant: `piece` has been taken out of what is left to do, and goes back if it is lost.
    """

    connection: int
    worker: int
    ready: bool = False  # has a state
    asked: bool = False  # wants work and has none
    piece: Span | None = None
    grouped: int = 0  # the generation that it was last told of
    meeting: int = 0  # the generation in which it is to meet; 0: none
    met: bool = False

    @property
    def in_ring(self) -> int:
        """The generation of the ring in which it meets others now; 0: none."""
        return self.meeting or (0 if self.ready else self.grouped)


class SharingCoordinator:
    """Leads `workers` workers through one run of gradient sharing.

    Attributes:
        phase: where the run is, see the module's diagram.
        generation: counts groups and meetings.
        workers: how many belong to the run.
        progress: what has been done; `averagings` counts meetings.
        exact: False: what is logged beyond `progress` counts too, for others know of it.
    """

    exact = False

    def __init__(
        self,
        *,
        workers: int,
        epochs: int,
        minibatches: Callable[[Sequence[int]], Sequence[int]],
        piece_size: Callable[[Sequence[int]], int],
        slots: int | None = None,
        start: Progress | None = None,
        checkpoints: CheckpointSchedule | None = None,
        rendezvous_timeout_s: float = 120.0,
        queue_timeout_s: float = 600.0,
        replacement_grace_s: float = 2.0,
        replacement_timeout_s: float = 120.0,
        now_s: float = 0.0,
    ) -> None:
        """Begin to gather.

        Args:
            workers: how many are to come.
            epochs: passes over the data.
            minibatches: examples of each worker -> minibatches of each in an epoch.
            piece_size: examples of each worker -> minibatches of a piece.
            slots: task slots that Spark is known to have, for messages.
            start: where to begin; default None: at the beginning.
            checkpoints: when the workers meet for a checkpoint; default None: never.
            rendezvous_timeout_s: see `MeshConfig`; likewise the next three.
            queue_timeout_s: likewise.
            replacement_grace_s: likewise.
            replacement_timeout_s: likewise.
            now_s: the clock's present reading.
        """
        self.phase: Phase = "gathering"
        self.generation = 0
        self.workers = workers
        self.progress = start or Progress.first(workers=workers)
        self._start = self.progress
        self._epochs, self._minibatches, self._piece_size = epochs, minibatches, piece_size
        self._checkpoints = checkpoints
        self._checkpoint_s, self._checkpoint_steps = now_s, 0
        self._roll = Roll(
            workers=workers,
            slots=slots,
            rendezvous_timeout_s=rendezvous_timeout_s,
            queue_timeout_s=queue_timeout_s,
            replacement_timeout_s=replacement_timeout_s,
            now_s=now_s,
        )
        self._grace_s = replacement_grace_s
        self._members: dict[int, _Member] = {}  # by connection
        self._size = 1
        self._began = False  # some group has been formed
        self._without_state_since_s: float | None = None
        self._fruitless = 0
        self._epoch_over = False  # why they meet
        self._checkpoint_here = False
        self._grouped = 0  # the generation of the last group
        self._stopping = False
        self._failure: Failure | None = None
        self._timed_out = ""
        self._deliverer: int | None = None

    @property
    def present(self) -> dict[int, WorkerRegistered]:
        """Worker -> its latest registration, of those connected."""
        return self._roll.present

    @property
    def attempts(self) -> dict[int, int]:
        """Worker -> attempts seen; more than one means that Spark started it again."""
        return self._roll.attempts

    def handle(self, event: Event, *, now_s: float) -> list[Action]:
        """Take one event and return what the server must now do, in order."""
        if self.phase == "over":
            late = isinstance(event, WorkerRegistered)
            return (
                [Dismiss(connection=event.connection, reason="the run has ended")] if late else []
            )
        match event:
            case WorkerRegistered():
                return self._register(event, now_s)
            case WorkReported():
                return self._take_work(event, now_s)
            case WorkerReported():
                return self._take_report(event, now_s)
            case WorkerFailed(failure=failure):
                return self._wind_up(now_s, failure=failure)
            case ConnectionLost(connection=connection):
                return self._lose(connection, now_s)
            case ResultReceived(connection=connection):
                delivered = self.phase == "delivering" and connection == self._deliverer
                return self._end() if delivered else []
            case CheckpointReceived():
                self._checkpoint_here = True  # what it contains is known when all have met
                return []
            case StopRequested():
                self._stopping = True
                return self._end() if self.phase == "gathering" else self._wind_up(now_s)
            case TimerFired():
                return self._tick(now_s)

    # -- events -----------------------------------------------------------------------------

    def _register(self, event: WorkerRegistered, now_s: float) -> list[Action]:
        if self.phase == "delivering":
            return [Dismiss(connection=event.connection, reason="the run has ended")]
        if refusal := self._roll.refusal(event):
            return [Dismiss(connection=event.connection, reason=refusal)]
        actions: list[Action] = []
        replaced = self._roll.admit(event, now_s)
        if replaced is not None:
            self._take_back(self._members.pop(replaced))
            reason = f"attempt {event.attempt} of worker {event.worker} has taken its place"
            actions.append(Dismiss(connection=replaced, reason=reason))
        self._members[event.connection] = _Member(event.connection, event.worker)
        if self.phase == "gathering":
            return actions + (self._begin(now_s) if self._roll.all_present else [])
        return actions + self._go_on(now_s, changed=True)

    def _take_work(self, event: WorkReported, now_s: float) -> list[Action]:
        member = self._members.get(event.connection)
        if member is None:
            return []
        behind = not member.ready and member.grouped < self._grouped
        if not member.ready:
            member.ready = True
            self._fruitless = 0
        if event.piece is not None and event.piece == member.piece:
            self._count(member, event)
        member.asked = event.wants_more
        # Others have come or gone while it was getting its state.
        return self._go_on(now_s, changed=behind)

    def _take_report(self, event: WorkerReported, now_s: float) -> list[Action]:
        member = self._members.get(event.connection)
        if member is None:
            return []
        if event.ending == "failed":
            member.meeting = 0
            return self._wind_up(now_s, failure=event.failure)
        if not member.ready and event.generation == member.grouped:
            member.grouped = 0  # it could not get a state: tell it again
            self._fruitless += 1
            return self._go_on(now_s)
        if event.generation != member.meeting:
            return []
        member.met, member.meeting = event.ending == "met", 0
        return self._go_on(now_s)

    def _lose(self, connection: int, now_s: float) -> list[Action]:
        self._roll.lose(connection, now_s)
        member = self._members.pop(connection, None)
        if member is None:
            return []
        self._take_back(member)
        if self.phase == "gathering":
            return []
        if self.phase == "delivering":
            return self._deliver() if connection == self._deliverer else []
        # A silent worker would keep those who are in a ring with it waiting.
        freed: list[Action] = [
            SendRegroup(connection=other.connection, generation=other.in_ring)
            for other in self._members.values()
            if other.in_ring
        ]
        return freed + self._go_on(now_s, changed=True)

    def _tick(self, now_s: float) -> list[Action]:
        if self.phase == "gathering":
            problem = self._roll.gathering_problem(now_s)
            return self._give_up(problem) if problem else []
        if self.phase == "delivering":
            return []
        problem = self._roll.replacement_problem(now_s)
        if problem and not self._timed_out:
            self._timed_out = problem
            return self._wind_up(now_s)
        return self._go_on(now_s)

    # -- what follows -----------------------------------------------------------------------

    def _begin(self, now_s: float) -> list[Action]:
        """All have come for the first time."""
        self.phase, self._began = "training", True
        self._size = max(1, self._piece_size(self._roll.all_rows))
        self._checkpoint_s = now_s
        self._open_epoch()
        return self._regroup()

    def _go_on(self, now_s: float, *, changed: bool = False) -> list[Action]:
        """Whatever can be done now, given who is there and what they do."""
        actions: list[Action] = []
        if changed or any(not m.ready and not m.grouped for m in self._members.values()):
            actions += self._regroup_when_possible(now_s)
        if self.phase == "meeting":
            actions += self._advance_meeting(now_s)
        if self.phase == "training":
            actions += self._hand_out(now_s)
        return actions

    def _regroup_when_possible(self, now_s: float) -> list[Action]:
        if self._fruitless > MAX_FRUITLESS_GROUPS:
            return self._give_up(
                f"a worker could not get a state to start from {MAX_FRUITLESS_GROUPS} times. The "
                "workers reach the driver but not one another: open the ports between them "
                "(`MeshConfig(ports=…)`)."
            )
        if any(member.ready for member in self._members.values()):
            self._without_state_since_s = None
            return self._regroup()
        # Nobody has a state: those who are there begin together, once all others have come.
        if any(member.grouped for member in self._members.values()):
            return []  # some are about to begin
        if self._without_state_since_s is None:
            self._without_state_since_s = now_s
        grace_over = now_s - self._without_state_since_s >= self._grace_s
        if not self._members or not (self._roll.all_present or grace_over):
            return []
        self._without_state_since_s = None
        forget: list[Action] = []
        if self._began and self.progress != self._start:
            forget = [ForgetHistory()]
            self.progress = self._start
            self._open_epoch()
        return forget + self._regroup()

    def _regroup(self) -> list[Action]:
        """Tell everybody who is there now."""
        self.generation += 1
        self._grouped = self.generation
        members = sorted(self._members.values(), key=lambda member: member.worker)
        ready = [place for place, member in enumerate(members) if member.ready]
        starting = not ready
        group = self._group(members, source=-1 if starting else ready[0])
        actions: list[Action] = []
        for member in members:
            # One who is about to get a state from this or an earlier group is left to it.
            if member.ready or not member.grouped or starting:
                member.grouped = self.generation
                actions.append(SendGroup(connection=member.connection, group=group))
        return actions

    def _hand_out(self, now_s: float) -> list[Action]:
        """Give work to whoever wants some; if there is none and nobody has any, meet."""
        if self._checkpoint_due(now_s):
            return self._call_meeting(checkpoint=True)
        actions: list[Action] = []
        ready = [member for member in self._members.values() if member.ready]
        owners = {member.worker for member in ready}
        for member in ready:
            if not member.asked:
                continue
            piece = next_piece(
                self.progress.todo,
                worker=member.worker,
                present=owners,
                epoch=self.progress.epoch,
                size=self._size,
            )
            if piece is None:
                continue
            shares, done = {member.worker: piece}, {member.worker: piece.count}
            self.progress = replace(self.progress, todo=without(self.progress.todo, shares, done))
            member.asked, member.piece = False, piece
            actions.append(SendPiece(connection=member.connection, piece=piece))
        idle = ready and all(member.asked and member.piece is None for member in ready)
        if not actions and idle and self.progress.epoch < self._epochs:
            self.progress, self._epoch_over = self.progress.after_epoch(), True
            return self._call_meeting()
        if not actions and idle and not self.progress.todo:
            return self._call_meeting()  # what was owed has been done after the last epoch
        return actions

    def _call_meeting(self, *, checkpoint: bool = False) -> list[Action]:
        """Everybody who has a state breaks off and averages."""
        self.phase = "meeting"
        self.generation += 1
        members = sorted(
            (member for member in self._members.values() if member.ready),
            key=lambda member: member.worker,
        )
        group = self._group(members, source=0)
        validate = (
            self._epoch_over
            and not self._winding_up
            and bool(sum(group.validation_rows))
            and self.progress.validated < self.progress.epoch
        )
        for member in members:
            member.meeting, member.met, member.asked = self.generation, False, False
        return [
            SendMeeting(
                connection=member.connection, group=group, validate=validate, checkpoint=checkpoint
            )
            for member in members
        ]

    @property
    def _winding_up(self) -> bool:
        return self._stopping or self._failure is not None or bool(self._timed_out)

    def _advance_meeting(self, now_s: float) -> list[Action]:
        ready = [member for member in self._members.values() if member.ready]
        if any(member.meeting for member in ready):
            return []
        if not ready:
            return self._end() if self._winding_up else []
        if not all(member.met for member in ready):
            return self._call_meeting()  # it broke, or somebody has come since
        self.progress = replace(
            self.progress,
            averagings=self.progress.averagings + 1,
            validated=self.progress.epoch if self._epoch_over else self.progress.validated,
        )
        self._epoch_over = False
        actions: list[Action] = []
        if self._checkpoint_here:
            self._checkpoint_here, self._start = False, self.progress
            actions.append(KeepCheckpoint(progress=self.progress))
        for member in ready:
            member.met, member.asked = False, True
        if self._winding_up or (self.progress.epoch == self._epochs and not self.progress.todo):
            return actions + self._deliver()
        self.phase = "training"
        self._open_epoch()
        return actions + self._hand_out(now_s)

    def _checkpoint_due(self, now_s: float) -> bool:
        steps = max(self.progress.steps, default=0)
        schedule = self._checkpoints
        if schedule is None or steps == self._checkpoint_steps:
            return False
        if not any(member.ready for member in self._members.values()):
            return False
        if not schedule.due(steps - self._checkpoint_steps, now_s - self._checkpoint_s):
            return False
        self._checkpoint_s, self._checkpoint_steps = now_s, steps
        return True

    def _wind_up(self, now_s: float, *, failure: Failure | None = None) -> list[Action]:
        """End with a last meeting of those who can come to one."""
        if self.phase in ("delivering", "over"):
            return []  # what was learnt is complete; this came too late to matter
        self._failure = self._failure or failure
        if not any(member.ready for member in self._members.values()):
            return self._end()
        if self.phase == "training":
            return self._call_meeting()
        return self._go_on(now_s)

    def _deliver(self) -> list[Action]:
        ready = [member for member in self._members.values() if member.ready]
        if not ready:
            if self._winding_up:
                return self._end()
            return self._give_up("all workers were lost before one delivered the result.")
        self.phase = "delivering"
        first = min(ready, key=lambda member: member.worker)
        self._deliverer = first.connection
        return [RequestResult(connection=first.connection)]

    # -- small parts ------------------------------------------------------------------------

    def _group(self, members: Sequence[_Member], *, source: int) -> Group:
        return Group(
            generation=self.generation,
            seats=self._roll.seats([member.connection for member in members]),
            rows=self._roll.all_rows,
            validation_rows=self._roll.all_validation_rows,
            progress=self.progress,
            source=source,
        )

    def _open_epoch(self) -> None:
        if self.progress.epoch < self._epochs:
            self.progress = self.progress.with_epoch_opened(self._minibatches(self._roll.all_rows))

    def _count(self, member: _Member, event: WorkReported) -> None:
        """A piece has come back: what was done of it counts, the rest is still to be done."""
        piece, worker = event.piece, member.worker
        assert piece is not None
        steps, examples = list(self.progress.steps), list(self.progress.examples)
        steps[worker] += event.minibatches
        examples[worker] += event.examples
        rest = piece._replace(start=piece.start + event.minibatches)
        self.progress = replace(
            self.progress,
            steps=tuple(steps),
            examples=tuple(examples),
            iterations=max(self.progress.iterations, event.iterations),
            todo=(*self.progress.todo, rest) if rest.count else self.progress.todo,
        )
        member.piece = None

    def _take_back(self, member: _Member) -> None:
        """A worker is gone: the piece that it had is still to be done."""
        if member.piece is not None:
            self.progress = replace(self.progress, todo=(*self.progress.todo, member.piece))

    def _give_up(self, message: str) -> list[Action]:
        self._timed_out = self._timed_out or message
        return self._end(reason=message)

    def _end(self, *, reason: str = "") -> list[Action]:
        self.phase = "over"
        complete = self.progress.epoch >= self._epochs and not self.progress.todo
        end = EndRun(
            stopped=self._stopping and not complete,
            failure=self._failure,
            timed_out=self._timed_out,
        )
        dismissals = [Dismiss(connection=number, reason=reason) for number in self._members]
        return [*dismissals, end]

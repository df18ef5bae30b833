"""Coordinator of gradient sharing: a pure state machine from events to actions.

    gathering --all workers registered--> training
    training --no work left, stop, or a checkpoint is due--> meeting
    meeting --all members averaged--> training | answering (at an epoch's end) | delivering
    answering --the callbacks have run--> training (the next epoch) | delivering
    meeting --a worker failed--> meeting (repeated)
    training | meeting --all workers lost and replaced--> training (from the last checkpoint)
    delivering --result received--> over

Work is assigned in pieces, so a slow worker gets less of it. If a worker is lost, the others
continue. Its pieces wait until its data is available again, even beyond the end of the epoch. A new
worker fetches the state from another worker and requests work.

A minibatch may end each process that trains it. So a lost worker's piece is assigned only while
another worker keeps the state, or to the only worker of the run.

Workers wait for each other only at meetings, where they average the state that updates do not
share. A stop, a failure or a time-out leads to a final meeting, which preserves the trained state.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sparkwright.masters.checkpointing import Checkpointing, StateSchedule
from sparkwright.workers.protocol import Progress

from ._decisions import (
    Action,
    KeepCheckpoint,
    ResetHistory,
    SendGroup,
    SendMeeting,
    SendPiece,
    SendRegroup,
)
from ._ledger import Ledger
from ._observations import (
    CallbacksAnswered,
    CheckpointReceived,
    Event,
    WorkerReported,
    WorkReported,
)
from ._run_rules import MAX_FRUITLESS_GROUPS, RunRules, named

# A worker is not offered data again that it has failed to read within this time.
_UNREADABLE_S = 10.0

Phase = Literal["gathering", "training", "meeting", "answering", "delivering", "over"]


MemberState = Literal["new", "fetching", "ready"]
Attendance = Literal["outside", "inside", "met"]


@dataclass(slots=True)
class _Member:
    """A connected worker.

    It is "new" until it gets a group, then "fetching" a state, then "ready" to train and to
    average. It is "inside" a ring from its call until it reports that it left, and has "met" if it
    averaged.
    """

    connection: int
    worker: int
    state: MemberState = "new"
    grouped: int = 0  # generation of the last group sent to it
    asked: bool = False  # has requested work and has no piece
    wanted: int = 0  # minibatches requested; 0: the size of a piece
    ring: int = 0  # generation of the last ring that it was asked to join
    attendance: Attendance = "outside"  # of that ring
    unread: dict[int, float] = field(default_factory=dict[int, float])  # owner -> when it failed


@dataclass(slots=True)
class _Meeting:
    reporter: int  # connection of its first member, which sends its results
    broke: bool = False  # a member left it before its end
    has_state: bool = False  # the driver has received the state


class SharingCoordinator(RunRules[_Member]):
    """State machine of one run of gradient sharing."""

    exact = False  # minibatches beyond `progress` count: other workers have their updates
    phase: Phase

    def __init__(
        self,
        *,
        workers: int,
        epochs: int,
        # Examples of each worker -> minibatches per epoch of each.
        minibatches: Callable[[Sequence[int]], Sequence[int]],
        # Examples of each worker -> minibatches of a piece.
        piece_size: Callable[[Sequence[int]], int],
        start: Progress | None = None,
        checkpoints: Checkpointing | None = None,  # for which the workers meet
        copies: bool = False,  # workers also meet to send their state, at less than 1 % of the time
        lends: bool = True,  # idle workers take over work of others
        callbacks: bool = False,  # the driver runs them after each epoch
        **common: Any,
    ) -> None:
        """Start in the phase "gathering"; see `RunRules` for `common`."""
        super().__init__(workers=workers, member=_Member, **common)
        self._ledger = Ledger(
            start or Progress.first(workers=workers),
            epochs=epochs,
            minibatches=minibatches,
            piece_size=piece_size,
            lends=lends,
        )
        self._grouped = 0  # generation of the last group
        self._without_state_since_s: float | None = None
        self._fruitless: set[int] = set()  # generations that broke since the last success
        self._meeting = _Meeting(reporter=-1)  # the last one
        self._schedule = StateSchedule(checkpoints, copies=copies, now_s=self._now_s)
        self._calls_back = callbacks

    @property
    def progress(self) -> Progress:
        """The progress of training; `averagings` counts meetings."""
        return self._ledger.progress

    def _handle(self, event: Event) -> list[Action]:
        match event:
            case _ if self._is_closing:
                return []  # the trained state is complete
            case WorkReported():
                return self._take_work(event)
            case WorkerReported():
                return self._take_report(event)
            case CheckpointReceived(progress=progress):
                # Kept once the meeting has succeeded. States of earlier meetings are ignored.
                current = progress.averagings == self.progress.averagings
                self._meeting.has_state |= self.phase == "meeting" and current
                return []
            case CallbacksAnswered(moment=moment):
                self._answers[moment] = event
                return self._advance()
            case _:
                return []  # of parameter averaging

    # -- events -----------------------------------------------------------------------------

    def _begin(self) -> list[Action]:
        self._ledger.begin(self._membership.all_rows)
        return self._begin_work() + self._regroup()

    def _members_changed(self, *, joined: bool) -> list[Action]:
        self._fruitless.clear()
        return self._advance(changed=True)

    def _remove(self, connection: int) -> list[Action]:
        """Return a lost worker's piece to the remaining work, and end a ring that waits for it."""
        gone = self._members.pop(connection)
        self._ledger.lose(gone.worker)
        return self._request_regroup(gone.ring)

    def _request_regroup(self, ring: int) -> list[Action]:
        """Ask the remaining members of `ring` to leave it, because one does not respond."""
        return [
            SendRegroup(connection=member.connection, generation=ring)
            for member in self._members.values()
            if member.attendance == "inside" and member.ring == ring
        ]

    def _take_work(self, event: WorkReported) -> list[Action]:
        member = self._members.get(event.connection)
        if member is None or member.state == "new":
            return []
        # The membership may have changed while the worker fetched its state.
        behind = member.state == "fetching" and member.grouped < self._grouped
        if member.state == "fetching":
            member.state, member.attendance = "ready", "outside"
            self._fruitless.clear()
        assigned = self._ledger.assigned
        if event.piece is not None and event.piece == assigned.get(member.worker):
            if event.wants_more and event.minibatches < event.piece.size:
                member.unread[event.piece.owner] = self._now_s
            self._ledger.count(
                member.worker,
                event.piece,
                minibatches=event.minibatches,
                examples=event.examples,
                iterations=event.iterations,
                thresholds=event.thresholds,
            )
        member.asked = event.wants_more and member.worker not in assigned
        member.wanted = event.wanted
        return self._advance(changed=behind)

    def _take_report(self, event: WorkerReported) -> list[Action]:
        member = self._members.get(event.connection)
        if member is None:
            return []
        left_ring = member.attendance == "inside" and event.generation == member.ring
        without_state = member.state == "fetching" and event.generation == member.grouped
        if left_ring:
            member.attendance = "met" if event.ending == "met" else "outside"
            self._meeting.broke |= event.ending != "met"
            if event.progress is not None and event.connection == self._meeting.reporter:
                validated = max(event.progress.validated, self.progress.validated)
                self._ledger.progress = replace(self.progress, validated=validated)
        has_failed = event.ending == "failed"
        if has_failed:
            self._failure = self._failure or event.failure
        elif not (left_ring or without_state):
            return []  # a report on an outdated ring
        elif without_state:
            member.state = "new"  # send it another group
        # A new worker cannot fetch a state during a meeting, so that does not count as a failure.
        counts = event.ending != "met" and (member.state == "ready" or self.phase != "meeting")
        if left_ring if has_failed else counts:
            self._fruitless.add(event.generation)  # broke or failed
            if len(self._fruitless) >= MAX_FRUITLESS_GROUPS:
                return self._request_regroup(event.generation) + self._abort_meetings()
        return self._wind_up() if has_failed else self._advance()

    # -- transitions ------------------------------------------------------------------------

    def _advance(self, *, changed: bool = False) -> list[Action]:
        """Return the actions possible now; `changed`: all workers need the new membership."""
        if not self._ready:
            return self._end() if self._is_winding_up else self._restart_when_possible()
        actions: list[Action] = []
        if changed or any(member.state == "new" for member in self._members.values()):
            actions = self._regroup()
        if self.phase == "meeting":
            return actions + self._advance_meeting()
        if self.phase == "answering":
            return actions + self._take_answer()
        return actions + self._assign_work()

    def _restart_when_possible(self) -> list[Action]:
        """Restart training if no worker has a state: when all are present, or after the grace."""
        if any(member.state == "fetching" for member in self._members.values()):
            return []  # a group without a state is about to start
        if self._without_state_since_s is None:
            self._without_state_since_s = self._now_s
        if not self._may_form(self._without_state_since_s):
            return []
        self._without_state_since_s = None
        self._ledger.restart()
        return [ResetHistory(), *self._begin_work(), *self._regroup()]

    def _begin_work(self) -> list[Action]:
        """Start from the driver's state: with an epoch, or the callbacks of the previous one."""
        self.phase = "training"
        self._schedule.begin(self._now_s)
        if self._are_callbacks_due:
            self.phase = "answering"
            return self._ask_callbacks((self.progress.epoch, 0))
        self._ledger.open_epoch()
        return []

    def _regroup(self) -> list[Action]:
        """Send the current membership to all workers; workers without a state fetch one."""
        self.generation += 1
        self._grouped = self.generation
        members = self._by_worker
        ready = [rank for rank, member in enumerate(members) if member.state == "ready"]
        group = self._group(self._members.keys(), source=ready[0] if ready else -1)
        actions: list[Action] = []
        for member in members:
            # Do not interrupt a worker that is fetching a state within an earlier group.
            if member.state != "fetching":
                member.grouped = self.generation
                member.state = "ready" if member.state == "ready" else "fetching"
                actions.append(SendGroup(connection=member.connection, group=group))
            if not ready:
                member.ring, member.attendance = self.generation, "inside"
        return actions

    def _assign_work(self) -> list[Action]:
        """Assign work to idle workers; call a meeting if no work is left or in progress."""
        ready, ledger = self._ready, self._ledger
        asking = [member for member in ready if member.asked]
        if not asking and not self._is_state_due:
            return []
        owners = {member.worker for member in ready}
        # Required workers hold data, so they count as busy while they fetch a state.
        holders = [m for m in self._members.values() if m.worker < self._membership.required]
        all_idle = all(member.asked for member in (*ready, *holders))
        idle = all_idle and not ledger.has_work(owners, risky=self._may_risk(ready))
        if idle and not ledger.is_last_epoch_over and self._membership.any_data_present:
            ledger.progress = self.progress.after_epoch()  # the rest of it is trained later
            return self._call_meeting()
        if (idle and ledger.is_complete) or self._is_state_due:
            return self._call_meeting()
        actions: list[Action] = []
        retried_s = self._now_s - _UNREADABLE_S
        for member in asking:
            unread = {owner for owner, failed_s in member.unread.items() if failed_s > retried_s}
            piece = ledger.hand_out(
                member.worker,
                present=owners - unread,
                wanted=member.wanted,
                workers=len(ready),
                risky=self._may_risk(ready),
            )
            if piece is not None:
                member.asked = False
                actions.append(SendPiece(connection=member.connection, piece=piece))
        return actions

    def _may_risk(self, ready: Sequence[_Member]) -> bool:
        """Whether the state outlives a worker that is assigned a risky piece now."""
        alone = len(self._members) == 1 and self._membership.all_present
        return alone or self._ledger.may_risk([member.worker for member in ready])

    def _call_meeting(self) -> list[Action]:
        """Have all workers with a state stop training and average."""
        self.phase, self._meeting = "meeting", _Meeting(self._ready[0].connection)
        is_kept = self._schedule.call(self._ledger.steps_since_start, self._now_s)
        self.generation += 1
        group = self._group(self._snapshot_sources(), source=0)
        continues = not self._is_winding_up
        sends_state = is_kept or self._are_callbacks_due
        validate = self.progress.validated < self.progress.epoch and any(
            group.validation_rows[seat.worker] for seat in group.seats
        )
        actions: list[Action] = []
        for member in self._ready:
            member.ring, member.attendance = self.generation, "inside"
            actions.append(
                SendMeeting(
                    connection=member.connection,
                    group=group,
                    validate=continues and validate,
                    checkpoint=continues and sends_state,
                )
            )
        return actions

    def _advance_meeting(self) -> list[Action]:
        ready = self._ready
        if self._averaging:
            return []
        # Workers that joined since have a member's state, and take part in the next meeting.
        if self._meeting.broke or not any(member.attendance == "met" for member in ready):
            return self._call_meeting()
        self._fruitless.clear()
        averagings = self.progress.averagings + 1
        self._ledger.progress = replace(self.progress, averagings=averagings)
        actions: list[Action] = []
        if self._meeting.has_state:
            self._ledger.keep()
            self._schedule.keep(self._now_s)
            actions.append(KeepCheckpoint(progress=self.progress, write=self._schedule.writes))
        if self._are_callbacks_due and not self._is_winding_up:
            self.phase = "answering"
            return actions + self._ask_callbacks((self.progress.epoch, 0)) + self._take_answer()
        return actions + self._after_meeting()

    def _take_answer(self) -> list[Action]:
        """Continue with the answer of this epoch's callbacks, if they have run."""
        answer = self._answers.get((self.progress.epoch, 0))
        if self._is_winding_up:
            return self._call_meeting()
        if answer is None:
            return []
        before = self.progress.learning_rate
        self._ledger.progress = self.progress.after_callbacks(answer.learning_rate)
        # Workers receive the learning rate with a group.
        groups = self._regroup() if self.progress.learning_rate != before else []
        return groups + self._after_meeting()

    def _after_meeting(self) -> list[Action]:
        """Request the result at the end of the run; otherwise continue training."""
        if self._is_winding_up or self._ledger.is_complete or self._is_stopped_early:
            return self._deliver()
        for member in self._ready:
            member.asked = True
        self.phase = "training"
        self._ledger.open_epoch()
        return self._assign_work()

    def _wind_up(self) -> list[Action]:
        """End the run with a final meeting of the workers that have a state."""
        if self.phase in ("training", "answering") and self._ready:
            return self._call_meeting()
        return self._advance()

    def _deliver(self) -> list[Action]:
        """Request the result from a worker that completed the last meeting, else any state."""
        if not self._ready:
            if self._is_winding_up:
                return self._end()
            return self._abort("all workers were lost before one delivered the result.")
        self.phase = "delivering"
        chosen = min(self._ready, key=lambda member: member.attendance != "met")
        return [*self._delivery.request(chosen.connection)]

    def _abort_meetings(self) -> list[Action]:
        problem = (
            f"the workers failed to average {MAX_FRUITLESS_GROUPS} times in a row. They reach the "
            "driver but not each other. Open the ports between them (`MeshConfig(ports=…)`), or "
            'use `communication="driver"`.'
        )
        if not self._ready:
            return self._abort(problem)
        self._timed_out = self._timed_out or problem
        return self._deliver() if self.phase == "meeting" else self._call_meeting()

    def _end(self, *, delivered: bool = False, reason: str = "") -> list[Action]:
        self.phase = "over"
        forget: list[Action] = []
        stopped = self._stopping and not (delivered and self._ledger.is_complete)
        if stopped and not (delivered or self._failure or self._timed_out) and self.generation:
            self._ledger.restart()  # no worker has the latest state
            forget = [ResetHistory()]
        return forget + self._ended(stopped=stopped, reason=reason)

    def _awaited(self) -> Collection[int]:
        return [m.connection for m in self._averaging] if self.phase == "meeting" else []

    def _waits_for(self) -> str:
        if self.phase == "answering":
            return f"the callbacks of epoch {self.progress.epoch}"
        if self.phase == "meeting":
            return f"{named([m.worker for m in self._averaging])} to average"
        pieces = [
            f"worker {worker} to train {piece.size} minibatches of worker {piece.owner}'s data"
            for worker, piece in sorted(self._ledger.assigned.items())
        ]
        states = [m.worker for m in self._by_worker if m.state != "ready"]
        fetching = f"{named(states)} to fetch the state" if states else ""
        lost = f"a replacement of {self._absent()}" if self._absent() else ""
        return "; ".join(filter(None, [*pieces, fetching, lost])) or "its workers to ask for work"

    def _snapshot_sources(self) -> Collection[int]:
        return [member.connection for member in self._ready]

    # -- conditions -------------------------------------------------------------------------

    @property
    def _ready(self) -> list[_Member]:
        """The members that have a state, sorted by worker."""
        return [member for member in self._by_worker if member.state == "ready"]

    @property
    def _averaging(self) -> list[_Member]:
        """The members with a state that have not left the last ring."""
        return [member for member in self._ready if member.attendance == "inside"]

    @property
    def _is_winding_up(self) -> bool:
        return self._stopping or self._failure is not None or bool(self._timed_out)

    @property
    def _is_stopped_early(self) -> bool:
        progress = self.progress
        answer = self._answers.get((progress.epoch, 0))
        return progress.opened == progress.epoch and answer is not None and answer.ends

    @property
    def _are_callbacks_due(self) -> bool:
        progress = self.progress
        at_its_end = 0 < progress.epoch == progress.opened
        return self._calls_back and at_its_end and progress.answered < progress.epoch

    @property
    def _is_state_due(self) -> bool:
        """Whether the driver needs the state, for a checkpoint or as a copy."""
        return self._schedule.is_due(self._ledger.steps_since_start, self._now_s)

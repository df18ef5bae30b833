"""Base class of both coordinators: membership, deadlines, failures, callbacks and the result.

A coordinator is a pure state machine: it takes events (`_observations.py`) and returns actions
(`_decisions.py`). It has no sockets, threads or clocks; `_server.py` has them for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from sparkwright.workers.protocol import Failure, Group, Progress

from ._decisions import (
    Action,
    Dismiss,
    EndRun,
    RequestStacks,
    RunCallbacks,
    ShowStandstill,
)
from ._observations import (
    CallbacksAnswered,
    ConnectionLost,
    Event,
    Moment,
    ResultReceived,
    StopRequested,
    TaskEnded,
    TimerFired,
    WorkerAlive,
    WorkerFailed,
    WorkerRegistered,
)
from ._watching import Delivery, Standstill
from .membership import Membership

# The run ends after this number of rings in a row broke without an averaging.
MAX_FRUITLESS_GROUPS = 5


class _MemberOfRun(Protocol):
    """A connected worker."""

    worker: int


Member = TypeVar("Member", bound=_MemberOfRun)


class RunRules(ABC, Generic[Member]):
    """The part of a coordinator that does not depend on what its workers exchange."""

    # Minibatches logged beyond `progress` are repeated, so that they do not count.
    exact: ClassVar[bool]
    phase: Any  # each coordinator has its own phases
    generation: int  # of the current group; 0 before the first

    def __init__(
        self,
        *,
        workers: int,
        member: Callable[[int, int], Member],  # of (connection, worker), just registered
        required: int | None = None,
        slots: int | None = None,
        replacement_grace_s: float = 2.0,
        now_s: float = 0.0,
        stall_timeout_s: float = 60.0,
        **membership: Any,
    ) -> None:
        """Start in the phase "gathering"; see `Membership` for its arguments."""
        self.phase = "gathering"
        self.generation = 0
        self.workers, self._member = workers, member
        self._membership = Membership(
            workers=workers,
            required=required,
            slots=slots,
            now_s=now_s,
            stall_timeout_s=stall_timeout_s,
            **membership,
        )
        self._standstill = Standstill(timeout_s=stall_timeout_s)
        self._beats: dict[int, int] = {}  # connection -> minibatches in its last heartbeat
        self._members: dict[int, Member] = {}  # by connection
        self._grace_s = replacement_grace_s
        self._now_s = now_s
        self._stopping = False
        self._failure: Failure | None = None
        self._timed_out = ""
        self._delivery = Delivery()
        # Moments whose callbacks were requested -> their answer; None: they are still running.
        self._answers: dict[Moment, CallbacksAnswered | None] = {}

    @property
    @abstractmethod
    def progress(self) -> Progress:
        """The progress of training that counts."""

    @property
    def present(self) -> dict[int, WorkerRegistered]:
        """Connected worker -> its latest registration."""
        return self._membership.present

    def handle(self, event: Event, *, now_s: float) -> list[Action]:
        """Process an event; return the actions that the server must perform, in order."""
        self._now_s = now_s
        match event:
            case WorkerRegistered():
                return self._register(event)
            case ConnectionLost(connection=connection, silent=silent):
                return self._lose(connection, silent=silent)
            case WorkerAlive():
                return self._take_heartbeat(event)
            case ResultReceived(connection=connection):
                awaited = self.phase == "delivering" and self._delivery.awaits(connection)
                return self._end(delivered=True) if awaited else []
            case WorkerFailed() | TaskEnded() | StopRequested() | TimerFired() if self._is_closing:
                return []  # the trained state is complete
            case WorkerFailed(failure=failure):
                return self._fail(failure)
            case TaskEnded(worker=worker, failure=failure):
                final = self._membership.task_ended(worker, failure, steps=self._known.steps)
                return self._relaunch(worker) if final is None else self._fail(final)
            case StopRequested():
                return self._request_stop()
            case TimerFired():
                return self._tick()
            case _:
                return self._handle(event)

    # -- implemented by subclasses ----------------------------------------------------------

    @abstractmethod
    def _handle(self, event: Event) -> list[Action]:
        """Process an event that only this kind of training has."""

    @abstractmethod
    def _begin(self) -> list[Action]:
        """Begin to train, because all required workers have registered."""

    @abstractmethod
    def _members_changed(self, *, joined: bool) -> list[Action]:
        """Go on with other members than before; `joined`: a worker without data has joined."""

    @abstractmethod
    def _advance(self) -> list[Action]:
        """Return the actions that are possible now."""

    def _stop(self) -> list[Action]:
        """End the run with the next averaging."""
        return self._wind_up()

    @abstractmethod
    def _wind_up(self) -> list[Action]:
        """End the run with the last average, because of a failure or a time-out."""

    @property
    @abstractmethod
    def _is_winding_up(self) -> bool:
        """Whether the run ends early; then it admits and replaces no worker."""

    @abstractmethod
    def _deliver(self) -> list[Action]:
        """Request the result."""

    @abstractmethod
    def _end(self, *, delivered: bool = False, reason: str = "") -> list[Action]:
        """End the run; `reason`: for the workers that are dismissed."""

    def _end_undelivered(self) -> list[Action]:
        """End the run without a delivered result."""
        return self._abort("no worker delivered the result.")

    @abstractmethod
    def _snapshot_sources(self) -> Collection[int]:
        """Connections of workers that may have the last average."""

    def _awaited(self) -> Collection[int]:
        """Connections without whose answer the run does not end after a stop."""
        return ()

    @abstractmethod
    def _waits_for(self) -> str:
        """Return whom the run waits for, in words."""

    @property
    def _known(self) -> Progress:
        """The latest progress that the driver knows of."""
        return self.progress

    # -- shared rules -----------------------------------------------------------------------

    @property
    def _is_closing(self) -> bool:
        """Whether the trained state is complete."""
        return self.phase in ("delivering", "over")

    @property
    def _replaces_lost(self) -> bool:
        """Whether lost workers are replaced."""
        return not (self._stopping or self._is_winding_up)

    def _register(self, event: WorkerRegistered) -> list[Action]:
        is_ending = self._is_closing or self._is_winding_up
        if reason := "the run has ended" if is_ending else self._membership.refusal(event):
            return [Dismiss(connection=event.connection, reason=reason)]
        actions: list[Action] = []
        if (replaced := self._membership.admit(event, self._now_s)) is not None:
            reason = f"attempt {event.attempt} of worker {event.worker} has taken its place"
            actions = [Dismiss(connection=replaced, reason=reason), *self._remove(replaced)]
        if self._replaces_lost:
            actions += self._membership.launch_joining()
        self._members[event.connection] = self._member(event.connection, event.worker)
        if self.phase != "gathering":
            joined = event.worker >= self._membership.required
            return actions + self._members_changed(joined=joined)
        return actions + (self._begin() if self._membership.all_present else [])

    def _lose(self, connection: int, *, silent: bool) -> list[Action]:
        """Go on without a worker, whose connection was lost or closed as `silent`."""
        if self.phase == "over" or connection not in self._members:
            return []
        worker = self._members[connection].worker
        self._membership.lose(connection, self._now_s, silent=silent)
        actions = self._remove(connection)
        if self.phase == "delivering":
            return self._deliver() if self._delivery.lose(connection) else []
        actions += self._relaunch(worker)
        return (
            actions if self.phase == "gathering" else actions + self._members_changed(joined=False)
        )

    def _remove(self, connection: int) -> list[Action]:
        """Remove a lost worker; return what the others must do at once."""
        del self._members[connection]
        return []

    def _fail(self, failure: Failure | None) -> list[Action]:
        self._failure = self._failure or failure
        return self._wind_up()

    def _abort(self, problem: str) -> list[Action]:
        self._timed_out = self._timed_out or problem
        return self._end(reason=problem)

    def _may_form(self, since_s: float) -> bool:
        """Whether a group may form without workers that are absent since `since_s`."""
        grace_over = self._now_s - since_s >= self._grace_s
        membership = self._membership
        return membership.any_data_present and (membership.all_present or grace_over)

    def _request_stop(self) -> list[Action]:
        if self._stopping:
            return []
        self._stopping = True
        self._membership.stop_requested(self._now_s)
        return self._end() if self.phase == "gathering" else self._stop()

    def _tick(self) -> list[Action]:
        if self.phase == "gathering":
            if problem := self._membership.gathering_problem(self._now_s):
                return self._abort(problem)
            return [*self._membership.replace_silent(self._now_s)]
        actions = self._watch()
        problem = self._membership.replacement_problem(self._now_s)
        if not problem or self._is_winding_up:
            return actions + self._advance()
        self._timed_out = problem
        return actions + self._wind_up()

    def _relaunch(self, worker: int) -> list[Action]:
        return [*self._membership.launch(worker)] if self._replaces_lost else []

    def _take_heartbeat(self, event: WorkerAlive) -> list[Action]:
        self._beats[event.connection] = event.steps
        actions: list[Action] = [*self._membership.heartbeat(event, self._now_s)]
        if self.phase == "delivering" and event.connection in self._members:
            match self._delivery.heartbeat(event.connection):
                case "hung":
                    actions += self._delivery.request_snapshots(self._snapshot_sources())
                case "failed":
                    actions += self._end_undelivered()
                case "sending":
                    pass
        return actions

    def _watch(self) -> list[Action]:
        """Return actions that show, replace or drop stalled and silent workers."""
        actions: list[Action] = self._watch_the_run()
        # Stop always works.
        hung = self._awaited() if self._standstill.shown else ()
        actions += self._membership.stalled(self._now_s, awaited=hung)
        if self._replaces_lost:
            actions += self._membership.replace_silent(self._now_s)
            reason = "a lost worker's replacement may need its slot"
            for connection in self._membership.cede_slots(self._now_s):
                actions.append(Dismiss(connection=connection, reason=reason))
                # No new group may count on it, although its connection may stay for a while.
                actions += self._lose(connection, silent=False)
        return actions

    def _watch_the_run(self) -> list[Action]:
        """Return a warning and requests for stacks if nothing counts any more."""
        found = self.progress
        done = found.steps, found.averagings, found.epoch, found.validated
        beats = tuple((connection, self._beats.get(connection)) for connection in self._members)
        counts = self.phase, done, found.answered, found.answered_round, beats
        seconds = self._standstill.check(counts, self._now_s)
        if seconds is None:
            return []
        shown: list[Action] = [ShowStandstill(seconds=seconds, waits_for=self._waits_for())]
        asked = self._members if seconds else ()
        return shown + [RequestStacks(connection=connection) for connection in asked]

    def _absent(self) -> str:
        """Return the required workers that are not connected, in words; empty: all are."""
        return named(sorted(set(range(self._membership.required)) - set(self.present)))

    def _ask_callbacks(self, moment: Moment) -> list[Action]:
        """Run the callbacks of this moment, unless they were requested before."""
        if moment in self._answers:
            return []
        self._answers[moment] = None
        return [RunCallbacks(moment=moment)]

    def _group(self, connections: Collection[int], *, source: int) -> Group:
        """Return the group of these members for the current generation."""
        return Group(
            generation=self.generation,
            seats=self._membership.seats(connections),
            rows=self._membership.all_rows,
            validation_rows=self._membership.all_validation_rows,
            progress=self.progress,
            source=source,
            owners=self._membership.required,
        )

    def _ended(self, *, stopped: bool, reason: str = "") -> list[Action]:
        """End the run: dismiss all workers and report the outcome."""
        self.phase = "over"
        dismissals = [Dismiss(connection=number, reason=reason) for number in self._members]
        end = EndRun(stopped=stopped, failure=self._failure, timed_out=self._timed_out)
        return [*dismissals, end]

    @property
    def _by_worker(self) -> list[Member]:
        return sorted(self._members.values(), key=lambda member: member.worker)


def named(workers: Sequence[int]) -> str:
    """Return "worker 1" or "workers 1, 2"; empty for none."""
    listed = ", ".join(map(str, workers))
    return f"worker{'s' if len(workers) > 1 else ''} {listed}" if workers else ""

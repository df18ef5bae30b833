"""Base class of both coordinators: membership, deadlines, failures, callbacks and the result.

A coordinator is a pure state machine: it takes events and returns actions. It has no sockets,
threads or clocks; `_server.py` converts messages to events and actions to messages.
"""

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from sparkwright.workers.protocol import Failure, Group, Progress

from ._decisions import Action, Dismiss, EndRun, RequestStacks, RunCallbacks, ShowStandstill
from ._observations import CallbacksAnswered, Event, Moment, WorkerAlive, WorkerRegistered
from ._standstill import Standstill
from .membership import Delivery, Membership

# The run ends after this number of rings in a row broke without an averaging.
MAX_FRUITLESS_GROUPS = 5


class _MemberOfRun(Protocol):
    """A connected worker."""

    worker: int


Member = TypeVar("Member", bound=_MemberOfRun)


class RunRules(Generic[Member]):
    """The part of a coordinator that does not depend on what its workers exchange.

    Attributes:
        phase: the phase of the run; each coordinator has its own phases.
        generation: number of the current group; 0 before the first.
        workers: number of workers of the run, including those that may join.
        exact: whether minibatches logged beyond `progress` are repeated, so that they do not count.
    """

    exact: ClassVar[bool]
    phase: Any
    generation: int

    def __init__(
        self,
        *,
        workers: int,
        required: int | None = None,
        slots: int | None = None,
        replacement_grace_s: float = 2.0,
        now_s: float = 0.0,
        stall_timeout_s: float = 60.0,
        **membership: Any,
    ) -> None:
        """Start in the phase "gathering".

        Args:
            workers: number of workers of the run.
            required: number of workers that hold data and must register. The others have no data;
                they join and leave at any time. Default None: all are required.
            slots: number of task slots of Spark, for error messages; default None: unknown.
            replacement_grace_s: see `MeshConfig`.
            now_s: the current time of the clock.
            stall_timeout_s: see `MeshConfig`.
            **membership: deadlines and limits, see `Membership`.
        """
        self.phase = "gathering"
        self.generation = 0
        self.workers = workers
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
    def progress(self) -> Progress:
        """The progress of training that counts."""
        raise NotImplementedError

    @property
    def present(self) -> dict[int, WorkerRegistered]:
        """Connected worker -> its latest registration."""
        return self._membership.present

    @property
    def attempts(self) -> dict[int, int]:
        """Worker -> number of attempts; more than 1 if Spark restarted it."""
        return self._membership.attempts

    def handle(self, event: Event, *, now_s: float) -> list[Action]:
        """Process an event; return the actions that the server must perform, in order."""
        self._now_s = now_s
        return self._handle(event)

    def _handle(self, event: Event) -> list[Action]:
        raise NotImplementedError

    # -- implemented by subclasses ----------------------------------------------------------

    @property
    def _replaces_lost(self) -> bool:
        """Whether lost workers are replaced."""
        raise NotImplementedError

    def _lose(self, connection: int, *, silent: bool) -> list[Action]:
        """Go on without a worker, whose connection was lost or closed as `silent`."""
        raise NotImplementedError

    def _snapshot_sources(self) -> Collection[int]:
        """Connections of workers that may have the last average."""
        raise NotImplementedError

    def _awaited(self) -> Collection[int]:
        """Connections without whose answer the run does not end after a stop."""
        return ()

    def _waits_for(self) -> str:
        """Return whom the run waits for, in words."""
        raise NotImplementedError

    def _end_undelivered(self) -> list[Action]:
        """End the run without a delivered result."""
        raise NotImplementedError

    # -- shared rules -----------------------------------------------------------------------

    def _refusal(self, event: WorkerRegistered, *, is_ending: bool) -> list[Action]:
        """Return the dismissal of a worker that cannot be admitted; empty: it can."""
        reason = "the run has ended" if is_ending else self._membership.refusal(event)
        return [Dismiss(connection=event.connection, reason=reason)] if reason else []

    def _admit(self, event: WorkerRegistered) -> tuple[int | None, list[Action]]:
        """Admit a worker.

        Returns:
            The connection of the attempt that it replaces, or None; and the actions: the dismissal
            of that attempt, and the launch of workers that may join once all others are present.
        """
        replaced = self._membership.admit(event, self._now_s)
        actions: list[Action] = []
        if replaced is not None:
            reason = f"attempt {event.attempt} of worker {event.worker} has taken its place"
            actions.append(Dismiss(connection=replaced, reason=reason))
        if self._replaces_lost:
            actions += self._membership.launch_joining()
        return replaced, actions

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
            required=self._membership.required if self._membership.may_grow else None,
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

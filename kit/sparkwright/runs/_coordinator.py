"""The rules by which the driver leads a run: events in, actions out.

No sockets, threads or clocks; `_server.py` turns messages into events and actions into messages.

    gathering --all came--> training <--> regrouping      (a worker was lost, or came back)
    training | regrouping --a worker failed, or a time-out--> halting    (collect the last average)
    training --all ended--> delivering --result--> over
    regrouping --stop--> delivering
    halting --all reported--> delivering

Invariant: a run that ends, for whatever reason, first asks the workers that are left for the last
average. Where none is left, the driver falls back on the latest copy (`CheckpointReceived`).

Every member reports exactly once a generation: when its ring breaks, when it ends, when it has
to wait for an absent worker, or when it is told to regroup.

With a judge, a ring stands still at the end of an evaluated epoch: its first member tells the score
and waits for the verdict, the others wait for that member. If the verdict is to stop, all report
that they have stopped. If somebody is lost before, the next group asks again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ._decisions import (
    Action,
    BestReceived,
    CheckpointReceived,
    ConnectionLost,
    Dismiss,
    EndRun,
    EpochScored,
    Event,
    ForgetHistory,
    KeepCheckpoint,
    ResultReceived,
    SendGroup,
    SendRegroup,
    SendStop,
    StopRequested,
    TaskEnded,
    TimerFired,
    WorkerAlive,
    WorkerFailed,
    WorkerRegistered,
    WorkerReported,
    WorkReported,
)
from ._delivery import Delivery
from ._early_stopping import Judge
from ._judging import judged
from ._protocol import Failure, Group, Progress
from ._roll import Roll

# How long a failing run waits for the others' reports before it takes what has come.
_REPORTS_S = 4.0
# Groups that break one after another without a single averaging between them.
MAX_FRUITLESS_GROUPS = 5

Phase = Literal["gathering", "training", "regrouping", "halting", "delivering", "over"]


@dataclass(slots=True)
class _Member:
    registered: WorkerRegistered
    report: WorkerReported | None = None
    in_group: bool = False
    called_back: bool = False


class Coordinator:
    """Leads `workers` workers through one run.

    Attributes:
        phase: where the run is, see the module's diagram.
        generation: the current group's number, 0 before the first.
        progress: what counts: the latest that a member reported, and from where the current group
            went on.
        exact: what is logged beyond `progress` is done again, so it does not count.
    """

    exact = True

    def __init__(
        self,
        *,
        workers: int,
        slots: int | None = None,
        start: Progress | None = None,
        judge: Judge | None = None,
        replacement_grace_s: float = 2.0,
        now_s: float = 0.0,
        **membership: Any,
    ) -> None:
        """Begin to gather.

        Args:
            workers: how many are to come.
            slots: task slots that Spark is known to have, for messages.
            start: where to begin; default None: at the beginning.
            judge: of early stopping; default None: the run goes on to its last epoch.
            replacement_grace_s: see `MeshConfig`.
            now_s: the clock's present reading.
            **membership: time-outs and limits, see `Roll`.
        """
        self.phase: Phase = "gathering"
        self.generation = 0
        self.workers = workers
        self.progress = start or Progress.first(workers=workers)
        self._roll = Roll(workers=workers, slots=slots, now_s=now_s, **membership)
        self._judge = judge
        self._grace_s = replacement_grace_s
        self._members: dict[int, _Member] = {}  # by connection
        self._start = self.progress
        self._regrouping_since_s = now_s
        self._fruitless = 0
        self._stopping = False
        self._complete = False  # what is delivered is the end of the last epoch
        self._failure: Failure | None = None
        self._timed_out = ""
        self._delivery = Delivery()

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
        match event:
            case WorkerRegistered():
                return self._register(event, now_s)
            case WorkerReported():
                return self._take_report(event, now_s)
            case WorkerFailed(failure=failure):
                return self._halt(failure, now_s)
            case TaskEnded(worker=worker, failure=failure):
                return self._end_task(worker, failure, now_s)
            case WorkerAlive():
                return self._take_heartbeat(event, now_s)
            case ConnectionLost(connection=connection, silent=silent):
                return self._lose(connection, now_s, silent=silent)
            case ResultReceived(connection=connection):
                awaited = self.phase == "delivering" and self._delivery.awaits(connection)
                return self._end() if awaited else []
            case StopRequested():
                return self._stop(now_s)
            case CheckpointReceived(progress=progress, write=write):
                if progress.order > self._start.order:
                    self._start = progress
                return [KeepCheckpoint(progress=progress, write=write)]
            case EpochScored() | BestReceived():
                known = event.connection in self._members
                return judged(self._judge, event) if known else []
            case TimerFired():
                return self._tick(now_s)
            case WorkReported():
                return []  # of gradient sharing

    # -- events -----------------------------------------------------------------------------

    def _register(self, event: WorkerRegistered, now_s: float) -> list[Action]:
        actions: list[Action] = []
        if self.phase in ("delivering", "halting", "over"):
            return [Dismiss(connection=event.connection, reason="the run has ended")]
        if refusal := self._roll.refusal(event):
            return [Dismiss(connection=event.connection, reason=refusal)]
        replaced = self._roll.admit(event, now_s)
        if replaced is not None:
            del self._members[replaced]
            reason = f"attempt {event.attempt} of worker {event.worker} has taken its place"
            actions.append(Dismiss(connection=replaced, reason=reason))
        self._members[event.connection] = _Member(event)
        if self.phase == "gathering":
            return actions + (self._form(now_s) if self._roll.all_present else [])
        self._fruitless = 0
        return actions + self._regroup(now_s)

    def _take_report(self, event: WorkerReported, now_s: float) -> list[Action]:
        member = self._members.get(event.connection)
        if member is None or event.generation != self.generation or not member.in_group:
            return []
        member.report = event
        if self.phase in ("delivering", "over"):
            return []
        if event.progress is not None and event.progress.order > self.progress.order:
            self.progress = event.progress
            self._fruitless = 0
        if event.ending == "failed":
            return self._halt(event.failure, now_s)
        if self.phase == "halting":
            return self._deliver_if_reported()
        if event.ending == "broken":
            return self._regroup(now_s)
        if self.phase == "regrouping":
            return self._form_if_ready(now_s)
        return self._deliver_if_ended()

    def _lose(self, connection: int, now_s: float, *, silent: bool) -> list[Action]:
        self._roll.lose(connection, now_s, silent=silent)
        member = self._members.pop(connection, None)
        if member is None or self.phase == "over":
            return []
        if self.phase == "delivering":
            return self._deliver() if self._delivery.lose(connection) else []
        if self.phase == "halting":
            return self._deliver_if_reported()
        launch: list[Action] = []
        if not self._stopping:
            launch = [*self._roll.launch(member.registered.worker)]
        if self.phase == "gathering":
            return launch
        self._fruitless = 0
        return launch + self._regroup(now_s)

    def _end_task(self, worker: int, failure: Failure | None, now_s: float) -> list[Action]:
        known = max(self.progress, self._start, key=lambda progress: progress.order)
        final = self._roll.task_ended(worker, failure, steps=known.steps)
        if final is not None:
            return self._halt(final, now_s)
        if self._stopping or self.phase in ("delivering", "halting", "over"):
            return []
        return [*self._roll.launch(worker)]

    def _take_heartbeat(self, event: WorkerAlive, now_s: float) -> list[Action]:
        actions: list[Action] = [*self._roll.heartbeat(event, now_s)]
        if self.phase != "delivering" or event.connection not in self._members:
            return actions
        match self._delivery.heartbeat(event.connection):
            case "sending":
                return actions
            case "hung":
                return [*actions, *self._delivery.request_snapshots(self._members)]
            case "failed":
                return actions + self._end_without_result()

    def _stop(self, now_s: float) -> list[Action]:
        if self._stopping or self.phase in ("delivering", "over"):
            return []
        self._stopping = True
        self._roll.stop_requested(now_s)
        if self.phase == "gathering":
            return self._end()
        told: list[Action] = [SendStop(connection=connection) for connection in self._members]
        if self.phase == "training":
            return told + self._deliver_if_ended()
        if self.phase == "regrouping":
            return told + self._form_if_ready(now_s)
        return told

    def _tick(self, now_s: float) -> list[Action]:
        if self.phase == "gathering":
            problem = self._roll.gathering_problem(now_s)
            return self._time_out(problem) if problem else [*self._roll.replace_silent(now_s)]
        if self.phase == "halting" and now_s - self._regrouping_since_s > _REPORTS_S:
            return self._deliver()
        if self.phase not in ("training", "regrouping"):
            return []
        stalled: list[Action] = [*self._roll.stalled(now_s)]
        if not self._stopping:
            stalled += self._roll.replace_silent(now_s)
        if problem := self._roll.replacement_problem(now_s):
            self._timed_out = problem
            return stalled + self._halt(None, now_s)
        return stalled + (self._form_if_ready(now_s) if self.phase == "regrouping" else [])

    # -- transitions ------------------------------------------------------------------------

    def _regroup(self, now_s: float) -> list[Action]:
        """Ask everybody who has not left the ring to leave it; form anew when all have."""
        if self.phase != "regrouping":
            self.phase, self._regrouping_since_s = "regrouping", now_s
        return self._call_back() + self._form_if_ready(now_s)

    def _call_back(self) -> list[Action]:
        actions: list[Action] = []
        for connection, member in self._members.items():
            if member.in_group and member.report is None and not member.called_back:
                member.called_back = True
                actions.append(SendRegroup(connection=connection, generation=self.generation))
        return actions

    def _form_if_ready(self, now_s: float) -> list[Action]:
        if self._awaits_reports:
            return []
        if self._stopping:  # nobody is in the middle of a round that would be lost
            if self._best() is not None:
                return self._deliver()
            self.progress = self._start
            return [ForgetHistory(), *self._end()]
        grace_over = now_s - self._regrouping_since_s >= self._grace_s
        if not self._members or not (self._roll.all_present or grace_over):
            return []
        return self._form(now_s)

    def _form(self, now_s: float) -> list[Action]:
        actions: list[Action] = []
        self._fruitless += 1
        if self._fruitless > MAX_FRUITLESS_GROUPS:
            self._timed_out = (
                f"the workers' ring broke {MAX_FRUITLESS_GROUPS} times without one averaging. "
                "The workers reach the driver but not one another: open the ports between them "
                '(`MeshConfig(ports=…)`) or use `communication="spark"`.'
            )
            return self._halt(None, now_s)
        members = self._by_worker
        best = self._best()
        if best is None:
            source, self.progress = -1, self._start
            if self.generation > 0:
                actions.append(ForgetHistory())
        else:
            report, self.progress = best
            source = [member.report for member in members].index(report)
        self.generation += 1
        self.phase = "training"
        group = Group(
            generation=self.generation,
            seats=self._roll.seats(self._members.keys()),
            rows=self._roll.all_rows,
            validation_rows=self._roll.all_validation_rows,
            progress=self.progress,
            source=source,
        )
        for connection, member in self._members.items():
            member.report, member.in_group, member.called_back = None, True, False
            actions.append(SendGroup(connection=connection, group=group))
        return actions

    def _halt(self, failure: Failure | None, now_s: float) -> list[Action]:
        if self.phase in ("delivering", "over"):
            return []  # what was learnt is complete; this worker came too late to matter
        self._failure = self._failure or failure
        if self.phase == "gathering":
            return self._end()
        if self.phase == "halting":
            return self._deliver_if_reported()
        self.phase, self._regrouping_since_s = "halting", now_s
        return self._call_back() + self._deliver_if_reported()

    def _deliver_if_reported(self) -> list[Action]:
        return [] if self._awaits_reports else self._deliver()

    def _deliver_if_ended(self) -> list[Action]:
        # Who waits for an absent worker's data may stop as well, if it is to stop anyway.
        last = ("finished", "stopped", "waiting") if self._stopping else ("finished", "stopped")
        reports = [member.report for member in self._members.values() if member.in_group]
        ended = all(report is not None and report.ending in last for report in reports)
        return self._deliver() if ended else []

    def _deliver(self) -> list[Action]:
        self.phase = "delivering"
        best = self._best()
        if best is None:
            busy = [c for c, m in self._members.items() if m.in_group and m.report is None]
            asked: list[Action] = [*self._delivery.request_snapshots(busy)]
            return asked or self._end_without_result()
        report, self.progress = best
        self._complete = report.ending == "finished"
        return [*self._delivery.request(report.connection)]

    def _end_without_result(self) -> list[Action]:
        if self._failure is None and not self._timed_out:
            self._timed_out = "all workers were lost before one delivered the result."
        return self._end()

    def _best(self) -> tuple[WorkerReported, Progress] | None:
        """The report with the latest progress, of the lowest worker if several; None: no progress.

        Every member of a ring ends an averaging with the same bits, so any of them will do.
        """
        best: tuple[WorkerReported, Progress] | None = None
        for report in (member.report for member in self._by_worker):
            if report is None or report.progress is None:
                continue
            if best is None or report.progress.order > best[1].order:
                best = report, report.progress
        return best

    def _time_out(self, message: str) -> list[Action]:
        return [*self._dismissals(message), *self._over(EndRun(timed_out=message))]

    def _end(self) -> list[Action]:
        end = EndRun(
            stopped=self._stopping and not self._complete,
            failure=self._failure,
            timed_out=self._timed_out,
        )
        return [*self._dismissals(""), *self._over(end)]

    def _over(self, end: EndRun) -> Iterable[Action]:
        self.phase = "over"
        return [end]

    def _dismissals(self, reason: str) -> list[Action]:
        return [Dismiss(connection=connection, reason=reason) for connection in self._members]

    @property
    def _awaits_reports(self) -> bool:
        return any(m.in_group and m.report is None for m in self._members.values())

    @property
    def _by_worker(self) -> list[_Member]:
        return sorted(self._members.values(), key=lambda member: member.registered.worker)

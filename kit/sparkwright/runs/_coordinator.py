"""The rules by which the driver leads a run: events in, actions out.

No sockets, threads or clocks; `_server.py` turns messages into events and actions into messages.

    gathering --all came--> training <--> regrouping      (a worker was lost, or came back)
    training | regrouping --a worker failed--> halting     (collect what was averaged last)
    training --all ended--> delivering --result--> over
    regrouping --stop--> delivering
    halting --all reported--> delivering

Every member reports exactly once a generation: when its ring breaks, when it ends, when it has
to wait for an absent worker, or when it is told to regroup.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ._protocol import Ending, Failure, Group, Progress, Seat

# How long survivors wait for a lost worker's replacement before they go on without it. Spark
# starts a killed Python worker's task again in about 0.3 s.
GRACE_S = 2.0
# Groups that break one after another without a single averaging between them.
MAX_FRUITLESS_GROUPS = 5

Phase = Literal["gathering", "training", "regrouping", "halting", "delivering", "over"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerRegistered:
    """A worker has connected, holding its data."""

    connection: int
    worker: int
    attempt: int
    host: str
    address: tuple[str, int]
    rows: int
    validation_rows: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerReported:
    """A worker has left its ring; `progress` is None if it never got a state to start from."""

    connection: int
    generation: int
    ending: Ending
    progress: Progress | None
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerFailed:
    """A worker failed before it could register."""

    failure: Failure


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLost:
    """A worker's connection is closed, or it has been silent for too long."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultReceived:
    """A worker has delivered the averaged vector."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRequested:
    """The user wants the run to end with the next averaging."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimerFired:
    """The server's periodic tick."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SendGroup:
    """Send `group` to `connection`."""

    connection: int
    group: Group


@dataclass(frozen=True, kw_only=True, slots=True)
class SendRegroup:
    """Tell `connection` to leave the ring of `generation` and report."""

    connection: int
    generation: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SendStop:
    """Tell `connection` that the run ends with the next averaging."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestResult:
    """Ask `connection` for the averaged vector."""

    connection: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Dismiss:
    """Let `connection` go; `reason` is empty at the regular end."""

    connection: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetHistory:
    """All workers were lost: training begins anew, what was logged does not count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndRun:
    """The run is over. `timed_out` and `failure` say what went wrong, if anything did."""

    stopped: bool = False
    failure: Failure | None = None
    timed_out: str = ""


Event = (
    WorkerRegistered
    | WorkerReported
    | WorkerFailed
    | ConnectionLost
    | ResultReceived
    | StopRequested
    | TimerFired
)
Action = (
    SendGroup | SendRegroup | SendStop | RequestResult | Dismiss | ForgetHistory | EndRun
)  # fmt: skip


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
        attempts: worker -> attempts seen; more than one means that Spark started it again.
    """

    def __init__(
        self,
        *,
        workers: int,
        slots: int | None = None,
        iterations: int = 0,
        rendezvous_timeout_s: float = 120.0,
        queue_timeout_s: float = 600.0,
        replacement_timeout_s: float = 120.0,
        now_s: float = 0.0,
    ) -> None:
        """Begin to gather.

        Args:
            workers: how many are to come.
            slots: task slots that Spark is known to have, for messages.
            iterations: the optimizer's iterations so far.
            rendezvous_timeout_s: see `MeshConfig`; likewise the next two.
            queue_timeout_s: likewise.
            replacement_timeout_s: likewise.
            now_s: the clock's present reading.
        """
        self.phase: Phase = "gathering"
        self.generation = 0
        self.workers = workers
        self.progress = Progress(positions=(0,) * workers, iterations=iterations)
        self.attempts: dict[int, int] = {}
        self._slots = slots
        self._members: dict[int, _Member] = {}  # by connection
        self._rows: dict[int, tuple[int, int]] = {}  # worker -> (rows, validation rows)
        self._start = self.progress
        self._began_s = now_s
        self._first_came_s: float | None = None
        self._regrouping_since_s = now_s
        self._lost_since_s: dict[int, float] = {}
        self._fruitless = 0
        self._stopping = False
        self._complete = False  # what is delivered is the end of the last epoch
        self._failure: Failure | None = None
        self._deliverer: int | None = None
        self._rendezvous_timeout_s = rendezvous_timeout_s
        self._queue_timeout_s = queue_timeout_s
        self._replacement_timeout_s = replacement_timeout_s

    @property
    def present(self) -> dict[int, WorkerRegistered]:
        """Worker -> its latest registration, of those connected."""
        return {m.registered.worker: m.registered for m in self._members.values()}

    def handle(self, event: Event, *, now_s: float) -> list[Action]:
        """Take one event and return what the server must now do, in order."""
        match event:
            case WorkerRegistered():
                return self._register(event, now_s)
            case WorkerReported():
                return self._take_report(event, now_s)
            case WorkerFailed(failure=failure):
                return self._halt(failure, now_s)
            case ConnectionLost(connection=connection):
                return self._lose(connection, now_s)
            case ResultReceived(connection=connection):
                if self.phase == "delivering" and connection == self._deliverer:
                    return self._end()
                return []
            case StopRequested():
                return self._stop(now_s)
            case TimerFired():
                return self._tick(now_s)

    # -- events -----------------------------------------------------------------------------

    def _register(self, event: WorkerRegistered, now_s: float) -> list[Action]:
        actions: list[Action] = []
        if self.phase in ("delivering", "halting", "over"):
            return [Dismiss(connection=event.connection, reason="the run has ended")]
        known = self.present.get(event.worker)
        if known is not None and known.attempt >= event.attempt:
            reason = f"a newer attempt of worker {event.worker} is already at work"
            return [Dismiss(connection=event.connection, reason=reason)]
        if known is not None:
            del self._members[known.connection]
            reason = f"attempt {event.attempt} of worker {event.worker} has taken its place"
            actions.append(Dismiss(connection=known.connection, reason=reason))
        self._members[event.connection] = _Member(event)
        self._rows[event.worker] = (event.rows, event.validation_rows)
        self._lost_since_s.pop(event.worker, None)
        self.attempts[event.worker] = self.attempts.get(event.worker, 0) + 1
        if self._first_came_s is None:
            self._first_came_s = now_s
        if self.phase == "gathering":
            return actions + (self._form(now_s) if self._all_present else [])
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

    def _lose(self, connection: int, now_s: float) -> list[Action]:
        member = self._members.pop(connection, None)
        if member is None or self.phase == "over":
            return []
        self._lost_since_s[member.registered.worker] = now_s
        if self.phase == "delivering":
            return self._deliver() if connection == self._deliverer else []
        if self.phase == "halting":
            return self._deliver_if_reported()
        if self.phase == "gathering":
            return []
        self._fruitless = 0
        return self._regroup(now_s)

    def _stop(self, now_s: float) -> list[Action]:
        if self._stopping or self.phase in ("delivering", "over"):
            return []
        self._stopping = True
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
            return self._check_gathering(now_s)
        if self.phase == "halting" and now_s - self._regrouping_since_s > 2 * GRACE_S:
            return self._deliver()
        if self.phase not in ("training", "regrouping"):
            return []
        for worker, since_s in sorted(self._lost_since_s.items()):
            if now_s - since_s > self._replacement_timeout_s:
                return self._time_out(
                    f"worker {worker} was lost and Spark did not start it again within "
                    f"{self._replacement_timeout_s:g} s. Its executor's log says why; raise "
                    "`MeshConfig(replacement_timeout_s=…)` if the cluster is only slow."
                )
        return self._form_if_ready(now_s) if self.phase == "regrouping" else []

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
        grace_over = now_s - self._regrouping_since_s >= GRACE_S
        if not self._members or not (self._all_present or grace_over):
            return []
        return self._form(now_s)

    def _form(self, now_s: float) -> list[Action]:
        actions: list[Action] = []
        self._fruitless += 1
        if self._fruitless > MAX_FRUITLESS_GROUPS:
            return self._time_out(
                f"the workers' ring broke {MAX_FRUITLESS_GROUPS} times without one averaging. "
                "The workers reach the driver but not one another: open the ports between them "
                '(`MeshConfig(ports=…)`) or use `communication="spark"`.'
            )
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
        rows = [self._rows[worker] for worker in range(self.workers)]
        group = Group(
            generation=self.generation,
            seats=tuple(
                Seat(worker=r.worker, host=r.address[0], port=r.address[1])
                for r in (m.registered for m in members)
            ),
            rows=tuple(count for count, _ in rows),
            validation_rows=tuple(count for _, count in rows),
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
            if self._failure is not None:
                return self._end()
            return self._time_out("all workers were lost before one delivered the result.")
        report, self.progress = best
        self._deliverer = report.connection
        self._complete = report.ending == "finished"
        return [RequestResult(connection=report.connection)]

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

    def _check_gathering(self, now_s: float) -> list[Action]:
        came = sorted(self.present)
        slots = "" if self._slots is None else f" Spark has {self._slots} task slots."
        if self._first_came_s is not None and (
            now_s - self._first_came_s > self._rendezvous_timeout_s
        ):
            missing = sorted(set(range(self.workers)) - set(came))
            return self._time_out(
                f"the driver waited {self._rendezvous_timeout_s:g} s for {self.workers} workers "
                f"and {len(came)} came; missing: workers {missing}.{slots} Give Spark as many "
                "slots as there are workers (`spark.executor.instances`, `spark.executor.cores`), "
                "or use fewer with `workers=…`; if they are only slow, raise "
                "`MeshConfig(rendezvous_timeout_s=…)`."
            )
        if self._first_came_s is None and now_s - self._began_s > self._queue_timeout_s:
            return self._time_out(
                f"no worker started within {self._queue_timeout_s:g} s.{slots} Other jobs may hold "
                "all slots, or the cluster has no room: see Spark's web page. Raise "
                "`MeshConfig(queue_timeout_s=…)` to wait longer."
            )
        return []

    def _time_out(self, message: str) -> list[Action]:
        return [*self._dismissals(message), *self._over(EndRun(timed_out=message))]

    def _end(self) -> list[Action]:
        end = EndRun(stopped=self._stopping and not self._complete, failure=self._failure)
        return [*self._dismissals(""), *self._over(end)]

    def _over(self, end: EndRun) -> Iterable[Action]:
        self.phase = "over"
        return [end]

    def _dismissals(self, reason: str) -> list[Action]:
        return [Dismiss(connection=connection, reason=reason) for connection in self._members]

    @property
    def _all_present(self) -> bool:
        return len(self._members) == self.workers

    @property
    def _awaits_reports(self) -> bool:
        return any(m.in_group and m.report is None for m in self._members.values())

    @property
    def _by_worker(self) -> list[_Member]:
        return sorted(self._members.values(), key=lambda member: member.registered.worker)

"""Coordinator of parameter averaging: a pure state machine from events to actions.

    gathering --all workers registered--> training
    training <--> regrouping                              (a worker was lost or replaced)
    training --a worker without data joins--> joining --the round is over--> training
    training | regrouping --a failure or a time-out--> halting   (collect the last average)
    training --all members ended--> delivering --result received--> over
    regrouping --stop--> delivering
    halting --all members reported--> delivering

Invariant: before a run ends, the coordinator requests the last average from the remaining workers.
If there are none, the driver uses its latest copy (`CheckpointReceived`).

Every member reports exactly once per generation:

* when its ring breaks;
* when it ends;
* when it has to wait for an absent worker;
* when the driver asks it to regroup.

With callbacks, a ring pauses at the moments that they run. Its first member waits for their answer;
the other members wait for the first. If the answer ends the run, all members report "stopped". If a
member is lost before the answer, the next group requests it again: callbacks run once per moment,
and repeated requests get the same answer.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from sparkwright.workers.protocol import Progress

from ._decisions import (
    Action,
    KeepCheckpoint,
    ResetHistory,
    SendAnswer,
    SendGroup,
    SendPause,
    SendRegroup,
    SendStop,
)
from ._observations import (
    CallbacksAnswered,
    CallbacksAwaited,
    CheckpointReceived,
    Event,
    Moment,
    WorkerReported,
)
from ._run_rules import MAX_FRUITLESS_GROUPS, RunRules, named

# Maximum wait for the remaining reports of a failing run.
_REPORTS_S = 4.0

Phase = Literal["gathering", "training", "joining", "regrouping", "halting", "delivering", "over"]


MemberState = Literal["new", "training", "leaving", "reported"]


@dataclass(slots=True)
class _Member:
    """A connected worker.

    It is "new" until the next group forms, then "training". It is "leaving" its ring when the
    driver has asked for that, and has "reported" when it has left it.
    """

    connection: int
    worker: int
    state: MemberState = "new"
    report: WorkerReported | None = None

    @property
    def is_in_ring(self) -> bool:
        return self.state in ("training", "leaving")


class Coordinator(RunRules[_Member]):
    """State machine of one run of parameter averaging."""

    exact = True  # minibatches beyond `progress` are repeated, so they do not count
    phase: Phase

    def __init__(self, *, workers: int, start: Progress | None = None, **common: Any) -> None:
        """Start in the phase "gathering", with progress `start`; see `RunRules` for `common`."""
        super().__init__(workers=workers, member=_Member, **common)
        self._progress = self._start = start or Progress.first(workers=workers)
        self._regrouping_since_s = self._now_s
        self._fruitless = 0
        self._waiting: dict[int, Moment] = {}  # connection -> moment of the callbacks it awaits
        self._complete = False  # the delivered state is that of the last epoch's end

    @property
    def progress(self) -> Progress:
        """The latest progress that a member reported, or where the current group started."""
        return self._progress

    @property
    def _known(self) -> Progress:
        return max(self._progress, self._start, key=lambda progress: progress.order)

    @property
    def _is_winding_up(self) -> bool:
        return self.phase == "halting"

    def _handle(self, event: Event) -> list[Action]:
        match event:
            case WorkerReported():
                return self._take_report(event)
            case CheckpointReceived(progress=progress, write=write):
                if progress.order > self._start.order:
                    self._start = progress
                return [KeepCheckpoint(progress=progress, write=write)]
            case CallbacksAwaited(connection=connection, moment=moment):
                self._waiting[connection] = moment
                return self._ask_callbacks(moment) + self._send_answers()
            case CallbacksAnswered(moment=moment):
                self._answers[moment] = event
                return self._send_answers()
            case _:
                return []  # of gradient sharing

    # -- events -----------------------------------------------------------------------------

    def _send_answers(self) -> list[Action]:
        """Send the answers of callbacks that have run to the workers that await them."""
        waiting, self._waiting = self._waiting, {}
        actions: list[Action] = []
        for connection, moment in waiting.items():
            if (answer := self._answers.get(moment)) is None:
                self._waiting[connection] = moment
            elif connection in self._members:
                actions.append(SendAnswer(connection=connection, answer=answer))
        return actions

    def _begin(self) -> list[Action]:
        return self._form()

    def _members_changed(self, *, joined: bool) -> list[Action]:
        if self.phase == "halting":
            return self._deliver_if_reported()
        if joined and self.phase in ("training", "joining"):
            return self._pause()
        self._fruitless = 0
        return self._regroup()

    def _take_report(self, event: WorkerReported) -> list[Action]:
        member = self._members.get(event.connection)
        if member is None or event.generation != self.generation or member.state == "new":
            return []
        member.report, member.state = event, "reported"
        if self._is_closing:
            return []
        if event.progress is not None and event.progress.order > self.progress.order:
            self._progress = event.progress
            self._fruitless = 0
        if event.ending == "failed":
            return self._fail(event.failure)
        if self.phase == "halting":
            return self._deliver_if_reported()
        if event.ending == "broken":
            return self._regroup()
        if self.phase in ("regrouping", "joining"):
            return self._form_if_ready()
        return self._deliver_if_ended()

    def _stop(self) -> list[Action]:
        stops: list[Action] = [SendStop(connection=connection) for connection in self._members]
        if self.phase == "training":
            return stops + self._deliver_if_ended()
        return stops + self._advance()

    def _tick(self) -> list[Action]:
        if self.phase != "halting":
            return super()._tick()
        is_late = self._now_s - self._regrouping_since_s > _REPORTS_S
        return self._deliver() if is_late else []

    def _advance(self) -> list[Action]:
        return self._form_if_ready() if self.phase in ("regrouping", "joining") else []

    # -- transitions ------------------------------------------------------------------------

    def _regroup(self) -> list[Action]:
        """Ask the remaining members to leave the ring; form a new group when all have left."""
        if self.phase != "regrouping":
            self.phase, self._regrouping_since_s = "regrouping", self._now_s
        return self._request_regroup() + self._form_if_ready()

    def _pause(self) -> list[Action]:
        """Ask all members to leave the ring after this round, so that another worker can join."""
        if self.phase == "joining":
            return []  # already requested
        self.phase = "joining"
        paused: list[Action] = [
            SendPause(connection=connection, generation=self.generation)
            for connection, member in self._members.items()
            if member.is_in_ring
        ]
        return paused + self._form_if_ready()

    def _request_regroup(self) -> list[Action]:
        actions: list[Action] = []
        for connection, member in self._members.items():
            if member.state == "training":
                member.state = "leaving"
                actions.append(SendRegroup(connection=connection, generation=self.generation))
        return actions

    def _form_if_ready(self) -> list[Action]:
        if self._awaits_reports:
            return []
        if self._stopping:  # no member is within a round
            if self._best() is not None:
                return self._deliver()
            self._progress = self._start
            return [ResetHistory(), *self._end()]
        ends = {m.report.ending for m in self._members.values() if m.report}
        if self.phase == "joining" and ends == {"finished"}:
            return self._deliver()  # the new workers joined after the last round
        return self._form() if self._may_form(self._regrouping_since_s) else []

    def _form(self) -> list[Action]:
        actions: list[Action] = []
        self._fruitless += 1
        if self._fruitless > MAX_FRUITLESS_GROUPS:
            self._timed_out = (
                f"the workers' ring broke {MAX_FRUITLESS_GROUPS} times in a row without an "
                "averaging. The workers reach the driver but not each other. Open the ports "
                'between them (`MeshConfig(ports=…)`), or use `communication="driver"`.'
            )
            return self._wind_up()
        members = self._by_worker
        best = self._best()
        if best is None:
            source, self._progress = -1, self._start
            if self.generation > 0:
                actions.append(ResetHistory())
        else:
            report, self._progress = best
            source = [member.report for member in members].index(report)
        self.generation += 1
        self.phase = "training"
        group = self._group(self._members.keys(), source=source)
        for connection, member in self._members.items():
            member.report, member.state = None, "training"
            actions.append(SendGroup(connection=connection, group=group))
        return actions

    def _wind_up(self) -> list[Action]:
        """Collect the last average, because of a failure or a time-out."""
        if self.phase != "halting":
            self.phase, self._regrouping_since_s = "halting", self._now_s
        return self._request_regroup() + self._deliver_if_reported()

    def _deliver_if_reported(self) -> list[Action]:
        return [] if self._awaits_reports else self._deliver()

    def _deliver_if_ended(self) -> list[Action]:
        # After a stop, a worker that waits for an absent worker's data counts as ended.
        last = ("finished", "stopped", "waiting") if self._stopping else ("finished", "stopped")
        reports = [m.report for m in self._members.values() if m.state != "new"]
        ended = all(report is not None and report.ending in last for report in reports)
        return self._deliver() if ended else []

    def _deliver(self) -> list[Action]:
        self.phase = "delivering"
        best = self._best()
        if best is None:
            busy = [c for c, m in self._members.items() if m.is_in_ring]
            asked: list[Action] = [*self._delivery.request_snapshots(busy)]
            return asked or self._end_undelivered()
        report, self._progress = best
        self._complete = report.ending == "finished"
        return [*self._delivery.request(report.connection)]

    def _waits_for(self) -> str:
        if self._waiting:
            return f"the callbacks of epoch {max(epoch for epoch, _ in self._waiting.values())}"
        if absent := self._absent():
            return f"a replacement of {absent}"
        busy = [member.worker for member in self._by_worker if member.report is None]
        return f"{named(busy)} to average"

    def _snapshot_sources(self) -> Collection[int]:
        return self._members

    def _end_undelivered(self) -> list[Action]:
        if self._failure is None and not self._timed_out:
            self._timed_out = "all workers were lost before one delivered the result."
        return self._end()

    def _best(self) -> tuple[WorkerReported, Progress] | None:
        """Return the report with the latest progress, of the lowest worker; None: no progress."""
        best: tuple[WorkerReported, Progress] | None = None
        # All members of a ring have the same bits after an averaging.
        for report in (member.report for member in self._by_worker):
            if report is None or report.progress is None:
                continue
            if best is None or report.progress.order > best[1].order:
                best = report, report.progress
        return best

    def _end(self, *, delivered: bool = False, reason: str = "") -> list[Action]:
        return self._ended(stopped=self._stopping and not self._complete, reason=reason)

    @property
    def _awaits_reports(self) -> bool:
        return any(m.is_in_ring for m in self._members.values())

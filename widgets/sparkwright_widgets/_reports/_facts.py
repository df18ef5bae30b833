"""What a report tells of a run, taken from it once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sparkwright.timeline import Timeline
from sparkwright_widgets._contract import Rows, Run, Status


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """A run as values: all blocks of a report are made of this.

    Attributes:
        id: the run's.
        title: likewise.
        status: its last one.
        rows: all rows of its log.
        timeline: what driver and workers did when; None: unknown.
        configuration: JSON-able.
        warnings: what was warned of while it went on.
        started_at: when; None: unknown.
        ended_at: likewise.
        seconds: how long it took.
        start_seconds: until the first loss; None: there was none.
        code: Python that trains the same way, data included; None: the run knows none.
    """

    id: str
    title: str
    status: Status
    rows: Rows
    timeline: Timeline | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])
    warnings: Sequence[str] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    seconds: float = 0.0
    start_seconds: float | None = None
    code: str | None = None

    @property
    def master(self) -> Mapping[str, Any]:
        """The settings of the training master."""
        master = self.configuration.get("master")
        return master if isinstance(master, Mapping) else {}

    @property
    def plan(self) -> Mapping[str, Any]:
        """What the repartition did, as `RepartitionPlan.to_dict` gives it; empty: unknown."""
        plan = self.configuration.get("partitions")
        return plan if isinstance(plan, Mapping) else {}


def facts_of(run: Run) -> RunFacts:
    """Look at a run; later ones of its news are not in what this returns."""
    whole: Any = run  # a run of another kind may lack what only reports look at
    return RunFacts(
        id=run.id,
        title=run.title,
        status=run.status,
        rows=run.log.rows(),
        timeline=getattr(whole, "timeline", None),
        configuration=dict(run.configuration),
        warnings=tuple(getattr(whole, "warnings", ())),
        started_at=getattr(whole, "started_at", None),
        ended_at=getattr(whole, "ended_at", None),
        seconds=run.seconds,
        start_seconds=run.start_seconds,
        code=getattr(whole, "code", None),
    )

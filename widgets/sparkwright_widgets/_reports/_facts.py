"""A snapshot of a run for reports: facts, epochs, the best epoch. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from sparkwright.evaluation.comparison import direction_of
from sparkwright.timeline import Timeline
from sparkwright_widgets._contract import ComparedRun, Rows, Status
from sparkwright_widgets._quantities import LOGGED


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """A snapshot of a run, the input of all blocks of a report."""

    id: str
    title: str
    status: Status
    rows: Rows  # all rows of the log
    timeline: Timeline | None = None  # None: unknown
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])  # JSON-serializable
    warnings: Sequence[str] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    seconds: float = 0.0
    start_seconds: float | None = None  # until the first loss; None: none was logged
    code: str | None = None  # that reproduces the training and its data; None: unknown

    @property
    def master(self) -> Mapping[str, Any]:
        master = self.configuration.get("master")
        return master if isinstance(master, Mapping) else {}

    @property
    def plan(self) -> Mapping[str, Any]:
        """The repartition, from `RepartitionPlan.to_dict`; empty if unknown."""
        plan = self.configuration.get("partitions")
        return plan if isinstance(plan, Mapping) else {}


def facts_of(run: ComparedRun) -> RunFacts:
    whole: Any = run  # some kinds of runs lack attributes that only reports read
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Epoch:
    """One epoch."""

    number: int  # from 1
    loss: float  # mean over the examples; NaN: unknown
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    validation_loss: float | None = None  # of the averaged network at the end; None: no validation
    validation_metrics: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def gap(self) -> float | None:
        """Validation loss minus training loss; None if one of them is unknown."""
        if self.validation_loss is None or not math.isfinite(self.loss):
            return None
        return self.validation_loss - self.loss


@dataclass(frozen=True, kw_only=True, slots=True)
class Best:
    """The best epoch, and the figure that selects it."""

    epoch: int
    name: str  # such as "validation accuracy"
    value: float


def epochs_of(facts: RunFacts) -> tuple[Epoch, ...]:
    """Return all epochs with logged rows or validation, in order."""
    rows, validation = facts.rows, {point.epoch: point for point in facts.status.validation}
    numbers = sorted({*np.unique(rows["epoch"]).tolist(), *validation} - {0})
    found: list[Epoch] = []
    for number in numbers:
        here = rows["epoch"] == number
        point = validation.get(number)
        found.append(
            Epoch(
                number=int(number),
                loss=_mean(rows["loss"][here], rows["examples"][here]),
                metrics=_metrics(rows, here),
                validation_loss=None if point is None else point.loss,
                validation_metrics={} if point is None else dict(point.metrics),
            )
        )
    return tuple(found)


def best_of(facts: RunFacts, epochs: Sequence[Epoch]) -> Best | None:
    """Return the best epoch by a validation metric with a known direction, else by loss."""
    validated = [epoch for epoch in epochs if epoch.validation_loss is not None]
    for name in validated[0].validation_metrics if validated else ():
        if (sign := direction_of(name)) == 0:
            continue
        scores = {e.number: e.validation_metrics.get(name, math.nan) for e in validated}
        if (best := _best(scores, sign)) is not None:
            return Best(epoch=best, name=f"validation {name}", value=scores[best])
    for title, scores in (
        ("validation loss", {e.number: e.validation_loss or 0.0 for e in validated}),
        ("training loss", {e.number: e.loss for e in epochs}),
    ):
        if (best := _best(scores, -1)) is not None:
            return Best(epoch=best, name=title, value=scores[best])
    return None


def metric_names(epochs: Sequence[Epoch]) -> list[str]:
    """Return the names of the compiled metrics, validated ones first."""
    names = [name for epoch in epochs for name in epoch.validation_metrics]
    names += [name for epoch in epochs for name in epoch.metrics]
    return list(dict.fromkeys(names))


def _best(scores: Mapping[int, float], sign: int) -> int | None:
    known = {epoch: sign * score for epoch, score in scores.items() if math.isfinite(score)}
    # Of equally good epochs, the first.
    return max(known, key=lambda epoch: (known[epoch], -epoch)) if known else None


def _mean(values: "np.ndarray", weights: "np.ndarray") -> float:
    known = np.isfinite(values) & (weights > 0)
    return float(np.average(values[known], weights=weights[known])) if known.any() else math.nan


def _metrics(rows: Rows, here: "np.ndarray") -> dict[str, float]:
    """Average the last value of each worker, which is itself a mean since the epoch began."""
    found: dict[str, float] = {}
    for name in rows.keys() - LOGGED:
        known = here & np.isfinite(rows[name])
        if not known.any():
            continue
        values: list[float] = []
        weights: list[float] = []
        for worker in np.unique(rows["worker"][known]):
            mine = here & (rows["worker"] == worker)
            values.append(float(rows[name][known & mine][-1]))
            weights.append(float(rows["examples"][mine].sum()))
        found[name] = _mean(np.array(values), np.array(weights))
    return dict(sorted(found.items()))

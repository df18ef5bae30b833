"""Advice as a report: settings, numbers of workers, and measured runs; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkwright.evaluation.reports import Report, Table
from sparkwright.timeline.summary import percent_text, seconds_text, size_text

from ._alternatives import Alternative

if TYPE_CHECKING:
    from ._advice import Advice

POWERS_OF_TWO = tuple(2**power for power in range(11))  # 1 to 1,024
_OPTIONS = ("settings", "sent per exchange", "minibatch", "efficiency", "possible cost")
_SCALING = ("workers", "times faster", "efficiency", "interval", "exchange", "bound by")
_RUNS = ("workers", "examples/s", "minibatch", "times faster", "efficiency", "predicted")


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRun:
    """A measured training with a number of workers.

    Attributes:
        workers: number of workers.
        examples_per_s: of all workers.
        minibatch_s: seconds of a worker's minibatch, including its share of the exchange.
    """

    workers: int
    examples_per_s: float
    minibatch_s: float


def report_on(advice: "Advice") -> Report:
    """Return recommendation, verdict and sources, and tables of what is known."""
    load, notes, tables = advice.load, [advice.verdict, *advice.sources], list[Table]()
    if load.is_known:
        epoch = f" An epoch takes {seconds_text(advice.epoch_s or 0)}." if advice.rows_known else ""
        notes.insert(
            1,
            f"{advice.workers:,} workers, minibatches of {seconds_text(load.step_s or 0)}, "
            f"{size_text(load.vector_bytes or 0)} of parameters, "
            f"{load.costs.bandwidth_bytes_per_s / 1.25e8:.3g} Gbit/s, "
            f"latency {seconds_text(load.costs.latency_s)}.{epoch}",
        )
        tables += [advice.options, _scaling_table(advice)]
    if advice.runs:
        tables.append(_runs_table(advice))
    if advice.memory is not None:
        tables += advice.memory.tables()
    return Report(title=advice.reason, notes=notes, tables=tables)


def options_table(alternatives: Sequence[Alternative], recommended: int) -> Table:
    """Return a row for each alternative; the recommended one has an arrow."""
    rows = [
        (
            f"{'→' if index == recommended else ' '} {each.added}",
            size_text(each.sent_bytes),
            seconds_text(each.minibatch_s),
            f"{each.efficiency:.0%}",
            " ".join(each.risks[-1:]),
        )
        for index, each in enumerate(alternatives)
    ]
    return Table(rows=[_OPTIONS, *rows], text_columns={4})


def _scaling_table(advice: "Advice") -> Table:
    """Return a row for each of 1, 2, 4 … 1,024 workers with the recommended settings."""
    rows = [
        (
            f"{point.workers:,}",
            f"{point.speed_up:,.1f}",
            f"{point.efficiency:.0%}",
            seconds_text(point.interval_s),
            seconds_text(point.exchange_s),
            point.bound,
        )
        for point in (advice.at(count, recommended=True) for count in POWERS_OF_TWO)
    ]
    which = "recommended" if advice.recommended else "given"
    most = advice.most_workers(recommended=True)
    title = f"With the {which} settings, up to {most:,} workers train at least half of the time"
    return Table(title=title, rows=[_SCALING, *rows], text_columns={5})


def _runs_table(advice: "Advice") -> Table:
    """Return a row for each measured run, beside its prediction."""
    one = next((run.examples_per_s for run in advice.runs if run.workers == 1), None)

    def row(run: MeasuredRun) -> tuple[str, ...]:
        faster = None if one is None else run.examples_per_s / one
        return (
            f"{run.workers}",
            f"{run.examples_per_s:,.0f}",
            seconds_text(run.minibatch_s),
            "?" if faster is None else f"{faster:.2f}",
            "?" if faster is None else percent_text(faster / run.workers),
            percent_text(advice.at(run.workers).efficiency) if advice.load.is_known else "?",
        )

    return Table(title="Measured, as given", rows=[_RUNS, *map(row, advice.runs)])

"""Totals of a run's spans by phase, as values and as text."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sparkwright.evaluation.reports import Report, Table

from .clocks import ClockReading
from .phases import PHASES, Phase, PhaseCode
from .spans import Tallies, duration_quantile_s

if TYPE_CHECKING:
    from .timeline import Timeline

Place = Literal["driver", "workers"]
_MENTIONED = 0.05  # of the workers' time
_SLOWER = 1.15  # than the median: mentioned in the summary
_HEADS = (
    *("lane", "phase", "count", "total", "share", "median", "95%", "longest"),
    *("slowest worker", "Deeplearning4j"),
)
_TEXT_COLUMNS = (0, 1, 9)  # the others are numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseTotal:
    """Statistics of one phase of the driver or of all workers.

    Attributes:
        place: "driver" or "workers".
        phase: the phase.
        count: number of spans.
        seconds: sum of their durations.
        share: fraction of all measured seconds of this place, from 0 to 1; 0 for enclosing phases.
        median_s: median duration, within 2.2 %.
        p95_s: 95th percentile of the durations, within 2.2 %.
        longest_s: longest duration.
        slowest_worker: the worker with the largest total in this phase; None on the driver.
        slowest_s: the total of that worker.
    """

    place: Place
    phase: Phase
    count: int
    seconds: float
    share: float
    median_s: float
    p95_s: float
    longest_s: float
    slowest_worker: int | None
    slowest_s: float


def phase_totals(tallies: Tallies) -> list[PhaseTotal]:
    """Return the totals of every measured phase: the workers', then the driver's."""
    return [*_totals_of(tallies, "workers"), *_totals_of(tallies, "driver")]


def _totals_of(tallies: Tallies, place: Place) -> Iterator[PhaseTotal]:
    is_driver = place == "driver"
    rows = slice(0, 1) if is_driver else slice(1, None)
    seconds, counts = tallies.seconds[rows], tallies.count[rows]
    measured_s = float(seconds[:, [p.code for p in PHASES if not p.encloses]].sum())
    for phase in PHASES:
        count = int(counts[:, phase.code].sum())
        if not count:
            continue
        mine = seconds[:, phase.code]
        durations = tallies.durations[0 if is_driver else 1, phase.code]
        longest_s = float(tallies.longest_s[rows, phase.code].max())
        # Exact for a single span, and at most the longest duration.
        median_s, p95_s = (
            longest_s if count == 1 else min(duration_quantile_s(durations, share), longest_s)
            for share in (0.5, 0.95)
        )
        slowest = int(np.argmax(mine))
        yield PhaseTotal(
            place=place,
            phase=phase,
            count=count,
            seconds=float(mine.sum()),
            share=0.0 if phase.encloses or not measured_s else float(mine.sum()) / measured_s,
            median_s=median_s,
            p95_s=p95_s,
            longest_s=longest_s,
            slowest_worker=None if is_driver else slowest,
            slowest_s=float(mine[slowest]),
        )


def what_dominated(totals: Sequence[PhaseTotal], tallies: Tallies) -> str:
    """Summarize the workers' use of time in one or two sentences."""
    workers = [each for each in totals if each.place == "workers" and each.share > 0]
    if not workers:
        return "Nothing was measured on workers."
    ranked = sorted(workers, key=lambda each: -each.share)
    named = [each for each in ranked[:4] if each.share >= _MENTIONED] or ranked[:1]
    parts = [f"{percent_text(each.share)} {each.phase.label}" for each in named]
    hidden = hidden_share(totals)
    beside = "" if hidden is None else f" {percent_text(hidden)} of averaging ran beside computing."
    return f"Of the workers' measured time: {', '.join(parts)}.{beside}{_slow_worker(tallies)}"


def hidden_share(totals: Sequence[PhaseTotal]) -> float | None:
    """Return the share of averaging that no worker waited for; None without `averaging_delay`."""
    seconds = {each.phase.code: each.seconds for each in totals if each.place == "workers"}
    if not seconds.get(PhaseCode.OVERLAP):
        return None
    waited_s = seconds.get(PhaseCode.AVERAGE, 0.0)
    return max(0.0, 1 - waited_s / seconds[PhaseCode.OVERLAP])


def title_text(timeline: "Timeline") -> str:
    """Return the title of a timeline."""
    return f"Timeline of {timeline.name}" if timeline.name else "Timeline"


def facts_text(timeline: "Timeline") -> str:
    """Return the size of a run, such as `3 workers, 12.1 s, 611 spans`."""
    workers = f"{timeline.workers:,} worker{'s' if timeline.workers != 1 else ''}"
    return f"{workers}, {seconds_text(timeline.elapsed_s)}, {len(timeline):,} spans"


def report_of(timeline: "Timeline") -> Report:
    """Return the report of a timeline: facts, dominant phases, a table of all phases, clocks."""
    totals, clocks = timeline.totals(), timeline.clocks
    phases = Table(
        [_HEADS, *map(_row_of, totals)],
        title="Shares are of the measured time of the driver, or of all workers. Medians and 95th "
        "percentiles are within 2.2%.",
        text_columns=_TEXT_COLUMNS,
    )
    lines = [f"  worker {each.worker}: {_clock_text(each)}" for each in clocks[:32]]
    if len(clocks) > 32:
        lines.append(f"  and {len(clocks) - 32:,} more workers.")
    offsets = Table(title="\n".join([_clock_sentence(clocks), *lines]))
    return Report(
        title=f"{title_text(timeline)}: {facts_text(timeline)}.",
        notes=[what_dominated(totals, timeline.tallies)],
        tables=[*([phases] if totals else []), *([offsets] if clocks else [])],
    )


def _row_of(total: PhaseTotal) -> tuple[str, ...]:
    """Return a phase's figures as strings, one for each of `_HEADS`."""
    slowest = ""
    if total.slowest_worker is not None:
        slowest = f"{total.slowest_worker} ({seconds_text(total.slowest_s)})"
    return (
        total.place,
        total.phase.label,
        f"{total.count:,}",
        seconds_text(total.seconds),
        "encloses" if total.phase.encloses else percent_text(total.share),
        seconds_text(total.median_s),
        seconds_text(total.p95_s),
        seconds_text(total.longest_s),
        slowest,
        ", ".join(total.phase.dl4j_names),
    )


def _clock_sentence(clocks: Sequence[ClockReading]) -> str:
    """Return the uncertainty of the workers' clocks in a sentence."""
    known = [each.uncertainty_s for each in clocks if np.isfinite(each.uncertainty_s)]
    if not known:
        return "Clocks: how far the workers' clocks are from the driver's is not known."
    furthest = max(abs(each.offset_s) for each in clocks)
    whose = "" if len(known) == len(clocks) else f" for {len(known)} of {len(clocks)} workers"
    return (
        f"Clocks: up to {seconds_text(furthest)} from the driver's, which is taken into account; "
        f"known to within {seconds_text(max(known))}{whose}."
    )


def _clock_text(reading: ClockReading) -> str:
    """Return an offset with its uncertainty, such as `+2.1 ms ± 0.2 ms (driver)`."""
    sign = "-" if reading.offset_s < 0 else "+"
    within = seconds_text(reading.uncertainty_s) if np.isfinite(reading.uncertainty_s) else "?"
    return f"{sign}{seconds_text(abs(reading.offset_s))} ± {within} ({reading.source})"


def _slow_worker(tallies: Tallies) -> str:
    """Return a sentence on a worker with a longer mean span of computation than the others."""
    counts = tallies.count[1:, PhaseCode.COMPUTE]
    if (counts > 0).sum() < 2:
        return ""
    means = tallies.seconds[1:, PhaseCode.COMPUTE] / np.maximum(counts, 1)
    median = float(np.median(means[counts > 0]))
    slowest = int(np.argmax(means))
    if not median or means[slowest] < _SLOWER * median:
        return ""
    return (
        f" Worker {slowest} computes slowest: its spans of computing are "
        f"{means[slowest] / median:.2f} times as long as the workers' median."
    )


def seconds_text(seconds: float) -> str:
    """Format a duration to three digits, in a suitable unit.

    Example:
        >>> [seconds_text(value) for value in (0.0, 2.5e-6, 0.0421, 7.04, 83.0, 36000.0)]
        ['0', '2.5 µs', '42.1 ms', '7.04 s', '1 min 23 s', '10 h 00 min']
        >>> [seconds_text(value) for value in (9.994e-4, 9.996e-4, 0.9996, 59.96)]
        ['999 µs', '1 ms', '1 s', '1 min 00 s']
    """
    if not math.isfinite(seconds):
        return "—"
    if seconds == 0:
        return "0"
    if abs(seconds) < 0.9995e-3:
        return f"{seconds * 1e6:.3g} µs"
    if abs(seconds) < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if abs(seconds) < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size_text(size_bytes: int) -> str:
    """Format a number of bytes to three digits, in a suitable unit.

    Example:
        >>> [size_text(value) for value in (0, 100_040_000, 5 << 30)]
        ['0 B', '95.4 MiB', '5 GiB']
    """
    for exponent, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >= 1 << exponent:
            return f"{size_bytes / (1 << exponent):.3g} {unit}"
    return f"{size_bytes} B"


def percent_text(share: float) -> str:
    """Format a fraction as a percentage.

    Example:
        >>> [percent_text(value) for value in (0.0, 0.00004, 0.0153, 0.714)]
        ['0%', '<0.1%', '1.5%', '71.4%']
    """
    if 0 < share < 0.0005:
        return "<0.1%"
    return f"{100 * share:.3g}%" if share >= 0.1 or share == 0 else f"{100 * share:.1f}%"

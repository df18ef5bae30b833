"""A timeline in words: what dominated, who was slow, how far clocks can be trusted."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._clock_reading import ClockReading
from ._phases import PhaseCode
from ._tallies import Tallies
from ._totals import PhaseTotal
from ._wording import percent_text, seconds_text

if TYPE_CHECKING:
    from ._timeline import Timeline

_MENTIONED = 0.05  # of the workers' time
_SLOWER = 1.15  # than the median: worth a sentence


def what_dominated(totals: Sequence[PhaseTotal], tallies: Tallies) -> str:
    """Where the workers' time went, in a sentence or two."""
    workers = [each for each in totals if each.place == "workers" and each.share > 0]
    if not workers:
        return "Nothing was measured on workers."
    ranked = sorted(workers, key=lambda each: -each.share)
    named = [each for each in ranked[:4] if each.share >= _MENTIONED] or ranked[:1]
    parts = [f"{percent_text(each.share)} {each.phase.label}" for each in named]
    return f"Of the workers' measured time: {', '.join(parts)}.{_slow_worker(tallies)}"


def title_text(timeline: "Timeline") -> str:
    """What it is a timeline of."""
    return f"Timeline of {timeline.name}" if timeline.name else "Timeline"


def facts_text(timeline: "Timeline") -> str:
    """How large the run was, such as `3 workers, 12.1 s, 611 spans`."""
    length = seconds_text(timeline.elapsed_s)
    return f"{_workers_text(timeline)}, {length}, {len(timeline):,} spans"


def lanes_text(timeline: "Timeline", dominated: str) -> str:
    """What a picture of the lanes shows, for who does not see it.

    Args:
        timeline: what is shown.
        dominated: see `what_dominated`.
    """
    return (
        f"Lanes of the driver and {_workers_text(timeline)} over "
        f"{seconds_text(timeline.elapsed_s)}, coloured by phase. {dominated}"
    )


def summary_text(timeline: "Timeline", totals: Sequence[PhaseTotal]) -> str:
    """The whole report for a terminal."""
    clocks = timeline.clocks
    lines = [
        f"{title_text(timeline)}: {facts_text(timeline)}.",
        what_dominated(totals, timeline.tallies),
        "",
        *_table([HEADS, *(row_of(total) for total in totals)]),
    ]
    if clocks:
        lines += ["", clock_sentence(clocks)]
        lines += [f"  worker {each.worker}: {clock_text(each)}" for each in clocks[:32]]
        if len(clocks) > 32:
            lines.append(f"  and {len(clocks) - 32:,} more workers.")
    return "\n".join(lines)


HEADS = (
    *("lane", "phase", "count", "total", "share", "median", "95%", "longest"),
    *("slowest worker", "Deeplearning4j"),
)
TEXT_COLUMNS = (0, 1, 9)  # the others are numbers


def row_of(total: PhaseTotal) -> tuple[str, ...]:
    """A phase's figures as texts, one for each of `HEADS`."""
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


def clock_sentence(clocks: Sequence[ClockReading]) -> str:
    """How far the workers' spans may lie from where they are shown."""
    known = [each.uncertainty_s for each in clocks if np.isfinite(each.uncertainty_s)]
    if not known:
        return "Clocks: how far the workers' clocks are from the driver's is not known."
    furthest = max(abs(each.offset_s) for each in clocks)
    whose = "" if len(known) == len(clocks) else f" for {len(known)} of {len(clocks)} workers"
    return (
        f"Clocks: up to {seconds_text(furthest)} from the driver's, which is taken into account; "
        f"known to within {seconds_text(max(known))}{whose}."
    )


def clock_text(reading: ClockReading) -> str:
    """An offset with its uncertainty, such as `+2.1 ms ± 0.2 ms (driver)`."""
    sign = "-" if reading.offset_s < 0 else "+"
    within = seconds_text(reading.uncertainty_s) if np.isfinite(reading.uncertainty_s) else "?"
    return f"{sign}{seconds_text(abs(reading.offset_s))} ± {within} ({reading.source})"


def _workers_text(timeline: "Timeline") -> str:
    return f"{timeline.workers:,} worker{'s' if timeline.workers != 1 else ''}"


def _slow_worker(tallies: Tallies) -> str:
    """Who computes more slowly than the others, if anybody does; by the mean of a span."""
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


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    return [
        "  ".join(
            text.ljust(width) if column in TEXT_COLUMNS else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

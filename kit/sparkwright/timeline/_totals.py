"""What a run's spans add up to, phase by phase."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ._durations import duration_quantile_s
from ._phases import PHASES, Phase
from ._tallies import Tallies

Place = Literal["driver", "workers"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseTotal:
    """One phase of the driver, or of all workers together.

    Attributes:
        place: "driver" or "workers".
        phase: which.
        count: spans.
        seconds: their sum.
        share: of all measured seconds of this place, from 0 to 1; 0 for phases that enclose others.
        median_s: of a span, to within 2.2 %.
        p95_s: the duration that 95 % of the spans did not exceed, to within 2.2 %.
        longest_s: of a span.
        slowest_worker: who spent most in this phase, in all; None on the driver.
        slowest_s: how much that was.
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
    """Every phase that was measured: the workers' first, each place's in the phases' order."""
    return [*_totals_of(tallies, "workers"), *_totals_of(tallies, "driver")]


def _totals_of(tallies: Tallies, place: Place) -> list[PhaseTotal]:
    rows = slice(0, 1) if place == "driver" else slice(1, None)
    seconds, counts = tallies.seconds[rows], tallies.count[rows]
    inner = [phase.code for phase in PHASES if not phase.encloses]
    measured_s = float(seconds[:, inner].sum())
    found: list[PhaseTotal] = []
    for phase in PHASES:
        count = int(counts[:, phase.code].sum())
        if not count:
            continue
        mine = seconds[:, phase.code]
        durations = tallies.durations[0 if place == "driver" else 1, phase.code]
        longest_s = float(tallies.longest_s[rows, phase.code].max())
        slowest = int(np.argmax(mine))
        found.append(
            PhaseTotal(
                place=place,
                phase=phase,
                count=count,
                seconds=float(mine.sum()),
                share=0.0 if phase.encloses or not measured_s else float(mine.sum()) / measured_s,
                median_s=_quantile_s(durations, 0.5, count, longest_s),
                p95_s=_quantile_s(durations, 0.95, count, longest_s),
                longest_s=longest_s,
                slowest_worker=None if place == "driver" else slowest,
                slowest_s=float(mine[slowest]),
            )
        )
    return found


def _quantile_s(durations: NDArray[np.int64], share: float, count: int, longest_s: float) -> float:
    """From the bins, but exact where there is one span only, and never beyond the longest."""
    return longest_s if count == 1 else min(duration_quantile_s(durations, share), longest_s)

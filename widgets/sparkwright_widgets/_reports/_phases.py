"""The time of each worker, split into phases. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkwright_widgets._contract import Rows

_ORDER = ("data", "compute", "encode", "send", "wait", "average")


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseTimes:
    """How long each worker was in each phase, in all and in the course of the run.

    Attributes:
        phases: their names, in the order in which they follow one another.
        workers: their numbers.
        seconds: (workers, phases) float64.
        edges_s: (bins + 1,) float64 seconds since the run began.
        shares: (workers, phases, bins) float64, the share of each bin from 0 to 1.
    """

    phases: tuple[str, ...]
    workers: tuple[int, ...]
    seconds: NDArray[np.float64]
    edges_s: NDArray[np.float64]
    shares: NDArray[np.float64]

    @property
    def total_s(self) -> NDArray[np.float64]:
        """(phases,) seconds of all workers together."""
        return self.seconds.sum(axis=0)


def phase_times(rows: Rows, *, bins: int = 160) -> PhaseTimes | None:
    """Sum up the phases, however many there are, into few bins of time.

    Args:
        rows: columns worker, phase, start_s, seconds; a worker's phases do not overlap.
        bins: how many.

    Returns:
        None if there are no phases.
    """
    if not rows or not len(rows["worker"]):
        return None
    names: list[str] = np.unique(rows["phase"]).tolist()
    phases = sorted(names, key=lambda n: (_ORDER.index(n) if n in _ORDER else len(_ORDER), n))
    workers: list[int] = np.unique(rows["worker"]).tolist()
    start, length = rows["start_s"], np.maximum(rows["seconds"], 0.0)
    edges = np.linspace(start.min(), max((start + length).max(), start.min() + 1e-9), bins + 1)
    seconds = np.zeros((len(workers), len(phases)))
    shares = np.zeros((len(workers), len(phases), bins))
    for row, worker in enumerate(workers):
        for column, phase in enumerate(phases):
            mine = (rows["worker"] == worker) & (rows["phase"] == phase)
            seconds[row, column] = length[mine].sum()
            spent = _spent_until(edges, start[mine], length[mine])
            shares[row, column] = np.diff(spent) / np.diff(edges)
    return PhaseTimes(
        phases=tuple(phases),
        workers=tuple(workers),
        seconds=seconds,
        edges_s=edges,
        shares=np.clip(shares, 0.0, 1.0),
    )


def time_split_sentence(times: PhaseTimes) -> str:
    """The phases with their shares, the longest first, in one sentence."""
    total = times.total_s.sum()
    if total <= 0:
        return "No time was measured."
    order = np.argsort(-times.total_s, kind="stable")
    parts: Sequence[str] = [
        f"{times.phases[k]} {100 * times.total_s[k] / total:.3g}%"
        for k in order
        if times.total_s[k] / total >= 0.0005
    ]
    return f"Of the workers' measured time: {', '.join(parts)}."


def _spent_until(
    moments: NDArray[np.float64], start: NDArray[np.float64], length: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Seconds spent in these intervals until each of the moments."""
    order = np.argsort(start, kind="stable")
    start, length = start[order], length[order]
    if not len(start):
        return np.zeros(len(moments))
    # Rounding lets neighbours overlap by less than a microsecond; interpolation wants order.
    knots = np.maximum.accumulate(np.stack([start, start + length], axis=1).ravel())
    done = np.repeat(np.concatenate([[0.0], np.cumsum(length)]), 2)[1:-1]
    return np.interp(moments, knots, done, left=0.0, right=float(length.sum()))

"""The histograms of a run: bounded storage and figures."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError
from sparkwright.evaluation.numbers import number_text
from sparkwright.evaluation.plots import COLORS, finish
from sparkwright.evaluation.reports import Figure, Table
from sparkwright.masters.histograms import KINDS
from sparkwright.workers.histograms import Histogram, HistogramsTaken

_MOST_TIMES = 256
_MOST_BYTES = 1 << 24
_RIDGES = 12  # more would overlap too much
_TABLE_ROWS = 30
_POINTS = 100
_TITLES = {"weights": "Weights", "updates": "Changes in", "activations": "Activations of"}

Moment = tuple[HistogramsTaken, Histogram]


class RunHistograms:
    """Histograms of a run, from `histograms=` or `run.request_histograms()`.

    Keeps at most 256 moments and 16 MiB of counts. Beyond that, every second moment is dropped,
    except the first and the last.

    Attributes:
        count: how often histograms were taken.
        cost_s: seconds for which training waited for them, including compilation.

    Example:
        >>> RunHistograms()
        <RunHistograms: none taken>
    """

    def __init__(self) -> None:
        """Create without histograms."""
        self._lock = threading.Lock()
        self._taken: list[HistogramsTaken] = []
        self.count, self.cost_s = 0, 0.0
        self._notes: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._taken)

    def __repr__(self) -> str:
        if not self.count:
            return "<RunHistograms: none taken>"
        kept = "" if len(self) == self.count else f", {len(self)} kept"
        return f"<RunHistograms: taken {self.count} times{kept}, in {self.cost_s:.2f} s>"

    @property
    def notes(self) -> tuple[str, ...]:
        """Reasons why histograms could not be taken."""
        return tuple(self._notes)

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Kind ("weights", "updates" or "activations") -> names that have histograms.

        Variables are named "layer/variable", activations after their layer.
        """
        with self._lock:
            known = dict.fromkeys(key for taken in self._taken for key in taken.found)
        found = {what: tuple(name for of, name in known if of == what) for what in KINDS}
        return {what: names for what, names in found.items() if names}

    def of(self, name: str, what: str = "weights") -> list[Moment]:
        """Return the histograms of `name` over time.

        Args:
            name: one of `names[what]`.
            what: "weights" (default), "updates" or "activations".

        Returns:
            Pairs of the moment (`step`, `epoch`, `minibatches`) and the histogram.

        Raises:
            ConfigurationError: if there are no histograms of that name.
        """
        with self._lock:
            found = [(t, t.found[what, name]) for t in self._taken if (what, name) in t.found]
        if not found:
            raise ConfigurationError(
                f"`name` must be among {self.names.get(what, ())!r:.300} for what={what!r}. "
                f"Received: name={name!r}."
            )
        return found

    def since(self, step: int) -> list[HistogramsTaken]:
        """Return the histograms taken after minibatch `step`, in order."""
        with self._lock:
            return [taken for taken in self._taken if taken.step > step]

    def figure(self, name: str, what: str = "weights") -> Figure:
        """Plot the histograms of `name` over time, the latest in front.

        Raises:
            ConfigurationError: as `of`.
        """
        moments = self.of(name, what)
        places = np.unique(np.linspace(0, len(moments) - 1, _RIDGES).round().astype(int))
        shown = [moments[place] for place in places.tolist()]
        heads = ["minibatch", "epoch", "mean", "std", "min", "max", "not finite"]
        rows = [
            [
                *(f"{t.step:,}", f"{t.epoch}"),
                *map(number_text, (h.mean, h.std, h.low, h.high)),
                f"{h.not_finite:,}",
            ]
            for t, h in moments[-_TABLE_ROWS:]
        ]
        title = f"{_TITLES[what]} {name}"
        return Figure(
            kind="histograms",
            label=title,
            caption=_caption(title, moments),
            draw=lambda axes: _draw(axes, shown),
            table=Table([heads, *rows], left_out=len(moments) - len(rows)),
            size=(4.8, 3.0),
        )

    # -- called by the run ------------------------------------------------------------------

    def add(self, taken: HistogramsTaken) -> None:
        """Add the histograms of a moment; drops those of later minibatches, whose work was lost."""
        with self._lock:
            self._taken = [each for each in self._taken if each.step < taken.step]
            self._taken.append(taken)
            self.count, self.cost_s = self.count + 1, self.cost_s + taken.seconds
            self._notes |= dict.fromkeys(taken.notes)
            while len(self._taken) > 2 and (
                len(self._taken) > _MOST_TIMES or self._size_bytes() > _MOST_BYTES
            ):
                del self._taken[1:-1:2]

    def _size_bytes(self) -> int:
        return sum(h.counts.nbytes for taken in self._taken for h in taken.found.values())


def _caption(title: str, moments: Sequence[Moment]) -> str:
    (first, before), (last, after) = moments[0], moments[-1]
    text = f"{title} after minibatch {last.step:,} of a worker"
    if len(moments) > 1:
        text = f"{title} at {len(moments)} moments, minibatches {first.step:,} to {last.step:,}"
        text += f": the standard deviation goes from {number_text(before.std)} to"
    else:
        text += ": the standard deviation is"
    text += f" {number_text(after.std)}, the mean is {number_text(after.mean)} at the end."
    if missing := sum(histogram.not_finite for _, histogram in moments):
        text += f" {missing:,} values were NaN or infinite."
    return text


def _draw(axes: Any, shown: Sequence[Moment]) -> None:
    """Draw one curve per moment, the earliest at the top, scaled by its peak."""
    low, high = min(h.low for _, h in shown), max(h.high for _, h in shown)
    margin = 0.04 * (high - low) or 0.5
    across = np.linspace(low - margin, high + margin, _POINTS)
    for place, (_, histogram) in enumerate(shown):
        ground, shade = len(shown) - 1 - place, 0.25 + 0.55 * (place + 1) / len(shown)
        heights = ground + 1.6 * _heights(histogram, across)
        style = {"facecolor": (COLORS[0], shade), "edgecolor": COLORS[5], "linewidth": 0.8}
        axes.fill_between(across, ground, heights, zorder=place + 2, **style)
    axes.set_yticks(range(len(shown))[::-1], [f"{taken.step:,}" for taken, _ in shown])
    axes.margins(x=0)
    finish(axes, x="value", y="minibatch")


def _heights(histogram: Histogram, across: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bin counts divided by the largest one, interpolated at each point; from 0 to 1."""
    peak, width = float(histogram.counts.max(initial=0)), histogram.high - histogram.low
    if not peak:
        return np.zeros_like(across)
    if width <= across[1] - across[0]:  # all values within one point
        nearest = np.zeros_like(across)
        nearest[np.abs(across - histogram.low).argmin()] = 1.0
        return nearest
    edges = histogram.edges
    middles = (edges[1:] + edges[:-1]) / 2
    return np.interp(across, middles, histogram.counts / peak, left=0.0, right=0.0)

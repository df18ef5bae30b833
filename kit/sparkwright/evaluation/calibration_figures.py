"""Figures of probabilities: reliability diagrams and histograms."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .calibration_counts import Histogram, ReliabilityDiagram
from .numbers import number_text
from .plots import COLORS, THIN_LINE, finish, split_axes
from .reports import Figure, Table

_TABLE_BINS = 20
CALIBRATION_ERRORS = (
    "The expected calibration error uses the probability of the predicted class; "
    "a class-wise error uses the probability of one class in all rows."
)


def reliability_figure(
    diagram: ReliabilityDiagram, errors: tuple[float, float], *, bins: int, of: str | None = None
) -> Figure:
    """Return fractions of positives over mean probabilities, and the rows of each bin below."""
    # `diagram` is without empty bins; `errors`: the expected and the maximum calibration error.
    share = "fraction correct" if of is None else "fraction of the class"
    expected, largest = map(number_text, errors)
    caption = (
        f"{_verdict(diagram)} The {_error_name(of)} is {expected}, the largest error of a bin is "
        f"{largest}."
    )
    return Figure(
        kind="reliability",
        label="Reliability diagram" + (f" of class {of}" if of is not None else ""),
        caption=caption if diagram.counts.size else "No examples were evaluated.",
        draw=lambda axes: _draw_reliability(
            axes, diagram, bins, f"{of or 'predicted class'} (error {expected})", share
        ),
        table=_bin_table(diagram, bins, share),
        size=(4.6, 4.6),
    )


def histogram_figure(
    histograms: Mapping[str, Histogram], *, kind: str, label: str, x: str
) -> Figure:
    """Return a figure of overlaid histograms of numbers from 0 to 1, by name."""
    edges = np.linspace(0, 1, 11)
    columns: list[Any] = []
    for histogram in histograms.values():
        middles = (histogram.edges[1:] + histogram.edges[:-1]) / 2
        columns.append(np.histogram(middles, bins=edges, weights=histogram.counts)[0])
    sure = sum(column[0] + column[-1] for column in columns)
    total = max(sum(column.sum() for column in columns), 1)
    rows = [
        [f"{edges[k]:.1f} to {edges[k + 1]:.1f}", *(f"{c[k]:,.0f}" for c in columns)]
        for k in range(10)
    ]
    return Figure(
        kind=kind,
        label=label,
        caption=f"{sure / total:.1%} of the {kind} are below 0.1 or at least 0.9.",
        draw=lambda axes: _draw_histograms(axes, histograms, x),
        table=Table([[x, *(name or "all classes" for name in histograms)], *rows]),
    )


def _draw_reliability(
    axes: Any, diagram: ReliabilityDiagram, bins: int, label: str, share: str
) -> None:
    axes.plot([0, 1], [0, 1], label="perfect", **THIN_LINE)
    below = split_axes(axes)
    mean, fraction = diagram.mean_predicted, diagram.fraction_positive
    axes.plot(mean, fraction, color=COLORS[0], marker="o", markersize=4, label=label)
    axes.vlines(mean, fraction, mean, color=COLORS[1], linewidth=1.2, label="gap")
    counts = np.zeros(bins)
    counts[diagram.bins] = diagram.counts
    _steps(below, counts, COLORS[0])
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    below.set_ylim(bottom=0)
    finish(below, x="predicted probability", y="rows")
    finish(axes, x="", y=share, legend=3)


def _draw_histograms(axes: Any, histograms: Mapping[str, Histogram], x: str) -> None:
    for (name, histogram), color in zip(histograms.items(), COLORS, strict=False):
        _steps(axes, histogram.counts, color, name)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    finish(axes, x=x, y="count", legend=2)


def _steps(axes: Any, counts: Any, color: str, name: str = "") -> None:
    edges = np.arange(len(counts) + 1) / len(counts)
    axes.stairs(counts, edges, color=color, fill=True, alpha=0.45, label=name or None)
    axes.stairs(counts, edges, color=color, linewidth=1.2)


def _error_name(of: str | None) -> str:
    if of is None:
        return "expected calibration error (of the predicted class)"
    return f"class-wise calibration error (of the probability of {of} in all rows)"


def _verdict(diagram: ReliabilityDiagram) -> str:
    weights = diagram.counts / max(diagram.counts.sum(), 1)
    bias = float(np.sum(weights * (diagram.mean_predicted - diagram.fraction_positive)))
    if abs(bias) < 0.005:
        return "On average, probabilities are neither too high nor too low."
    side = "high" if bias > 0 else "low"
    return f"On average, probabilities are too {side} by {number_text(abs(bias))}."


def _bin_table(diagram: ReliabilityDiagram, bins: int, share: str) -> Table:
    """Return a table of the bins; with too many bins, of those with the most rows."""
    chosen = np.sort(np.argsort(-diagram.counts, kind="stable")[:_TABLE_BINS])
    gaps = diagram.fraction_positive - diagram.mean_predicted
    rows = [
        [
            f"{diagram.bins[k] / bins:.3g} to {(diagram.bins[k] + 1) / bins:.3g}",
            f"{diagram.counts[k]:,}",
            number_text(float(diagram.mean_predicted[k])),
            number_text(float(diagram.fraction_positive[k])),
            f"{'+' if gaps[k] > 0 else ''}{number_text(float(gaps[k]))}",
        ]
        for k in chosen.tolist()
    ]
    return Table(
        [["bin", "rows", "mean probability", share, "gap"], *rows],
        left_out=max(0, len(diagram.bins) - len(rows)),
    )

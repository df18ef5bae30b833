"""Figures of probabilities: reliability diagrams and histograms."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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


class Reliability(NamedTuple):
    """The diagram of one class or of the predicted class, and its calibration errors."""

    name: str
    diagram: ReliabilityDiagram
    expected_error: float
    largest_error: float


def reliability_figure(
    curves: Sequence[Reliability], *, bins: int, of: str | None = None
) -> Figure:
    """Return fractions of positives over mean probabilities, and the rows of each bin below."""
    # Draw at most six curves, without empty bins; caption and table describe the first one.
    share = "fraction correct" if of is None else "fraction of the class"
    found = curves[0] if curves else None
    caption, table = "No examples were evaluated.", Table()
    if found is not None:
        caption = (
            f"{_verdict(found.diagram)} The {_error_name(of)} is "
            f"{number_text(found.expected_error)}, the largest error of a bin is "
            f"{number_text(found.largest_error)}."
        )
        table = _bin_table(found.diagram, bins, share)
    return Figure(
        kind="reliability",
        label="Reliability diagram" + (f" of class {of}" if of is not None else ""),
        caption=caption,
        draw=lambda axes: _draw_reliability(axes, curves, bins, share),
        table=table,
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


def _draw_reliability(axes: Any, curves: Sequence[Reliability], bins: int, share: str) -> None:
    axes.plot([0, 1], [0, 1], label="perfect", **THIN_LINE)
    below = split_axes(axes)
    for (name, diagram, error, _), color in zip(curves, COLORS, strict=False):
        line = {
            "color": color,
            "marker": "o",
            "markersize": 4,
            "label": f"{name} (error {number_text(error)})",
        }
        axes.plot(diagram.mean_predicted, diagram.fraction_positive, **line)
        if len(curves) == 1:
            gap = {"color": COLORS[1], "linewidth": 1.2, "label": "gap"}
            ends = (diagram.fraction_positive, diagram.mean_predicted)
            axes.vlines(diagram.mean_predicted, *ends, **gap)
        counts = np.zeros(bins)
        counts[diagram.bins] = diagram.counts
        _steps(below, counts, color, filled=len(curves) == 1)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    below.set_ylim(bottom=0)
    finish(below, x="predicted probability", y="rows")
    finish(axes, x="", y=share if len(curves) == 1 else "fraction of positives", legend=3)


def _draw_histograms(axes: Any, histograms: Mapping[str, Histogram], x: str) -> None:
    for (name, histogram), color in zip(histograms.items(), COLORS, strict=False):
        _steps(axes, histogram.counts, color, filled=True, name=name)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    finish(axes, x=x, y="count", legend=2)


def _steps(axes: Any, counts: Any, color: str, *, filled: bool, name: str = "") -> None:
    edges = np.arange(len(counts) + 1) / len(counts)
    if filled:
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

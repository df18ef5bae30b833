"""Reliability diagrams and histograms of probabilities, drawn with matplotlib."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._histogram import Histogram, bin_edges
from ._plots import COLOURS, finish, new_axes
from ._reliability import ReliabilityDiagram
from ._split_axes import split_axes


class Curve(NamedTuple):
    """A line of a reliability diagram."""

    name: str
    diagram: ReliabilityDiagram  # without empty bins
    error: float  # expected calibration error


def plot_reliability(curves: Sequence[Curve], *, bins: int, axes: Any | None = None) -> Any:
    """Draw fractions of positives against mean probabilities, and below them how many rows.

    Args:
        curves: at most six.
        bins: of the diagrams, empty ones too.
        axes: the matplotlib Axes to draw on; default None: of a new figure. The counts take
            a quarter of them.

    Returns:
        The axes of the diagram.
    """
    given: Any = new_axes(height=5.2) if axes is None else axes
    given.plot([0, 1], [0, 1], color="0.5", linewidth=1, linestyle="--", label="perfect")
    below = split_axes(given, "below")
    for (name, diagram, error), colour in zip(curves, COLOURS, strict=False):
        given.plot(
            diagram.mean_predicted,
            diagram.fraction_positive,
            color=colour,
            marker="o",
            markersize=4,
            label=f"{name} (ECE {error:.3f})",
        )
        counts = np.zeros(bins)
        counts[diagram.bins] = diagram.counts
        _steps(below, counts, colour, filled=len(curves) == 1)
    given.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    below.set_ylim(bottom=0)
    finish(below, title="", x="predicted probability", y="rows")
    return finish(given, title="Reliability", x="", y="fraction of positives", legend=True)


def plot_histograms(
    histograms: Mapping[str, Histogram], *, title: str, x: str, axes: Any | None = None
) -> Any:
    """Draw histograms over each other.

    Args:
        histograms: by name; one without a name needs no legend.
        title: of the plot.
        x: what the horizontal axis shows.
        axes: the matplotlib Axes to draw on; default None: of a new figure.

    Returns:
        The axes.
    """
    given: Any = new_axes() if axes is None else axes
    for (name, histogram), colour in zip(histograms.items(), COLOURS, strict=False):
        _steps(given, histogram.counts, colour, filled=True, name=name)
    given.set_xlim(0, 1)
    given.set_ylim(bottom=0)
    return finish(given, title=title, x=x, y="count", legend=any(histograms))


def _steps(axes: Any, counts: Any, colour: str, *, filled: bool, name: str = "") -> None:
    edges = bin_edges(len(counts))
    if filled:
        axes.stairs(counts, edges, color=colour, fill=True, alpha=0.45, label=name or None)
    axes.stairs(counts, edges, color=colour, linewidth=1.2)

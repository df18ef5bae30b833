"""Shared parts of plots: axes, colors, titles and legends; matplotlib is imported lazily."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparkwright.errors import ConfigurationError

from .numbers import short_count

# Okabe and Ito's color-blind safe palette.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GRAY = "#888888"  # visible on light and dark pages
STYLES = ("-", "--", "-.", ":")
_LEGEND_LETTERS = 66  # fit in a line above a figure
THIN_LINE: dict[str, Any] = {"color": GRAY, "linewidth": 1, "linestyle": ":"}


def new_axes(width: float = 5.0, height: float = 4.2) -> Any:
    """Return the axes of a new figure, size in inches; a notebook shows it after the cell."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ConfigurationError(
            "plots need matplotlib, which is not installed. "
            'Run `pip install "sparkwright[notebook]"`.'
        ) from None
    _, axes = plt.subplots(figsize=(width, height), layout="constrained")
    return axes


def finish(axes: Any, *, x: str, y: str, legend: int = 0) -> None:
    """Label the axes, hide two spines, and add a legend of up to `legend` columns above."""
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    names = axes.get_legend_handles_labels()[1]
    if legend and names:
        axes.legend(
            frameon=False,
            fontsize=8,
            ncols=max(min(legend, _LEGEND_LETTERS // (max(map(len, names)) + 8)), 1),
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0.2,
            handlelength=1.8,
        )


def number_ticks(axes: Any) -> None:
    """Format the ticks of both axes; at most five on the x axis, to avoid overlaps."""
    from matplotlib.ticker import MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _place: short_count(value, 6))
    axes.xaxis.set_major_locator(MaxNLocator(4))


def titled(axes: Any, title: str) -> Any:
    """Set a title above the axes and their legend; return the axes."""
    legend = axes.get_legend()
    lines = 0 if legend is None else -(-len(legend.get_texts()) // legend._ncols)
    axes.set_title(title, pad=6 + 15 * lines)
    return axes


def split_axes(axes: Any, *, share: float = 0.25) -> Any:
    """Split off the Axes of a second plot below, and return it."""
    # Constrained layout would clip an inset outside of the axes.
    spec = axes.get_subplotspec()
    if spec is None:  # axes placed manually
        box, gap = axes.get_position(), 0.03
        low = box.height * share
        axes.set_position([box.x0, box.y0 + low + gap, box.width, box.height - low - gap])
        second = axes.figure.add_axes([box.x0, box.y0, box.width, low], sharex=axes)
    else:
        grid = spec.subgridspec(2, 1, height_ratios=[1 - share, share])
        axes.set_subplotspec(grid[0])
        second = axes.figure.add_subplot(grid[1], sharex=axes)
    axes.tick_params(labelbottom=False)
    return second


def draw_bars(axes: Any, names: Sequence[str], series: Mapping[str, Any]) -> None:
    """Draw horizontal bars of one or three series, the first name at the top; NaN as 0."""
    height = 0.24 if len(series) > 1 else 0.6
    for number, (label, values) in enumerate(series.items()):
        places = np.arange(len(names)) + (number - (len(series) - 1) / 2) * 0.27
        lengths = np.nan_to_num(values, nan=0.0)
        axes.barh(places, lengths, height=height, color=COLORS[number], label=label)
    axes.set_yticks(range(len(names)), list(map(short_name, names)))
    axes.set_ylim(len(names) - 0.4, -0.6)
    finish(axes, x="", y="", legend=len(series) if len(series) > 1 else 0)


def short_name(name: str, most: int = 18) -> str:
    """Shorten a name to fit beside an axis; escape dollar signs, which start formulas."""
    short = name if len(name) <= most else f"{name[: most - 1]}…"
    return short.replace("$", r"\$")

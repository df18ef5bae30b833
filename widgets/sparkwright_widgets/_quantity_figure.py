"""What a run logged beside its loss as a still picture: small charts side by side."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._curve import FloatPoints, QuantityLines
from ._curve_figure import draw_validation, draw_worker, dress, start_at_zero
from ._decimation import per_column
from ._figure_svg import INK, inline_svg, new_figure
from ._format import value_text
from ._quantities import VALIDATION_PLACE, Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 100  # of pixels that a line is drawn for; each chart is small
_MOST_CHARTS = 8  # a saved notebook is no place for dozens of metrics
_MOST_WORKERS = 32
# The residual is looked at live, and is in the run's history.
_LEFT_OUT = ("residual_p99",)


def quantity_svg(quantities: Sequence[Quantity], lines: QuantityLines, *, alt: str) -> str:
    """Draw the course of each quantity as inline SVG.

    Args:
        quantities: what to draw, in this order; at most eight charts.
        lines: as `Curve.quantity_lines()` returns them.
        alt: what the picture shows, in words.
    """
    shown = _shown(quantities, lines)
    rows = -(-len(shown) // 2)
    figure = new_figure(width_inches=7.6, height_inches=0.3 + 1.65 * rows)
    for place, quantity in enumerate(shown):
        axes = figure.add_subplot(rows, 2, place + 1)
        axes.set_title(quantity.label, color=INK, fontsize=10, loc="left", parse_math=False)
        dress(axes)
        _draw(axes, quantity, lines[quantity.column])
        if place >= len(shown) - 2:
            axes.set_xlabel("minibatches of each worker", color=INK)
    return inline_svg(figure, alt=alt)


def quantity_alt(quantities: Sequence[Quantity], lines: QuantityLines) -> str:
    """The last values in one sentence, the mean over the workers."""
    last = [
        (quantity.label, float(np.mean([points[-1, 1] for points in workers])))
        for quantity in _shown(quantities, lines)
        if (workers := [p for w, p in lines[quantity.column].items() if w != VALIDATION_PLACE])
    ]
    said = "; ".join(f"{label} {value_text(value)}" for label, value in last)
    return f"What else was logged. At the end, as the mean of the workers: {said}."


def _draw(axes: "Axes", quantity: Quantity, lines: Mapping[int, FloatPoints]) -> None:
    if quantity.log:
        axes.set_yscale("log")
    if quantity.band is not None:
        band = quantity.band
        axes.axhspan(band.low, band.high, color="#009E73", alpha=0.15, linewidth=0)
        axes.axhline(band.target, color=INK, alpha=0.5, linewidth=0.8, linestyle=(0, (4, 3)))
        label = axes.text(0.01, band.high * 0.9, band.label, color=INK, fontsize=8)
        label.set(transform=axes.get_yaxis_transform(), va="top")
    for worker, points in list(lines.items())[:_MOST_WORKERS]:
        drawn = per_column(points, columns=_COLUMNS)
        if worker == VALIDATION_PLACE:
            draw_validation(axes, *drawn.T)
        else:
            draw_worker(axes, worker, *drawn.T)
    if not quantity.log:
        start_at_zero(axes, np.concatenate([points[:, 1] for points in lines.values()]))


def _shown(quantities: Sequence[Quantity], lines: QuantityLines) -> list[Quantity]:
    known = [q for q in quantities if q.column in lines and q.column not in _LEFT_OUT]
    return known[:_MOST_CHARTS]

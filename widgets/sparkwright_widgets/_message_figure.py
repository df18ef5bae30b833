"""The course of gradient sharing's messages as a still picture: small charts side by side."""

import numpy as np

from ._curve import FloatPoints
from ._curve_figure import draw_worker, dress, start_at_zero
from ._decimation import per_column
from ._figure_svg import INK, inline_svg, new_figure
from ._sharing import QUANTITIES

_COLUMNS = 100  # of pixels that a line is drawn for; each chart is small
_SHOWN = QUANTITIES[:4]  # the residual is looked at live, and is in the run's history

Lines = dict[str, dict[int, FloatPoints]]


def message_svg(lines: Lines, *, alt: str) -> str:
    """Draw threshold, sparsity, size and staleness of the messages as inline SVG.

    Args:
        lines: as `Curve.message_lines()` returns them.
        alt: what the picture shows, in words.
    """
    figure = new_figure(width_inches=7.6, height_inches=3.6)
    for place, quantity in enumerate(_SHOWN):
        axes = figure.add_subplot(2, 2, place + 1)
        axes.set_title(quantity.label, color=INK, fontsize=10, loc="left")
        dress(axes)
        for worker, points in lines.get(quantity.column, {}).items():
            draw_worker(axes, worker, *per_column(points, columns=_COLUMNS).T)
        start_at_zero(axes, _values(lines, quantity.column))
        if place >= len(_SHOWN) - 2:
            axes.set_xlabel("minibatches of each worker", color=INK)
    return inline_svg(figure, alt=alt)


def message_alt(lines: Lines) -> str:
    """The last values in one sentence, the mean over the workers."""
    last = [
        (quantity.label, float(np.mean([points[-1, 1] for points in workers.values()])))
        for quantity in _SHOWN
        if (workers := lines.get(quantity.column))
    ]
    said = "; ".join(f"{label} {value:.3g}" for label, value in last)
    return f"Messages of each worker. At the end, as the mean of the workers: {said}."


def _values(lines: Lines, column: str) -> FloatPoints:
    parts = [points[:, 1] for points in lines.get(column, {}).values()]
    return np.concatenate([np.empty(0, np.float32), *parts])

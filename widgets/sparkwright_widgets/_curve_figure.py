"""The loss curve as a still picture, for saved notebooks and reports."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._curve import EPOCH, MEAN, VALIDATION, FloatPoints
from ._decimation import per_column
from ._figure_svg import COLOURS, INK, inline_svg, new_figure
from ._format import loss_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 300  # of a picture some 700 pixels wide: fine enough, and small in a file
MARKERS = "os^DXP"


def curve_svg(
    lines: dict[int, FloatPoints], *, alt: str, mean_name: str = "mean of the round"
) -> str:
    """Draw the lines of a `Curve` as inline SVG.

    Args:
        lines: points (n, 2) of each line, as `Curve.lines()` returns them.
        alt: what the picture shows, in words.
        mean_name: what the line of the mean is called.
    """
    figure = new_figure(width_inches=7.6, height_inches=3.0)
    axes = figure.add_subplot()
    for line, points in lines.items():
        if line == EPOCH:
            for x in points[points[:, 1] > 1, 0]:
                axes.axvline(x, color=INK, alpha=0.3, linewidth=0.8, linestyle=(0, (2, 3)))
            continue
        x, y = per_column(points, columns=_COLUMNS).T
        y = np.where(np.isfinite(y), y, np.nan)
        if line == MEAN:
            axes.plot(x, y, color=INK, linewidth=2, label=mean_name, zorder=3)
        elif line == VALIDATION:
            draw_validation(axes, x, y)
        else:
            draw_worker(axes, line, x, y)
    axes.set_xlabel("minibatches of each worker", color=INK)
    axes.set_ylabel("loss", color=INK)
    dress(axes)
    count = len([line for line in lines if line != EPOCH])
    if count <= 10:
        legend(axes, columns=min(count, 5))
    values = [points[:, 1] for line, points in lines.items() if line != EPOCH]
    start_at_zero(axes, np.concatenate(values))
    return inline_svg(figure, alt=alt)


def curve_alt(lines: dict[int, FloatPoints]) -> str:
    """The curve in one sentence: from where to where, over how many steps."""
    points = lines.get(MEAN, np.empty((0, 2)))
    points = points[np.isfinite(points[:, 1])]
    if len(points) == 0:
        return "Loss curve without any finite value."
    workers = sum(line >= 0 for line in lines)
    first, last, lowest = points[0, 1], points[-1, 1], points[:, 1].min()
    return (
        f"Loss curve of {workers} worker{'s' if workers != 1 else ''} over "
        f"{points[-1, 0]:,.0f} steps: the mean goes from {loss_text(float(first))} to "
        f"{loss_text(float(last))}, its lowest value is {loss_text(float(lowest))}."
    )


def draw_worker(
    axes: "Axes", worker: int, x: NDArray[np.floating], y: NDArray[np.floating]
) -> None:
    """One worker's line, in its colour and with its marker at the end."""
    marker = MARKERS[(worker + worker // len(COLOURS)) % len(MARKERS)]
    colour, label = COLOURS[worker % len(COLOURS)], f"worker {worker}"
    (drawn,) = axes.plot(x, y, color=colour, linewidth=0.8, alpha=0.65, label=label)
    drawn.set(marker=marker, markevery=[len(x) - 1], markersize=5)


def draw_validation(axes: "Axes", x: NDArray[np.floating], y: NDArray[np.floating]) -> None:
    """The line of the validation data, dashed."""
    (drawn,) = axes.plot(x, y, color="#D55E00", linewidth=1.6, label="validation")
    drawn.set(linestyle="--", marker="o", markerfacecolor="none", zorder=4)


def legend(axes: "Axes", *, columns: int, **look: Any) -> None:
    """The names of the lines, above the plot, where they hide none; `look` is matplotlib's."""
    axes.legend(
        frameon=False,
        labelcolor=INK,
        fontsize=9,
        ncols=columns,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        **look,
    )


def dress(axes: "Axes") -> None:
    """Colours that fit any page, and few lines."""
    axes.tick_params(colors=INK)
    axes.set_facecolor("none")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color(INK)
    axes.grid(axis="y", color=INK, alpha=0.12)


def start_at_zero(axes: "Axes", values: NDArray[np.floating]) -> None:
    """Show the zero where it is not far, as the live chart does."""
    values = values[np.isfinite(values)]
    if len(values) and 0 <= values.min() < 0.4 * values.max():
        axes.set_ylim(bottom=0)

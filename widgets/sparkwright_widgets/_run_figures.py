"""Figures of the loss and other logged quantities, for saved notebooks and reports."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparkwright.evaluation.reports import Figure, Table

from ._contract import MEAN_NAME, Sharing
from ._curve import EPOCH, MEAN, VALIDATION, FloatPoints, QuantityLines
from ._figure_svg import COLORS, INK, MARKERS, Line, draw_lines
from ._format import count_text, counted, number_text, short_number, shortened
from ._quantities import VALIDATION_APART, VALIDATION_PLACE, Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEPS = "minibatches of each worker"
_MOST_CHARTS = 12  # limits the size of saved notebooks
_MOST_WORKERS = 32
_TABLE_ROWS = 20
_TABLE_WORKERS = 16
_LONGEST_NAME = 32
# The residual is useful only live; the run's history has it.
_LEFT_OUT = ("residual_p99",)


def run_figures(
    lines: Mapping[int, FloatPoints],
    quantities: Sequence[Quantity],
    quantity_lines: QuantityLines,
    sharing: Sharing | None,
) -> list[Figure]:
    """Return figures of the loss and of the other quantities; empty without a minibatch."""
    if not lines:
        return []
    found = [loss_figure(lines, mean_name=MEAN_NAME if sharing else "mean of the round")]
    return [*found, *([quantity_figure(quantities, quantity_lines)] if quantity_lines else [])]


def loss_figure(
    lines: Mapping[int, FloatPoints], *, mean_name: str = "mean of the round"
) -> Figure:
    """Return a figure of the loss of each worker, their mean and the validation loss."""
    drawn = {line: points for line, points in lines.items() if line != EPOCH}

    def draw(axes: "Axes") -> None:
        for x in lines.get(EPOCH, np.empty((0, 2))):
            if x[1] > 1:
                axes.axvline(x[0], color=INK, alpha=0.3, linewidth=0.8, linestyle=(0, (2, 3)))
        columns = min(len(drawn), 5) if len(drawn) <= 10 else 0
        shown = [_loss_line(line, points, mean_name) for line, points in drawn.items()]
        draw_lines(axes, shown, x=_STEPS, y="loss", legend=columns)

    return Figure(
        kind="curve",
        label="Last loss up to each minibatch",
        caption=_loss_sentence(lines),
        draw=draw,
        table=_loss_table(drawn),
        size=(7.6, 3.0),
    )


def quantity_figure(quantities: Sequence[Quantity], lines: QuantityLines) -> Figure:
    """Return a figure of logged quantities other than the loss, at most 12 small charts."""
    known = [q for q in quantities if q.column in lines and q.column not in _LEFT_OUT]
    shown = known[:_MOST_CHARTS]
    rows = -(-len(shown) // 2)

    def draw(axes: "Axes") -> None:
        figure = axes.figure
        axes.remove()
        for place, quantity in enumerate(shown):
            small = figure.add_subplot(rows, 2, place + 1)
            small.set_title(quantity.label, color=INK, fontsize=10, loc="left", parse_math=False)
            is_last = place >= len(shown) - 2
            _draw_quantity(small, quantity, lines[quantity.column], x=_STEPS if is_last else "")

    last = [
        (quantity.label, float(np.mean([points[-1, 1] for points in workers])))
        for quantity in shown
        if (workers := [p for w, p in lines[quantity.column].items() if w != VALIDATION_PLACE])
    ]
    said = "; ".join(f"{label} {short_number(value, 3)}" for label, value in last)
    return Figure(
        kind="curve",
        label="Other logged quantities",
        caption=f"Other logged quantities. Final values, averaged over the workers: {said}.",
        draw=draw,
        table=_quantity_table(quantities, lines),
        size=(7.6, 0.3 + 1.65 * rows),
    )


def comparison_figure(lines: Mapping[int, FloatPoints], names: Sequence[str]) -> Figure:
    """Return a figure of the losses of several runs.

    Args:
        lines: points of each line, from `ComparisonFeed.lines()`.
        names: names of the runs.
    """
    shown: list[Line] = []
    for line, points in lines.items():
        run, is_validation = line % VALIDATION_APART, line >= VALIDATION_APART
        shown.append(
            Line(
                label=shortened(names[run], _LONGEST_NAME) + ", validation" * is_validation,
                points=points,
                color=COLORS[run % 6],
                style="--" if is_validation else "-",
                marker=MARKERS[(run + run // 6) % 6],
                marks=1,
            )
        )
    columns = 2 if max(map(len, names), default=0) > 14 else 4
    ends = [
        f"{name} {number_text(float(lines[run][-1, 1]))} at step {lines[run][-1, 0]:,.0f}"
        for run, name in enumerate(names)
        if run in lines
    ]
    at_the_end = "; ".join(ends) or "no loss yet"
    return Figure(
        kind="comparison",
        label="Loss of each run",
        caption=f"Loss curves of {len(names)} runs. Final values: {at_the_end}.",
        draw=lambda axes: draw_lines(axes, shown, x=_STEPS, y="loss", legend=columns),
        table=Table(),
        size=(7.6, 3.3),
    )


def _loss_line(line: int, points: FloatPoints, mean_name: str) -> Line:
    if line == MEAN:
        return Line(label=mean_name, points=points, width=2, layer=3)
    return _validation_line(points) if line == VALIDATION else _worker_line(line, points)


def _worker_line(worker: int, points: FloatPoints) -> Line:
    """Return a worker's line, with its color and an end marker."""
    return Line(
        label=f"worker {worker}",
        points=points,
        color=COLORS[worker % len(COLORS)],
        marker=MARKERS[(worker + worker // len(COLORS)) % len(MARKERS)],
        marks=1,
        width=0.8,
        alpha=0.65,
    )


def _validation_line(points: FloatPoints) -> Line:
    return Line(
        label="validation", points=points, color="#D55E00", style="--", marker="o", hollow=True,
        layer=4,
    )  # fmt: skip


def _loss_sentence(lines: Mapping[int, FloatPoints]) -> str:
    """Summarize the mean loss in one sentence: first, last and lowest value."""
    points = lines.get(MEAN, np.empty((0, 2)))
    points = points[np.isfinite(points[:, 1])]
    if len(points) == 0:
        return "Loss curve without any finite value."
    workers = sum(line >= 0 for line in lines)
    steps = max(line[-1, 0] for number, line in lines.items() if number >= MEAN)
    first, last, lowest = points[0, 1], points[-1, 1], points[:, 1].min()
    return (
        f"Loss curve of {counted(workers, 'worker')} over "
        f"{steps:,.0f} steps: the mean goes from {number_text(float(first))} to "
        f"{number_text(float(last))}; its lowest value is {number_text(float(lowest))}."
    )


def _loss_table(lines: Mapping[int, FloatPoints]) -> Table:
    """Return a table of about 20 evenly spaced steps: mean, validation and worker losses."""
    titles = {MEAN: "Mean of the workers", VALIDATION: "Validation"}
    columns = [line for line in (MEAN, VALIDATION) if line in lines]
    columns += sorted(line for line in lines if line >= 0)[:_TABLE_WORKERS]
    last = max((float(lines[line][-1, 0]) for line in columns if len(lines[line])), default=0.0)
    moments = np.unique(np.linspace(last / _TABLE_ROWS, last, _TABLE_ROWS).round())

    def at(points: FloatPoints, moment: float) -> str:
        before = points[points[:, 0] <= moment]
        return number_text(float(before[-1, 1]) if len(before) else None)

    heads = ["Until minibatch", *(titles.get(line, f"Worker {line}") for line in columns)]
    rows = [
        [count_text(moment), *(at(lines[line], moment) for line in columns)]
        for moment in moments.tolist()
    ]
    return Table([heads, *rows])


def _quantity_table(quantities: Sequence[Quantity], lines: QuantityLines) -> Table:
    """Return a table of the first, last, lowest and highest value by quantity and worker."""
    rows = [["Quantity", "Source", "First", "Last", "Lowest", "Highest"]]
    for quantity in quantities:
        for place, points in list(lines.get(quantity.column, {}).items())[: _TABLE_WORKERS + 1]:
            values = points[np.isfinite(points[:, 1]), 1]
            if len(values):
                who = "validation" if place == VALIDATION_PLACE else f"worker {place}"
                figures = (values[0], values[-1], values.min(), values.max())
                rows.append([quantity.label, who, *(short_number(float(v)) for v in figures)])
    return Table(rows, text_columns=(1,))


def _draw_quantity(
    axes: "Axes", quantity: Quantity, lines: Mapping[int, FloatPoints], *, x: str
) -> None:
    if quantity.log:
        axes.set_yscale("log")
    if (band := quantity.band) is not None:
        axes.axhspan(band.low, band.high, color="#009E73", alpha=0.15, linewidth=0)
        axes.axhline(band.target, color=INK, alpha=0.5, linewidth=0.8, linestyle=(0, (4, 3)))
        label = axes.text(0.01, band.high * 0.9, band.label, color=INK, fontsize=8)
        label.set(transform=axes.get_yaxis_transform(), va="top")
    shown = [
        _validation_line(points) if place == VALIDATION_PLACE else _worker_line(place, points)
        for place, points in list(lines.items())[:_MOST_WORKERS]
    ]
    draw_lines(axes, shown, x=x, y="", pixels=100, from_zero=not quantity.log)

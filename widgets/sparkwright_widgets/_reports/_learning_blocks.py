"""Learning curves by epoch: of one run, with the best epoch marked, or of several runs."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparkwright.evaluation.plots import STYLES
from sparkwright.evaluation.reports import Figure, Table
from sparkwright_widgets._block import Block
from sparkwright_widgets._figure_svg import COLORS, INK, Line, draw_lines, figure_block
from sparkwright_widgets._format import count_text, number_text, short_number, shortened

from ._facts import Best, Epoch, metric_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 200  # rows of a table; of more epochs, some are omitted
_MOST_RUNS = 12  # most distinguishable lines; the table has all runs
_LONGEST_NAME = 24
_MARKERS = "os^DXPv<>*hp"
_LESS_TEXT = 5e-5  # smaller gaps are described as equal

Values = Mapping[int, float]  # epoch -> figure


def learning_blocks(epochs: Sequence[Epoch], best: Best | None) -> list[Block]:
    """Return a block for the loss and one for each metric; empty before the first epoch."""
    if not epochs:
        return []
    validation = {e.number: e.validation_loss for e in epochs if e.validation_loss is not None}
    training = {e.number: e.loss for e in epochs}
    rows = [
        [
            count_text(e.number),
            number_text(e.loss),
            number_text(e.validation_loss),
            number_text(e.gap),
            "★ best" if best is not None and best.epoch == e.number else "",
        ]
        for e in _spread(epochs)
    ]
    heads = ["Epoch", "Training loss", "Validation loss", "Gap", ""]
    left_out = len(epochs) - len(rows)
    table = Table([heads, *rows], text_columns=(4,), left_out=left_out)
    caption = _loss_caption(epochs, best)
    blocks = [_learning_block("loss", training, validation, best, caption, table)]
    for name in metric_names(epochs):
        training = {e.number: e.metrics[name] for e in epochs if name in e.metrics}
        validation = _validated(epochs, name)
        rows = [
            [
                count_text(e.number),
                number_text(training.get(e.number)),
                number_text(validation.get(e.number)),
            ]
            for e in _spread(epochs)
        ]
        table = Table(
            [["Epoch", f"Training {name}", f"Validation {name}"], *rows],
            left_out=len(epochs) - len(rows),
        )
        caption = _metric_caption(name, training, validation)
        blocks.append(_learning_block(name, training, validation, best, caption, table))
    return blocks


def curve_blocks(epochs: Mapping[str, Sequence[Epoch]]) -> list[Block]:
    """Return overlaid curves of the losses and validation metrics of several runs."""
    validated = {
        name: {e.number: e.validation_loss for e in each if e.validation_loss is not None}
        for name, each in epochs.items()
    }
    trained = {name: {e.number: e.loss for e in each} for name, each in epochs.items()}
    metrics = dict.fromkeys(
        metric for each in epochs.values() for e in each for metric in e.validation_metrics
    )
    titled: list[tuple[str, Mapping[str, Values]]] = [("validation loss", validated)]
    for metric in metrics:
        lines = {name: _validated(each, metric) for name, each in epochs.items()}
        titled.append((f"validation {metric}", lines))
    titled.append(("training loss", trained))
    return [_runs_block(title, lines) for title, lines in titled if any(lines.values())]


def _learning_block(
    name: str, training: Values, validation: Values, best: Best | None, caption: str, table: Table
) -> Block:
    def draw(axes: "Axes") -> None:
        lines = [
            _line(label, values, color=color, style=style, marker=marker)
            for label, values, color, style, marker in (
                ("training", training, COLORS[0], "-", "o"),
                ("validation", validation, COLORS[3], "--", "s"),
            )
            if np.isfinite(list(values.values())).any()
        ]
        both = sorted(training.keys() & validation.keys())
        if name == "loss" and both:
            low, high = ([values[k] for k in both] for values in (training, validation))
            axes.fill_between(both, low, high, color=INK, alpha=0.09, linewidth=0, label="gap")
        if best is not None:
            _mark(axes, best, validation.get(best.epoch, training.get(best.epoch, math.nan)))
        _draw_epochs(axes, lines, y=name, legend=4)

    return figure_block(
        Figure(
            kind="learning",
            label=f"{name.capitalize()} by epoch",
            caption=caption,
            draw=draw,
            table=table,
            size=(5.4, 3.0),
        )
    )


def _mark(axes: "Axes", best: Best, height: float) -> None:
    """Draw a line through the best epoch, and a star on the curve."""
    axes.axvline(best.epoch, color=INK, linewidth=1, linestyle=(0, (2, 3)))
    if math.isfinite(height):
        (star,) = axes.plot([best.epoch], [height], marker="*", markersize=13, linestyle="none")
        star.set(color=COLORS[2], markeredgecolor=INK, markeredgewidth=0.6, zorder=5)
        star.set_label(f"best epoch, {best.epoch}")


def _runs_block(title: str, lines: Mapping[str, Values]) -> Block:
    numbers = sorted({number for line in lines.values() for number in line})
    last = {name: line[max(line)] for name, line in lines.items() if line}
    low, high = min(last, key=lambda n: last[n]), max(last, key=lambda n: last[n])
    ends = [number_text(last[low]), number_text(last[high])]
    caption = f"{title[0].upper()}{title[1:]} by epoch"
    if len(last) > 1 and ends[0] == ends[1]:
        caption += f": it ends at {ends[0]} in every run"
    elif len(last) > 1:
        caption += f": it ends between {ends[0]} ({low}) and {ends[1]} ({high})"
    drawn = [
        _line(
            shortened(name, _LONGEST_NAME),
            line,
            color=COLORS[place % len(COLORS)],
            style=STYLES[place % len(STYLES)],
            marker=_MARKERS[place % len(_MARKERS)],
        )
        for place, (name, line) in enumerate(list(lines.items())[:_MOST_RUNS])
    ]
    rows = [
        [count_text(number), *(number_text(line.get(number)) for line in lines.values())]
        for number in numbers[:_MOST_ROWS]
    ]
    is_loss = title.endswith("loss")
    figure = Figure(
        kind="learning",
        label=f"{title[0].upper()}{title[1:]} of each run",
        caption=f"{caption}.",
        draw=lambda axes: _draw_epochs(axes, drawn, y=title, legend=2, from_zero=is_loss),
        table=Table([["Epoch", *lines], *rows], left_out=len(numbers) - len(rows)),
        size=(5.4, 3.2),
    )
    return figure_block(figure)


def _line(label: str, values: Values, *, color: str, style: str, marker: str) -> Line:
    points = np.array(sorted(values.items()), np.float64).reshape(-1, 2)
    return Line(label=label, points=points, color=color, style=style, marker=marker, width=1.8)


def _draw_epochs(
    axes: "Axes", lines: Sequence[Line], *, y: str, legend: int, from_zero: bool = True
) -> None:
    from matplotlib.ticker import MaxNLocator

    draw_lines(axes, lines, x="epoch", y=y, legend=legend, from_zero=from_zero)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    epochs = {x for line in lines for x in line.points[:, 0].tolist()}
    if len(epochs) == 1:
        (only,) = epochs
        axes.set_xlim(only - 1, only + 1)


def _loss_caption(epochs: Sequence[Epoch], best: Best | None) -> str:
    first, last = epochs[0], epochs[-1]
    if len(epochs) == 1:
        text = f"The mean training loss of the only epoch was {number_text(first.loss)}"
    else:
        text = (
            f"The mean training loss goes from {number_text(first.loss)} in epoch {first.number} "
            f"to {number_text(last.loss)} in epoch {last.number}"
        )
    if last.gap is not None:
        side = "above" if last.gap > 0 else "below"
        gap = abs(last.gap)
        text += (
            "; the validation loss ends at the same value"
            if gap < _LESS_TEXT
            else f"; the validation loss ends {number_text(gap)} {side} it"
        )
    if best is not None and len(epochs) > 1:
        text += f"; epoch {best.epoch} was the best by {best.name}"
    return f"{text}."


def _metric_caption(name: str, training: Values, validation: Values) -> str:
    parts: list[str] = []
    for title, values in (("validation", validation), ("training", training)):
        known = [(number, v) for number, v in sorted(values.items()) if math.isfinite(v)]
        if len(known) == 1:
            parts.append(
                f"the {title} {name} is {short_number(known[0][1])} in epoch {known[0][0]}"
            )
        elif known:
            parts.append(
                f"the {title} {name} goes from {short_number(known[0][1])} in epoch {known[0][0]} "
                f"to {short_number(known[-1][1])} in epoch {known[-1][0]}"
            )
    text = "; ".join(parts) or f"no finite {name} was reported"
    return f"{text[0].upper()}{text[1:]}."


def _validated(epochs: Sequence[Epoch], name: str) -> dict[int, float]:
    return {e.number: e.validation_metrics[name] for e in epochs if name in e.validation_metrics}


def _spread(epochs: Sequence[Epoch]) -> list[Epoch]:
    """Return all epochs, or evenly spaced ones including the first and the last."""
    places = np.arange(len(epochs))
    if len(epochs) > _MOST_ROWS:
        places = np.unique(np.linspace(0, len(epochs) - 1, _MOST_ROWS).round().astype(int))
    return [epochs[k] for k in places.tolist()]

"""How a network learnt, epoch by epoch: curves with the best epoch marked, and the table. Pure."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparkwright_widgets._block import Block
from sparkwright_widgets._curve_figure import start_at_zero
from sparkwright_widgets._evaluation_figures._blocks import (
    figure_block,
    legend_above,
    named_axes,
)
from sparkwright_widgets._figure_svg import COLOURS, INK
from sparkwright_widgets._format import count_text, loss_text

from ._epochs import Best, Epoch, metric_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TRAINING, _VALIDATION = COLOURS[0], COLOURS[3]
_MOST_ROWS = 200  # of a table: of more epochs, some are left out
_LESS_TEXT = 5e-5  # a gap below this is none


def learning_blocks(epochs: Sequence[Epoch], best: Best | None) -> list[Block]:
    """One block for the loss and one for each metric; nothing before the first epoch.

    Args:
        epochs: as `epochs_of` finds them.
        best: the epoch to mark; None: none.
    """
    if not epochs:
        return []
    blocks = [_loss_block(epochs, best)]
    for name in metric_names(epochs):
        blocks.append(_metric_block(name, epochs, best))
    return blocks


def _loss_block(epochs: Sequence[Epoch], best: Best | None) -> Block:
    training = [epoch.loss for epoch in epochs]
    validation = [_or_nan(epoch.validation_loss) for epoch in epochs]
    shown = _shown(len(epochs))
    heads = ["Epoch", "Training loss", "Validation loss", "Gap", ""]
    rows = [
        [
            count_text(epochs[k].number),
            loss_text(training[k]),
            loss_text(epochs[k].validation_loss),
            loss_text(epochs[k].gap),
            "★ best" if best is not None and best.epoch == epochs[k].number else "",
        ]
        for k in shown
    ]
    return figure_block(
        _drawn("loss", epochs, training, validation, best, fills=True),
        caption=_loss_caption(epochs, best),
        heads=heads,
        rows=rows,
        label="Loss by epoch",
        kind="learning",
        left_out=len(epochs) - len(shown),
        text_columns=(4,),
    )


def _metric_block(name: str, epochs: Sequence[Epoch], best: Best | None) -> Block:
    training = [_or_nan(epoch.metrics.get(name)) for epoch in epochs]
    validation = [_or_nan(epoch.validation_metrics.get(name)) for epoch in epochs]
    shown = _shown(len(epochs))
    rows = [
        [
            count_text(epochs[k].number),
            _figure_text(training[k]),
            _figure_text(validation[k]),
        ]
        for k in shown
    ]
    return figure_block(
        _drawn(name, epochs, training, validation, best, fills=False),
        caption=_metric_caption(name, epochs, training, validation),
        heads=["Epoch", f"Training {name}", f"Validation {name}"],
        rows=rows,
        label=f"{name.capitalize()} by epoch",
        kind="learning",
        left_out=len(epochs) - len(shown),
    )


def _drawn(
    name: str,
    epochs: Sequence[Epoch],
    training: Sequence[float],
    validation: Sequence[float],
    best: Best | None,
    *,
    fills: bool,
) -> "Figure":
    from matplotlib.ticker import MaxNLocator

    figure, axes = named_axes(x="epoch", y=name, width_inches=5.4, height_inches=3.0)
    x = np.array([epoch.number for epoch in epochs])
    values = np.array([training, validation], np.float64)
    values[~np.isfinite(values)] = np.nan
    every = max(1, len(x) // 40)
    for label, y, colour, style, marker in (
        ("training", values[0], _TRAINING, "-", "o"),
        ("validation", values[1], _VALIDATION, "--", "s"),
    ):
        if np.isfinite(y).any():
            axes.plot(
                x,
                y,
                color=colour,
                linestyle=style,
                marker=marker,
                markersize=4,
                markevery=every,
                linewidth=1.8,
                label=label,
            )
    if fills and np.isfinite(values).all(axis=0).any():
        axes.fill_between(x, values[0], values[1], color=INK, alpha=0.09, linewidth=0, label="gap")
    if best is not None:
        axes.axvline(best.epoch, color=INK, linewidth=1, linestyle=(0, (2, 3)))
        mine = values[:, x == best.epoch]
        height = mine[1] if np.isfinite(mine[1]).any() else mine[0]
        if np.isfinite(height).any():
            axes.plot(
                [best.epoch],
                height,
                marker="*",
                markersize=13,
                linestyle="none",
                color=COLOURS[2],
                markeredgecolor=INK,
                markeredgewidth=0.6,
                label=f"best epoch, {best.epoch}",
                zorder=5,
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(x) == 1:
        axes.set_xlim(x[0] - 1, x[0] + 1)
    start_at_zero(axes, values.ravel())
    legend_above(axes, columns=4)
    return figure


def _loss_caption(epochs: Sequence[Epoch], best: Best | None) -> str:
    first, last = epochs[0], epochs[-1]
    if len(epochs) == 1:
        text = f"The mean training loss of the only epoch was {loss_text(first.loss)}"
    else:
        text = (
            f"The mean training loss goes from {loss_text(first.loss)} in epoch {first.number} "
            f"to {loss_text(last.loss)} in epoch {last.number}"
        )
    if last.gap is not None:
        side = "above" if last.gap > 0 else "below"
        gap = abs(last.gap)
        text += (
            "; the validation loss ends as high as it"
            if gap < _LESS_TEXT
            else f"; the validation loss ends {loss_text(gap)} {side} it"
        )
    if best is not None and len(epochs) > 1:
        text += f"; epoch {best.epoch} was the best by {best.name}"
    return f"{text}."


def _metric_caption(
    name: str, epochs: Sequence[Epoch], training: Sequence[float], validation: Sequence[float]
) -> str:
    parts: list[str] = []
    for title, values in (("validation", validation), ("training", training)):
        known = [(e.number, v) for e, v in zip(epochs, values, strict=True) if math.isfinite(v)]
        if len(known) == 1:
            parts.append(f"the {title} {name} is {known[0][1]:.4g} in epoch {known[0][0]}")
        elif known:
            parts.append(
                f"the {title} {name} goes from {known[0][1]:.4g} in epoch {known[0][0]} to "
                f"{known[-1][1]:.4g} in epoch {known[-1][0]}"
            )
    text = "; ".join(parts) or f"no finite {name} was reported"
    return f"{text[0].upper()}{text[1:]}."


def _shown(count: int) -> list[int]:
    """Which rows a table shows: all, or evenly spread ones, the first and the last among them."""
    if count <= _MOST_ROWS:
        return list(range(count))
    return np.unique(np.linspace(0, count - 1, _MOST_ROWS).round().astype(int)).tolist()


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _figure_text(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "—"

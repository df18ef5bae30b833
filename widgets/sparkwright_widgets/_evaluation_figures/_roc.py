"""ROC and precision-recall curves, with a bootstrap band for a single one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sparkwright.evaluation import CurvePoint, RocBand, RocColumns, RocReadings, bootstrap_band
from sparkwright_widgets._block import Block
from sparkwright_widgets._figure_svg import COLOURS, INK
from sparkwright_widgets._format import count_text

from ._blocks import (
    MOST_ROWS,
    STYLES,
    figure_block,
    headline_block,
    legend_above,
    named_axes,
    number_text,
    short_name,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 300  # of a curve that is some 400 pixels wide
_TABLE_POINTS = 12
_MOST_CURVES = 10  # more cannot be told apart
_GRID = np.linspace(0.0, 1.0, 201)

Which = Literal["roc", "precision_recall"]
Named = Sequence[tuple[str, RocReadings]]


def roc_blocks(roc: RocReadings | RocColumns, *, band: bool = True) -> list[Block]:
    """ROC and precision-recall curves, of one score, of several outputs or of several classes.

    Args:
        roc: `ROC`, `ROCDigest`, `ROCBinary` or `ROCMultiClass`.
        band: whether to draw, for a single curve, what 95 % of resampled curves lie within.
    """
    if isinstance(roc, RocColumns):
        return _of_columns(roc)
    blocks = [headline_block(roc)]
    if roc.positives and roc.negatives:
        bounds = bootstrap_band(roc) if band else None
        blocks += [_one(roc, bounds, "roc"), _one(roc, bounds, "precision_recall")]
    return blocks


def curves_block(
    named: Named, which: Which, *, caption: str, heads: Sequence[str], rows: Any, label: str
) -> Block:
    """Curves over each other, told apart by colour and dash; of very many, mean and spread."""
    guess = None
    if which == "precision_recall" and len(named) == 1:
        guess = named[0][1].positives / max(named[0][1].examples, 1)
    figure, axes = _axes(which, guess)
    if len(named) > _MOST_CURVES:
        heights = np.stack([np.interp(_GRID, *_ascending(roc, which)) for _, roc in named])
        axes.fill_between(
            _GRID, heights.min(0), heights.max(0), color=COLOURS[0], alpha=0.18, linewidth=0,
            label="lowest to highest",
        )  # fmt: skip
        axes.plot(_GRID, heights.mean(0), color=COLOURS[0], label=f"mean of {len(named)}")
    else:
        for number, (name, roc) in enumerate(named):
            axes.plot(
                *_ascending(roc, which),
                color=COLOURS[number % len(COLOURS)],
                linestyle=STYLES[number % len(STYLES)],
                linewidth=1.8,
                label=short_name(name),
            )
    legend_above(axes, columns=2 if len(named) < 5 else 3)
    return figure_block(
        figure, caption=caption, heads=heads, rows=rows, label=label, kind=which.replace("_", "-")
    )


def _one(roc: RocReadings, bounds: RocBand | None, which: Which) -> Block:
    guess = roc.positives / roc.examples if which == "precision_recall" else None
    figure, axes = _axes(which, guess)
    if bounds is not None:
        low, high = bounds.true_positive_rate if which == "roc" else bounds.precision
        axes.fill_between(
            bounds.grid, low, high, color=COLOURS[0], alpha=0.2, linewidth=0,
            label=f"{bounds.confidence:.0%} of resampled curves",
        )  # fmt: skip
    axes.plot(*_ascending(roc, which), color=COLOURS[0], linewidth=1.8, label="this network")
    _mark_best(axes, roc, which)
    legend_above(axes)
    points = _table_points(roc)
    return figure_block(
        figure,
        caption=_caption(roc, bounds, which),
        heads=["threshold", "precision", "recall", "false positive rate"],
        rows=[
            [number_text(point.threshold), *(f"{share:.4f}" for share in point[1:])]
            for point in points
        ],
        label="ROC curve" if which == "roc" else "Precision-recall curve",
        kind=which.replace("_", "-"),
    )


def _of_columns(columns: RocColumns) -> list[Block]:
    named = [
        (name, roc)
        for name, roc in zip(columns.output_names, columns.rocs, strict=False)
        if roc.positives and roc.negatives
    ]
    blocks = [headline_block(columns)]
    if not named:
        return blocks
    heads = ["", "positive", "negative", "AUC", "average precision"]
    ordered = sorted(named, key=lambda pair: pair[1].auc)[:MOST_ROWS]
    chosen = named if len(named) <= MOST_ROWS else ordered
    rows = [
        [
            name,
            count_text(roc.positives),
            count_text(roc.negatives),
            f"{roc.auc:.4f}",
            f"{roc.average_precision:.4f}",
        ]
        for name, roc in chosen
    ]
    drawn = [(name, roc) for name, roc in named] if len(named) <= _MOST_CURVES else named[:100]
    worst = ordered[0]
    least = min(named, key=lambda pair: pair[1].average_precision)
    sentences = {
        "roc": f"The mean AUC is {columns.auc():.4f}; the lowest is {worst[1].auc:.4f} "
        f"({worst[0]}).",
        "precision_recall": f"The mean average precision is {columns.average_precision():.4f}; "
        f"the lowest is {least[1].average_precision:.4f} ({least[0]}).",
    }
    titles = {"roc": "ROC curves", "precision_recall": "Precision-recall curves"}
    for which in ("roc", "precision_recall"):
        blocks.append(
            curves_block(
                drawn,
                which,
                caption=sentences[which],
                heads=heads,
                rows=rows,
                label=titles[which],
            )
        )
    return blocks


def _axes(which: Which, guess: float | None) -> "tuple[Any, Axes]":
    names = ("false positive rate", "true positive rate")
    if which == "precision_recall":
        names = ("recall", "precision")
    figure, axes = named_axes(x=names[0], y=names[1], height_inches=4.3)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    heights = [0.0, 1.0] if which == "roc" else None if guess is None else [guess, guess]
    if heights is not None:
        line: dict[str, Any] = {"color": INK, "alpha": 0.5, "linewidth": 1, "linestyle": ":"}
        axes.plot([0, 1], heights, label="guessing", **line)
    return figure, axes


def _ascending(roc: RocReadings, which: Which) -> tuple[Any, Any]:
    """Horizontal and vertical coordinates, from left to right."""
    if which == "roc":
        curve = roc.curve(POINTS)
        return curve.false_positive_rate, curve.true_positive_rate
    curve = roc.precision_recall_curve(POINTS)
    return curve.recall[::-1], curve.precision[::-1]


def _mark_best(axes: "Axes", roc: RocReadings, which: Which) -> None:
    point = roc.precision_recall_curve().point_at_threshold(roc.best_threshold("f1"))
    place = (
        (point.false_positive_rate, point.recall)
        if which == "roc"
        else (point.recall, point.precision)
    )
    label = f"best F1, from {number_text(point.threshold)} on"
    axes.plot(*place, "D", color=COLOURS[3], markersize=7, label=label)


def _table_points(roc: RocReadings) -> list[CurvePoint]:
    """Some exact points, from the highest threshold to the lowest."""
    curve = roc.precision_recall_curve(_TABLE_POINTS)
    return [curve.point_at_threshold(float(threshold)) for threshold in curve.thresholds[-2::-1]]


def _caption(roc: RocReadings, bounds: RocBand | None, which: Which) -> str:
    if which == "roc":
        name, value, interval = "AUC", roc.auc, None if bounds is None else bounds.auc
        guess = "guessing gives 0.5"
    else:
        name, value = "Average precision", roc.average_precision
        interval = None if bounds is None else bounds.average_precision
        guess = f"guessing gives {roc.positives / roc.examples:.4f}"
    text = f"{name} {value:.4f}"
    if bounds is not None and interval is not None:
        text += f" ({bounds.confidence:.0%} interval {interval[0]:.4f} to {interval[1]:.4f})"
    return f"{text}; {guess}."

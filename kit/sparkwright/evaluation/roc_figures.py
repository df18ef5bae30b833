"""Figures of ROC and precision-recall curves, of one score or of several."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .numbers import number_text
from .plots import COLORS, STYLES, THIN_LINE, finish, short_name
from .reports import MOST_ROWS, Figure, Table

if TYPE_CHECKING:
    from .roc_readings import RocReadings

Which = Literal["roc", "precision_recall"]
Named = Sequence[tuple[str, "RocReadings"]]

_POINTS = 400  # of a curve about 400 pixels wide
_TABLE_POINTS = 12
_MOST_CURVES = 10  # most distinguishable curves
_MOST_AVERAGED = 100
_GRID = np.linspace(0.0, 1.0, 201)
_LABELS: dict[Which, str] = {"roc": "ROC curve", "precision_recall": "Precision-recall curve"}
# Curve -> the area of captions: its name, and its attribute of an evaluation.
AREAS: dict[Which, tuple[str, str]] = {
    "roc": ("AUC", "auc"),
    "precision_recall": ("average precision", "average_precision"),
}
_AXES: dict[Which, tuple[str, str]] = {
    "roc": ("false positive rate", "true positive rate"),
    "precision_recall": ("recall", "precision"),
}


def score_figure(roc: "RocReadings", which: Which) -> Figure:
    """Return one curve with its best threshold."""
    guess = roc.positives / max(roc.examples, 1)

    def draw(axes: Any) -> None:
        name, area = ("AUC", roc.auc) if which == "roc" else ("AUPRC", roc.auprc)
        line = {"color": COLORS[0], "linewidth": 1.8, "label": f"{name} {number_text(area)}"}
        axes.plot(*_ascending(roc, which), **line)
        if roc.positives and roc.negatives:
            point = roc.precision_recall_curve().point_at_threshold(roc.best_threshold("f1"))
            place = (point.false_positive_rate, point.recall)
            if which == "precision_recall":
                place = (point.recall, point.precision)
            label = f"best F1 at threshold {number_text(point.threshold)}"
            axes.plot(*place, "D", color=COLORS[1], markersize=7, label=label)
        _label_axes(axes, which, guess)

    curve = roc.precision_recall_curve(_TABLE_POINTS)
    points = [curve.point_at_threshold(float(t)) for t in curve.thresholds[-2::-1]]
    rows = [list(map(number_text, point)) for point in points]
    return Figure(
        kind=which.replace("_", "-"),
        label=_LABELS[which],
        caption=_caption(roc, which, guess),
        draw=draw,
        table=Table([["threshold", "precision", "recall", "false positive rate"], *rows]),
        size=(4.6, 4.3),
    )


def areas_table(named: Named, head: str = "") -> Table:
    """Return positives, negatives and areas of each; of many, those with the lowest AUC."""
    ordered = named if len(named) <= MOST_ROWS else sorted(named, key=lambda pair: pair[1].auc)
    rows = [
        [
            name,
            f"{r.positives:,}",
            f"{r.negatives:,}",
            *map(number_text, (r.auc, r.auprc, r.average_precision)),
        ]
        for name, r in ordered[:MOST_ROWS]
    ]
    heads = [head, "positive", "negative", "AUC", "AUPRC", "average precision"]
    return Table([heads, *rows], left_out=len(named) - len(rows))


def curves_figure(named: Named, which: Which, *, caption: str, what: str) -> Figure:
    """Overlay curves with distinct colors and dashes; of many `what`, draw mean and range."""
    return Figure(
        kind=which.replace("_", "-"),
        label=f"{_LABELS[which]}s{' of all results' if what == 'results' else ''}",
        caption=caption,
        draw=lambda axes: _draw_curves(axes, named, which, what),
        table=areas_table(named, "result" if what == "results" else ""),
        size=(4.6, 4.3),
    )


def _draw_curves(axes: Any, named: Named, which: Which, what: str) -> None:
    if len(named) > _MOST_CURVES:
        some = named[:_MOST_AVERAGED]
        heights = np.stack([np.interp(_GRID, *_ascending(roc, which)) for _, roc in some])
        mean = f"mean of {len(some)} {what}"
        axes.plot(_GRID, heights.mean(axis=0), color=COLORS[0], linewidth=1.8, label=mean)
        spread = {"color": COLORS[0], "alpha": 0.18, "linewidth": 0, "label": "lowest to highest"}
        axes.fill_between(_GRID, heights.min(axis=0), heights.max(axis=0), **spread)
    else:
        for number, (name, roc) in enumerate(named):
            area = roc.auc if which == "roc" else roc.auprc
            axes.plot(
                *_ascending(roc, which),
                color=COLORS[number % len(COLORS)],
                linestyle=STYLES[number % len(STYLES)],
                linewidth=1.8,
                label=f"{short_name(name)}  {number_text(area)}",
            )
    _label_axes(axes, which, None)


def _label_axes(axes: Any, which: Which, guess: float | None) -> None:
    heights = [0.0, 1.0] if which == "roc" else None if guess is None else [guess, guess]
    if heights is not None:
        axes.plot([0, 1], heights, label="guessing", **THIN_LINE)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    x, y = _AXES[which]
    finish(axes, x=x, y=y, legend=2)


def _ascending(roc: "RocReadings", which: Which) -> tuple[Any, Any]:
    """Return x and y coordinates, from left to right."""
    if which == "roc":
        curve = roc.curve(_POINTS)
        return curve.false_positive_rate, curve.true_positive_rate
    trade = roc.precision_recall_curve(_POINTS)
    return trade.recall[::-1], trade.precision[::-1]


def _caption(roc: "RocReadings", which: Which, guess: float) -> str:
    if which == "roc":
        return f"AUC {number_text(roc.auc)}; guessing gives 0.5."
    precision = number_text(roc.average_precision)
    return f"Average precision {precision}; guessing gives {number_text(guess)}."

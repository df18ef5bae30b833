"""How ROC and precision-recall curves are drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._plots import COLOURS, finish, new_axes
from ._roc_curves import PrecisionRecallCurve, RocCurve

PLOT_POINTS = 2000
MOST_CURVES = 10  # more cannot be told apart
_GUESSING: dict[str, Any] = {"color": "#888888", "linewidth": 1, "linestyle": ":"}
_STYLES = ("-", "--")  # six colours, twice
_GRID = np.linspace(0.0, 1.0, 401)


def draw_roc(
    curves: Sequence[tuple[str, RocCurve]], *, title: str, axes: Any | None, what: str = "outputs"
) -> Any:
    """ROC curves with names, and the line of guessing.

    Args:
        curves: names and curves; of more than `MOST_CURVES`, the mean and the spread are drawn.
        title: of the plot.
        axes: to draw on; None: of a new figure.
        what: what there are several of.

    Returns:
        The axes.
    """
    surface: Any = new_axes() if axes is None else axes
    if len(curves) > MOST_CURVES:
        rates = [
            np.interp(_GRID, curve.false_positive_rate, curve.true_positive_rate)
            for _, curve in curves
        ]
        _draw_mean(surface, np.stack(rates), f"{len(curves)} {what}")
    else:
        for (name, curve), style in zip(curves, _line_styles(len(curves)), strict=True):
            surface.plot(curve.false_positive_rate, curve.true_positive_rate, label=name, **style)
    surface.plot([0, 1], [0, 1], label="guessing", **_GUESSING)
    return _square(surface, title=title, x="false positive rate", y="true positive rate")


def draw_precision_recall(
    curves: Sequence[tuple[str, PrecisionRecallCurve]],
    *,
    guessing: float | None,
    title: str,
    axes: Any | None,
    what: str = "outputs",
) -> Any:
    """Precision-recall curves with names, as `draw_roc`.

    Args:
        curves: names and curves.
        guessing: precision of guessing, the share of positives; None: no such line.
        title: of the plot.
        axes: to draw on; None: of a new figure.
        what: what there are several of.

    Returns:
        The axes.
    """
    surface: Any = new_axes() if axes is None else axes
    if len(curves) > MOST_CURVES:
        rates = [np.interp(_GRID, curve.recall[::-1], curve.precision[::-1]) for _, curve in curves]
        _draw_mean(surface, np.stack(rates), f"{len(curves)} {what}")
    else:
        for (name, curve), style in zip(curves, _line_styles(len(curves)), strict=True):
            surface.plot(curve.recall, curve.precision, label=name, **style)
    if guessing is not None:
        surface.plot([0, 1], [guessing, guessing], label="guessing", **_GUESSING)
    return _square(surface, title=title, x="recall", y="precision")


def _line_styles(count: int) -> list[dict[str, Any]]:
    return [
        {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": _STYLES[number // len(COLOURS)],
            "linewidth": 1.8,
        }
        for number in range(count)
    ]


def _draw_mean(axes: Any, heights: Any, what: str) -> None:
    axes.plot(_GRID, heights.mean(axis=0), color=COLOURS[0], linewidth=1.8, label=f"mean of {what}")
    spread = {"color": COLOURS[0], "alpha": 0.18, "linewidth": 0, "label": "lowest to highest"}
    axes.fill_between(_GRID, heights.min(axis=0), heights.max(axis=0), **spread)


def _square(axes: Any, *, title: str, x: str, y: str) -> Any:
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    return finish(axes, title=title, x=x, y=y, legend=bool(axes.lines))

"""Plots of counts: confusion matrices, and bars of rates."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._binary_counts import BinaryCounts, Counts
from ._plots import COLOURS, finish, new_axes

_WRITTEN = 20  # more numbers in a matrix cannot be read


def plot_confusion(confusion: Counts, names: Sequence[str], *, axes: Any = None) -> Any:
    """Draw a matrix, each cell tinted by its share of the row.

    Args:
        confusion: (C, C), rows actual, columns predicted.
        names: of the C classes.
        axes: the matplotlib Axes; default None: of a new figure.
    """
    classes = len(names)
    if axes is None:
        side = min(3.0 + 0.45 * max(classes, 2), 11.0)
        axes = new_axes(width=side + 0.9, height=side)
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(
        shares if classes else np.zeros((1, 1)), cmap="Blues", vmin=0, vmax=1, aspect="equal"
    )
    shown = range(0, classes, max(-(-classes // _WRITTEN), 1))
    labels = [_shortened(names[k]) for k in shown]
    upright = max(map(len, labels), default=0) > 3
    axes.set_xticks(list(shown), labels, rotation=90 if upright else 0)
    axes.set_yticks(list(shown), labels)
    finish(axes, title="Confusion matrix", x="predicted", y="actual")
    if classes <= _WRITTEN:
        _write_counts(axes, confusion, shares)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label("share of the actual class")
    bar.outline.set_visible(False)
    return axes


def _write_counts(axes: Any, confusion: Counts, shares: Any) -> None:
    size = 9 if len(confusion) <= 10 else 7
    for (actual, predicted), count in np.ndenumerate(confusion):
        if count:
            colour = "white" if shares[actual, predicted] > 0.5 else "black"
            axes.text(
                predicted,
                actual,
                _short_count(int(count)),
                ha="center",
                va="center",
                color=colour,
                fontsize=size,
            )


def _short_count(count: int) -> str:
    """At most five characters, so that it fits its cell."""
    for limit, unit, sign in ((10**4, 1, ""), (10**6, 10**3, "k"), (10**9, 10**6, "M")):
        if count < limit:
            return f"{count}" if unit == 1 else f"{count / unit:.3g}{sign}"
    return f"{count:.0e}".replace("+", "")


def _shortened(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"


def plot_rates(
    counts: BinaryCounts,
    names: Sequence[str],
    *,
    title: str = "Metrics by class",
    axes: Any = None,
) -> Any:
    """Draw precision, recall and F1 of each class or output as bars; 0/0 has none.

    Args:
        counts: of C of them.
        names: of the C.
        title: of the plot; says so where only the 20 with the lowest F1 are shown.
        axes: the matplotlib Axes; default None: of a new figure.
    """
    rates = {"precision": counts.precision(), "recall": counts.recall(), "F1": counts.f_beta(1.0)}
    shown = np.arange(len(names))
    if len(names) > _WRITTEN:
        shown = np.argsort(np.nan_to_num(rates["F1"], nan=2.0), kind="stable")[:_WRITTEN]
        title = f"{title} (the {_WRITTEN} of {len(names)} with the lowest F1)"
    if axes is None:
        axes = new_axes(width=6.0, height=min(1.6 + 0.5 * max(len(shown), 1), 11.0))
    for bar, (rate, values) in enumerate(rates.items()):
        axes.barh(
            np.arange(len(shown)) + (bar - 1) * 0.27,
            np.nan_to_num(values[shown], nan=0.0),
            height=0.24,
            color=COLOURS[bar],
            label=rate,
        )
    axes.set_yticks(range(len(shown)), [_shortened(names[k]) for k in shown.tolist()])
    axes.set_xlim(0, 1)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    finish(axes, title=title, x="", y="")
    axes.set_title(title, pad=22)  # room for the legend, which bars would hide elsewhere
    axes.legend(
        frameon=False, fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0)
    )
    return axes

"""Figures of class metrics: confusion matrix, and precision, recall and F1 by class."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .numbers import number_text, short_count
from .plots import draw_bars, finish, short_name
from .rates import RATES, BinaryCounts, Rates
from .reports import MOST_ROWS, Figure, Table

_WRITTEN = 20  # most classes whose counts are legible in the matrix
_INK = ("#111111", "#fefefe")  # text on light and dark cells
_SHOWN = ("precision", "recall", "F1")

Matrix = NDArray[np.int64]


def confusion_figure(confusion: Matrix, names: Sequence[str]) -> Figure:
    """Return a figure of a (C, C) matrix, rows actual; cell colors show the fraction of the row."""
    # For more than 30 classes, the table lists only the most frequent confusions.
    classes = len(names)
    side = min(3.0 + 0.45 * max(classes, 2), 8.5)
    table = confusion_table(confusion, names)
    if classes > MOST_ROWS:
        table = _most_frequent(confusion, names)
    return Figure(
        kind="confusion",
        label="Confusion matrix",
        caption=confusion_sentence(confusion, names),
        draw=lambda axes: _draw_confusion(axes, confusion, names),
        table=table,
        size=(side + 0.9, side),
    )


def confusion_sentence(counts: Matrix, names: Sequence[str]) -> str:
    """Summarize the matrix in one sentence: correct predictions and most frequent confusion."""
    total, right = int(counts.sum()), int(np.trace(counts))
    if total == 0:
        return "No examples were evaluated."
    sentence = f"{right:,} of {total:,} correct ({right / total:.1%})"
    wrong = counts - np.diag(np.diag(counts))
    if wrong.max() == 0:
        return f"{sentence}."
    actual, predicted = np.unravel_index(int(wrong.argmax()), wrong.shape)
    times = "once" if wrong.max() == 1 else f"{int(wrong.max()):,} times"
    return (
        f"{sentence}; the most frequent confusion is {names[int(actual)]} predicted as "
        f"{names[int(predicted)]} ({times})."
    )


def confusion_table(confusion: Matrix, names: Sequence[str]) -> Table:
    """Return the matrix; tints show the fraction of the actual class, red for errors."""
    matrix = confusion.tolist()
    tints = [
        [
            # The square root makes rare errors visible.
            f"rgba({'31,119,180' if actual == predicted else '214,39,40'},"
            f"{0.6 * (count / max(sum(counts), 1)) ** 0.5:.3f})"
            for predicted, count in enumerate(counts)
        ]
        for actual, counts in enumerate(matrix)
    ]
    rows = [[name, *map(str, row)] for name, row in zip(names, matrix, strict=True)]
    title = "Confusion matrix (rows: actual, columns: predicted)"
    return Table([["", *names], *rows], title, tints)


def rates_figure(
    counts: BinaryCounts,
    names: Sequence[str],
    *,
    what: str,
    table: Callable[[list[int]], Table] | None = None,
) -> Figure:
    """Return bars of precision, recall and F1 by class or output; of many, the lowest F1."""
    # `table` returns the table of the given numbers; default None: `rates_table`.
    rates = {name: RATES[name.lower()](counts) for name in _SHOWN}
    f1 = rates["F1"]
    order = np.argsort(np.nan_to_num(f1, nan=2.0), kind="stable")
    shown = np.arange(len(names)) if len(names) <= _WRITTEN else order[:_WRITTEN]
    listed = np.arange(len(names)) if len(names) <= MOST_ROWS else order[:MOST_ROWS]
    make = table or (lambda chosen: rates_table(counts, names, chosen, what=what))
    found = make(listed.tolist())
    left_out = len(names) - len(listed)

    def draw(axes: Any) -> None:
        bars = {name: rate[shown] for name, rate in rates.items()}
        draw_bars(axes, [names[k] for k in shown.tolist()], bars)
        axes.set_xlim(0, 1)

    return Figure(
        kind="rates",
        label=f"Precision, recall and F1 by {what}",
        caption=_rates_sentence(f1, names, what, len(shown)),
        draw=draw,
        table=Table(found.rows, found.title, left_out=left_out),
        size=(5.4, min(1.6 + 0.4 * max(len(shown), 1), 11.0)),
    )


def rates_table(
    counts: BinaryCounts, names: Sequence[str], chosen: Sequence[int], *, what: str
) -> Table:
    """Return rows, predictions, precision, recall and F1 of some classes; "—" for 0/0."""
    predicted = counts.true_positives + counts.false_positives
    rates = [RATES[name.lower()](counts) for name in _SHOWN]
    rows = [
        [names[k], f"{counts.positives[k]}", f"{predicted[k]}", *(rate_text(r[k]) for r in rates)]
        for k in chosen
    ]
    return Table([[what, "examples", "predicted", *_SHOWN], *rows])


def rate_text(rate: float) -> str:
    """Format a rate with four decimals; "—" for 0/0."""
    return "—" if np.isnan(rate) else number_text(rate)


def _rates_sentence(f1: Rates, names: Sequence[str], what: str, shown: int) -> str:
    if not np.isfinite(f1).any():
        return f"No {what} occurs or is predicted."
    worst, best = int(np.nanargmin(f1)), int(np.nanargmax(f1))
    if worst == best or f1[worst] == f1[best]:
        each = f" for each {what}" if len(names) > 1 else ""
        sentence = f"F1 is {number_text(f1[best])}{each}"
    else:
        ends = (f"{number_text(f1[k])} ({names[k]})" for k in (worst, best))
        sentence = f"F1 ranges from {' to '.join(ends)}"
    if shown < len(names):
        plural = "classes" if what == "class" else f"{what}s"
        sentence += f"; the figure shows the {shown} of {len(names):,} {plural} with the lowest F1"
    return f"{sentence}."


def _draw_confusion(axes: Any, confusion: Matrix, names: Sequence[str]) -> None:
    """Draw the matrix with cividis, a color map for any kind of color vision."""
    classes = len(names)
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(
        shares if classes else np.zeros((1, 1)), cmap="cividis", vmin=0, vmax=1, aspect="equal"
    )
    shown = range(0, classes, max(-(-classes // _WRITTEN), 1))
    labels = [short_name(names[k]) for k in shown]
    upright = max(map(len, labels), default=0) > 3
    axes.set_xticks(list(shown), labels, rotation=90 if upright else 0)
    axes.set_yticks(list(shown), labels)
    finish(axes, x="predicted", y="actual")
    if classes <= _WRITTEN:
        place = {"ha": "center", "va": "center", "fontsize": 9 if classes <= 10 else 7}
        luminance = image.cmap(shares)[..., :3] @ np.array([0.2126, 0.7152, 0.0722])
        for (actual, predicted), count in np.ndenumerate(confusion):
            if count:
                ink = _INK[0 if luminance[actual, predicted] > 0.45 else 1]
                axes.text(predicted, actual, short_count(int(count)), color=ink, **place)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label("share of the actual class")
    bar.outline.set_visible(False)


def _most_frequent(counts: Matrix, names: Sequence[str]) -> Table:
    """Return the most frequent confusions; ties in the order of the matrix."""
    wrong = (counts - np.diag(np.diag(counts))).ravel()
    order = np.argsort(-wrong, kind="stable")
    order = order[wrong[order] > 0]
    actual, predicted = np.divmod(order[:MOST_ROWS], len(names))
    totals = counts.sum(axis=1)
    rows = [
        [names[a], names[p], f"{counts[a, p]:,}", _share(counts[a, p], totals[a])]
        for a, p in zip(map(int, actual), map(int, predicted), strict=True)
    ]
    return Table(
        [["actual", "predicted", "rows", "share of the actual class"], *rows],
        "Most frequent confusions",
        left_out=max(0, order.size - MOST_ROWS),
    )


def _share(part: Any, whole: Any) -> str:
    return f"{part / whole:.1%}" if whole else "—"

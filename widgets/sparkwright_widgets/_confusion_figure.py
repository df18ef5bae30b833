"""The confusion matrix of a classification, as a picture and as a table."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ._block import Block
from ._contract import Evaluation
from ._figure_svg import INK, inline_svg, new_figure
from ._format import count_text, escaped
from ._table import html_table, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NUMBERED_CLASSES = 30  # beyond that numbers in the cells cannot be read
_MOST_LISTED = 30  # confusions, where a table of all classes would be too large for a page


def confusion_figure(evaluation: Evaluation, *, caption: str | None = None) -> Block:
    """Draw a confusion matrix with its counts, and offer the same as a table.

    Colours show the share of each actual class (a row), so that rare classes can be seen; cividis
    is readable with any kind of colour vision.

    Of more than 30 classes the table holds the most frequent confusions alone.

    Args:
        evaluation: `confusion` is (C, C) int64, rows actual, columns predicted.
        caption: below the picture; default says how many were right and the largest confusion.
    """
    counts = np.asarray(evaluation.confusion)
    names = [str(name) for name in (evaluation.class_names or range(len(counts)))]
    sentence = describe_confusion(counts, names)
    svg = inline_svg(_drawn(counts, names), alt=f"Confusion matrix. {sentence}")
    is_small = len(names) <= _MOST_NUMBERED_CLASSES
    heads, rows = (_table if is_small else _most_frequent)(counts, names)
    same = "The same as a table, with precision and recall"
    label = "Confusion matrix: rows actual, columns predicted"
    if not is_small:
        same, label = f"The {len(rows)} most frequent confusions as a table", "Confusions"
    html = (
        f"<figure>{svg}<figcaption>{escaped(caption or sentence)}</figcaption></figure>"
        f"<details><summary>{same}</summary>{html_table(heads, rows, label=label)}</details>"
    )
    return Block(html=html, text=f"{text_table(heads, rows)}\n{sentence}", kind="confusion")


def describe_confusion(counts: NDArray[np.integer], names: list[str]) -> str:
    """The matrix in one sentence: how many were right, and what was confused most."""
    total, right = int(counts.sum()), int(np.trace(counts))
    if total == 0:
        return "No examples were evaluated."
    sentence = f"{count_text(right)} of {count_text(total)} right ({right / total:.1%})"
    wrong = counts - np.diag(np.diag(counts))
    if wrong.max() == 0:
        return f"{sentence}."
    actual, predicted = np.unravel_index(int(wrong.argmax()), wrong.shape)
    times = "once" if wrong.max() == 1 else f"{count_text(int(wrong.max()))} times"
    return (
        f"{sentence}; the most frequent confusion is {names[actual]} taken for "
        f"{names[predicted]} ({times})."
    )


def _drawn(counts: NDArray[np.integer], names: list[str]) -> "Figure":
    size = min(7.5, 2.0 + 0.38 * len(names))
    figure = new_figure(width_inches=size + 1, height_inches=size)
    axes = figure.add_subplot()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="cividis", vmin=0, vmax=1)
    colour_bar = figure.colorbar(image, ax=axes, shrink=0.8)
    colour_bar.set_label("share of the actual class", color=INK)
    colour_bar.ax.tick_params(colors=INK)
    if len(names) <= _MOST_NUMBERED_CLASSES:
        _write_numbers(axes, counts, image.cmap(shares))
        axes.set_xticks(range(len(names)), names, rotation=0 if max(map(len, names)) < 4 else 45)
        axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("predicted", color=INK)
    axes.set_ylabel("actual", color=INK)
    axes.tick_params(colors=INK, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def _write_numbers(
    axes: "Axes", counts: NDArray[np.integer], colours: NDArray[np.floating]
) -> None:
    """Counts in the cells, black on light and white on dark ones."""
    luminance = colours[..., :3] @ np.array([0.2126, 0.7152, 0.0722])
    for (row, column), count in np.ndenumerate(counts):
        if count:
            ink = "black" if luminance[row, column] > 0.45 else "white"
            text = count_text(int(count))
            axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=9)


def _table(counts: NDArray[np.integer], names: list[str]) -> tuple[list[str], list[list[object]]]:
    heads = ["actual", *names, "recall"]
    actual, predicted, right = counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)
    rows: list[list[object]] = [
        [name, *(count_text(int(count)) for count in row), _share(right[k], actual[k])]
        for k, (name, row) in enumerate(zip(names, counts, strict=True))
    ]
    precision = [_share(right[k], predicted[k]) for k in range(len(names))]
    return heads, [*rows, ["precision", *precision, ""]]


def _most_frequent(
    counts: NDArray[np.integer], names: list[str]
) -> tuple[list[str], list[list[object]]]:
    """What was taken for what most often; of equally frequent ones the first in the matrix."""
    wrong = (counts - np.diag(np.diag(counts))).ravel()
    order = np.argsort(-wrong, kind="stable")[:_MOST_LISTED]
    actual, predicted = np.divmod(order[wrong[order] > 0], len(names))
    totals = counts.sum(axis=1)
    return ["actual", "predicted", "rows", "share of the actual class"], [
        [names[a], names[p], count_text(int(counts[a, p])), _share(int(counts[a, p]), totals[a])]
        for a, p in zip(actual.tolist(), predicted.tolist(), strict=True)
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "—"

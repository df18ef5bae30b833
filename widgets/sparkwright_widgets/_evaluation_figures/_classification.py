"""A classification: headline, confusion matrix, metrics by class, the most certain errors."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparkwright.evaluation import BinaryCounts, Evaluation, EvaluationBinary
from sparkwright_widgets._block import Block
from sparkwright_widgets._confusion_figure import confusion_figure
from sparkwright_widgets._figure_svg import COLOURS
from sparkwright_widgets._format import count_text

from ._blocks import (
    MOST_ROWS,
    figure_block,
    headline_block,
    legend_above,
    named_axes,
    number_text,
    short_name,
    table_block,
)

_MOST_BARS = 20  # more cannot be read
_RATES = ("precision", "recall", "F1")
_MARKS = ("o", "s", "D")


def classification_blocks(evaluation: Evaluation) -> list[Block]:
    """Headline, confusion matrix, metrics by class, and the errors that are remembered.

    Args:
        evaluation: of any number of classes; of many, the worst ones are shown.
    """
    blocks = [headline_block(evaluation)]
    if not evaluation.examples:
        return blocks
    blocks.append(confusion_figure(evaluation))
    blocks.append(_rates(evaluation.counts, evaluation.names, what="class"))
    if evaluation.kept_errors:
        blocks.append(_errors(evaluation))
    return blocks


def binary_blocks(evaluation: EvaluationBinary) -> list[Block]:
    """Headline and metrics of each yes-or-no output, and its curves if it keeps them."""
    blocks = [headline_block(evaluation)]
    if not evaluation.examples:
        return blocks
    blocks.append(_rates(evaluation.counts, evaluation.output_names, what="output"))
    if evaluation.roc is not None:
        from ._roc import roc_blocks

        blocks += roc_blocks(evaluation.roc)
    return blocks


def _rates(counts: BinaryCounts, names: Sequence[str], *, what: str) -> Block:
    """Precision, recall and F1 as marks on a line for each class; of many, the lowest F1."""
    plural = "classes" if what == "class" else f"{what}s"
    rates = [counts.precision(), counts.recall(), counts.f_beta(1.0)]
    order = np.argsort(np.nan_to_num(rates[2], nan=2.0), kind="stable")
    shown = np.sort(order[:_MOST_BARS]) if len(names) <= _MOST_BARS else order[:_MOST_BARS]
    figure, axes = named_axes(x="", y="", height_inches=1.3 + 0.28 * len(shown))
    places = np.arange(len(shown))
    lowest, highest = (
        edge(np.nan_to_num(np.stack([rate[shown] for rate in rates]), nan=0.0), axis=0)
        for edge in (np.min, np.max)
    )
    axes.hlines(places, lowest, highest, color=COLOURS[0], alpha=0.35, linewidth=2)
    for rate, name, mark, colour in zip(rates, _RATES, _MARKS, COLOURS, strict=False):
        axes.plot(rate[shown], places, mark, color=colour, markersize=6, label=name, alpha=0.9)
    axes.set_yticks(places, [short_name(names[int(k)]) for k in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(min(0.98, float(lowest.min(initial=1.0)) - 0.05) // 0.1 * 0.1, 1.02)
    axes.grid(axis="x", alpha=0.25)
    legend_above(axes, columns=3)
    listed = order[:MOST_ROWS] if len(names) > MOST_ROWS else np.arange(len(names))
    return figure_block(
        figure,
        caption=_sentence(rates[2], names, what, plural, len(shown)),
        heads=[what, "examples", "predicted", *_RATES],
        rows=_rate_rows(counts, rates, names, listed),
        label=f"Precision, recall and F1 by {what}",
        kind="rates",
        left_out=len(names) - len(listed),
    )


def _sentence(
    f1: NDArray[np.float64], names: Sequence[str], what: str, plural: str, shown: int
) -> str:
    if not np.isfinite(f1).any():
        return f"No {what} was there or was predicted."
    worst, best = int(np.nanargmin(f1)), int(np.nanargmax(f1))
    if worst == best or f1[worst] == f1[best]:
        sentence = f"F1 is {f1[best]:.4f}" + (" throughout" if len(names) > 1 else "")
    else:
        sentence = (
            f"F1 goes from {f1[worst]:.4f} ({names[worst]}) to {f1[best]:.4f} ({names[best]})"
        )
    if shown < len(names):
        sentence += f"; shown are the {shown} of {count_text(len(names))} {plural} with the lowest"
    return f"{sentence}."


def _rate_rows(
    counts: BinaryCounts,
    rates: Sequence[NDArray[np.float64]],
    names: Sequence[str],
    chosen: NDArray[np.integer],
) -> list[list[object]]:
    predicted = counts.true_positives + counts.false_positives
    return [
        [
            names[k],
            count_text(int(counts.positives[k])),
            count_text(int(predicted[k])),
            *("—" if np.isnan(rate[k]) else f"{rate[k]:.4f}" for rate in rates),
        ]
        for k in chosen.tolist()
    ]


def _errors(evaluation: Evaluation) -> Block:
    names, kept = evaluation.names, evaluation.kept_errors
    shown = kept[:MOST_ROWS]
    rows = [
        [error.place, names[error.actual], names[error.predicted], number_text(error.probability)]
        for error in shown
    ]
    return table_block(
        ["record", "actual", "predicted", "probability"],
        rows,
        caption=f"The most certain errors, {len(shown)} of {len(kept)} that were kept. On Spark a "
        "record is partition and row.",
        label="Errors",
        kind="errors",
        text_columns=(1, 2),
    )

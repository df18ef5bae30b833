"""The lines of charts as tables. Pure."""

from collections.abc import Sequence

import numpy as np

from sparkwright_widgets._curve import MEAN, VALIDATION, FloatPoints, QuantityLines
from sparkwright_widgets._format import count_text, loss_text
from sparkwright_widgets._quantities import VALIDATION_PLACE, Quantity
from sparkwright_widgets._table import html_table

_ROWS = 20
_MOST_WORKERS = 16


def minibatch_table(lines: dict[int, FloatPoints]) -> str:
    """The loss at some twenty moments of the run: of the mean, and of each worker.

    Args:
        lines: points (n, 2) of each line, as `Curve.lines()` returns them.
    """
    titles = {MEAN: "Mean of the workers", VALIDATION: "Validation"}
    columns = [line for line in (MEAN, VALIDATION) if line in lines]
    columns += sorted(line for line in lines if line >= 0)[:_MOST_WORKERS]
    last = max((float(lines[line][-1, 0]) for line in columns if len(lines[line])), default=0.0)
    moments = np.unique(np.linspace(last / _ROWS, last, _ROWS).round())
    heads = ["Until minibatch", *(titles.get(line, f"Worker {line}") for line in columns)]
    rows = [
        [count_text(float(moment)), *(loss_text(_at(lines[line], moment)) for line in columns)]
        for moment in moments
    ]
    return html_table(heads, rows, label="Loss by minibatch: the last value until then")


def quantity_table(quantities: Sequence[Quantity], lines: QuantityLines) -> str:
    """First, last, lowest and highest value of each quantity, worker by worker.

    Args:
        quantities: what is in the chart.
        lines: as `Curve.quantity_lines()` returns them.
    """
    rows: list[list[object]] = []
    for quantity in quantities:
        for place, points in list(lines.get(quantity.column, {}).items())[: _MOST_WORKERS + 1]:
            values = points[np.isfinite(points[:, 1]), 1]
            if len(values):
                who = "validation" if place == VALIDATION_PLACE else f"worker {place}"
                figures = (values[0], values[-1], values.min(), values.max())
                rows.append([quantity.label, who, *(f"{float(v):.4g}" for v in figures)])
    heads = ["What", "Of", "First", "Last", "Lowest", "Highest"]
    return html_table(heads, rows, label="What else was logged", text_columns=(1,))


def _at(points: FloatPoints, moment: float) -> float | None:
    """The last value that is not later; None before the first."""
    before = points[points[:, 0] <= moment]
    return float(before[-1, 1]) if len(before) else None

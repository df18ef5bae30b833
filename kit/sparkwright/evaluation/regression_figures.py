"""Figures of regression: predicted against actual values, residuals and their histogram."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .numbers import number_text
from .pair_sample import PairSample
from .plots import COLORS, THIN_LINE, finish, number_ticks
from .reports import Figure, Table

Floats = NDArray[np.float64]
_BINS = 30
_TABLE_ROWS = 10
_SOLID: dict[str, Any] = {**THIN_LINE, "linestyle": "-", "zorder": 1}


class Pairs(NamedTuple):
    """The sample of one output, with statistics of all of its rows."""

    name: str
    sample: PairSample
    rows: int
    bias: float
    correlation: float

    @property
    def residuals(self) -> Floats:
        """(k,) actual - predicted."""
        return self.sample.labels - self.sample.predictions


def regression_figures(outputs: Sequence[Pairs]) -> list[Figure]:
    """Return plots of predicted against actual values, residuals, and the residual histogram."""
    # Draw the first six outputs; captions and tables describe the first one.
    first = outputs[0]
    sample, residuals = first.sample, first.residuals
    of = f" of {first.name}" if first.name and len(outputs) == 1 else ""
    shown = _sampled(outputs[: len(COLORS)])
    side = "high" if first.bias > 0 else "low"
    edges = _edges(residuals, _TABLE_ROWS)
    few = np.histogram(residuals, bins=edges, weights=sample.counts)[0]
    middle = 0.0
    if residuals.size:
        sizes = np.abs(residuals)
        middle = np.percentile(sizes, 50, method="inverted_cdf", weights=sample.counts)
    return [
        Figure(
            kind="predicted-actual",
            label=f"Predicted against actual{of}",
            caption="On the gray line predictions are right; the correlation is "
            f"{number_text(first.correlation)}.{shown}",
            draw=lambda axes: _draw_predictions(axes, outputs),
            table=_by_tenths(
                ("actual", "mean predicted", "mean actual"),
                sample.labels,
                sample.counts,
                lambda p, weights: np.average(sample.predictions[p], weights=weights),
                lambda p, weights: np.average(sample.labels[p], weights=weights),
            ),
        ),
        Figure(
            kind="residuals",
            label=f"Residuals{of}",
            caption=f"Predictions are on average {number_text(abs(first.bias))} too {side}; a "
            f"pattern indicates structure that the network has not learned.{shown}",
            draw=lambda axes: _draw_residuals(axes, outputs),
            table=_by_tenths(
                ("predicted", "mean residual", "largest residual"),
                sample.predictions,
                sample.counts,
                lambda p, weights: np.average(residuals[p], weights=weights),
                lambda p, _: np.abs(residuals[p]).max(),
            ),
            size=(5.4, 3.9),
        ),
        Figure(
            kind="residual-histogram",
            label=f"Histogram of residuals{of}",
            caption=f"Half of the predictions are off by at most {number_text(float(middle))}."
            f"{shown}",
            draw=lambda axes: _draw_histogram(axes, outputs),
            table=Table(
                [
                    ["residual", "rows"],
                    *([_span(edges[k], edges[k + 1]), f"{few[k]:,.0f}"] for k in range(len(few))),
                ]
            ),
        ),
    ]


def _sampled(outputs: Sequence[Pairs]) -> str:
    """Return a sentence on the sample size, or "" if all rows are shown."""
    if all(int(each.sample.counts.sum()) == each.rows for each in outputs):
        return ""
    points = sum(each.sample.counts.size for each in outputs)
    return f" The plot shows {points:,} of {sum(each.rows for each in outputs):,} rows."


def _by_tenths(
    heads: tuple[str, str, str],
    values: Floats,
    counts: NDArray[np.int64],
    *columns: Callable[[NDArray[np.intp], NDArray[np.int64]], Any],
) -> Table:
    """Return a table of about ten rows, each of a tenth of the points by ascending value."""
    order = np.argsort(values, kind="stable")
    rows = [
        [
            _span(values[part].min(), values[part].max()),
            f"{counts[part].sum():,}",
            *(number_text(float(column(part, counts[part]))) for column in columns),
        ]
        for part in np.array_split(order, max(min(_TABLE_ROWS, order.size), 1))
        if part.size
    ]
    return Table([[heads[0], "rows", *heads[1:]], *rows])


def _span(low: float, high: float) -> str:
    return f"{number_text(float(low))} to {number_text(float(high))}"


def _draw_predictions(axes: Any, outputs: Sequence[Pairs]) -> None:
    shown = outputs[: len(COLORS)]
    both = [each for o in shown for each in (o.sample.labels, o.sample.predictions)]
    points = np.concatenate([np.zeros(0), *both])
    if points.size:
        ends = [float(points.min()), float(points.max())]
        axes.plot(ends, ends, label="equal", **_SOLID)
    _scatter(axes, outputs, lambda each: (each.sample.labels, each.sample.predictions))
    number_ticks(axes)
    finish(axes, x="actual", y="predicted", legend=3)


def _draw_residuals(axes: Any, outputs: Sequence[Pairs]) -> None:
    axes.axhline(0, **_SOLID)
    _scatter(axes, outputs, lambda each: (each.sample.predictions, each.residuals))
    number_ticks(axes)
    finish(axes, x="predicted", y="actual - predicted", legend=3 if len(outputs) > 1 else 0)


def _draw_histogram(axes: Any, outputs: Sequence[Pairs]) -> None:
    shown = outputs[: len(COLORS)]
    edges = _edges(np.concatenate([each.residuals for each in shown]), _BINS)
    for each, color in zip(shown, COLORS, strict=False):
        style = {"color": color, "label": each.name, "histtype": "stepfilled", "alpha": 0.55}
        axes.hist(each.residuals, bins=edges, weights=each.sample.counts, **style)
    axes.axvline(0, **THIN_LINE)
    number_ticks(axes)
    finish(axes, x="actual - predicted", y="rows", legend=3 if len(outputs) > 1 else 0)


def _edges(values: Floats, bins: int) -> Floats:
    """Return the edges of equal bins, wider than the rounding of the values."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    least = 1e-9 * max(abs(low), abs(high))
    if high - low <= least:
        low, high = low - (least or 0.5), high + (least or 0.5)
    return np.linspace(low, high, bins + 1)


def _scatter(
    axes: Any, outputs: Sequence[Pairs], coordinates: Callable[[Pairs], tuple[Floats, Floats]]
) -> None:
    """Draw points with areas that grow with the counts of pairs; rasterized for size."""
    style = {"alpha": 0.45, "linewidth": 0, "zorder": 2, "rasterized": True}
    for each, color in zip(outputs, COLORS, strict=False):
        area = 9.0 * np.minimum(1 + np.log2(np.maximum(each.sample.counts, 1)), 8)
        axes.scatter(*coordinates(each), s=area, color=color, label=each.name or "rows", **style)
    if len(outputs) > len(COLORS):
        axes.plot([], [], " ", label=f"and {len(outputs) - len(COLORS)} more outputs")

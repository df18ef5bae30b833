"""Figures of regression: predicted against actual values, residuals and their histogram."""

from collections.abc import Callable
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

    @property
    def shown(self) -> str:
        """The rows that a plot shows: "rows", or "1,000 of 3,000 rows"."""
        points, counted = self.sample.counts.size, int(self.sample.counts.sum())
        return "rows" if counted == self.rows else f"{points:,} of {self.rows:,} rows"


def regression_figures(pairs: Pairs) -> list[Figure]:
    """Return plots of predicted against actual values, residuals, and the residual histogram."""
    sample, residuals = pairs.sample, pairs.residuals
    of = f" of {pairs.name}" if pairs.name else ""
    shown = "" if pairs.shown == "rows" else f" The plot shows {pairs.shown}."
    side = "high" if pairs.bias > 0 else "low"
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
            f"{number_text(pairs.correlation)}.{shown}",
            draw=lambda axes: _draw_predictions(axes, pairs),
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
            caption=f"Predictions are on average {number_text(abs(pairs.bias))} too {side}; a "
            f"pattern indicates structure that the network has not learned.{shown}",
            draw=lambda axes: _draw_residuals(axes, pairs),
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
            draw=lambda axes: _draw_histogram(axes, pairs),
            table=Table(
                [
                    ["residual", "rows"],
                    *([_span(edges[k], edges[k + 1]), f"{few[k]:,.0f}"] for k in range(len(few))),
                ]
            ),
        ),
    ]


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


def _draw_predictions(axes: Any, pairs: Pairs) -> None:
    sample = pairs.sample
    points = np.concatenate([sample.labels, sample.predictions])
    if points.size:
        ends = [float(points.min()), float(points.max())]
        axes.plot(ends, ends, label="equal", **_SOLID)
    _scatter(axes, sample.labels, sample.predictions, pairs)
    finish(axes, x="actual", y="predicted", legend=2)


def _draw_residuals(axes: Any, pairs: Pairs) -> None:
    axes.axhline(0, **_SOLID)
    _scatter(axes, pairs.sample.predictions, pairs.residuals, pairs)
    finish(axes, x="predicted", y="actual - predicted")


def _draw_histogram(axes: Any, pairs: Pairs) -> None:
    edges = _edges(pairs.residuals, _BINS)
    style = {"color": COLORS[0], "histtype": "stepfilled", "alpha": 0.55}
    axes.hist(pairs.residuals, bins=edges, weights=pairs.sample.counts, **style)
    axes.axvline(0, **THIN_LINE)
    number_ticks(axes)
    finish(axes, x="actual - predicted", y="rows")


def _edges(values: Floats, bins: int) -> Floats:
    """Return the edges of equal bins, wider than the rounding of the values."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    least = 1e-9 * max(abs(low), abs(high))
    if high - low <= least:
        low, high = low - (least or 0.5), high + (least or 0.5)
    return np.linspace(low, high, bins + 1)


def _scatter(axes: Any, x: Floats, y: Floats, pairs: Pairs) -> None:
    """Draw points with areas that grow with the counts of pairs; rasterized for size."""
    style = {"alpha": 0.45, "linewidth": 0, "zorder": 2, "rasterized": True}
    area = 9.0 * np.minimum(1 + np.log2(np.maximum(pairs.sample.counts, 1)), 8)
    axes.scatter(x, y, s=area, color=COLORS[0], label=pairs.shown, **style)
    number_ticks(axes)

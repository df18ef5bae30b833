"""A regression: headline, predicted against actual, residuals, and a baseline to compare with."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sparkwright.evaluation import RegressionEvaluation
from sparkwright_widgets._block import Block
from sparkwright_widgets._figure_svg import COLOURS, INK
from sparkwright_widgets._format import count_text

from ._blocks import MOST_ROWS, figure_block, headline_block, named_axes, number_text, table_block

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
_BINS = 30
_TABLE_BINS = 10


def regression_blocks(
    regression: RegressionEvaluation, *, of: int | str | None = None
) -> list[Block]:
    """Headline, errors beside those of always predicting the mean, and three plots of one output.

    Plots show the sample that the evaluation keeps, errors are of all rows.

    Args:
        regression: of any number of outputs.
        of: the output to draw, by number or name; default None: the first one.
    """
    blocks = [headline_block(regression)]
    if not regression.examples:
        return blocks
    blocks.append(_metrics(regression))
    names = regression.output_names
    number = names.index(of) if isinstance(of, str) else of or 0
    if regression.outputs[number].count:
        name = names[number] if len(names) > 1 or regression.names else ""
        blocks += [
            _against(regression, number, name),
            _residuals(regression, number, name),
            _residual_histogram(regression, number, name),
        ]
    return blocks


def _metrics(regression: RegressionEvaluation) -> Block:
    roots = regression.per_output("root_mean_squared_error")
    order = np.argsort(-roots, kind="stable")[:MOST_ROWS]
    chosen = np.sort(order) if len(roots) <= MOST_ROWS else order
    rows: list[list[object]] = []
    for k in chosen.tolist():
        sums, name = regression.outputs[k], regression.output_names[k]
        if not sums.count:
            continue
        rows.append(
            [
                name,
                count_text(sums.count),
                number_text(regression.mean_absolute_error(of=k)),
                number_text(float(roots[k])),
                number_text(sums.label_deviation),
                number_text(regression.r2(of=k)),
                number_text(regression.mean_error(of=k)),
                number_text(regression.max_error(of=k)),
            ]
        )
    left_out = len(roots) - len(chosen)
    more = f" {count_text(left_out)} outputs with smaller errors are left out." if left_out else ""
    r2 = regression.r2()
    verdict = "better than" if r2 > 0 else "no better than"
    return table_block(
        ["output", "rows", "MAE", "RMSE", "RMSE of the mean", "R²", "bias", "largest error"],
        rows,
        caption=f"{verdict.capitalize()} always predicting the mean: R² {r2:.4f} compares the "
        f"squared errors of both.{more}",
        label="Errors of each output",
        kind="regression-metrics",
    )


def _titled(what: str, name: str) -> str:
    return f"{what} of {name}" if name else what


def _sampled(regression: RegressionEvaluation, number: int) -> str:
    sums = regression.outputs[number]
    shown = int(sums.sample.counts.sum())
    if shown == sums.count:
        return ""
    points = count_text(sums.sample.counts.size)
    return f" Shown is a sample of {points} of {count_text(sums.count)} rows."


def _against(regression: RegressionEvaluation, number: int, name: str) -> Block:
    sample = regression.outputs[number].sample
    figure, axes = named_axes(x=_titled("actual", name), y="predicted")
    both = np.concatenate([sample.labels, sample.predictions])
    ends = [float(both.min()), float(both.max())]
    axes.plot(ends, ends, color=INK, alpha=0.5, linewidth=1, linestyle=":")
    _scatter(axes, sample.labels, sample.predictions, sample.counts)
    correlation = regression.pearson_correlation(of=number)
    order = np.argsort(sample.labels, kind="stable")
    rows = [
        [
            f"{number_text(sample.labels[part].min())} to {number_text(sample.labels[part].max())}",
            count_text(int(sample.counts[part].sum())),
            number_text(float(np.average(sample.predictions[part], weights=sample.counts[part]))),
            number_text(float(np.average(sample.labels[part], weights=sample.counts[part]))),
        ]
        for part in np.array_split(order, min(_TABLE_BINS, order.size))
    ]
    return figure_block(
        figure,
        caption=f"On the dotted line predictions are right; the correlation is {correlation:.4f}."
        + _sampled(regression, number),
        heads=["actual", "rows", "mean predicted", "mean actual"],
        rows=rows,
        label=_titled("Predicted against actual", name),
        kind="predicted-actual",
    )


def _residuals(regression: RegressionEvaluation, number: int, name: str) -> Block:
    sample = regression.outputs[number].sample
    residuals = sample.labels - sample.predictions
    figure, axes = named_axes(x=_titled("predicted", name), y="actual - predicted")
    axes.axhline(0, color=INK, alpha=0.5, linewidth=1, linestyle=":")
    _scatter(axes, sample.predictions, residuals, sample.counts)
    bias = regression.mean_error(of=number)
    side = "high" if bias > 0 else "low"
    order = np.argsort(sample.predictions, kind="stable")
    rows = [
        [
            f"{number_text(sample.predictions[part].min())} to "
            f"{number_text(sample.predictions[part].max())}",
            count_text(int(sample.counts[part].sum())),
            number_text(float(np.average(residuals[part], weights=sample.counts[part]))),
            number_text(float(np.abs(residuals[part]).max())),
        ]
        for part in np.array_split(order, min(_TABLE_BINS, order.size))
    ]
    return figure_block(
        figure,
        caption=f"Predictions are on average {number_text(abs(bias))} too {side}; a pattern here "
        f"is something the network has not learnt.{_sampled(regression, number)}",
        heads=["predicted", "rows", "mean residual", "largest residual"],
        rows=rows,
        label=_titled("Residuals", name),
        kind="residuals",
    )


def _residual_histogram(regression: RegressionEvaluation, number: int, name: str) -> Block:
    sample = regression.outputs[number].sample
    residuals = sample.labels - sample.predictions
    edges = np.histogram_bin_edges(residuals, bins=_BINS)
    counts = np.histogram(residuals, bins=edges, weights=sample.counts)[0]
    figure, axes = named_axes(x=_titled("actual - predicted", name), y="rows")
    axes.stairs(counts, edges, fill=True, color=COLOURS[0], alpha=0.6)
    axes.axvline(0, color=INK, alpha=0.5, linewidth=1, linestyle=":")
    axes.set_ylim(bottom=0)
    coarse = np.histogram_bin_edges(residuals, bins=_TABLE_BINS)
    few = np.histogram(residuals, bins=coarse, weights=sample.counts)[0]
    middle = np.percentile(np.abs(residuals), 50, method="inverted_cdf", weights=sample.counts)
    return figure_block(
        figure,
        caption=f"Half of the predictions are off by at most {number_text(float(middle))}."
        + _sampled(regression, number),
        heads=["residual", "rows"],
        rows=[
            [f"{number_text(coarse[k])} to {number_text(coarse[k + 1])}", count_text(few[k])]
            for k in range(few.size)
        ],
        label=_titled("Histogram of residuals", name),
        kind="residual-histogram",
    )


def _scatter(axes: "Axes", x: Floats, y: Floats, counts: NDArray[np.int64]) -> None:
    """Points whose size says how many rows are this very pair, up to a size.

    In a few sizes: a mark of its own for each point would make the picture ten times larger.
    """
    sizes = np.minimum(np.log2(np.maximum(counts, 1)).astype(np.int64), 7)
    for size in np.unique(sizes).tolist():
        some = sizes == size
        axes.plot(
            x[some],
            y[some],
            "o",
            color=COLOURS[0],
            alpha=0.45,
            markersize=3.2 * math.sqrt(1 + size),
            markeredgewidth=0,
        )

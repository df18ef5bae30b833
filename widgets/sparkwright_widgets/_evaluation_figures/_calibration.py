"""Calibration: the reliability diagram, and how often which probability was predicted."""

import numpy as np

from sparkwright.evaluation import EvaluationCalibration, ReliabilityDiagram
from sparkwright_widgets._block import Block
from sparkwright_widgets._figure_svg import COLOURS, INK, new_figure
from sparkwright_widgets._format import count_text

from ._blocks import figure_block, headline_block, legend_above, name_axes, named_axes

_TABLE_BINS = 20


def calibration_blocks(
    calibration: EvaluationCalibration, *, of: int | str | None = None
) -> list[Block]:
    """Headline, reliability diagram with the rows of each bin, histogram of probabilities.

    Args:
        calibration: of any number of classes.
        of: a class, by number or name; default None: class 1 of two, else the predicted class.
    """
    blocks = [headline_block(calibration)]
    if not calibration.examples:
        return blocks
    if of is None and calibration.classes == 2:
        of = 1
    return [*blocks, _reliability(calibration, of), _histogram(calibration, of)]


def _reliability(calibration: EvaluationCalibration, of: int | str | None) -> Block:
    diagram = calibration.reliability(of=of).without_empty_bins()
    error = calibration.expected_calibration_error(of=of)
    largest = calibration.maximum_calibration_error(of=of)
    figure = new_figure(width_inches=4.6, height_inches=4.6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    share = "share that was right" if of is None else "share of the class"
    name_axes(above, x="", y=share)
    name_axes(below, x="predicted probability", y="rows")
    above.plot([0, 1], [0, 1], color=INK, alpha=0.5, linewidth=1, linestyle=":", label="perfect")
    above.plot(
        diagram.mean_predicted,
        diagram.fraction_positive,
        color=COLOURS[0],
        marker="o",
        markersize=5,
        linewidth=1.8,
        label="this network",
    )
    above.vlines(
        diagram.mean_predicted,
        diagram.fraction_positive,
        diagram.mean_predicted,
        color=COLOURS[3],
        linewidth=1.2,
        label="gap",
    )
    bins = calibration.reliability_bins
    counts = np.zeros(bins)
    counts[diagram.bins] = diagram.counts
    below.stairs(counts, np.arange(bins + 1) / bins, fill=True, color=COLOURS[0], alpha=0.6)
    above.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    legend_above(above, columns=3)
    return figure_block(
        figure,
        caption=f"{_verdict(diagram)} The expected calibration error is {error:.4f}, the largest "
        f"of a bin {largest:.4f}.",
        heads=["bin", "rows", "mean probability", share, "gap"],
        rows=_bin_rows(diagram, bins),
        label="Reliability diagram" + (f" of {_name(calibration, of)}" if of is not None else ""),
        kind="reliability",
        left_out=max(0, len(diagram.bins) - _TABLE_BINS),
    )


def _name(calibration: EvaluationCalibration, of: int | str) -> str:
    return f"class {calibration.names[of] if isinstance(of, int) else of}"


def _verdict(diagram: ReliabilityDiagram) -> str:
    weights = diagram.counts / diagram.counts.sum()
    bias = float(np.sum(weights * (diagram.mean_predicted - diagram.fraction_positive)))
    if abs(bias) < 0.005:
        return "On the whole probabilities are neither too high nor too low."
    return f"Probabilities are too {'high' if bias > 0 else 'low'}, on average by {abs(bias):.4f}."


def _bin_rows(diagram: ReliabilityDiagram, bins: int) -> list[list[object]]:
    # Of very many bins, those with the most rows.
    chosen = np.sort(np.argsort(-diagram.counts, kind="stable")[:_TABLE_BINS])
    return [
        [
            f"{diagram.bins[k] / bins:.3g} to {(diagram.bins[k] + 1) / bins:.3g}",
            count_text(int(diagram.counts[k])),
            f"{diagram.mean_predicted[k]:.4f}",
            f"{diagram.fraction_positive[k]:.4f}",
            f"{diagram.fraction_positive[k] - diagram.mean_predicted[k]:+.4f}",
        ]
        for k in chosen.tolist()
    ]


def _histogram(calibration: EvaluationCalibration, of: int | str | None) -> Block:
    """Of one class in its rows and in the others, or of all classes together."""
    if of is None:
        parts = {"all classes": calibration.probability_histogram()}
    else:
        parts = {
            _name(calibration, of): calibration.probability_histogram(of=of),
            "other rows": calibration.probability_histogram(of=of, others=True),
        }
    figure, axes = named_axes(x="predicted probability", y="rows" if of is not None else "count")
    for (name, histogram), colour, hatch in zip(
        parts.items(), (COLOURS[0], COLOURS[3]), ("", "///"), strict=False
    ):
        axes.stairs(
            histogram.counts, histogram.edges, fill=True, color=colour, alpha=0.45, hatch=hatch,
            label=name,
        )  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    legend_above(axes)
    edges = np.linspace(0, 1, 11)
    columns = []
    for histogram in parts.values():
        middles = (histogram.edges[1:] + histogram.edges[:-1]) / 2
        columns.append(np.histogram(middles, bins=edges, weights=histogram.counts)[0])
    sure = sum(column[0] + column[-1] for column in columns)
    total = max(sum(column.sum() for column in columns), 1)
    return figure_block(
        figure,
        caption=f"{sure / total:.1%} of the probabilities are below 0.1 or at least 0.9.",
        heads=["probability", *parts],
        rows=[
            [f"{edges[k]:.1f} to {edges[k + 1]:.1f}", *(count_text(c[k]) for c in columns)]
            for k in range(10)
        ],
        label="Histogram of predicted probabilities",
        kind="probabilities",
    )

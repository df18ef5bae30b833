"""Predictions and residuals of a regression, drawn from a sample of the rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._pair_sample import PairSample
from ._plots import COLOURS, finish, new_axes
from ._split_axes import split_axes

Samples = Sequence[tuple[str, PairSample]]
_HISTOGRAM_BINS = 30


def plot_predictions(samples: Samples, *, axes: Any | None = None) -> Any:
    """Draw predictions against labels.

    Args:
        samples: a name and a sample for each output; the first six are drawn.
        axes: the matplotlib Axes to draw on; default None: of a new figure.

    Returns:
        The axes.
    """
    given: Any = new_axes() if axes is None else axes
    shown = samples[: len(COLOURS)]
    ends = [end for _, sample in shown for end in _ends(sample)]
    if ends:
        line = [min(ends), max(ends)]
        given.plot(line, line, color="0.5", linewidth=1, zorder=1, label="equal")
    _scatter(given, samples, lambda sample: (sample.labels, sample.predictions))
    if ends:
        _legend(given)
    return finish(given, title=_title("Predicted against actual", shown), x="actual", y="predicted")


def plot_residuals(samples: Samples, *, axes: Any | None = None) -> Any:
    """Draw residuals against predictions, and their histogram at the right.

    Args:
        samples: as in `plot_predictions`.
        axes: likewise; the histogram takes a quarter of them.

    Returns:
        The axes of the residuals.
    """
    given: Any = new_axes(width=6.2) if axes is None else axes
    shown = samples[: len(COLOURS)]
    given.axhline(0, color="0.5", linewidth=1, zorder=1)
    _scatter(given, samples, lambda sample: (sample.predictions, _residuals(sample)))
    side = split_axes(given, "right")
    residuals = [_residuals(sample) for _, sample in shown]
    if any(each.size for each in residuals):
        edges = np.histogram_bin_edges(np.concatenate(residuals), bins=_HISTOGRAM_BINS)
        for (_, sample), each, colour in zip(shown, residuals, COLOURS, strict=False):
            side.hist(
                each,
                bins=edges,
                weights=sample.counts,
                orientation="horizontal",
                histtype="stepfilled",
                color=colour,
                alpha=0.55,
            )
    side.axhline(0, color="0.5", linewidth=1, zorder=1)
    side.set_xlabel("rows")
    if len(samples) > 1:
        _legend(given)
    return finish(given, title=_title("Residuals", shown), x="predicted", y="actual - predicted")


def _legend(axes: Any) -> None:
    """On a light ground, since points may lie below it."""
    legend = axes.legend(fontsize="small", framealpha=0.85, edgecolor="none")
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)


def _scatter(axes: Any, samples: Samples, coordinates: Any) -> None:
    for (name, sample), colour in zip(samples, COLOURS, strict=False):
        x, y = coordinates(sample)
        # Area by how many rows are this very pair, up to a point.
        area = 9.0 * np.minimum(1 + np.log2(np.maximum(sample.counts, 1)), 8)
        axes.scatter(
            x,
            y,
            s=area,
            color=colour,
            alpha=0.45,
            linewidth=0,
            zorder=2,
            label=_label(name, samples),
        )
    if len(samples) > len(COLOURS):
        axes.plot([], [], " ", label=f"and {len(samples) - len(COLOURS)} more outputs")


def _label(name: str, samples: Samples) -> str:
    if len(samples) > 1:
        return name
    return "rows" if name == "0" else name


def _title(what: str, shown: Samples) -> str:
    pairs = sum(sample.counts.size for _, sample in shown)
    sampled = any(sample.counts.size == sample.size for _, sample in shown)
    return f"{what} (a sample of {pairs:,} points)" if sampled else what


def _ends(sample: PairSample) -> list[float]:
    both = np.concatenate([sample.labels, sample.predictions])
    return [float(both.min()), float(both.max())] if both.size else []


def _residuals(sample: PairSample) -> Any:
    return sample.labels - sample.predictions

"""Plots of evaluations with matplotlib, which is imported when the first one is drawn.

All functions take `axes`, the matplotlib Axes to draw on, or None for those of a new figure, and
return the axes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError

if TYPE_CHECKING:
    from .calibration_counts import Histogram, ReliabilityDiagram
    from .pair_sample import PairSample
    from .rates import BinaryCounts
    from .roc_curves import PrecisionRecallCurve, RocCurve

# Okabe and Ito's colors, which color-blind readers can tell apart.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
PLOT_POINTS = 2000  # of a curve
MOST_CURVES = 10  # more cannot be told apart
_WRITTEN = 20  # more numbers in a matrix cannot be read
_GRID = np.linspace(0.0, 1.0, 401)
_GUESSING: dict[str, Any] = {"color": "#888888", "linewidth": 1, "linestyle": ":"}
_LINE: dict[str, Any] = {"color": "0.5", "linewidth": 1, "zorder": 1}


def new_axes(*, width: float = 5.0, height: float = 4.2) -> Any:
    """The axes of a new figure, which a notebook shows at the end of the cell.

    Args:
        width: of the figure, in inches.
        height: likewise.

    Raises:
        ConfigurationError: if matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ConfigurationError(
            "plots need matplotlib. Received: a Python without it. "
            'Install it: `pip install "sparkwright[notebook]"`.'
        ) from None
    _, axes = plt.subplots(figsize=(width, height), layout="constrained")
    return axes


def finish(axes: Any, *, title: str, x: str, y: str, legend: bool = False) -> Any:
    """Set labels and title, hide two spines, and return the axes."""
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False, fontsize="small")
    return axes


def split_axes(axes: Any, side: Literal["below", "right"], *, share: float = 0.25) -> Any:
    """Make room for a second plot, and return its Axes.

    An inset would do, but constrained layout cuts off what is outside of the axes.

    Args:
        axes: the matplotlib Axes to shrink.
        side: place of the second plot; it shares the axis along the common side.
        share: of the place, between 0 and 1.
    """
    below, ratios = side == "below", [1 - share, share]
    shared = {"sharex": axes} if below else {"sharey": axes}
    spec = axes.get_subplotspec()
    if spec is None:  # axes that were placed by hand
        box, gap = axes.get_position(), 0.03
        low, wide = box.height * share, box.width * share
        if below:
            axes.set_position([box.x0, box.y0 + low + gap, box.width, box.height - low - gap])
            place = [box.x0, box.y0, box.width, low]
        else:
            axes.set_position([box.x0, box.y0, box.width - wide - gap, box.height])
            place = [box.x1 - wide, box.y0, wide, box.height]
        second = axes.figure.add_axes(place, **shared)
    else:
        ratio = {"height_ratios" if below else "width_ratios": ratios}
        grid = spec.subgridspec(*((2, 1) if below else (1, 2)), **ratio)
        axes.set_subplotspec(grid[0])
        second = axes.figure.add_subplot(grid[1], **shared)
    (axes if below else second).tick_params(**{"labelbottom" if below else "labelleft": False})
    second.spines[["top", "right"]].set_visible(False)
    return second


# Counts


def plot_confusion(confusion: NDArray[np.int64], names: Sequence[str], *, axes: Any = None) -> Any:
    """Draw a (C, C) matrix, rows actual, each cell tinted by its share of the row."""
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
        place = {"ha": "center", "va": "center", "fontsize": 9 if classes <= 10 else 7}
        for (actual, predicted), count in np.ndenumerate(confusion):
            if count:
                color = "white" if shares[actual, predicted] > 0.5 else "black"
                axes.text(predicted, actual, _short_count(int(count)), color=color, **place)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label("share of the actual class")
    bar.outline.set_visible(False)
    return axes


def plot_rates(
    counts: "BinaryCounts",
    names: Sequence[str],
    *,
    title: str = "Metrics by class",
    axes: Any = None,
) -> Any:
    """Draw precision, recall and F1 of each class or output as bars; 0/0 has none.

    Of many, the 20 with the lowest F1 are shown, and the title says so.
    """
    rates = {"precision": counts.precision(), "recall": counts.recall(), "F1": counts.f_beta(1.0)}
    shown = np.arange(len(names))
    if len(names) > _WRITTEN:
        shown = np.argsort(np.nan_to_num(rates["F1"], nan=2.0), kind="stable")[:_WRITTEN]
        title = f"{title} (the {_WRITTEN} of {len(names)} with the lowest F1)"
    if axes is None:
        axes = new_axes(width=6.0, height=min(1.6 + 0.5 * max(len(shown), 1), 11.0))
    for bar, (rate, values) in enumerate(rates.items()):
        places = np.arange(len(shown)) + (bar - 1) * 0.27
        heights = np.nan_to_num(values[shown], nan=0.0)
        axes.barh(places, heights, height=0.24, color=COLORS[bar], label=rate)
    axes.set_yticks(range(len(shown)), [_shortened(names[k]) for k in shown.tolist()])
    axes.set_xlim(0, 1)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    finish(axes, title=title, x="", y="")
    axes.set_title(title, pad=22)  # room for the legend, which bars would hide elsewhere
    axes.legend(
        frameon=False, fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0)
    )
    return axes


def plot_numbers(numbers: Mapping[str, float], *, title: str, axes: Any = None) -> Any:
    """Draw a bar for each number."""
    drawn = new_axes(height=1.4 + 0.3 * min(len(numbers), 30)) if axes is None else axes
    drawn.barh(list(numbers), list(numbers.values()), height=0.6, color=COLORS[0])
    drawn.invert_yaxis()
    return finish(drawn, title=title, x="", y="")


def _short_count(count: int) -> str:
    """At most five characters, so that it fits its cell."""
    for limit, unit, sign in ((10**4, 1, ""), (10**6, 10**3, "k"), (10**9, 10**6, "M")):
        if count < limit:
            return f"{count}" if unit == 1 else f"{count / unit:.3g}{sign}"
    return f"{count:.0e}".replace("+", "")


def _shortened(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"


# Calibration


def plot_reliability(
    curves: "Sequence[tuple[str, ReliabilityDiagram, float]]", *, bins: int, axes: Any = None
) -> Any:
    """Draw fractions of positives against mean probabilities, and below them the rows.

    Args:
        curves: name, diagram without empty bins, and expected calibration error of at most six.
        bins: of the diagrams, empty ones too.
        axes: of the diagram; the counts take a quarter of their place.
    """
    given: Any = new_axes(height=5.2) if axes is None else axes
    given.plot([0, 1], [0, 1], color="0.5", linewidth=1, linestyle="--", label="perfect")
    below = split_axes(given, "below")
    for (name, diagram, error), color in zip(curves, COLORS, strict=False):
        line = {"color": color, "marker": "o", "markersize": 4}
        label = f"{name} (ECE {error:.3f})"
        given.plot(diagram.mean_predicted, diagram.fraction_positive, label=label, **line)
        counts = np.zeros(bins)
        counts[diagram.bins] = diagram.counts
        _steps(below, counts, color, filled=len(curves) == 1)
    given.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    below.set_ylim(bottom=0)
    finish(below, title="", x="predicted probability", y="rows")
    return finish(given, title="Reliability", x="", y="fraction of positives", legend=True)


def plot_histograms(
    histograms: "Mapping[str, Histogram]", *, title: str, x: str, axes: Any = None
) -> Any:
    """Draw histograms over each other, by name; one named "" needs no legend."""
    given: Any = new_axes() if axes is None else axes
    for (name, histogram), color in zip(histograms.items(), COLORS, strict=False):
        _steps(given, histogram.counts, color, filled=True, name=name)
    given.set_xlim(0, 1)
    given.set_ylim(bottom=0)
    return finish(given, title=title, x=x, y="count", legend=any(histograms))


def _steps(axes: Any, counts: Any, color: str, *, filled: bool, name: str = "") -> None:
    edges = np.arange(len(counts) + 1) / len(counts)
    if filled:
        axes.stairs(counts, edges, color=color, fill=True, alpha=0.45, label=name or None)
    axes.stairs(counts, edges, color=color, linewidth=1.2)


# Regression


Samples = Sequence[tuple[str, "PairSample"]]


def plot_predictions(samples: Samples, *, axes: Any = None) -> Any:
    """Draw predictions against labels of a sample for each output; the first six are drawn."""
    given: Any = new_axes() if axes is None else axes
    shown = samples[: len(COLORS)]
    both = [each for _, sample in shown for each in (sample.labels, sample.predictions)]
    points = np.concatenate([np.zeros(0), *both])
    if points.size:
        ends = [float(points.min()), float(points.max())]
        given.plot(ends, ends, label="equal", **_LINE)
    _scatter(given, samples, lambda sample: (sample.labels, sample.predictions))
    if points.size:
        _legend(given)
    return finish(given, title=_sampled("Predicted against actual", shown), x="actual",
                  y="predicted")  # fmt: skip


def plot_residuals(samples: Samples, *, axes: Any = None) -> Any:
    """Draw residuals against predictions, and their histogram at the right."""
    given: Any = new_axes(width=6.2) if axes is None else axes
    shown = samples[: len(COLORS)]
    given.axhline(0, **_LINE)
    _scatter(given, samples, lambda sample: (sample.predictions, _residuals(sample)))
    side = split_axes(given, "right")
    residuals = [_residuals(sample) for _, sample in shown]
    if any(each.size for each in residuals):
        edges = np.histogram_bin_edges(np.concatenate(residuals), bins=30)
        style = {"orientation": "horizontal", "histtype": "stepfilled", "alpha": 0.55}
        for (_, sample), each, color in zip(shown, residuals, COLORS, strict=False):
            side.hist(each, bins=edges, weights=sample.counts, color=color, **style)
    side.axhline(0, **_LINE)
    side.set_xlabel("rows")
    if len(samples) > 1:
        _legend(given)
    return finish(given, title=_sampled("Residuals", shown), x="predicted", y="actual - predicted")


def _residuals(sample: "PairSample") -> Any:
    return sample.labels - sample.predictions


def _legend(axes: Any) -> None:
    """On a light ground, since points may lie below it."""
    legend = axes.legend(fontsize="small", framealpha=0.85, edgecolor="none")
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)


def _scatter(axes: Any, samples: Samples, coordinates: "Callable[[PairSample], Any]") -> None:
    style = {"alpha": 0.45, "linewidth": 0, "zorder": 2}
    for (name, sample), color in zip(samples, COLORS, strict=False):
        x, y = coordinates(sample)
        # Area by how often this pair occurs, up to a point.
        area = 9.0 * np.minimum(1 + np.log2(np.maximum(sample.counts, 1)), 8)
        label = "rows" if len(samples) == 1 and name == "0" else name
        axes.scatter(x, y, s=area, color=color, label=label, **style)
    if len(samples) > len(COLORS):
        axes.plot([], [], " ", label=f"and {len(samples) - len(COLORS)} more outputs")


def _sampled(what: str, shown: Samples) -> str:
    pairs = sum(sample.counts.size for _, sample in shown)
    sampled = any(sample.counts.size == sample.size for _, sample in shown)
    return f"{what} (a sample of {pairs:,} points)" if sampled else what


# ROC


def draw_roc(
    curves: "Sequence[tuple[str, RocCurve]]", *, title: str, axes: Any, what: str = "outputs"
) -> Any:
    """Draw ROC curves with names, and the line of guessing.

    Args:
        curves: names and curves; of more than `MOST_CURVES`, the mean and the spread are drawn.
        title: of the plot.
        axes: to draw on; None: of a new figure.
        what: plural noun for the curves.
    """
    lines = [(name, c.false_positive_rate, c.true_positive_rate) for name, c in curves]
    labels = {"title": title, "x": "false positive rate", "y": "true positive rate"}
    return _draw_curves(lines, ((0, 1), (0, 1)), axes, what, labels)


def draw_precision_recall(
    curves: "Sequence[tuple[str, PrecisionRecallCurve]]",
    *,
    guessing: float | None,
    title: str,
    axes: Any,
    what: str = "outputs",
) -> Any:
    """Draw precision-recall curves with names, as `draw_roc`.

    `guessing` is the precision of guessing, the share of positives; None: no such line.
    """
    lines = [(name, c.recall[::-1], c.precision[::-1]) for name, c in curves]
    line = None if guessing is None else ((0, 1), (guessing, guessing))
    return _draw_curves(lines, line, axes, what, {"title": title, "x": "recall", "y": "precision"})


def _draw_curves(
    lines: list[tuple[str, Any, Any]], guessing: Any, axes: Any, what: str, labels: dict[str, str]
) -> Any:
    surface: Any = new_axes() if axes is None else axes
    if len(lines) > MOST_CURVES:
        heights = np.stack([np.interp(_GRID, x, y) for _, x, y in lines])
        mean = f"mean of {len(lines)} {what}"
        surface.plot(_GRID, heights.mean(axis=0), color=COLORS[0], linewidth=1.8, label=mean)
        spread = {"color": COLORS[0], "alpha": 0.18, "linewidth": 0, "label": "lowest to highest"}
        surface.fill_between(_GRID, heights.min(axis=0), heights.max(axis=0), **spread)
    else:
        for number, (name, x, y) in enumerate(lines):
            style = "-" if number < len(COLORS) else "--"
            color = COLORS[number % len(COLORS)]
            surface.plot(x, y, label=name, color=color, linestyle=style, linewidth=1.8)
    if guessing is not None:
        surface.plot(*guessing, label="guessing", **_GUESSING)
    surface.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    return finish(surface, **labels, legend=bool(surface.lines))

"""Draw partitions and workers as bars stacked by label.

Each class has a color and a hatch, so that color is never the only cue.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.evaluation.numbers import short_count
from sparkwright_widgets._figure_svg import COLORS, INK, inline_svg
from sparkwright_widgets._format import count_text, counted

MOST_BARS = 64
MOST_CLASSES = 12
_OTHERS = "#7f8790"
_HATCHES = ("", "//", "..", "--", "||")


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Bars:
    """The data of a bar chart."""

    rows: tuple[int, ...]  # of each partition
    labels: NDArray[np.float64]  # (partitions, classes) counts; no columns if unknown
    class_names: tuple[str, ...]
    noun: str  # "partition" or "worker"

    @property
    def per_bar(self) -> int:
        """Partitions per bar; more than 1 if there are more than `MOST_BARS` partitions."""
        return max(1, math.ceil(len(self.rows) / MOST_BARS))

    @property
    def groups(self) -> list[range]:
        """The indices of the partitions of each bar."""
        size = len(self.rows)
        return [range(i, min(i + self.per_bar, size)) for i in range(0, size, self.per_bar)]

    @property
    def heights(self) -> NDArray[np.float64]:
        """(bars,) mean number of rows of the partitions of each bar."""
        means = [sum(self.rows[i] for i in group) / len(group) for group in self.groups]
        return np.array(means, np.float64)

    @property
    def mean(self) -> float:
        """Mean number of rows per partition."""
        return sum(self.rows) / len(self.rows) if self.rows else 0.0

    def alt(self) -> str:
        """Alternative text of the chart."""
        sentence = f"Rows of {counted(len(self.rows), self.noun)}"
        if not sum(self.rows):
            return f"{sentence}: all are empty."
        fullest = int(np.argmax(self.rows))
        return (
            f"{sentence}, on average {count_text(self.mean)}; the largest is {self.noun} {fullest} "
            f"with {count_text(self.rows[fullest])}, the smallest has "
            f"{count_text(min(self.rows))}."
        )


def pieces(bars: Bars) -> dict[str, NDArray[np.float64]]:
    """Return the rows of each class in each bar, in proportion to labels; rare ones share one."""
    sums = np.array([bars.labels[group.start : group.stop].sum(axis=0) for group in bars.groups])
    if not bars.labels.size or not len(sums):
        return {"": bars.heights}
    totals = sums.sum(axis=1, keepdims=True)
    rows = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)
    rows *= bars.heights[:, None]
    shown = _shown_classes(bars.labels)
    found = {bars.class_names[column]: rows[:, column] for column in shown}
    rest = bars.heights - sum(found.values())
    others = bars.labels.shape[1] - len(shown)
    if others or rest.max() > 1e-6 * max(1.0, bars.heights.max()):
        found[f"{count_text(others)} others" if others else "unknown"] = rest
    return found


def _shown_classes(labels: NDArray[np.float64]) -> list[int]:
    sums = labels.sum(axis=0)
    if len(sums) <= MOST_CLASSES:
        return list(range(len(sums)))
    return sorted(np.argsort(-sums, kind="stable")[: MOST_CLASSES - 1].tolist())


def bars_svg(now: Bars, then: Bars) -> str:
    """One `<svg>` before and one after, on the same scale."""
    top = max((*now.rows, *then.rows), default=0)
    return _svg(now, "Now", top) + _svg(then, "After", top)


def _svg(bars: Bars, title: str, top: int) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5, 2.9), layout="constrained")
    figure.patch.set_visible(False)
    axes = figure.subplots()
    _draw(axes, bars, f"{title}: rows per {bars.noun}")
    axes.set_ylim(0, 1.12 * (top or 1))
    alt = f"{title}: {bars.alt()}"
    total = bars.labels.sum() or 1.0
    shares = {
        name: f"{name} {column.sum() / total:.1%}"
        for name, column in zip(bars.class_names, bars.labels.T, strict=False)
    }
    handles, names = axes.get_legend_handles_labels()
    if names:
        labels = [shares.get(str(name), str(name)) for name in names]
        alt += f" Labels: {', '.join(labels)}."
        legend = figure.legend(
            handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8
        )
        for text in legend.get_texts():
            text.set_color(INK)
            text.set_parse_math(False)
    return inline_svg(figure, alt=alt)


def _draw(axes: Any, bars: Bars, title: str) -> None:
    places, base = np.arange(len(bars.groups)), np.zeros(len(bars.groups))
    for number, (name, rows) in enumerate(pieces(bars).items()):
        is_rest = number == MOST_CLASSES - 1 and len(bars.class_names) > MOST_CLASSES
        axes.bar(
            places,
            rows,
            bottom=base,
            color=_OTHERS if is_rest else COLORS[number % len(COLORS)],
            hatch="" if is_rest else _HATCHES[number % len(_HATCHES)],
            edgecolor="white",
            linewidth=0,
            label=name or "_",
        )
        base = base + rows
    if bars.per_bar > 1:
        fullest = [max(bars.rows[i] for i in group) for group in bars.groups]
        axes.plot(places, fullest, "_", color=INK)
    elif len(bars.rows) <= MOST_CLASSES:
        for place, rows in zip(places, bars.rows, strict=True):
            text = short_count(rows)
            axes.annotate(text, (place, rows), color=INK, fontsize=8, ha="center", va="bottom")
    if sum(bars.rows):
        axes.axhline(bars.mean, color=INK, linewidth=1, linestyle="--")
    axes.set_title(title, color=INK, fontsize=9, loc="left")
    about = f"; a bar: mean of {bars.per_bar}; mark: the largest" if bars.per_bar > 1 else ""
    axes.set_xlabel(f"{bars.noun}{about}; dashed line: mean", color=INK, fontsize=8)
    axes.patch.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK, labelsize=8)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.xaxis.set_major_formatter(lambda place, _: f"{place * bars.per_bar:g}")
    axes.yaxis.set_major_formatter(lambda rows, _: short_count(rows))

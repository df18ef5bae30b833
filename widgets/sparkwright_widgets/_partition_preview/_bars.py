"""Partitions as bars, made of their labels: an SVG and its legend, from plain numbers. Pure.

Colour never stands alone: each class has a colour and a pattern of its own, and large pieces bear
its number in the legend.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkwright_widgets._figure_svg import COLOURS
from sparkwright_widgets._format import count_text, escaped

MOST_BARS = 64
MOST_CLASSES = 12

_WIDTH, _HEIGHT = 400, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 6, 18, 30
_PLAIN = "#0072B2"
_OTHERS = "#7f8790"
# Drawn on a tile of 8 by 8 over a class's colour.
_PATTERNS = (
    "",
    '<path d="M-2 2L2-2M0 8L8 0M6 10L10 6"/>',
    '<circle cx="2" cy="2" r="1"/><circle cx="6" cy="6" r="1"/>',
    '<path d="M0 4H8"/>',
    '<path d="M4 0V8"/>',
)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Bars:
    """What is to be drawn.

    Attributes:
        rows: of each partition.
        labels: (partitions, classes) labels of each class; no columns: not known.
        class_names: of the columns.
        noun: what a bar stands for, "partition" or "worker".
    """

    rows: tuple[int, ...]
    labels: NDArray[np.float64]
    class_names: tuple[str, ...]
    noun: str

    @property
    def per_bar(self) -> int:
        """Partitions in a bar: more than 1 where there are too many to be seen."""
        return max(1, math.ceil(len(self.rows) / MOST_BARS))

    @property
    def mean(self) -> float:
        """Rows of a partition on average."""
        return sum(self.rows) / len(self.rows) if self.rows else 0.0

    def alt(self) -> str:
        """What the picture shows, in words."""
        several = "s" if len(self.rows) != 1 else ""
        sentence = f"Rows of {count_text(len(self.rows))} {self.noun}{several}"
        if not sum(self.rows):
            return f"{sentence}: all are empty."
        fullest = int(np.argmax(self.rows))
        return (
            f"{sentence}, on average {count_text(self.mean)}; the fullest is {self.noun} {fullest} "
            f"with {count_text(self.rows[fullest])}, the smallest holds "
            f"{count_text(min(self.rows))}."
        )


def shown_classes(labels: NDArray[np.float64]) -> list[int]:
    """Columns to draw by themselves, in order; the rest is drawn together as others."""
    sums = labels.sum(axis=0)
    if len(sums) <= MOST_CLASSES:
        return list(range(len(sums)))
    return sorted(np.argsort(-sums, kind="stable")[: MOST_CLASSES - 1].tolist())


def bars_svg(bars: Bars, *, prefix: str, top: float | None = None) -> str:
    """The bars as an `<svg>` that is as wide as its place.

    Args:
        bars: what to draw.
        prefix: begins all ids; two pictures of a page need different ones.
        top: rows at the upper end of the axis; default None: those of the fullest partition.
    """
    top = max(bars.rows, default=0) if top is None else top
    top = top or 1
    classes = shown_classes(bars.labels)
    groups = [
        range(start, min(start + bars.per_bar, len(bars.rows)))
        for start in range(0, len(bars.rows), bars.per_bar)
    ]
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    parts = [_frame(bars, top)]
    for number, group in enumerate(groups):
        parts.append(_bar(bars, group, classes, _LEFT + number * step, step, top, prefix))
    parts.append(_mean_line(bars, top))
    parts.append(_ticks(bars, len(groups), step))
    paints = [_paint(place, prefix) for place in range(len(classes))]
    return (
        f'<svg class="sparkwright-bars" role="img" aria-label="{escaped(bars.alt())}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" xmlns="http://www.w3.org/2000/svg">'
        f"<defs>{''.join(paints)}</defs>{''.join(parts)}</svg>"
    )


def legend(bars: Bars, *, prefix: str) -> str:
    """Which class has which colour, pattern and number, with its share of all labels."""
    classes = shown_classes(bars.labels)
    if not classes:
        return ""
    sums = bars.labels.sum(axis=0)
    total = sums.sum() or 1.0
    items = [
        _legend_item(place, bars.class_names[column], sums[column] / total, prefix)
        for place, column in enumerate(classes)
    ]
    rest = len(sums) - len(classes)
    if rest:
        share = 1 - sums[classes].sum() / total
        items.append(_legend_item(None, f"{count_text(rest)} others", share, prefix))
    return f'<ul class="sparkwright-classes" aria-label="Labels">{"".join(items)}</ul>'


def _legend_item(place: int | None, name: str, share: float, prefix: str) -> str:
    fill = _OTHERS if place is None else f"url(#{prefix}k{place})"
    paint = "" if place is None else f"<defs>{_paint(place, f'{prefix}k')}</defs>"
    if place is not None:
        fill = f"url(#{prefix}k{place})"
    number = "" if place is None else f"<b>{place + 1}</b> "
    return (
        f'<li><svg viewBox="0 0 16 12" aria-hidden="true">{paint}'
        f'<rect width="16" height="12" fill="{fill}"/></svg>'
        f"{number}{escaped(name)} <span>{share:.1%}</span></li>"
    )


def _paint(place: int, prefix: str) -> str:
    colour, lines = COLOURS[place % len(COLOURS)], _PATTERNS[place % len(_PATTERNS)]
    return (
        f'<pattern id="{prefix}{place}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect width="8" height="8" fill="{colour}"/>'
        f'<g stroke="#fff" stroke-opacity="0.75" stroke-width="1.2" fill="#fff">{lines}</g>'
        "</pattern>"
    )


def _bar(
    bars: Bars,
    group: range,
    classes: Sequence[int],
    left: float,
    step: float,
    top: float,
    prefix: str,
) -> str:
    gap = min(6.0, step * 0.18)
    x, width = left + gap / 2, max(0.6, step - gap)
    rows = [bars.rows[partition] for partition in group]
    height = sum(rows) / len(rows)
    labels = bars.labels[group.start : group.stop].sum(axis=0) if bars.labels.size else np.zeros(0)
    pieces: list[tuple[float, str, str]] = []
    if labels.sum() > 0:
        shares = labels / labels.sum()
        pieces = [
            (float(shares[column]), f"url(#{prefix}{place})", str(place + 1))
            for place, column in enumerate(classes)
        ]
        pieces.append((1 - float(shares[list(classes)].sum()), _OTHERS, ""))
    else:
        pieces = [(1.0, _PLAIN if not bars.labels.size else _OTHERS, "")]
    drawn, base = [], 0.0
    for share, fill, number in pieces:
        piece = share * height
        if piece <= 0:
            continue
        y, tall = _y(base + piece, top), _y(base, top) - _y(base + piece, top)
        drawn.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{tall:.2f}" fill="{fill}"/>'
        )
        if number and width >= 15 and tall >= 12:
            drawn.append(_number(x + width / 2, y + tall / 2, number))
        base += piece
    if not height:
        drawn.append(_text(x + width / 2, _y(0, top) - 3, "0", "middle"))
    elif len(bars.rows) <= 12 and step >= 28:
        drawn.append(_text(x + width / 2, _y(height, top) - 4, short_count(height), "middle"))
    if len(group) > 1:
        y = _y(max(rows), top)
        drawn.append(
            f'<path d="M{x:.2f} {y:.2f}h{width:.2f}" stroke="currentColor" stroke-width="1.2"/>'
        )
    return "".join(drawn)


def _number(x: float, y: float, text: str) -> str:
    return (
        f'<circle cx="{x:.2f}" cy="{y:.2f}" r="6" fill="#fff" fill-opacity="0.9"/>'
        f'<text x="{x:.2f}" y="{y + 3.2:.2f}" text-anchor="middle" font-size="9" fill="#111">'
        f"{text}</text>"
    )


def _frame(bars: Bars, top: float) -> str:
    bottom = _y(0, top)
    lines = [f'<path d="M{_LEFT} {bottom}H{_WIDTH - _RIGHT}" stroke="currentColor" opacity="0.5"/>']
    lines.append(_text(_LEFT - 5, bottom + 3, "0", "end"))
    if sum(bars.rows):
        lines.append(_text(_LEFT - 5, _y(top, top) + 4, short_count(top), "end"))
    return "".join(lines)


def _mean_line(bars: Bars, top: float) -> str:
    if not sum(bars.rows):
        return ""
    y = _y(bars.mean, top)
    near = abs(y - _y(top, top)) < 12 or abs(y - _y(0, top)) < 12
    label = "" if near else _text(_LEFT - 5, y + 4, "mean", "end")
    return (
        f'<path d="M{_LEFT} {y:.2f}H{_WIDTH - _RIGHT}" stroke="currentColor" '
        f'stroke-dasharray="5 3" stroke-width="1.2" fill="none"/>{label}'
    )


def _ticks(bars: Bars, groups: int, step: float) -> str:
    """Numbers below as many bars as there is room for."""
    if not groups:
        return ""
    every = max(1, math.ceil(26 / step))
    parts: list[str] = []
    for number in range(0, groups, every):
        centre = _LEFT + (number + 0.5) * step
        parts.append(_text(centre, _HEIGHT - _BOTTOM + 12, str(number * bars.per_bar), "middle"))
    plural = "s" if bars.per_bar > 1 else ""
    about = f"{bars.noun}{plural}"
    if bars.per_bar > 1:
        about = f"{about}, {bars.per_bar} to a bar: their mean; line: the fullest"
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 4, about, "middle"))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}" font-size="10.5" '
        f'fill="currentColor">{escaped(text)}</text>'
    )


def _y(rows: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * min(1.0, rows / top)


def short_count(value: float) -> str:
    """A count in few characters.

    Example:
        >>> [short_count(value) for value in (7, 999.6, 12_345, 1_500_000, 2e9)]
        ['7', '1,000', '12.3k', '1.5M', '2G']
    """
    if value < 9_999.5:
        return count_text(value)
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if value < 999.5 * size or unit == "G":
            return f"{value / size:.3g}{unit}"
    return count_text(value)

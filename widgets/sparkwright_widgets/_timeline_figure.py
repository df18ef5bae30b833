"""The lanes of a timeline as an SVG, and what belongs to it. Pure.

Each lane is a strip of columns; in a column each phase takes the height of its share. Colour does
not stand alone: phases lie in the legend's order from the bottom up, and a table tells the same.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparkwright.timeline import Phase, PhaseTotal, Timeline
from sparkwright.timeline.grid import rows_of_lanes, shares_of, shown_phases
from sparkwright.timeline.summary import (
    HEADS,
    TEXT_COLUMNS,
    clock_sentence,
    facts_text,
    lanes_text,
    row_of,
    summary_text,
    what_dominated,
)

from ._assets import asset
from ._block import Block
from ._format import duration_text, escaped
from ._table import Markup, html_table

MOST_ROWS = 24
_MOST_CELLS = 2_400  # so that a saved notebook stays small
_MOST_COLUMNS = 240
_WIDTH, _LEFT, _RIGHT = 600, 104, 4
_ROW, _STRIP, _AXIS = 18, 16, 20
_LEAST_SHARE = 0.004
_TICKS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300),
    *(600, 900, 1800, 3600, 7200, 14400, 43200, 86400),
)


def timeline_block(timeline: Timeline) -> Block:
    """Lanes, legend and the table of phases; the text is the timeline's summary."""
    totals = timeline.totals()
    dominated = what_dominated(totals, timeline.tallies)
    clocks = f"<p>{escaped(clock_sentence(timeline.clocks))}</p>" if timeline.clocks else ""
    html = (
        f"<style>{asset('timeline.css')}{_colors()}</style>"
        f"<p>{escaped(facts_text(timeline))}. {escaped(dominated)}</p>"
        f"{timeline_svg(timeline, dominated)}{_legend(timeline)}{_table(totals)}{clocks}"
    )
    return Block(html=html, text=summary_text(timeline, totals), kind="timeline")


def timeline_svg(timeline: Timeline, dominated: str) -> str:
    """The lanes as an `<svg>` that is as wide as its place; nothing where nothing was measured.

    Args:
        timeline: whose lanes.
        dominated: said to who does not see them; see `Timeline.what_dominated`.
    """
    phases = shown_phases(timeline)
    if not phases:
        return ""
    row_of_lane, labels, _ = rows_of_lanes(timeline, most=MOST_ROWS)
    columns = min(_MOST_COLUMNS, _MOST_CELLS // len(labels))
    found = shares_of(timeline, phases, row_of_lane=row_of_lane, columns=columns)
    alternative = lanes_text(timeline, dominated)
    height = _AXIS + _ROW * len(labels)
    axis = _axis(max(timeline.elapsed_s, 1e-6), height)
    return (
        f'<svg class="sparkwright-lanes" role="img" aria-label="{escaped(alternative)}" '
        f'viewBox="0 0 {_WIDTH} {height}" xmlns="http://www.w3.org/2000/svg">'
        f"{axis}{_strips(labels)}{_paths(found, phases)}</svg>"
    )


def _strips(labels: list[str]) -> str:
    width = _WIDTH - _LEFT - _RIGHT
    return "".join(
        f'<rect class="sparkwright-strip" x="{_LEFT}" y="{_AXIS + row * _ROW}" width="{width}" '
        f'height="{_STRIP}"/><text x="0" y="{_AXIS + row * _ROW + 12}">{escaped(_short(label))}'
        "</text>"
        for row, label in enumerate(labels)
    )


def _short(label: str) -> str:
    return label if len(label) <= 17 else f"{label[:16]}…"


def _axis(elapsed_s: float, height: int) -> str:
    width = _WIDTH - _LEFT - _RIGHT
    step = next((tick for tick in _TICKS if elapsed_s / tick <= 6), elapsed_s)
    parts: list[str] = []
    for place in range(int(elapsed_s / step) + 1):
        x = _LEFT + width * place * step / elapsed_s
        anchor = "start" if place == 0 else "end" if x > _WIDTH - 40 else "middle"
        text = "0 s" if place == 0 else _tick_text(place * step, step)
        parts.append(f'<path class="sparkwright-tick" d="M{x:.1f} {_AXIS - 4}V{height}"/>')
        parts.append(f'<text x="{x:.1f}" y="11" text-anchor="{anchor}">{escaped(text)}</text>')
    return "".join(parts)


def _tick_text(seconds: float, step: float) -> str:
    return f"{seconds:.3g} s" if step < 60 and seconds < 60 else duration_text(seconds)


def _paths(found: NDArray[np.float32], phases: list[Phase]) -> str:
    """One path a phase, of all lanes; what encloses others is a line at the lane's foot."""
    rows, _, columns = found.shape
    step = (_WIDTH - _LEFT - _RIGHT) / columns
    inner = np.array([not phase.encloses for phase in phases])
    tops = np.minimum(np.cumsum(found * inner[None, :, None], axis=1), 1.0)
    parts: list[str] = []
    for layer, phase in enumerate(phases):
        pieces: list[str] = []
        for row in range(rows):
            share = found[row, layer]
            foot = _AXIS + row * _ROW + _STRIP
            if phase.encloses:
                low, high = np.full(columns, -1.0), np.full(columns, 1.0)
            else:
                high = np.round((_STRIP - 2) * tops[row, layer] * 2) / 2 + 1
                below = tops[row, layer - 1] if layer else np.zeros(columns)
                low = np.round((_STRIP - 2) * below * 2) / 2 + 1
            for start, stop in _runs(low, high, share > _LEAST_SHARE):
                x, width = _LEFT + start * step, (stop - start) * step
                pieces.append(
                    f"M{x:.1f} {foot - low[start]:g}h{width:.1f}"
                    f"V{foot - high[start]:g}h-{width:.1f}z"
                )
        if pieces:
            name = f"<title>{escaped(phase.label)}</title>"
            path = f'<path class="sparkwright-phase-{phase.code}" d="{"".join(pieces)}"/>'
            parts.append(f"<g>{name}{path}</g>")
    return "".join(parts)


def _runs(
    low: NDArray[np.float64], high: NDArray[np.float64], there: NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """Stretches of columns [start, stop) that have the same piece, and one of some height."""
    there = there & (high > low)
    same = (np.diff(low) == 0) & (np.diff(high) == 0) & there[1:] & there[:-1]
    starts = np.flatnonzero(there & ~np.concatenate([[False], same]))
    stops = np.flatnonzero(there & ~np.concatenate([same, [False]])) + 1
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def _colors() -> str:
    """Colours for light pages, for JupyterLab's dark themes, and for dark pages elsewhere."""
    from sparkwright.timeline import PHASES

    def rules(prefix: str, colors: list[str]) -> str:
        return "".join(
            f"{prefix} .sparkwright-phase-{phase.code}{{fill:{color};background:{color}}}"
            for phase, color in zip(PHASES, colors, strict=True)
        )

    light = rules(".sparkwright-timeline", [phase.color for phase in PHASES])
    dark_colors = [phase.dark_color for phase in PHASES]
    dark = rules('[data-jp-theme-light="false"] .sparkwright-timeline', dark_colors)
    # JupyterLab says which theme it has; a page that does not follows the reader's choice.
    elsewhere = rules(":root:not(:has([data-jp-theme-light])) .sparkwright-timeline", dark_colors)
    return f"{light}{dark}@media (prefers-color-scheme:dark){{{elsewhere}}}"


def _swatch(phase: Phase) -> str:
    kind = " sparkwright-encloses" if phase.encloses else ""
    return (
        f'<span class="sparkwright-swatch sparkwright-phase-{phase.code}{kind}" '
        'aria-hidden="true"></span>'
    )


def _legend(timeline: Timeline) -> str:
    items = "".join(
        f'<span title="{escaped(phase.meaning)}">{_swatch(phase)}{escaped(phase.label)}</span>'
        for phase in shown_phases(timeline)
    )
    return f'<div class="sparkwright-phases">{items}</div>'


def _table(totals: Sequence[PhaseTotal]) -> str:
    rows: list[list[object]] = []
    for total in totals:
        texts = row_of(total)
        named = Markup(f"{_swatch(total.phase)}{escaped(texts[1])}")
        rows.append([texts[0], named, *texts[2:]])
    if not rows:
        return ""
    return html_table(list(HEADS), rows, label="Time by phase", text_columns=TEXT_COLUMNS)

"""Figure, legend and table of a timeline. Pure.

Each lane is a strip of columns. In a column, the height of each phase is its fraction of the time.
Color is not the only cue: phases are stacked in the order of the legend, and a table has the same
values.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sparkwright.evaluation.reports import Figure, Table
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
from ._figure_svg import INK, figure_html
from ._format import duration_text, escaped
from ._table import Markup, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 24
_COLUMNS = 480
_ROW, _STRIP = 24, 20  # pixels of a lane with its gap, and without
_ENCLOSING = 3  # pixels at the bottom for a phase that encloses others
_GROUND = 0.06  # opacity of a strip without measurements
_LEAST_SHARE = 0.004


def timeline_block(timeline: Timeline) -> Block:
    """Return lanes, legend and table of a timeline; the text is its summary."""
    totals = timeline.totals()
    dominated = what_dominated(totals, timeline.tallies)
    clocks = f"<p>{escaped(clock_sentence(timeline.clocks))}</p>" if timeline.clocks else ""
    phases = shown_phases(timeline)
    lanes = figure_html(_lanes(timeline), alt=lanes_text(timeline, dominated)) if phases else ""
    html = (
        f"<style>{asset('timeline.css')}</style>"
        f"<p>{escaped(facts_text(timeline))}. {escaped(dominated)}</p>"
        f"{lanes}{_legend(phases)}{_table(totals)}{clocks}"
    )
    return Block(html=html, text=summary_text(timeline, totals), kind="timeline")


def lane_pixels(timeline: Timeline) -> tuple[list[str], NDArray[np.float32]]:
    """Return the labels of the lanes, and (24 x lanes, columns, 4) RGBA pixels as float32."""
    from matplotlib.colors import to_rgba

    phases = shown_phases(timeline)
    row_of_lane, labels, _ = rows_of_lanes(timeline, most=MOST_ROWS)
    shares = shares_of(timeline, phases, row_of_lane=row_of_lane, columns=_COLUMNS)
    inner = np.array([not phase.encloses for phase in phases])
    tops = np.minimum(np.cumsum(shares * inner[None, :, None], axis=1), 1.0)
    # The center of each pixel of a strip, from top to bottom.
    heights = 1 - (np.arange(_STRIP)[:, None] + 0.5) / _STRIP
    pixels = np.zeros((len(labels) * _ROW, _COLUMNS, 4), np.float32)
    for row in range(len(labels)):
        strip = pixels[row * _ROW : row * _ROW + _STRIP]
        strip[..., 3] = _GROUND
        below = np.zeros(_COLUMNS)
        for layer, phase in enumerate(phases):
            there, top = shares[row, layer] > _LEAST_SHARE, tops[row, layer]
            if phase.encloses:
                strip[-_ENCLOSING:, there] = to_rgba(phase.color)
            else:
                strip[there & (heights >= below) & (heights < top)] = to_rgba(phase.color)
                below = top
    return labels, pixels


def _lanes(timeline: Timeline) -> Figure:
    def draw(axes: "Axes") -> None:
        from matplotlib.ticker import FuncFormatter

        labels, pixels = lane_pixels(timeline)
        elapsed_s = max(timeline.elapsed_s, 1e-6)
        ends = (0.0, elapsed_s, float(len(labels)), 0.0)
        axes.imshow(pixels, aspect="auto", extent=ends, interpolation="nearest")
        axes.set_yticks(np.arange(len(labels)) + 0.5, [_short(label) for label in labels])
        ticks = FuncFormatter(lambda seconds, _place: _tick_text(seconds, elapsed_s))
        axes.xaxis.set_major_formatter(ticks)
        axes.tick_params(left=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.grid(axis="x", color=INK, alpha=0.18)

    lanes = len(rows_of_lanes(timeline, most=MOST_ROWS)[1])
    return Figure(
        kind="timeline",
        label="Timeline",
        caption="",
        draw=draw,
        table=Table(),
        size=(7.6, 0.5 + 0.24 * lanes),
    )


def _tick_text(seconds: float, elapsed_s: float) -> str:
    return f"{seconds:.3g} s" if elapsed_s < 60 else duration_text(seconds)


def _short(label: str) -> str:
    return label if len(label) <= 17 else f"{label[:16]}…"


def _swatch(phase: Phase) -> str:
    kind = " sparkwright-encloses" if phase.encloses else ""
    return (
        f'<span class="sparkwright-swatch{kind}" style="background:{phase.color}" '
        'aria-hidden="true"></span>'
    )


def _legend(phases: Sequence[Phase]) -> str:
    items = "".join(
        f'<span title="{escaped(phase.meaning)}">{_swatch(phase)}{escaped(phase.label)}</span>'
        for phase in phases
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

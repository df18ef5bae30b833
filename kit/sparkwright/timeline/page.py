"""A timeline as HTML: a picture of its lanes, a legend, and the tables of its summary.

Each lane is a strip of columns. In a column, the height of each phase is its fraction of the time.
Color is not the only cue: phases are stacked in the order of the legend, and a table has the same
values. Zooming is left to the viewers of `to_chrome_trace`.
"""

import base64
import io
import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .phases import PHASES, Phase
from .spans import cut
from .summary import facts_text, report_of, seconds_text, title_text

if TYPE_CHECKING:
    from .timeline import Timeline

_MOST_ROWS, _COLUMNS = 100, 960
_ROW, _STRIP = 24, 20  # pixels of a lane with its gap, and without
_ENCLOSING = 3  # pixels at the bottom for a phase that encloses others
_LEAST_SHARE = 0.004
_PLATE = "#f1f3f5"  # also on dark pages: the colors contrast with it
_TICKS = 4
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }}
.scroll {{ overflow-x: auto; white-space: nowrap; font-variant-numeric: tabular-nums; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{facts}</p>
{lanes}
<div class="scroll" tabindex="0" role="region" aria-label="Time by phase">{tables}</div>
</main>
</body>
</html>
"""


def page_of(timeline: "Timeline") -> str:
    """Return a self-contained page without scripts."""
    report = report_of(timeline)
    return _PAGE.format(
        title=escape(title_text(timeline)),
        facts=escape(f"{facts_text(timeline)}. {report.notes[0]}"),
        lanes=lanes_html(timeline),
        tables="".join(table.html() for table in report.tables),
    )


def lanes_html(timeline: "Timeline", *, most: int = _MOST_ROWS) -> str:
    """Return picture and legend, "" if nothing was measured; more lanes than `most` share rows."""
    phases = shown_phases(timeline)
    if not phases:
        return ""
    row_of_lane, labels = rows_of_lanes(timeline, most=most)
    shares = shares_of(timeline, phases, row_of_lane=row_of_lane, columns=_COLUMNS)
    png = base64.b64encode(_png(lane_pixels(shares, phases), phases)).decode("ascii")
    alternative = f"Lanes colored by phase, {facts_text(timeline)}. {timeline.what_dominated()}"
    names = "".join(
        f'<div style="height:{_ROW}px;max-width:18ch;overflow:hidden;text-overflow:ellipsis">'
        f"{escape(label)}</div>"
        for label in labels
    )
    times_s = (timeline.elapsed_s * tick / _TICKS for tick in range(_TICKS + 1))
    ticks = "".join(f"<span>{seconds_text(time_s)}</span>" for time_s in times_s)
    legend = "".join(
        f'<li><span aria-hidden="true" style="display:inline-block;width:10px;margin-right:5px;'
        f'height:{_ENCLOSING if phase.encloses else 10}px;background:{phase.color}"></span>'
        f"<b>{escape(phase.label)}</b>: {escape(phase.meaning)}</li>"
        for phase in phases
    )
    return (
        '<div style="display:grid;grid-template-columns:auto 1fr;gap:2px 8px;white-space:nowrap;'
        f'font-size:12px;line-height:{_STRIP}px"><div>{names}</div>'
        f'<img alt="{escape(alternative)}" src="data:image/png;base64,{png}" '
        f'style="width:100%;height:{_ROW * len(labels)}px;image-rendering:pixelated">'
        f'<span></span><div style="display:flex;justify-content:space-between">{ticks}</div></div>'
        '<ul style="columns:36em;list-style:none;padding:0;margin:8px 0;font-size:12px">'
        f"{legend}</ul>"
    )


def shown_phases(timeline: "Timeline") -> list[Phase]:
    """Return the measured phases, in the order of `PHASES`."""
    counts = timeline.tallies.count.sum(axis=0)
    return [phase for phase in PHASES if counts[phase.code]]


def rows_of_lanes(timeline: "Timeline", *, most: int) -> tuple[NDArray[np.int64], list[str]]:
    """Return the row of each lane, the driver's first, and the names of the rows."""
    workers = timeline.workers
    together = max(1, math.ceil(workers / max(1, most - 1)))
    row_of_lane = np.concatenate([[0], 1 + np.arange(workers) // together]).astype(np.int64)
    if together > 1:
        lasts = (min(first + together, workers) - 1 for first in range(0, workers, together))
        names = [f"workers {last - last % together}–{last}" for last in lasts]  # noqa: RUF001
    else:
        hosts = timeline.hosts if len(set(timeline.hosts)) > 1 else [""] * workers
        names = [f"worker {w}" + (f", {host}" if host else "") for w, host in enumerate(hosts)]
    return row_of_lane, ["driver", *names]


def shares_of(
    timeline: "Timeline", phases: list[Phase], *, row_of_lane: NDArray[np.int64], columns: int
) -> NDArray[np.float32]:
    """Return (rows, phases, columns) float32 shares of a column's time, from 0 to 1."""
    # Sums are spread evenly over their buckets; a row with several lanes shows their mean.
    column_s = max(timeline.elapsed_s, 1e-6) / columns
    lanes_of_row, layers = np.bincount(row_of_lane), len(phases)
    layer_of = np.zeros(256, np.int64)
    layer_of[[phase.code for phase in phases]] = np.arange(layers)
    grid = np.zeros(len(lanes_of_row) * layers * columns)
    for lanes, codes, starts_s, seconds, lengths_s in timeline.pieces():
        first = (row_of_lane[lanes + 1] * layers + layer_of[codes]) * columns
        place, column, part = cut(starts_s / column_s, lengths_s / column_s, columns)
        density = seconds / np.maximum(lengths_s, 1e-12)
        np.add.at(grid, first[place] + column, part * density[place])
    found = grid.reshape(-1, layers, columns) / lanes_of_row[:, None, None]
    return np.clip(found, 0.0, 1.0).astype(np.float32)


def lane_pixels(shares: NDArray[np.float32], phases: list[Phase]) -> NDArray[np.uint8]:
    """Return (24 x rows, columns) indices of phases; then of the plate and of the gap."""
    inner = np.array([not phase.encloses for phase in phases])
    tops = np.cumsum(shares * inner[:, None], axis=1)[:, :, None]
    # The center of each pixel of a strip, from top to bottom.
    heights = 1 - (np.arange(_STRIP)[:, None] + 0.5) / _STRIP
    pixels = (tops <= heights).sum(axis=1, dtype=np.uint8)
    for layer in np.flatnonzero(~inner):
        there = shares[:, layer, None] > _LEAST_SHARE
        pixels[:, -_ENCLOSING:] = np.where(there, layer, pixels[:, -_ENCLOSING:])
    gaps = ((0, 0), (0, _ROW - _STRIP), (0, 0))
    return np.pad(pixels, gaps, constant_values=len(phases) + 1).reshape(-1, shares.shape[2])


def _png(pixels: NDArray[np.uint8], phases: list[Phase]) -> bytes:
    from PIL import Image

    image = Image.fromarray(pixels)
    colors = [*(phase.color for phase in phases), _PLATE, "#ffffff"]
    image.putpalette(bytes.fromhex("".join(color[1:] for color in colors)))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", transparency=len(phases) + 1)
    return buffer.getvalue()

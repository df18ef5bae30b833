"""A timeline as a self-contained HTML page with zoomable lanes and tables.

The page runs only this package's script. Names of hosts and runs are escaped.
"""

import base64
import hashlib
import html
import json
from collections.abc import Collection, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .grid import payload_of, shown_phases
from .phases import Phase
from .spans import EDGES_S
from .summary import (
    HEADS,
    TEXT_COLUMNS,
    PhaseTotal,
    clock_sentence,
    clock_text,
    facts_text,
    lanes_text,
    row_of,
    seconds_text,
    title_text,
    what_dominated,
)

if TYPE_CHECKING:
    from .timeline import Timeline

_MOST_WORKERS = 200  # rows of the table of workers
_BUTTONS = (
    ("zoom-in", "Zoom in"),
    ("zoom-out", "Zoom out"),
    ("earlier", "Earlier"),
    ("later", "Later"),
    ("fewer-lanes", "Fewer lanes"),
    ("more-lanes", "More lanes"),
    ("whole", "Whole run"),
)
_HINT = (
    "Drag across the lanes to zoom into a stretch of time; with Shift held down, into some lanes "
    "as well. A double click shows the whole run. Keys, when the lanes have the focus: + and - "
    "zoom, the arrows move, [ and ] show fewer and more lanes, 0 shows all. A click on a phase "
    "hides it."
)


def page_of(timeline: "Timeline") -> str:
    """Return the HTML of the page."""
    totals = timeline.totals()
    dominated = what_dominated(totals, timeline.tallies)
    title = title_text(timeline)
    script = _asset("timeline.js")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'; "
        "base-uri 'none'; form-action 'none'"
    )
    # Escape "<", with which a name could end the element.
    payload = json.dumps(payload_of(timeline), separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escaped(title)}</title>\n<style>\n{_asset('timeline.css')}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{_escaped(title)}</h1>\n"
        f'<p class="facts">{_escaped(facts_text(timeline))}</p>\n<p>{_escaped(dominated)}</p>\n'
        f"{_lanes(timeline, dominated)}\n"
        f"<h2>Time by phase</h2>\n{_phase_table(timeline, totals)}\n"
        f"{_meanings(timeline)}\n"
        f"<h2>Workers</h2>\n{_worker_table(timeline, totals)}\n"
        f"</main>\n"
        f'<script type="application/json" id="timeline-data">{payload}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _lanes(timeline: "Timeline", dominated: str) -> str:
    alternative = f"{lanes_text(timeline, dominated)} The tables below hold the figures."
    buttons = "".join(
        f'<button type="button" data-action="{action}">{label}</button>'
        for action, label in _BUTTONS
    )
    note = ""
    if timeline.rest is not None:
        note = (
            '<p class="hint">There were more spans than are kept one by one: later ones are shown '
            f"as shares of {seconds_text(timeline.rest.width_s)} each.</p>"
        )
    return (
        "<noscript><p>The lanes are drawn by a script, which is off here. The tables below hold "
        "all figures.</p></noscript>\n"
        '<div id="timeline-interactive" hidden>\n'
        f'<div class="controls" role="group" aria-label="What is shown">{buttons}</div>\n'
        '<div class="legend" id="timeline-legend" role="group" aria-label="Phases"></div>\n'
        '<div class="plot"><canvas id="timeline-lanes" tabindex="0" role="img" '
        f'aria-label="{_escaped(alternative)}" aria-describedby="timeline-hint"></canvas>'
        '<div class="brush" id="timeline-brush"></div></div>\n'
        '<div class="readout" id="timeline-readout" role="status"></div>\n'
        f'<p class="hint" id="timeline-hint">{_HINT}</p>{note}\n</div>'
    )


def _phase_table(timeline: "Timeline", totals: Sequence[PhaseTotal]) -> str:
    heads = [*HEADS, "durations"]
    text = {*TEXT_COLUMNS, len(HEADS)}
    rows: list[str] = []
    for total in totals:
        durations = timeline.tallies.durations[0 if total.place == "driver" else 1]
        cells = [
            _cell(column, value, text, swatch=_swatch(total.phase) if column == 1 else "")
            for column, value in enumerate(row_of(total))
        ]
        cells.append(f'<td class="text">{_bars(durations[total.phase.code], total)}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = (
        "Shares are of what was measured of the driver, or of all workers together. Medians and "
        "95th percentiles are to within 2.2%."
    )
    return _table(heads, rows, text, label="Time by phase", caption=caption)


def _meanings(timeline: "Timeline") -> str:
    """Return the meaning of each measured phase, in a `<details>` element."""
    items = "".join(
        f"<dt>{_swatch(phase)}{_escaped(phase.label)}</dt><dd>{_escaped(phase.meaning)}</dd>"
        for phase in shown_phases(timeline)
    )
    return f"<details><summary>What the phases mean</summary><dl>{items}</dl></details>"


def _worker_table(timeline: "Timeline", totals: Sequence[PhaseTotal]) -> str:
    seconds = timeline.tallies.seconds[1:]
    phases = [
        total.phase for total in totals if total.place == "workers" and not total.phase.encloses
    ]
    measured_s = seconds[:, [phase.code for phase in phases]].sum(axis=1)
    clocks = {reading.worker: reading for reading in timeline.clocks}
    heads = ["worker", "host", "measured", *(phase.label for phase in phases)]
    heads += ["clock"] if clocks else []
    text = {0, 1}
    order = np.arange(timeline.workers)
    caption = clock_sentence(timeline.clocks) if clocks else ""
    if timeline.workers > _MOST_WORKERS:
        # The worker that computes longest delays the others. Whole tasks all have equal lengths.
        codes = [phase.code for phase in phases if phase.group == "compute"]
        order = np.argsort(-seconds[:, codes].sum(axis=1), kind="stable")[:_MOST_WORKERS]
        caption = f"The {_MOST_WORKERS} workers that computed longest. {caption}"
    rows: list[str] = []
    for worker in order.tolist():
        values = [str(worker), timeline.hosts[worker] or "—", seconds_text(measured_s[worker])]
        values += [seconds_text(float(seconds[worker, phase.code])) for phase in phases]
        if clocks:
            values.append(clock_text(clocks[worker]) if worker in clocks else "—")
        cells = [_cell(column, value, text) for column, value in enumerate(values)]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return _table(heads, rows, text, label="Workers", caption=caption)


def _bars(counts: NDArray[np.int64], total: PhaseTotal) -> str:
    """Return a histogram of durations with at most 20 bars."""
    used = np.flatnonzero(counts)
    first, stop = int(used[0]), int(used[-1]) + 1
    cuts = np.unique(np.linspace(first, stop, min(20, stop - first) + 1).round().astype(np.int64))
    found = np.add.reduceat(counts[:stop], cuts[:-1])
    width, height = 130, 28
    step = min(12.0, width / len(found))
    bars = "".join(
        f'<rect x="{place * step:.1f}" y="{height * (1 - count / found.max()):.1f}" '
        f'width="{max(step - 1, 1):.1f}" height="{height * count / found.max():.1f}"/>'
        for place, count in enumerate(found.tolist())
        if count
    )
    low, high = seconds_text(float(EDGES_S[first])), seconds_text(total.longest_s)
    often = seconds_text(float(EDGES_S[cuts[int(np.argmax(found))]]))
    name = f"{total.count:,} spans from {low} to {high}, most of {often} or a little more"
    return (
        f'<svg class="bars" role="img" aria-label="{_escaped(name)}" '
        f'viewBox="0 0 {width} {height}" preserveAspectRatio="none">{bars}</svg>'
        f'<span class="places">{_escaped(low)} to {_escaped(high)}</span>'
    )


def _swatch(phase: Phase) -> str:
    kind = "swatch encloses" if phase.encloses else "swatch"
    style = f"--light:{phase.color};--dark:{phase.dark_color}"
    return f'<span class="{kind}" style="{style}"></span>'


def _cell(column: int, value: str, text: Collection[int], *, swatch: str = "") -> str:
    tag = 'th scope="row"' if column == 0 else "td"
    return f"<{tag}{_kind(column, text)}>{swatch}{_escaped(value)}</{tag[:2]}>"


def _table(
    heads: Sequence[str], rows: Sequence[str], text: Collection[int], *, label: str, caption: str
) -> str:
    head = "".join(
        f'<th scope="col"{_kind(column, text)}>{_escaped(value)}</th>'
        for column, value in enumerate(heads)
    )
    title = f"<caption>{_escaped(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>{title}'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _kind(column: int, text: Collection[int]) -> str:
    return ' class="text"' if column in text else ""


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)


@cache
def _asset(name: str) -> str:
    return files("sparkwright.timeline").joinpath("static", name).read_text(encoding="utf-8")

"""Convert a timeline for charts: time segments by row and phase, exact or aggregated."""

import base64
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .phases import PHASES, Phase
from .spans import cut

if TYPE_CHECKING:
    from .timeline import Timeline

_MOST_SPANS = 60_000  # about 800 kB
_MOST_CELLS = 340_000  # 4.5 MB
_MOST_ROWS = 320
_COLUMNS = 2048
_TICKS = 2**32 - 1


def payload_of(timeline: "Timeline") -> dict[str, Any]:
    """Return JSON values: `labels` of rows, `phases`, and time segments in base64.

    Segment i of row r, `first[r] <= i < first[r + 1]`, is `length` ticks long from `start`, and its
    `phase` takes `share` / 255 of it. If not `exact`, segments are the cells of a grid.
    """
    phases = shown_phases(timeline)
    is_exact = timeline.rest is None and len(timeline.spans) <= _MOST_SPANS
    most = timeline.workers + 1 if is_exact else _MOST_ROWS
    row_of_lane, labels, ranges = rows_of_lanes(timeline, most=most)
    if is_exact:
        spans = timeline.spans
        layer_of = np.zeros(256, np.int64)
        layer_of[[phase.code for phase in phases]] = np.arange(len(phases))
        row, layer = row_of_lane[spans.lanes + 1], layer_of[spans.codes]
        starts_s, lengths_s = spans.starts_s, spans.seconds.astype(np.float64)
        share = np.full(len(spans), 255)
    else:
        cells = _cells(timeline, phases, row_of_lane)
        row, layer, column = np.nonzero(cells)
        # Every phase in a cell is visible, however short.
        share = np.maximum(1, np.rint(255 * cells[row, layer, column]))
        lengths_s = np.full(len(row), length_s(timeline) / cells.shape[2])
        starts_s = column * lengths_s
    order = np.lexsort((starts_s, row))
    tick_s = length_s(timeline) / _TICKS
    return {
        "elapsed": length_s(timeline),
        "exact": is_exact,
        "labels": labels,
        "ranges": ranges,
        "phases": [
            {
                "label": phase.label,
                "meaning": phase.meaning,
                "color": phase.color,
                "dark": phase.dark_color,
                "encloses": phase.encloses,
            }
            for phase in phases
        ],
        "tick_s": tick_s,
        "first": _text(np.searchsorted(row[order], np.arange(len(labels) + 1)), "<u4"),
        "phase": _text(layer[order], "u1"),
        "share": _text(share[order], "u1"),
        "start": _text(np.minimum(starts_s[order] / tick_s, _TICKS), "<u4"),
        "length": _text(np.minimum(lengths_s[order] / tick_s, _TICKS), "<u4"),
    }


def shown_phases(timeline: "Timeline") -> list[Phase]:
    """Return the measured phases, in the order of `PHASES`."""
    counts = timeline.tallies.count.sum(axis=0)
    return [phase for phase in PHASES if counts[phase.code]]


def shares_of(
    timeline: "Timeline", phases: Sequence[Phase], *, row_of_lane: NDArray[np.int64], columns: int
) -> NDArray[np.float32]:
    """Distribute the run over a grid: the share of each phase in each time interval.

    Args:
        timeline: the timeline; sums are distributed evenly over their buckets.
        phases: one layer each.
        row_of_lane: (workers + 1,) int64, the row of each lane, the driver's first, see
            `rows_of_lanes`; -1 omits a lane. A row with several lanes shows their mean.
        columns: number of columns.

    Returns:
        (rows, phases, columns) float32, shares of a column's time, from 0 to 1.
    """
    column_s = length_s(timeline) / columns
    rows, layers = int(row_of_lane.max()) + 1, len(phases)
    layer_of = np.full(256, -1, np.int64)
    layer_of[[phase.code for phase in phases]] = np.arange(layers)
    grid = np.zeros(rows * layers * columns)
    for lanes, codes, starts_s, seconds, lengths_s in timeline.pieces():
        row, layer = row_of_lane[lanes + 1], layer_of[codes]
        keep = (row >= 0) & (layer >= 0) & (lengths_s > 0)
        lengths = lengths_s[keep]
        place, column, part = cut(starts_s[keep] / column_s, lengths / column_s, columns)
        flat = ((row * layers + layer)[keep] * columns)[place] + column
        np.add.at(grid, flat, part * (seconds[keep] / lengths)[place])
    lanes_of_row = np.bincount(row_of_lane[row_of_lane >= 0], minlength=rows)
    found = grid.reshape(rows, layers, columns) / np.maximum(lanes_of_row, 1)[:, None, None]
    return np.clip(found, 0.0, 1.0).astype(np.float32)


def rows_of_lanes(
    timeline: "Timeline", *, most: int
) -> tuple[NDArray[np.int64], list[str], list[tuple[int, int]]]:
    """Assign lanes to rows, several workers to a row if there are many, and name the rows.

    Args:
        timeline: the timeline.
        most: maximum number of rows, including the driver's.

    Returns:
        (workers + 1,) int64; the name of each row; its first and last worker, -1 for the driver.
    """
    together = max(1, math.ceil(timeline.workers / max(1, most - 1)))
    workers = np.arange(timeline.workers)
    row_of_lane = np.concatenate([[0], 1 + workers // together]).astype(np.int64)
    ranges = [
        (first, min(first + together, timeline.workers) - 1)
        for first in range(0, timeline.workers, together)
    ]
    # Hosts are shown for few workers only; in hundreds of rows they are unreadable.
    named = timeline.workers <= 64 and len(set(timeline.hosts)) > 1
    names = [
        f"worker {worker}, {host}" if named and host else f"worker {worker}"
        for worker, host in enumerate(timeline.hosts)
    ]
    if together > 1:
        names = [f"workers {first}–{last}" for first, last in ranges]  # noqa: RUF001
    return row_of_lane, ["driver", *names], [(-1, -1), *ranges]


def length_s(timeline: "Timeline") -> float:
    """Return the length of the run; never 0, because it is used as a divisor."""
    return max(timeline.elapsed_s, 1e-6)


def _cells(
    timeline: "Timeline", phases: Sequence[Phase], row_of_lane: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return shares in as many columns as the size of the page allows."""
    columns, layers = _COLUMNS, (int(row_of_lane.max()) + 1) * len(phases)
    while columns > 1 and layers * columns // 2 > _MOST_CELLS:
        columns //= 2
    cells = shares_of(timeline, phases, row_of_lane=row_of_lane, columns=columns)
    while np.count_nonzero(cells) > _MOST_CELLS and cells.shape[2] > 1:
        cells = (cells[:, :, 0::2] + cells[:, :, 1::2]) / np.float32(2)
    return cells


def _text(array: NDArray[Any], kind: str) -> str:
    return base64.b64encode(array.astype(kind).tobytes()).decode("ascii")

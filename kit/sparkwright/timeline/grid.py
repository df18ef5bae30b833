"""A timeline as a picture needs it: spans if they are few, else shares of time on a grid."""

import base64
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .phases import PHASES, Phase

if TYPE_CHECKING:
    from .timeline import Timeline

_MOST_SPANS = 60_000  # about 700 kB
_MOST_CELLS = 2_600_000  # one byte each, 3.5 MB as text
_MOST_ROWS = 1_200
_MOST_COLUMNS = 8_000
_TICKS = 2**32 - 1
_ROWS_AT_ONCE = 256  # of bucket sums: what is spread at once stays small


def payload_of(timeline: "Timeline") -> dict[str, Any]:
    """Return JSON values: `labels` of rows, `phases`, and `spans` or a `grid` in base64."""
    phases = shown_phases(timeline)
    common = {
        "elapsed": _length_s(timeline),
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
    }
    is_exact = timeline.rest is None and len(timeline.spans) <= _MOST_SPANS
    most = timeline.workers + 1 if is_exact else _MOST_ROWS
    row_of_lane, labels, ranges = rows_of_lanes(timeline, most=most)
    rows = {"labels": labels, "ranges": ranges}
    if is_exact:
        return {**common, **rows, "spans": _spans_of(timeline, phases)}
    return {**common, **rows, "grid": _grid_of(timeline, phases, row_of_lane)}


def shown_phases(timeline: "Timeline") -> list[Phase]:
    """Return the phases that were measured, in their order."""
    counts = timeline.tallies.count.sum(axis=0)
    return [phase for phase in PHASES if counts[phase.code]]


def shares_of(
    timeline: "Timeline", phases: Sequence[Phase], *, row_of_lane: NDArray[np.int64], columns: int
) -> NDArray[np.float32]:
    """Spread the whole run over a grid: how much of each stretch of time each phase took.

    Args:
        timeline: its spans, and its sums, which are spread evenly over their buckets.
        phases: a layer each.
        row_of_lane: (workers + 1,) int64, the row of each lane, the driver's first, see
            `rows_of_lanes`; -1 leaves a lane out. A row with several lanes shows their mean.
        columns: how many.

    Returns:
        (rows, phases, columns) float32, shares of a column's time, from 0 to 1.
    """
    column_s = _length_s(timeline) / columns
    rows, layers = int(row_of_lane.max()) + 1, len(phases)
    layer_of = np.full(256, -1, np.int64)
    layer_of[[phase.code for phase in phases]] = np.arange(layers)
    # One column more: where differences end.
    grid = np.zeros((rows * layers, columns + 1), np.float64)
    steps = np.zeros_like(grid)
    for lanes, codes, starts_s, seconds, lengths_s in _pieces(timeline):
        row, layer = row_of_lane[lanes + 1], layer_of[codes]
        keep = (row >= 0) & (layer >= 0) & (lengths_s > 0)
        flat = row[keep] * layers + layer[keep]
        density = seconds[keep] / lengths_s[keep]
        _spread(grid, steps, flat, starts_s[keep] / column_s, lengths_s[keep] / column_s, density)
    grid += np.cumsum(steps, axis=1)
    lanes_of_row = np.bincount(row_of_lane[row_of_lane >= 0], minlength=rows)
    found = grid[:, :columns].reshape(rows, layers, columns)
    return np.clip(found / np.maximum(lanes_of_row, 1)[:, None, None], 0.0, 1.0).astype(np.float32)


def rows_of_lanes(
    timeline: "Timeline", *, most: int
) -> tuple[NDArray[np.int64], list[str], list[tuple[int, int]]]:
    """Assign lanes to rows, several workers to a row if there are many, and name the rows.

    Args:
        timeline: whose lanes.
        most: rows, the driver's among them.

    Returns:
        (workers + 1,) int64; a name for each row; and its first and last worker, -1 for the driver.
    """
    together = max(1, math.ceil(timeline.workers / max(1, most - 1)))
    workers = np.arange(timeline.workers)
    row_of_lane = np.concatenate([[0], 1 + workers // together]).astype(np.int64)
    ranges = [
        (first, min(first + together, timeline.workers) - 1)
        for first in range(0, timeline.workers, together)
    ]
    names = _worker_labels(timeline)
    if together > 1:
        names = [f"workers {first}–{last}" for first, last in ranges]  # noqa: RUF001
    return row_of_lane, ["driver", *names], [(-1, -1), *ranges]


def _length_s(timeline: "Timeline") -> float:
    """Return the length of the run; never 0, as it is a divisor."""
    return max(timeline.elapsed_s, 1e-6)


def _worker_labels(timeline: "Timeline") -> list[str]:
    # The host helps where there are few; among hundreds nobody reads it.
    named = timeline.workers <= 64 and len(set(timeline.hosts)) > 1
    return [
        f"worker {worker}, {host}" if named and host else f"worker {worker}"
        for worker, host in enumerate(timeline.hosts)
    ]


def _spans_of(timeline: "Timeline", phases: list[Phase]) -> dict[str, Any]:
    spans = timeline.spans
    order = np.lexsort((spans.starts_s, spans.lanes))
    place_of = np.zeros(256, np.uint8)
    place_of[[phase.code for phase in phases]] = np.arange(len(phases))
    first = np.searchsorted(spans.lanes[order], np.arange(-1, timeline.workers + 1))
    tick_s = _length_s(timeline) / _TICKS
    starts = np.minimum(spans.starts_s[order] / tick_s, _TICKS)
    # As float32, _TICKS would be rounded up to what no longer fits: a span as long as the run.
    lengths = np.minimum(spans.seconds[order].astype(np.float64) / tick_s, _TICKS)
    return {
        "tick_s": tick_s,
        "first": _text(first.astype("<u4")),
        "phase": _text(place_of[spans.codes[order]]),
        "start": _text(starts.astype("<u4")),
        "length": _text(lengths.astype("<u4")),
    }


def _grid_of(
    timeline: "Timeline", phases: list[Phase], row_of_lane: NDArray[np.int64]
) -> dict[str, Any]:
    rows = int(row_of_lane.max()) + 1
    columns = max(1, min(_MOST_COLUMNS, _MOST_CELLS // (rows * max(1, len(phases)))))
    column_s = _length_s(timeline) / columns
    found = shares_of(timeline, phases, row_of_lane=row_of_lane, columns=columns)
    # What is there at all is seen.
    cells = np.where(found > 0, np.maximum(1, np.rint(255 * found)), 0).astype(np.uint8)
    return {"columns": columns, "column_s": column_s, "cells": _text(cells)}


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def _pieces(timeline: "Timeline") -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield lanes, codes, starts, seconds of work, and the length of time that contains them."""
    spans, rest = timeline.spans, timeline.rest
    exactly_s: NDArray[np.float64] = spans.seconds.astype(np.float64)
    yield spans.lanes, spans.codes, spans.starts_s, exactly_s, exactly_s
    if rest is None:
        return
    for first in range(0, len(rest.lanes), _ROWS_AT_ONCE):
        sums = rest.seconds[first : first + _ROWS_AT_ONCE]
        row, bucket = np.nonzero(sums)
        starts_s = bucket.astype(np.float64) * rest.width_s
        width_s = np.clip(_length_s(timeline) - starts_s, 1e-9, rest.width_s)
        yield (
            rest.lanes[first + row],
            rest.codes[first + row],
            starts_s,
            sums[row, bucket],
            width_s,
        )


def _spread(
    grid: NDArray[np.float64],
    steps: NDArray[np.float64],
    flat: NDArray[np.int64],
    starts: NDArray[np.float64],
    lengths: NDArray[np.float64],
    density: NDArray[np.float64],
) -> None:
    """Add what lies in part of a column to `grid`, and whole columns as differences to `steps`."""
    columns = grid.shape[1] - 1
    ends = np.clip(starts + lengths, 0.0, columns)
    starts = np.clip(starts, 0.0, columns)
    first = np.minimum(starts.astype(np.int64), columns - 1)
    last = np.minimum(ends.astype(np.int64), columns - 1)
    one = first == last
    np.add.at(grid, (flat[one], first[one]), (ends - starts)[one] * density[one])
    many = ~one
    flat, first, last, density = flat[many], first[many], last[many], density[many]
    np.add.at(grid, (flat, first), (first + 1 - starts[many]) * density)
    np.add.at(grid, (flat, last), (ends[many] - last) * density)
    np.add.at(steps, (flat, first + 1), density)
    np.add.at(steps, (flat, last), -density)

"""What a page needs of a timeline to draw it: spans if they are few, else shares on a grid."""

import base64
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._phases import PHASES, Phase
from ._shares import shares

if TYPE_CHECKING:
    from ._timeline import Timeline

_MOST_SPANS = 60_000  # about 700 kB
_MOST_CELLS = 2_600_000  # one byte each, 3.5 MB as text
_MOST_ROWS = 1_200
_MOST_COLUMNS = 8_000
_TICKS = 2**32 - 1


def payload_of(timeline: "Timeline") -> dict[str, Any]:
    """JSON values: `labels` of rows, `phases`, and `spans` or a `grid`, each as text of bytes."""
    phases = shown_phases(timeline)
    common = {
        "elapsed": _length_s(timeline),
        "phases": [
            {
                "label": phase.label,
                "meaning": phase.meaning,
                "colour": phase.colour,
                "dark": phase.dark_colour,
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
    """The phases that were measured, in their order."""
    counts = timeline.tallies.count.sum(axis=0)
    return [phase for phase in PHASES if counts[phase.code]]


def shares_of(
    timeline: "Timeline", phases: Sequence[Phase], *, row_of_lane: NDArray[np.int64], columns: int
) -> NDArray[np.float32]:
    """The whole run on a grid of so many columns; see `shares`.

    Args:
        timeline: what is spread over the grid.
        phases: a layer each.
        row_of_lane: see `rows_of_lanes`.
        columns: how many.

    Returns:
        (rows, phases, columns) float32, shares of a column's time, from 0 to 1.
    """
    elapsed_s = _length_s(timeline)
    return shares(
        timeline.spans,
        timeline.rest,
        row_of_lane=row_of_lane,
        codes=[phase.code for phase in phases],
        columns=columns,
        column_s=elapsed_s / columns,
        elapsed_s=elapsed_s,
    )


def rows_of_lanes(
    timeline: "Timeline", *, most: int
) -> tuple[NDArray[np.int64], list[str], list[tuple[int, int]]]:
    """Which row shows which lane, and the rows' names: several workers a row if there are many.

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
    """Never 0: it is divided by."""
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

"""A timeline on a grid: how much of each stretch of time each phase took, for a row of lanes."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ._buckets import BucketSums
from ._spans import Spans

_ROWS_AT_ONCE = 256  # of bucket sums: what is spread at once stays small


def shares(
    spans: Spans,
    rest: BucketSums | None,
    *,
    row_of_lane: NDArray[np.int64],
    codes: Sequence[int],
    columns: int,
    column_s: float,
    elapsed_s: float,
) -> NDArray[np.float32]:
    """Spread spans and sums over a grid that begins with the run.

    Args:
        spans: kept as they are.
        rest: what was added up; spread evenly over its buckets.
        row_of_lane: (workers + 1,) int64, the row of each lane, the driver's first; -1 leaves a
            lane out. A row with several lanes shows their mean.
        codes: of the phases to show, one for each layer.
        columns: how many.
        column_s: seconds from one column to the next.
        elapsed_s: when the run ended: the last bucket's seconds lie before that.

    Returns:
        (rows, phases, columns) float32, shares of a column's time, from 0 to 1.
    """
    rows = int(row_of_lane.max()) + 1
    layer_of = np.full(256, -1, np.int64)
    layer_of[list(codes)] = np.arange(len(codes))
    # One column more: where differences end.
    grid = np.zeros((rows * len(codes), columns + 1), np.float64)
    steps = np.zeros_like(grid)
    for lanes, found, starts_s, seconds, lengths_s in _pieces(spans, rest, elapsed_s):
        row, layer = row_of_lane[lanes + 1], layer_of[found]
        keep = (row >= 0) & (layer >= 0) & (lengths_s > 0)
        flat = row[keep] * len(codes) + layer[keep]
        density = seconds[keep] / lengths_s[keep]
        _spread(grid, steps, flat, starts_s[keep] / column_s, lengths_s[keep] / column_s, density)
    grid += np.cumsum(steps, axis=1)
    lanes_of_row = np.bincount(row_of_lane[row_of_lane >= 0], minlength=rows)
    found = grid[:, :columns].reshape(rows, len(codes), columns)
    return np.clip(found / np.maximum(lanes_of_row, 1)[:, None, None], 0.0, 1.0).astype(np.float32)


_Piece = tuple[
    NDArray[np.int32],
    NDArray[np.uint8],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.float64],
]


def _pieces(spans: Spans, rest: BucketSums | None, elapsed_s: float) -> Iterator[_Piece]:
    """Lanes, codes, starts, seconds of work, and the length of time that these lie in."""
    exactly_s: NDArray[np.float64] = spans.seconds.astype(np.float64)
    yield spans.lanes, spans.codes, spans.starts_s, exactly_s, exactly_s
    if rest is None:
        return
    for first in range(0, len(rest.lanes), _ROWS_AT_ONCE):
        sums = rest.seconds[first : first + _ROWS_AT_ONCE]
        row, bucket = np.nonzero(sums)
        starts_s = bucket.astype(np.float64) * rest.width_s
        width_s = np.clip(elapsed_s - starts_s, 1e-9, rest.width_s)
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

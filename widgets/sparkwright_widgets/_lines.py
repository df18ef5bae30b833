"""Lines of a chart with a bounded number of points and the same appearance. Pure.

A point is three float32: line, x, y. The newest points of a line have full resolution; older
points are coarser. `static/curve.mjs` thins by the same rules.

A line chart looks the same if each pixel column keeps its first, lowest, highest and last point,
in order. Points are (n, 2) arrays of x and y; a y that is not finite is a gap and is kept.

References:
    U. Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation", VLDB 2014.
"""

import numpy as np
from numpy.typing import NDArray

POINTS_PER_LINE = 8192  # more than a wide, high-resolution screen has pixel columns

FloatPoints = NDArray[np.float32]
Points = NDArray[np.floating]


class Lines:
    """The points of each line, by the number of the line."""

    def __init__(self) -> None:
        self._lines: dict[int, FloatPoints] = {}  # each (n, 2) of x, y

    def add(
        self, lines: NDArray[np.generic], x: NDArray[np.generic], y: NDArray[np.generic]
    ) -> FloatPoints:
        """Add points and return them, (n, 3) float32."""
        with np.errstate(over="ignore"):  # a value beyond float32 is drawn as infinite: a gap
            points = np.stack([lines, x, y], axis=1).astype(np.float32)
        for line in np.unique(lines):
            old = self._lines.get(int(line), np.empty((0, 2), np.float32))
            self._lines[int(line)] = _extended(old, points[points[:, 0] == line, 1:])
        return points

    def __contains__(self, line: int) -> bool:
        return line in self._lines

    def __getitem__(self, line: int) -> FloatPoints:
        return self._lines[line]

    def order(self) -> list[int]:
        """Numbers of the lines: workers first, then the special lines."""
        return sorted(self._lines, key=lambda line: (line < 0, abs(line)))

    def points(self) -> FloatPoints:
        """All kept points, (n, 3) float32, line by line."""
        parts = [np.insert(self._lines[line], 0, np.float32(line), axis=1) for line in self.order()]
        return np.concatenate([np.empty((0, 3), np.float32), *parts])


def _extended(old: FloatPoints, new: FloatPoints) -> FloatPoints:
    """Concatenate, thinning the older half until there are less than POINTS_PER_LINE points."""
    points = np.concatenate([old, new])
    while len(points) >= POINTS_PER_LINE:
        half = len(points) // 2
        points = np.concatenate([halved(points[:half]), points[half:]])
    return points


def halved(points: Points) -> Points:
    """Keep the lowest and highest of every four consecutive points, in order; gaps stay gaps."""
    groups = len(points) // 4
    values = points[: groups * 4, 1].reshape(groups, 4)
    finite = np.isfinite(values)
    lowest = np.where(finite, values, np.inf).argmin(axis=1)
    highest = np.where(finite, values, -np.inf).argmax(axis=1)
    has_gap = ~finite.all(axis=1)
    lowest[has_gap] = (~finite[has_gap]).argmax(axis=1)
    # Four equal values, or four gaps: keep the first and the last.
    same = lowest == highest
    lowest[same], highest[same] = 0, 3
    kept = np.sort(np.stack([lowest, highest], axis=1), axis=1)
    chosen = (kept + 4 * np.arange(groups)[:, None]).ravel()
    return np.concatenate([points[chosen], points[groups * 4 :]])


def per_column(points: Points, *, columns: int) -> Points:
    """Keep at most four points of each of `columns` equal spans of x, in their order."""
    if columns < 1:
        raise ValueError(f"`columns` must be at least 1. Received: columns={columns!r}.")
    if len(points) <= 2:
        return points
    x, y = points[:, 0], points[:, 1]
    # x may decrease after a worker has restarted.
    span = float(np.ptp(x)) or 1.0
    column = np.minimum((x - x.min()) / span * columns, columns - 1).astype(np.int64)
    column[~np.isfinite(y)] = -1  # a gap is a separate span
    edges = np.flatnonzero(np.diff(column)) + 1
    kept: list[int] = []
    for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(points)], strict=True):
        values = y[start:stop]
        if column[start] == -1:
            kept.append(start)
            continue
        four = {start, start + int(values.argmin()), start + int(values.argmax()), stop - 1}
        kept.extend(sorted(four))
    return points[kept]

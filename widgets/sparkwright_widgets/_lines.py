"""Lines of a chart, each with a bounded number of points, whatever the length of the run. Pure.

A point is three float32: which line, x, y. Kept at full resolution are the newest points of a
line; the older they are, the coarser. `static/curve.mjs` keeps them by the same rule.
"""

import numpy as np
from numpy.typing import NDArray

from ._decimation import halved

POINTS_PER_LINE = 8192  # more than a wide, high-resolution screen has pixel columns

FloatPoints = NDArray[np.float32]


class Lines:
    """What has been drawn so far, by the number of the line."""

    def __init__(self) -> None:
        self._lines: dict[int, FloatPoints] = {}  # each (n, 2) of x, y

    def add(
        self, lines: NDArray[np.generic], x: NDArray[np.generic], y: NDArray[np.generic]
    ) -> FloatPoints:
        """Add points; returns them, (n, 3) float32."""
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
        """Numbers of the lines: workers first, then the special ones."""
        return sorted(self._lines, key=lambda line: (line < 0, abs(line)))

    def points(self) -> FloatPoints:
        """Everything that is kept, (n, 3) float32, line by line."""
        parts = [np.insert(self._lines[line], 0, np.float32(line), axis=1) for line in self.order()]
        return np.concatenate([np.empty((0, 3), np.float32), *parts])


def _extended(old: FloatPoints, new: FloatPoints) -> FloatPoints:
    """Both, (n, 2) with n < POINTS_PER_LINE: the older half is thinned out as often as needed."""
    points = np.concatenate([old, new])
    while len(points) >= POINTS_PER_LINE:
        half = len(points) // 2
        points = np.concatenate([halved(points[:half]), points[half:]])
    return points

"""The log of a run as a curve with a bounded number of points. Pure."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._history import COLUMNS

POINTS = 512
SPARKLINE_POINTS = 60
_LAST, _ALWAYS = ("epoch", "step", "time_s"), ("loss", "examples", "examples_per_s")
Rows = Mapping[str, NDArray[Any]]


class CurveSummary:
    """Means of equal stretches of steps, over all workers.

    A stretch is one step long at first. When the points are used up, neighbors are joined, so that
    each stands for twice as many steps.

    Attributes:
        epochs: number of an epoch -> the sum of its loss over the examples, and their count.

    Example:
        >>> summary = CurveSummary()
        >>> summary.add({"step": np.array([1, 1, 2]), "epoch": np.array([1, 1, 1]),
        ...     "loss": np.array([4.0, 2.0, 1.0]), "examples": np.array([32, 32, 32]),
        ...     "time_s": np.array([0.1, 0.2, 0.3]), "examples_per_s": np.array([9.0, 7.0, 8.0])})
        >>> summary.points()["loss"]
        array([3., 1.])
    """

    def __init__(self) -> None:
        """Begin with no points."""
        self.epochs: dict[int, tuple[float, int]] = {}
        self._width = 1
        self._last = {name: np.zeros(POINTS) for name in _LAST}
        # (2, POINTS): weighted sums, weights
        self._sums = {name: np.zeros((2, POINTS)) for name in _ALWAYS}

    def add(self, rows: Rows) -> None:
        """Take new rows of the log. Minibatches whose loss no worker reported are left out."""
        told = ~np.isnan(rows["examples_per_s"])
        rows = {name: column[told] for name, column in rows.items()}
        if not len(rows["step"]):
            return
        place = np.maximum(rows["step"].astype(np.int64) - 1, 0)
        while place.max() // self._width >= POINTS:
            self._join_neighbors()
        bucket = place // self._width
        examples = rows["examples"].astype(np.float64)
        for name in _LAST:
            np.maximum.at(self._last[name], bucket, rows[name])
        self._add("loss", bucket, rows["loss"], examples)  # a NaN stays one
        self._add("examples", bucket, examples, np.ones(len(bucket)))
        for name in rows.keys() - {*COLUMNS} | {"examples_per_s"}:
            known = ~np.isnan(rows[name])
            self._add(name, bucket[known], rows[name][known], np.ones(int(known.sum())))
        for epoch in np.unique(rows["epoch"]).tolist():
            mine = rows["epoch"] == epoch
            total, count = self.epochs.get(epoch, (0.0, 0))
            total += float((rows["loss"][mine] * examples[mine]).sum())
            self.epochs[epoch] = (total, count + int(examples[mine].sum()))

    def points(self) -> dict[str, NDArray[np.float64]]:
        """Columns of the curve: epoch, step, time_s, loss, examples, examples_per_s, further ones.

        `examples` are those of a point, `examples_per_s` one worker's; the others are means, NaN
        where a column has no value.
        """
        there = self._sums["examples"][1] > 0
        found = {name: column[there] for name, column in self._last.items()}
        for name, (sums, weights) in self._sums.items():
            known = np.maximum(weights[there], 1e-12)
            means = sums[there] if name == "examples" else sums[there] / known
            found[name] = np.where(weights[there] > 0, means, np.nan)
        return found

    def sparkline(self) -> list[float]:
        """At most `SPARKLINE_POINTS` losses, from the first to the last."""
        losses = self.points()["loss"]
        parts = np.array_split(losses, min(SPARKLINE_POINTS, max(1, len(losses))))
        return [float(part.mean()) for part in parts if len(part)]

    def _add(
        self, name: str, bucket: NDArray[Any], values: NDArray[Any], weights: NDArray[Any]
    ) -> None:
        sums = self._sums.setdefault(name, np.zeros((2, POINTS)))
        np.add.at(sums[0], bucket, values * weights)
        np.add.at(sums[1], bucket, weights)

    def _join_neighbors(self) -> None:
        self._width *= 2
        rest = np.zeros(POINTS // 2)
        for name, column in self._last.items():
            self._last[name] = np.concatenate([column.reshape(-1, 2).max(axis=1), rest])
        for name, sums in self._sums.items():
            joined = sums.reshape(2, -1, 2).sum(axis=2)
            self._sums[name] = np.concatenate([joined, np.stack([rest, rest])], axis=1)

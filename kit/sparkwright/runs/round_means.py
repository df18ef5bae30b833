"""The mean loss of each round of a run.

The rows of a round arrive separately from each worker. So a round is reported when all known
workers have sent rows of a later one. A silent worker delays this by at most `patience_rounds`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = Mapping[str, NDArray[Any]]

# A round or minibatch with a smaller fraction of the usual examples gets no separate point.
PART_OF_A_WHOLE = 0.5
# Minibatches of each worker per point, with gradient sharing.
_MINIBATCHES_IN_A_MEAN = 10


class RoundMeans:
    """Converts rows of the log to one point (step, mean loss) per round.

    The step of a point is the middle of the round's steps. At the end of the round, the mean of a
    falling loss would be higher than the losses there. A round with few examples, at the end of an
    epoch, is averaged with the previous round. With `sharing`, a round consists of 10 minibatches
    of each worker.
    """

    def __init__(self, *, sharing: bool = False, patience_rounds: int = 8) -> None:
        """Create without rounds."""
        self.latest: float | None = None  # of the last reported round
        self._minibatches = _MINIBATCHES_IN_A_MEAN if sharing else 1
        self._patience_rounds = patience_rounds
        # Open round -> first step, last step, sum of loss * examples, sum of examples.
        self._open: dict[int, tuple[float, float, float, float]] = {}
        self._newest: dict[int, int] = {}  # worker -> its latest round
        self._reported = -1  # rounds up to this one are closed; their late rows are ignored
        self._last = (0.0, 0.0, 0.0)  # first step and sums of the last closed round
        self._most = 0.0  # largest number of examples in a round

    def add(self, rows: Rows) -> NDArray[np.float64]:
        """Add rows; return the points of the rounds that they complete, (k, 2) float64.

        A point has the middle of the round's steps, and the mean loss weighted by examples. The
        mean is NaN if any loss is NaN.
        """
        rounds = -(-rows["round"].astype(np.int64) // self._minibatches)
        rounds |= rows["epoch"].astype(np.int64) << 32
        for worker in np.unique(rows["worker"]):
            newest = int(rounds[rows["worker"] == worker].max())
            self._newest[int(worker)] = max(newest, self._newest.get(int(worker), -1))
        keys, group = np.unique(rounds, return_inverse=True)
        examples = np.maximum(rows["examples"].astype(np.float64), 1e-9)
        totals = np.bincount(group, weights=rows["loss"] * examples, minlength=len(keys))
        weights = np.bincount(group, weights=examples, minlength=len(keys))
        firsts, lasts = np.full(len(keys), np.inf), np.zeros(len(keys))
        np.minimum.at(firsts, group, rows["step"])
        np.maximum.at(lasts, group, rows["step"])
        found = zip(keys.tolist(), firsts, lasts, totals, weights, strict=True)
        for key, first, last, total, weight in found:
            if key > self._reported:
                first_before, last_before, *before = self._open.get(key, (np.inf, 0.0, 0.0, 0.0))
                self._open[key] = (
                    min(first_before, first),
                    max(last_before, last),
                    before[0] + total,
                    before[1] + weight,
                )
        return self._close(self._complete())

    def finish(self) -> NDArray[np.float64]:
        """Return the points of all open rounds, at the end of the run."""
        return self._close(sorted(self._open))

    def _complete(self) -> list[int]:
        """Return the complete open rounds, and those beyond the patience, oldest first."""
        keys = sorted(self._open)
        passed_by_all = min(self._newest.values(), default=-1)
        ready = sum(key < passed_by_all for key in keys)
        return keys[: max(ready, len(keys) - self._patience_rounds)]

    def _close(self, keys: list[int]) -> NDArray[np.float64]:
        points = np.empty((len(keys), 2))
        for row, key in enumerate(keys):
            first, last, total, weight = self._open.pop(key)
            self._most = max(self._most, weight)
            first_before, total_before, weight_before = self._last
            self._last = (first, total, weight)
            if weight < PART_OF_A_WHOLE * self._most and np.isfinite(total_before + total):
                first, total, weight = first_before, total + total_before, weight + weight_before
            points[row] = (first + last) / 2, total / weight
            self._reported, self.latest = key, float(points[row, 1])
        return points

"""The mean loss of each round of a run. Pure.

Rows of one round arrive worker by worker, so a round is only reported once every worker known so
far has gone past it. A worker that fell silent does not hold the others up for more than
`patience_rounds`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = Mapping[str, NDArray[Any]]

# A minibatch or round with a smaller part of a whole one's examples has no point of its own loss.
PART_OF_A_WHOLE = 0.5
# Of each worker, with gradient sharing.
_MINIBATCHES_IN_A_MEAN = 10


class RoundMeans:
    """Turns rows of the log into one (step, mean loss) point a round.

    A point stands in the middle of its steps: at their end, the mean of a falling loss would lie
    above the losses there. The point of a round with few examples, the last of an epoch, is the
    mean of it and the round before it. With `sharing`, several minibatches of each worker are a
    round.

    Attributes:
        latest: mean loss of the round reported last; None before one.
    """

    def __init__(self, *, sharing: bool = False, patience_rounds: int = 8) -> None:
        """Begin without rounds."""
        self.latest: float | None = None
        self._minibatches = _MINIBATCHES_IN_A_MEAN if sharing else 1
        self._patience_rounds = patience_rounds
        # Per open round: its first and last step, the sum of loss * examples, the examples.
        self._open: dict[int, tuple[float, float, float, float]] = {}
        self._newest: dict[int, int] = {}  # worker -> the latest round it has reported
        self._reported = -1  # rounds up to this one are closed; what still arrives is left out
        self._last = (0.0, 0.0, 0.0)  # the first step and the sums of the round closed last
        self._most = 0.0  # examples of any round

    def add(self, rows: Rows) -> NDArray[np.float64]:
        """Take new rows, return the points of the rounds that they complete, (k, 2) float64.

        A point is the middle of the round's steps, and the mean loss weighted by examples (nan if
        any of its losses is).
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
        """The points of all rounds still open; call it when the run has ended."""
        return self._close(sorted(self._open))

    def _complete(self) -> list[int]:
        """The open rounds that need not wait any longer, oldest first."""
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

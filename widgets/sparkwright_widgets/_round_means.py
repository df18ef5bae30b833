"""The mean loss of each averaging round, over its workers and minibatches. Pure.

Rows of one round arrive worker by worker, so a round is only reported once every worker known so
far has gone past it. A worker that fell silent does not hold the others up for more than
`patience_rounds`.
"""

import numpy as np
from numpy.typing import NDArray

from ._contract import Rows


class RoundMeans:
    """Turns rows of the log into one (step, mean loss) point a round."""

    def __init__(self, *, patience_rounds: int = 8) -> None:
        self._patience_rounds = patience_rounds
        # Per open round: its last step, the sum of loss * examples, the examples.
        self._open: dict[int, tuple[float, float, float]] = {}
        self._newest: dict[int, int] = {}  # worker -> the latest round it has reported
        self._reported = -1  # rounds up to this one are closed; what still arrives is left out

    def add(self, rows: Rows) -> NDArray[np.float64]:
        """Take new rows, return the points of the rounds that they complete.

        Args:
            rows: columns `worker`, `epoch`, `round`, `step`, `loss`, `examples` of equal length.

        Returns:
            (k, 2) float64: last step of the round, mean loss weighted by examples (nan if any
            of its losses is).
        """
        rounds = rows["epoch"].astype(np.int64) << 32 | rows["round"].astype(np.int64)
        for worker in np.unique(rows["worker"]):
            newest = int(rounds[rows["worker"] == worker].max())
            self._newest[int(worker)] = max(newest, self._newest.get(int(worker), -1))
        keys, group = np.unique(rounds, return_inverse=True)
        examples = np.maximum(rows["examples"].astype(np.float64), 1e-9)
        totals = np.bincount(group, weights=rows["loss"] * examples, minlength=len(keys))
        weights = np.bincount(group, weights=examples, minlength=len(keys))
        steps = np.zeros(len(keys))
        np.maximum.at(steps, group, rows["step"])
        for key, step, total, weight in zip(keys.tolist(), steps, totals, weights, strict=True):
            if key > self._reported:
                old_step, old_total, old_weight = self._open.get(key, (0.0, 0.0, 0.0))
                self._open[key] = (max(old_step, step), old_total + total, old_weight + weight)
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
            step, total, weight = self._open.pop(key)
            points[row] = step, total / weight
            self._reported = key
        return points

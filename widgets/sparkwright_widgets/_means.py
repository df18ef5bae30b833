"""Means of minibatches and of time intervals, for charts. Pure.

Values of single minibatches fluctuate, so quantities get one point per time interval. This also
bounds the cost of drawing, however fast the workers are.
"""

import numpy as np
from numpy.typing import NDArray

from sparkwright.runs.round_means import PART_OF_A_WHOLE

from ._contract import Rows
from ._quantities import LINES_APART, QuantityNumbers

_FINE_S, _COARSE_S = 0.2, 1.0  # interval of a point, before and after _FINE_UNTIL_S
_FINE_UNTIL_S = 20.0

_PLACE = ("worker", "step", "time_s")


class WholeMinibatches:
    """The losses to draw: the loss of a partial minibatch is averaged with the previous one."""

    def __init__(self) -> None:
        # Worker -> loss and examples of its last minibatch, and its largest minibatch.
        self._last: dict[int, tuple[float, float, float]] = {}

    def losses(self, rows: Rows) -> NDArray[np.float64]:
        """Return the loss of each row; partial minibatches include the worker's previous row."""
        loss, count = rows["loss"].astype(np.float64), rows["examples"].astype(np.float64)
        found = loss.copy()
        for worker in np.unique(rows["worker"]).tolist():
            at = np.flatnonzero(rows["worker"] == worker)
            last_loss, last_count, most = self._last.get(worker, (0.0, 0.0, 0.0))
            before, counts = np.append(last_loss, loss[at]), np.append(last_count, count[at])
            whole = np.maximum.accumulate(np.append(most, count[at]))[1:]
            partial = (count[at] < PART_OF_A_WHOLE * whole) & np.isfinite(before[1:] + before[:-1])
            total = np.maximum(counts[1:] + counts[:-1], 1e-9)
            with_last = (before[1:] * counts[1:] + before[:-1] * counts[:-1]) / total
            found[at] = np.where(partial, with_last, loss[at])
            self._last[worker] = (before[-1], counts[-1], whole[-1])
        return found


class Clock:
    """The time when each step was first logged by any worker."""

    def __init__(self) -> None:
        self._step = 0.0

    def add(self, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the new steps, ascending, and their seconds since the run began."""
        if "time_s" not in rows:
            return np.empty(0), np.empty(0)
        known = np.isfinite(rows["time_s"])
        steps, seconds = rows["step"][known].astype(np.float64), rows["time_s"][known]
        reached = np.maximum.accumulate(np.append(self._step, steps))
        self._step = float(reached[-1])
        new = steps > reached[:-1]
        return steps[new], seconds[new].astype(np.float64)


class QuantityMeans:
    """Converts log rows to points (line, step, value), one for each quantity and time interval."""

    # An interval is reported when its worker has begun the next one, so that the points do not
    # depend on the batches in which rows arrive.

    def __init__(self, numbers: QuantityNumbers) -> None:
        self._numbers = numbers
        self._rows: list[Rows] = []  # rows of unfinished intervals, and new rows
        self._due_s = -np.inf  # next time to process them, by the clock of the log

    def add(self, rows: Rows) -> NDArray[np.float64]:
        """Add rows, and return the finite points of the intervals that they end, (k, 3)."""
        if "time_s" not in rows or not len(rows["worker"]):
            return np.empty((0, 3))
        self._rows.append(rows)
        now_s = rows["time_s"].max()
        if now_s < self._due_s:
            return np.empty((0, 3))
        # Processing many rows once a second costs far less than processing each small batch.
        self._due_s = now_s + _COARSE_S
        taken = self._take()
        group, last = _runs(taken)
        # The last interval of each worker may continue.
        stays = np.isin(group, group[last])
        self._rows = [{name: column[stays] for name, column in taken.items()}]
        ended = {name: column[~stays] for name, column in taken.items()}
        return self._points(ended, group[~stays])

    def finish(self) -> NDArray[np.float64]:
        """Return the points of all unfinished intervals; call it when the run has ended."""
        if not self._rows:
            return np.empty((0, 3))
        rows = self._take()
        return self._points(rows, _runs(rows)[0])

    def _take(self) -> Rows:
        """Return all waiting rows, grouped by worker, in order of arrival."""
        parts, self._rows = self._rows, []
        names = dict.fromkeys(name for part in parts for name in part)
        names = [n for n in names if n in _PLACE or self._numbers.of(n) is not None]
        order = np.argsort(np.concatenate([part["worker"] for part in parts]), kind="stable")
        return {
            name: np.concatenate(
                [part.get(name, np.full(len(part["worker"]), np.nan)) for part in parts]
            )[order]
            for name in names
        }

    def _points(self, rows: Rows, group: NDArray[np.integer]) -> NDArray[np.float64]:
        if not len(group):
            return np.empty((0, 3))
        _, first, group = np.unique(group, return_index=True, return_inverse=True)
        worker, step = rows["worker"][first].astype(np.int64), np.zeros(len(first))
        np.maximum.at(step, group, rows["step"])
        parts = [np.empty((0, 3))]
        for column, values in rows.items():
            number = None if column in _PLACE else self._numbers.of(column)
            if number is None:
                continue
            quantity = self._numbers[number]
            known, value = _of_groups(values, group, len(first), takes=quantity.takes)
            lines = (number * LINES_APART + worker[known]).astype(np.float64)
            parts.append(np.stack([lines, step[known], value * quantity.factor], axis=1))
        return np.concatenate(parts)


def _runs(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the interval of each row, from 0, and whether it is the worker's last row."""
    worker, stretch = rows["worker"], _stretch(rows["time_s"])
    other_worker = worker[1:] != worker[:-1]
    begins = np.append(True, other_worker | (stretch[1:] != stretch[:-1]))
    return np.cumsum(begins) - 1, np.append(other_worker, True)


def _stretch(time_s: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the number of the interval that contains each time."""
    fine = np.minimum(time_s, _FINE_UNTIL_S) / _FINE_S
    coarse = np.maximum(time_s - _FINE_UNTIL_S, 0.0) / _COARSE_S
    return np.floor(fine).astype(np.int64) + np.floor(coarse).astype(np.int64)


def _of_groups(
    values: NDArray[np.floating], group: NDArray[np.integer], groups: int, *, takes: str
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which groups have a finite value, and the mean or last finite value of these."""
    finite = np.flatnonzero(np.isfinite(values))
    count = np.bincount(group[finite], minlength=groups)
    known = count > 0
    if takes == "last":
        last = np.zeros(groups, np.int64)
        np.maximum.at(last, group[finite], finite)
        return known, values[last[known]].astype(np.float64)
    total = np.bincount(group[finite], weights=values[finite], minlength=groups)
    return known, total[known] / count[known]

"""What a run that shares gradients shows beyond the loss: which figures, and their course. Pure.

The figures of single messages jump, and nobody needs each of them: a line gets one point for each
stretch of time. So drawing them costs little, however fast the workers are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._contract import Rows, Run, Status

# Lines of the loss have the numbers of the workers; those of the next figure begin here, and so
# on. All of them are exact as float32.
LINES_APART = 65536

MEAN_NAME = "mean of the workers"

# The mean loss of so many minibatches of each worker is one point of the mean's line.
MINIBATCHES_IN_A_MEAN = 10

_FINE_S, _COARSE_S = 0.2, 1.0  # of one point, in the first seconds and after them
_FINE_UNTIL_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """A column of the log that has lines of its own.

    Attributes:
        column: its name in the log.
        label: its name for readers, with the unit.
        factor: from the column's unit to the label's.
    """

    column: str
    label: str
    factor: float = 1.0


QUANTITIES = (
    Quantity(column="threshold", label="threshold"),
    Quantity(column="sparsity", label="sparsity (%)", factor=100.0),
    Quantity(column="message_bytes", label="sent for a minibatch (KiB)", factor=1 / 1024),
    Quantity(column="staleness", label="staleness (minibatches)"),
    Quantity(column="residual_p99", label="residual, 99th percentile"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharing:
    """That a run shares gradients, and what its configuration says of it.

    Attributes:
        batch_size: examples in a minibatch; 0 if the configuration does not say.
    """

    batch_size: int = 0

    def planned(self, status: Status) -> int:
        """Minibatches of all workers in the whole run; 0 while unknown."""
        rows = [worker.rows for worker in status.workers]
        if not self.batch_size or not all(rows):
            return 0
        return status.epochs * sum(-(-count // self.batch_size) for count in rows)


def sharing_of(run: Run) -> Sharing | None:
    """What is to be known of gradient sharing; None if `run` averages parameters."""
    master: Any = run.configuration.get("master")
    if not isinstance(master, dict) or master.get("name") != "SharedTrainingMaster":
        return None
    return Sharing(batch_size=int(master.get("batch_size_per_worker") or 0))


def line_of(quantity: int, worker: NDArray[np.integer]) -> NDArray[np.int64]:
    """Numbers of the lines of `QUANTITIES[quantity]`."""
    return (quantity + 1) * LINES_APART + worker.astype(np.int64)


class MessageMeans:
    """Turns rows of the log into points (line, step, value), one a stretch of time and quantity.

    A stretch is reported when its worker has begun the next one, so that the points do not depend
    on how the rows were cut.
    """

    def __init__(self) -> None:
        self._rows: list[Rows] = []  # those of the stretches that have not ended, and new ones
        self._due_s = -np.inf  # when they are looked at again, by the clock of the log

    def add(self, rows: Rows) -> NDArray[np.float64]:
        """Take new rows, return the points of the stretches that they end.

        Args:
            rows: columns `worker`, `step`, `time_s` and those of `QUANTITIES`, which may be
                missing, of equal length.

        Returns:
            (k, 3) float64. What is not finite is left out of the means; where nothing is left
            there is no point.
        """
        if not len(rows["worker"]):
            return np.empty((0, 3))
        self._rows.append(rows)
        now_s = rows["time_s"].max()
        if now_s < self._due_s:
            return np.empty((0, 3))
        # Once a second for many rows costs far less than for each few that come.
        self._due_s = now_s + _COARSE_S
        taken = self._take()
        group, last = _runs(taken)
        # The last stretch of each worker may go on.
        stays = np.isin(group, group[last])
        self._rows = [{name: column[stays] for name, column in taken.items()}]
        return _means({name: column[~stays] for name, column in taken.items()}, group[~stays])

    def finish(self) -> NDArray[np.float64]:
        """The points of all stretches still open; call it when the run has ended."""
        if not self._rows:
            return np.empty((0, 3))
        rows = self._take()
        return _means(rows, _runs(rows)[0])

    def _take(self) -> Rows:
        """All rows that wait, worker by worker, in the order in which they came."""
        parts = [_needed(rows) for rows in self._rows]
        self._rows = []
        order = np.argsort(np.concatenate([part["worker"] for part in parts]), kind="stable")
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}


def _runs(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The stretch that each row belongs to, counted from 0, and which is a worker's last row."""
    worker, stretch = rows["worker"], _stretch(rows["time_s"])
    other_worker = worker[1:] != worker[:-1]
    begins = np.append(True, other_worker | (stretch[1:] != stretch[:-1]))
    return np.cumsum(begins) - 1, np.append(other_worker, True)


def _needed(rows: Rows) -> Rows:
    missing = np.full(len(rows["worker"]), np.nan)
    names = [quantity.column for quantity in QUANTITIES]
    base = {name: rows[name] for name in ("worker", "step", "time_s")}
    return {**base, **{name: rows.get(name, missing) for name in names}}


def _stretch(time_s: NDArray[np.floating]) -> NDArray[np.int64]:
    """The number of the stretch that each moment belongs to."""
    fine = np.minimum(time_s, _FINE_UNTIL_S) / _FINE_S
    coarse = np.maximum(time_s - _FINE_UNTIL_S, 0.0) / _COARSE_S
    return np.floor(fine).astype(np.int64) + np.floor(coarse).astype(np.int64)


def _means(rows: Rows, group: NDArray[np.integer]) -> NDArray[np.float64]:
    if not len(group):
        return np.empty((0, 3))
    _, first, group = np.unique(group, return_index=True, return_inverse=True)
    worker, step = rows["worker"][first], np.zeros(len(first))
    np.maximum.at(step, group, rows["step"])
    parts: Sequence[NDArray[np.float64]] = [
        _means_of(rows[quantity.column] * quantity.factor, group, line_of(number, worker), step)
        for number, quantity in enumerate(QUANTITIES)
    ]
    return np.concatenate(parts)


def _means_of(
    values: NDArray[np.floating],
    group: NDArray[np.integer],
    line: NDArray[np.int64],
    step: NDArray[np.float64],
) -> NDArray[np.float64]:
    counts = np.isfinite(values)
    count = np.bincount(group, weights=counts, minlength=len(line))
    total = np.bincount(group, weights=np.where(counts, values, 0.0), minlength=len(line))
    known = count > 0
    numbers = line[known].astype(np.float64)
    return np.stack([numbers, step[known], total[known] / count[known]], axis=1)

"""The loss curve as it is drawn: a bounded number of points, whatever the length of the run. Pure.

A point is three float32: which line, x, y. Lines are the workers (0, 1, …) and three special
ones, the same numbers as in `static/curve.mjs`:

* `MEAN`: the mean over the workers, one point a round;
* `VALIDATION`: the validation loss;
* `EPOCH`: no line, but where an epoch begins (x = step, y = number of the epoch).

The full history stays in the run's own log; what is kept here is at full resolution for the
newest points and coarser the older they are.

A run that shares gradients has more lines, with larger numbers: see `_sharing.LINES_APART`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._contract import Rows, Validation
from ._decimation import halved
from ._round_means import RoundMeans
from ._sharing import LINES_APART, MINIBATCHES_IN_A_MEAN, QUANTITIES, MessageMeans

MEAN, VALIDATION, EPOCH = -1, -2, -3

POINTS_PER_LINE = 8192  # more than a wide, high-resolution screen has pixel columns

FloatPoints = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class NotFinite:
    """The first loss that was nan or infinite, and how many followed."""

    worker: int
    step: int
    value: float
    count: int


class Curve:
    """Collects rows of the log and validation points into lines.

    Args:
        sharing: whether the run shares gradients: the mean is then that of some minibatches, and
            the messages have lines too.
    """

    def __init__(self, *, sharing: bool = False) -> None:
        self.not_finite: NotFinite | None = None
        self.mean_loss: float | None = None  # of the last complete round
        self._means = RoundMeans()
        self._mean_step = 0.0  # where the mean's line ends
        self._messages = MessageMeans() if sharing else None
        self._lines: dict[int, FloatPoints] = {}  # each (n, 2) of x, y
        self._epoch = 0

    def add_rows(self, rows: Rows) -> FloatPoints:
        """Take new rows of the log; return the points they add, (n, 3) float32."""
        if len(rows["step"]) == 0:
            return np.empty((0, 3), np.float32)
        told = _told(rows)
        self._note_not_finite(told)
        workers = self._add(rows["worker"], rows["step"], rows["loss"])
        parts = [self._begin_epochs(rows), workers]
        if self._messages is None:
            return np.concatenate([*parts, self._add_means(self._means.add(told))])
        means = self._add_means(self._means.add(_in_blocks(told)))
        return np.concatenate([*parts, means, self._add(*self._messages.add(told).T)])

    def add_validation(self, points: Sequence[Validation]) -> FloatPoints:
        """Take new validation results; return the points they add, (n, 3) float32."""
        line = np.full(len(points), VALIDATION)
        steps = np.array([point.step for point in points], np.float64)
        return self._add(line, steps, np.array([point.loss for point in points], np.float64))

    def finish(self) -> FloatPoints:
        """Close the rounds that still wait for a worker; return the points that adds."""
        means = self._add_means(self._means.finish())
        if self._messages is None:
            return means
        return np.concatenate([means, self._add(*self._messages.finish().T)])

    def lines(self) -> dict[int, FloatPoints]:
        """Every line of the loss as (n, 2) float32, workers first, then the special ones."""
        return {line: self._lines[line] for line in self._order() if line < LINES_APART}

    def message_lines(self) -> dict[str, dict[int, FloatPoints]]:
        """Likewise those of `QUANTITIES` that are known: column -> worker -> line."""
        found: dict[str, dict[int, FloatPoints]] = {}
        for line in self._order():
            if line >= LINES_APART:
                number, worker = divmod(line, LINES_APART)
                found.setdefault(QUANTITIES[number - 1].column, {})[worker] = self._lines[line]
        return found

    def points(self) -> FloatPoints:
        """Everything that is kept, (n, 3) float32, line by line."""
        parts = [
            np.insert(self._lines[line], 0, np.float32(line), axis=1) for line in self._order()
        ]
        return np.concatenate([np.empty((0, 3), np.float32), *parts])

    def _order(self) -> list[int]:
        return sorted(self._lines, key=lambda line: (line < 0, abs(line)))

    def _add_means(self, means: NDArray[np.float64]) -> FloatPoints:
        if not len(means):
            return np.empty((0, 3), np.float32)
        self.mean_loss = float(means[-1, 1])
        # Some workers do more in an epoch than others: the next one then begins at fewer steps.
        steps = np.maximum.accumulate(np.append(self._mean_step, means[:, 0]))[1:]
        self._mean_step = steps[-1]
        return self._add(np.full(len(means), MEAN), steps, means[:, 1])

    def _begin_epochs(self, rows: Rows) -> FloatPoints:
        epochs, steps = rows["epoch"], rows["step"]
        begun = [int(epoch) for epoch in np.unique(epochs) if epoch > self._epoch]
        self._epoch = max([self._epoch, *begun])
        first = np.array([steps[epochs == epoch].min() for epoch in begun], np.float64)
        return self._add(np.full(len(begun), EPOCH), first, np.array(begun, np.float64))

    def _add(
        self, lines: NDArray[np.generic], x: NDArray[np.generic], y: NDArray[np.generic]
    ) -> FloatPoints:
        with np.errstate(over="ignore"):  # a loss beyond float32 is drawn as infinite: a gap
            points = np.stack([lines, x, y], axis=1).astype(np.float32)
        for line in np.unique(lines):
            old = self._lines.get(int(line), np.empty((0, 2), np.float32))
            self._lines[int(line)] = _extended(old, points[points[:, 0] == line, 1:])
        return points

    def _note_not_finite(self, rows: Rows) -> None:
        where = np.flatnonzero(~np.isfinite(rows["loss"]))
        if len(where) == 0:
            return
        first = self.not_finite or NotFinite(
            worker=int(rows["worker"][where[0]]),
            step=int(rows["step"][where[0]]),
            value=float(rows["loss"][where[0]]),
            count=0,
        )
        self.not_finite = NotFinite(
            worker=first.worker,
            step=first.step,
            value=first.value,
            count=first.count + len(where),
        )


def _told(rows: Rows) -> Rows:
    """Without minibatches that count, but of which a lost worker could tell nothing."""
    rate = rows.get("examples_per_s")  # the one thing that is then always missing
    told = np.ones(0, bool) if rate is None else ~np.isnan(rate)
    if told.all():
        return rows
    return {name: column[told] for name, column in rows.items()}


def _in_blocks(rows: Rows) -> Rows:
    """With several of a worker's minibatches as one round."""
    blocks = (rows["round"] + MINIBATCHES_IN_A_MEAN - 1) // MINIBATCHES_IN_A_MEAN
    return {**rows, "round": blocks}


def _extended(old: FloatPoints, new: FloatPoints) -> FloatPoints:
    """Both, (n, 2) with n < POINTS_PER_LINE: the older half is thinned out as often as needed."""
    points = np.concatenate([old, new])
    while len(points) >= POINTS_PER_LINE:
        half = len(points) // 2
        points = np.concatenate([halved(points[:half]), points[half:]])
    return points

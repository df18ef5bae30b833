"""The curves of a run: the loss and other quantities. Pure.

Lines of the loss are the workers (0, 1, …) and four special ones, numbered as in
`static/curve.mjs`:

* `MEAN`: the mean over the workers, one point per round;
* `VALIDATION`: the validation loss;
* `EPOCH`: not drawn; the start of each epoch (x = step, y = number of the epoch);
* `CLOCK`: not drawn; the time of each logged step (x = step, y = seconds since the start).

The loss of a last minibatch with less than half the batch size is noisy, so its point is the mean
with the worker's previous minibatch.

Lines of other quantities have larger numbers, see `_quantities.py`. The run's log keeps the full
history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparkwright.runs.round_means import RoundMeans

from ._contract import Rows, Validation
from ._lines import POINTS_PER_LINE as POINTS_PER_LINE, FloatPoints as FloatPoints, Lines
from ._means import Clock, QuantityMeans, WholeMinibatches
from ._quantities import LINES_APART, VALIDATION_PLACE, Quantity, QuantityNumbers

MEAN, VALIDATION, EPOCH = -1, -2, -3
# When several runs are compared, run number k uses CLOCK - k.
CLOCK = -16

# Column -> place (the worker, or VALIDATION_PLACE) -> line.
QuantityLines = Mapping[str, Mapping[int, FloatPoints]]


@dataclass(frozen=True, kw_only=True, slots=True)
class NotFinite:
    """The first nan or infinite loss, and the number of such losses."""

    worker: int
    step: int
    value: float
    count: int


class Curve:
    """Collects rows of the log and validation points into lines."""

    def __init__(self, *, sharing: bool = False, numbers: QuantityNumbers | None = None) -> None:
        self.not_finite: NotFinite | None = None
        self._means = RoundMeans(sharing=sharing)
        self._mean_step = 0.0  # where the mean's line ends
        self._numbers = QuantityNumbers() if numbers is None else numbers
        self._quantities = QuantityMeans(self._numbers)
        self._lines = Lines()
        self._epoch = 0
        self._clock = Clock()
        self._whole = WholeMinibatches()

    @property
    def mean_loss(self) -> float | None:
        """The mean loss of the last complete round; None before the first."""
        return self._means.latest

    def add_rows(self, rows: Rows) -> FloatPoints:
        """Add new rows of the log; return the new points, (n, 3) float32."""
        if len(rows["step"]) == 0:
            return np.empty((0, 3), np.float32)
        measured = _measured(rows)
        self._note_not_finite(measured)
        workers = self._add(rows["worker"], rows["step"], self._whole.losses(rows))
        means = self._means.add(measured)
        steps, seconds = self._clock.add(rows)
        clock = self._add(np.full(len(steps), CLOCK), steps, seconds)
        parts = [self._begin_epochs(rows), clock, workers, self._add_means(means)]
        return np.concatenate([*parts, self._add(*self._quantities.add(measured).T)])

    def add_validation(self, points: Sequence[Validation]) -> FloatPoints:
        """Add new validation results; return the new points, (n, 3) float32."""
        found = [(VALIDATION, point.step, point.loss) for point in points]
        for point in points:
            for name, value in point.metrics.items():
                if number := self._numbers.of(name):
                    line = number * LINES_APART + VALIDATION_PLACE
                    found.append((line, point.step, value * self._numbers[number].factor))
        return self._add(*np.array(found, np.float64).reshape(-1, 3).T)

    def finish(self) -> FloatPoints:
        """Close incomplete rounds; return the new points."""
        means = self._add_means(self._means.finish())
        return np.concatenate([means, self._add(*self._quantities.finish().T)])

    def lines(self) -> dict[int, FloatPoints]:
        """Every line of the loss as (n, 2) float32, workers first, then the special lines."""
        order = self._lines.order()
        return {line: self._lines[line] for line in order if CLOCK < line < LINES_APART}

    def quantities(self) -> list[tuple[int, Quantity]]:
        """Number and description of the loss, and of each other quantity with points."""
        numbers = {max(0, line // LINES_APART) for line in self._lines.order()}
        return self._numbers.listed({0} | numbers)

    def quantity_lines(self) -> QuantityLines:
        """Lines of the other quantities: column -> place -> (n, 2) float32."""
        found: dict[str, dict[int, FloatPoints]] = {}
        for line in self._lines.order():
            if line >= LINES_APART:
                number, place = divmod(line, LINES_APART)
                found.setdefault(self._numbers[number].column, {})[place] = self._lines[line]
        return found

    def points(self) -> FloatPoints:
        """All kept points, (n, 3) float32, line by line."""
        return self._lines.points()

    def _add_means(self, means: NDArray[np.float64]) -> FloatPoints:
        if not len(means):
            return np.empty((0, 3), np.float32)
        # If workers have unequal step counts, the next epoch may begin at a smaller step.
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
        return self._lines.add(lines, x, y)

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
        self.not_finite = replace(first, count=first.count + len(where))


def _measured(rows: Rows) -> Rows:
    """Drop minibatches of lost workers, which are counted but have no measurements."""
    rate = rows.get("examples_per_s")  # nan exactly in such rows
    known = np.ones(0, bool) if rate is None else ~np.isnan(rate)
    if known.all():
        return rows
    return {name: column[known] for name, column in rows.items()}

"""The kernel's side of the message protocol of the chart. Pure.

The browser sends "hello" when it first shows the chart, after a reload, or after it detects a gap.
The reply is a snapshot of all points; later messages append new points. `count` is the number of
points that a snapshot represents, `start` the number of points before an append. If `start`
differs from the browser's count, the browser sends "hello" again.

Messages have at most about one megabyte, because notebooks reject longer ones. A snapshot has
several `parts`, where `part` counts from 0, and new points may be split into several appends.
The page ignores unknown kinds of messages. Before the first "hello", nothing is sent.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._contract import Rows, Validation
from ._curve import CLOCK, MEAN, VALIDATION, Curve
from ._lines import FloatPoints, Lines
from ._means import QuantityMeans
from ._quantities import (
    LINES_APART,
    VALIDATION_APART,
    VALIDATION_PLACE,
    Quantity,
    QuantityNumbers,
)

_MOST_POINTS = 80_000  # of one message: 12 bytes each
_OTHER = -(2**31)  # no line


class Message(NamedTuple):
    """A message to the browser: a small dictionary, and points as little-endian float32."""

    content: dict[str, str | int]
    points: bytes  # (n, 3) float32: line, x, y


class PointFeed:
    """Creates messages with points for the browser; a subclass stores the points.

    `_add` queues new points; `_kept` returns all stored points.
    """

    def __init__(self) -> None:
        self._count = 0  # points ever made
        self._unsent: list[FloatPoints] = []
        self._is_heard = False
        self._has_restarted = False  # since the last message

    def hello(self) -> list[Message]:
        """The reply to "hello": a snapshot that includes unsent points."""
        self._is_heard = True
        self._has_restarted = False
        self._unsent.clear()
        whole: dict[str, str | int] = {"kind": "snapshot", "count": self._count}
        cuts = _cut(self._kept()) or [b""]
        return [
            Message({**whole, "part": part, "parts": len(cuts)}, points)
            for part, points in enumerate(cuts)
        ]

    def append(self) -> list[Message]:
        """Messages with the points since the last message; after a restart, a snapshot."""
        if self._has_restarted and self._is_heard:
            return self.hello()
        points = np.concatenate([np.empty((0, 3), np.float32), *self._unsent])
        self._unsent.clear()
        start = self._count - len(points)
        return [
            Message({"kind": "append", "start": start + number * _MOST_POINTS}, part)
            for number, part in enumerate(_cut(points))
        ]

    def quantities(self) -> list[tuple[int, Quantity]]:
        """Number and description of the loss, and of each other quantity with points."""
        raise NotImplementedError

    def _kept(self) -> FloatPoints:
        raise NotImplementedError

    def _add(self, points: FloatPoints) -> None:
        self._count += len(points)
        if self._is_heard and len(points):
            self._unsent.append(points)

    def _restart(self) -> None:
        self._unsent.clear()
        self._has_restarted = True


class LossFeed(PointFeed):
    """Feeds the curve of one run."""

    def __init__(self, *, sharing: bool = False) -> None:
        super().__init__()
        self._sharing = sharing
        self.curve = Curve(sharing=sharing)

    def add_rows(self, rows: Rows) -> None:
        self._add(self.curve.add_rows(rows))

    def add_validation(self, points: Sequence[Validation]) -> None:
        self._add(self.curve.add_validation(points))

    def finish(self) -> None:
        """The run has ended: nothing will be added."""
        self._add(self.curve.finish())

    def restart(self) -> None:
        """Clear the curve: the run has restarted."""
        self.curve = Curve(sharing=self._sharing)
        self._restart()

    def quantities(self) -> list[tuple[int, Quantity]]:
        return self.curve.quantities()

    def _kept(self) -> FloatPoints:
        return self.curve.points()


def _cut(points: FloatPoints) -> list[bytes]:
    starts = range(0, len(points), _MOST_POINTS)
    return [points[start : start + _MOST_POINTS].astype("<f4").tobytes() for start in starts]


class ComparisonFeed(PointFeed):
    """Feeds a chart with the loss of several runs and with what else they log.

    The loss is the mean of each round, as in the panel of one run; other quantities are means over
    the workers, the throughput is that of all of them. `sharing`: of each run.
    """

    def __init__(self, sharing: Sequence[bool]) -> None:
        super().__init__()
        self._sharing = tuple(sharing)
        self._numbers = QuantityNumbers()
        self._runs = [_Compared(each, self._numbers) for each in sharing]

    @property
    def mean_losses(self) -> list[float | None]:
        """Of each run, the loss of its last complete round."""
        return [run.curve.mean_loss for run in self._runs]

    def add_rows(self, run: int, rows: Rows, *, workers: int) -> None:
        """Take new rows of the log of run number `run`, which has so many workers."""
        if len(rows["step"]):
            self._add_curve(run, self._runs[run].curve.add_rows(rows))
            self._add_quantities(run, self._runs[run].means.add(_as_one_worker(rows, workers)))

    def add_validation(self, run: int, points: Sequence[Validation]) -> None:
        """Take new validation results of run number `run`."""
        self._add_curve(run, self._runs[run].curve.add_validation(points))

    def finish(self, run: int) -> None:
        """Run number `run` has ended: nothing of it will be added."""
        self._add_curve(run, self._runs[run].curve.finish())
        self._add_quantities(run, self._runs[run].means.finish())

    def restart(self, run: int) -> None:
        """Clear the curves of run number `run`, whose log is read from the start."""
        self._runs[run] = _Compared(self._sharing[run], self._numbers)
        self._restart()

    def quantities(self) -> list[tuple[int, Quantity]]:
        lines = (line for run in self._runs for line in run.lines.order())
        return self._numbers.listed({0} | {max(0, line // LINES_APART) for line in lines})

    def lines(self) -> dict[int, FloatPoints]:
        """The lines of the loss: of run k number k, of its validation data VALIDATION_APART + k."""
        found = {line: run.lines[line] for run in self._runs for line in run.lines.order()}
        return {line: found[line] for line in sorted(found) if 0 <= line < LINES_APART}

    def _kept(self) -> FloatPoints:
        return np.concatenate([run.lines.points() for run in self._runs])

    def _add_curve(self, run: int, points: FloatPoints) -> None:
        """Add the mean, the clock, and the validation data's lines of a run's own curve."""
        line = points[:, 0].astype(np.int64)
        validation = VALIDATION_APART + run
        numbers = np.select(
            [
                line == MEAN,
                line == CLOCK,
                line == VALIDATION,
                line % LINES_APART == VALIDATION_PLACE,
            ],
            [run, CLOCK - run, validation, line - VALIDATION_PLACE + validation],
            _OTHER,
        )
        known = numbers != _OTHER
        self._add(self._runs[run].lines.add(numbers[known], *points[known, 1:].T))

    def _add_quantities(self, run: int, points: NDArray[np.float64]) -> None:
        reached = self._runs[run].reached
        for line in np.unique(points[:, 0]):
            x, y = points[points[:, 0] == line, 1:].T
            number = int(line) + run
            # Late reports of a worker must not move the line backwards.
            x = np.maximum.accumulate(np.append(reached.get(number, 0.0), x))[1:]
            reached[number] = float(x[-1])
            self._add(self._runs[run].lines.add(np.full(len(x), number), x, y))


class _Compared:
    """The curves of one of several runs."""

    def __init__(self, sharing: bool, numbers: QuantityNumbers) -> None:
        self.curve = Curve(sharing=sharing, numbers=numbers)
        self.means = QuantityMeans(numbers)
        self.lines = Lines()
        self.reached: dict[int, float] = {}  # line -> where it ends


def _as_one_worker(rows: Rows, workers: int) -> Rows:
    """The rows of all workers sorted by time, as rows of one worker."""
    if "time_s" not in rows:
        return rows
    order = np.argsort(rows["time_s"], kind="stable")
    found = {name: column[order] for name, column in rows.items()}
    found["worker"] = np.zeros(len(order), np.int64)
    if "examples_per_s" in found:
        found["examples_per_s"] = found["examples_per_s"] * workers
    return found

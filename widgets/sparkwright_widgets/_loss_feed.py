"""Python's half of the conversation with the chart, without any input or output. Pure.

The browser says hello (when it first shows the chart, after a reload, or when it noticed a gap)
and gets a snapshot of everything; after that it gets what is new. Messages count every point
ever made: `count` is how many a snapshot stands for, `start` how many came before an append.
A browser that finds `start` different from what it knows says hello again.

Nobody listening, nothing to send: before the first hello points are only kept in the curve.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ._contract import Rows, Validation
from ._curve import Curve, FloatPoints


class Message(NamedTuple):
    """What goes to the browser: a small dictionary, and points as little-endian float32."""

    content: dict[str, str | int]
    points: bytes  # (n, 3) float32: line, x, y


class PointFeed:
    """What the browser has to be told of points; a subclass keeps them.

    `_add` takes what is new; `_kept` gives everything that is kept.
    """

    def __init__(self) -> None:
        self._count = 0  # points ever made
        self._unsent: list[FloatPoints] = []
        self._is_heard = False
        self._has_restarted = False  # since the last message

    def hello(self) -> Message:
        """The answer to a browser's hello: a snapshot that includes what was not yet sent."""
        self._is_heard = True
        self._has_restarted = False
        self._unsent.clear()
        return Message({"kind": "snapshot", "count": self._count}, _wire(self._kept()))

    def append(self) -> Message | None:
        """What has come since the last message (after a restart a snapshot), None if nothing."""
        if self._has_restarted and self._is_heard:
            return self.hello()
        if not self._unsent:
            return None
        points = np.concatenate(self._unsent)
        self._unsent.clear()
        return Message({"kind": "append", "start": self._count - len(points)}, _wire(points))

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
    """Feeds the curve of one run.

    Args:
        sharing: as for `Curve`.
    """

    def __init__(self, *, sharing: bool = False) -> None:
        super().__init__()
        self._sharing = sharing
        self.curve = Curve(sharing=sharing)

    def add_rows(self, rows: Rows) -> None:
        """Take new rows of the run's log."""
        self._add(self.curve.add_rows(rows))

    def add_validation(self, points: Sequence[Validation]) -> None:
        """Take new validation results."""
        self._add(self.curve.add_validation(points))

    def finish(self) -> None:
        """The run has ended: nothing will be added."""
        self._add(self.curve.finish())

    def restart(self) -> None:
        """Forget the curve: the run has begun anew."""
        self.curve = Curve(sharing=self._sharing)
        self._restart()

    def _kept(self) -> FloatPoints:
        return self.curve.points()


def _wire(points: FloatPoints) -> bytes:
    return points.astype("<f4").tobytes()

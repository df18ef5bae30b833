"""The threshold's slider as a widget: all that moves is computed in the browser.

The points of a curve travel once, as bytes; while the slider moves, nothing is asked of the kernel,
which hears where it came to rest. See `static/threshold_explorer.mjs` for the drawing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import anywidget
import numpy as np
import traitlets

from sparkwright.evaluation import RocReadings, ThresholdCounts
from sparkwright_widgets._any_page import HeardFromAnyPage
from sparkwright_widgets._assets import asset, joined_module
from sparkwright_widgets._format import short_number

_MOST_POINTS = 1000  # a slider has hardly more pixels


class ThresholdReading(NamedTuple):
    """Counts and rates if scores from a threshold on are predicted positive."""

    threshold: float  # infinity where nothing is predicted positive
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    precision: float  # 1 where nothing is predicted positive
    recall: float
    false_positive_rate: float
    f1: float
    accuracy: float

    def cost(self, false_positive: float, false_negative: float) -> float:
        """What the errors cost, at a price for each kind."""
        return false_positive * self.false_positives + false_negative * self.false_negatives

    @property
    def threshold_text(self) -> str:
        """The threshold as it is shown."""
        return "above all scores" if math.isinf(self.threshold) else short_number(self.threshold)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ThresholdPoints:
    """Exact counts at some thresholds, the highest first; the first one is infinity.

    `static/threshold.mjs` computes the same in the browser, so that the slider answers at once.
    `best_f1` and `best_youden` are the places of the largest F1 and Youden index.
    """

    counts: ThresholdCounts
    best_f1: int
    best_youden: int

    @classmethod
    def of(cls, roc: RocReadings, *, most: int = _MOST_POINTS) -> "ThresholdPoints":
        """At most that many points of a curve, infinity, 0.5 and the best ones besides."""
        whole = roc.threshold_counts()
        best = [whole.best("f1"), whole.best("youden")]
        half = whole.at_or_above(0.5)
        places = np.searchsorted(-whole.thresholds, -whole.thinned(most).thresholds)
        chosen = np.union1d(places, [*best, *([] if half is None else [half])]).astype(np.int64)
        found = [1 + int(np.searchsorted(chosen, place)) for place in best]
        counts = whole.rows(chosen).started()
        return cls(counts=counts, best_f1=found[0], best_youden=found[1])

    def __len__(self) -> int:
        return len(self.counts)

    def to_bytes(self) -> bytes:
        """(3, k) float64, little-endian: thresholds, true positives, false positives."""
        counts = self.counts
        rows = [counts.thresholds, counts.true_positives, counts.false_positives]
        return np.stack(rows).astype("<f8").tobytes()

    def place_of(self, threshold: float) -> int:
        """The place of the lowest threshold that is not below `threshold`."""
        return self.counts.at_or_above(threshold) or 0

    def at(self, place: int) -> ThresholdReading:
        """Counts and rates at a place."""
        at = self.counts.rows(np.array([place]))
        found, false = int(at.true_positives[0]), int(at.false_positives[0])
        rejected, missed = at.negatives - false, at.positives - found
        rates = (at.precision(), at.recall(), at.false_positive_rate(), at.f1())
        return ThresholdReading(
            float(at.thresholds[0]),
            *(found, false, rejected, missed),
            *(float(rate[0]) for rate in rates),
            accuracy=(found + rejected) / max(at.positives + at.negatives, 1),
        )


class ThresholdExplorer(HeardFromAnyPage, anywidget.AnyWidget):
    """Shows what each threshold of a score gives: counts, rates, costs, and where on the curves.

    Args:
        rocs: name -> what was counted of one class or output, of rows of both kinds. At least one.

    Attributes:
        place: which of the points is chosen.
        choice: which of `choices` is shown.
        choices: names of the classes or outputs.
        cost_false_positive: what a false alarm costs, in any unit; default 1.
        cost_false_negative: what a missed one costs; default 1.
    """

    _esm = joined_module("threshold.mjs", "threshold_explorer.mjs")
    _css = asset("panel.css") + asset("evaluation.css")

    points = traitlets.Bytes(b"").tag(sync=True)
    positives = traitlets.Int(0).tag(sync=True)
    negatives = traitlets.Int(0).tag(sync=True)
    best_f1 = traitlets.Int(0).tag(sync=True)
    best_youden = traitlets.Int(0).tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # No echo: the value that a browser sent need not be sent back to it.
    choice = traitlets.Int(0).tag(sync=True, echo_update=False)
    place = traitlets.Int(0).tag(sync=True, echo_update=False)
    cost_false_positive = traitlets.Float(1.0).tag(sync=True, echo_update=False)
    cost_false_negative = traitlets.Float(1.0).tag(sync=True, echo_update=False)

    def __init__(self, rocs: Sequence[tuple[str, RocReadings]]) -> None:
        self._rocs = list(rocs)
        self._shown = ThresholdPoints.of(self._rocs[0][1])
        super().__init__(choices=[name for name, _ in self._rocs], **self._values_of(self._shown))
        self.observe(self._choose, "choice")

    def _values_of(self, points: ThresholdPoints) -> dict[str, Any]:
        return {
            "points": points.to_bytes(),
            "positives": points.counts.positives,
            "negatives": points.counts.negatives,
            "best_f1": points.best_f1,
            "best_youden": points.best_youden,
            "place": points.best_f1,
        }

    @property
    def reading(self) -> ThresholdReading:
        """What the chosen threshold gives."""
        return self._shown.at(min(self.place, len(self._shown) - 1))

    @property
    def threshold(self) -> float:
        """The chosen threshold; infinity where nothing is predicted positive.

        Setting it chooses the lowest one that is not below the number given.
        """
        return self.reading.threshold

    @threshold.setter
    def threshold(self, threshold: float) -> None:
        self.place = self._shown.place_of(threshold)

    def on_move(self, callback: Callable[[], None]) -> None:
        """Call `callback` when another threshold, class or cost was chosen, on any thread."""
        names = ["place", "choice", "cost_false_positive", "cost_false_negative"]
        self.observe(lambda _change: callback(), names)

    def _choose(self, change: Any) -> None:
        number = min(max(change["new"], 0), len(self._rocs) - 1)
        points = ThresholdPoints.of(self._rocs[number][1])
        self._shown = points
        with self.hold_sync():
            for name, value in self._values_of(points).items():
                setattr(self, name, value)

"""The threshold slider as a widget that computes in the browser.

The points of a curve are sent once, as bytes. The kernel receives only the final position of the
slider. See `static/threshold_explorer.mjs` for the drawing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import anywidget
import numpy as np
import traitlets

from sparkwright.evaluation import RocReadings, ThresholdCounts
from sparkwright_widgets._any_page import AnyPageWidget
from sparkwright_widgets._assets import asset, joined_module
from sparkwright_widgets._format import short_number

_MOST_POINTS = 1000  # about the number of pixels of a slider


class ThresholdReading(NamedTuple):
    """Counts and rates if scores at or above a threshold are predicted positive."""

    threshold: float  # infinity if nothing is predicted positive
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    precision: float  # 1 if nothing is predicted positive
    recall: float
    false_positive_rate: float
    f1: float
    accuracy: float

    def cost(self, false_positive: float, false_negative: float) -> float:
        """The total cost of the errors, given the cost of each kind."""
        return false_positive * self.false_positives + false_negative * self.false_negatives

    @property
    def threshold_text(self) -> str:
        return "above all scores" if math.isinf(self.threshold) else short_number(self.threshold)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ThresholdPoints:
    """Exact counts at some thresholds, in descending order, starting with infinity."""

    # `static/threshold.mjs` computes the same in the browser, so that the slider responds at once.

    counts: ThresholdCounts
    best_f1: int  # its index
    best_youden: int  # its index

    @classmethod
    def of(cls, roc: RocReadings, *, most: int = _MOST_POINTS) -> "ThresholdPoints":
        """Choose at most `most` points of a curve, plus infinity, 0.5 and the best points."""
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
        """The index of the lowest threshold at or above `threshold`."""
        return self.counts.at_or_above(threshold) or 0

    def at(self, place: int) -> ThresholdReading:
        """Counts and rates at an index."""
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


class ThresholdExplorer(AnyPageWidget, anywidget.AnyWidget):
    """Shows counts, rates, costs and the position on the curves for a chosen threshold."""

    _esm = joined_module("threshold.mjs", "threshold_explorer.mjs")
    _css = asset("panel.css") + asset("evaluation.css")

    points = traitlets.Bytes(b"").tag(sync=True)
    positives = traitlets.Int(0).tag(sync=True)
    negatives = traitlets.Int(0).tag(sync=True)
    best_f1 = traitlets.Int(0).tag(sync=True)
    best_youden = traitlets.Int(0).tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # With echo: both sides set them, and the page must end with the kernel's values.
    choice = traitlets.Int(0).tag(sync=True)  # shown entry of `choices`
    place = traitlets.Int(0).tag(sync=True)  # index of the chosen point
    cost_false_positive = traitlets.Float(1.0).tag(sync=True)
    cost_false_negative = traitlets.Float(1.0).tag(sync=True)

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
        """Counts and rates at the chosen threshold."""
        return self._shown.at(min(self.place, len(self._shown) - 1))

    @property
    def threshold(self) -> float:
        """The chosen threshold, when set the lowest one available at or above the value."""
        return self.reading.threshold

    @threshold.setter
    def threshold(self, threshold: float) -> None:
        self.place = self._shown.place_of(threshold)

    def on_move(self, callback: Callable[[], None]) -> None:
        """Call `callback` on any thread when the threshold, class or a cost changes."""
        names = ["place", "choice", "cost_false_positive", "cost_false_negative"]
        self.observe(lambda _change: callback(), names)

    def _choose(self, change: Any) -> None:
        number = min(max(change["new"], 0), len(self._rocs) - 1)
        points = ThresholdPoints.of(self._rocs[number][1])
        self._shown = points
        with self.hold_sync():
            for name, value in self._values_of(points).items():
                setattr(self, name, value)

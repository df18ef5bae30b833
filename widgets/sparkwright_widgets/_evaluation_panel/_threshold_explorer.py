"""The threshold's slider as a widget: all that moves is computed in the browser.

The points of a curve travel once, as bytes; while the slider moves, nothing is asked of the kernel,
which hears where it came to rest. See `static/threshold_explorer.mjs` for the drawing.
"""

from collections.abc import Callable, Sequence
from typing import Any

import anywidget
import traitlets

from sparkwright.evaluation import RocReadings
from sparkwright_widgets._any_page import HeardFromAnyPage
from sparkwright_widgets._assets import asset, joined_module

from ._threshold_points import ThresholdPoints, ThresholdReading


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

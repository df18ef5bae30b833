"""HistogramView: histograms of weights, updates and activations during a run."""

import threading
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.runs.histograms import RunHistograms

from ._block import Block, joined, sentence_block
from ._figure_svg import figure_block
from ._format import duration_text, escaped
from ._ui import Dropdown, Part, row

_REPORTED = 6  # histograms of each kind in a report
_LABELS = {"weights": "Weights", "updates": "Updates", "activations": "Activations"}
_NONE = (
    "No histograms yet. Start a run with `histograms=sw.Histograms()`, or take them now while it "
    "trains."
)


class HistogramView(Part):
    """Shows histograms of a layer over time, the latest in front, and their cost.

    The view follows `run`, the result of `network.start(…)`, until its end. *Take now* requests
    histograms after the next averaging.

    Raises:
        ConfigurationError: if `run` is not a training run.
    """

    def __init__(self, run: Any) -> None:
        found = getattr(run, "histograms", None)
        if not isinstance(found, RunHistograms):
            raise ConfigurationError(
                "`run` must be a training run. "
                f"Received: run={type(run).__name__}. Pass the result of `network.start(…)`."
            )
        self._run, self._histograms = run, found
        self._shown: tuple[int, str, str] | None = None
        self._lock = threading.RLock()  # the thread and the user change the choices
        self._offering = False
        super().__init__("Histograms")
        self.what = Dropdown(description="Values", options=[])
        self.layer = Dropdown(description="Layer", options=[])
        for choice in (self.what, self.layer):
            choice.observe(self.guarded(self._chosen), "value")
        self.button = self.new_button(
            "Take now", self.take, "Take histograms after the next averaging"
        )
        self.cost, self.picture = widgets.HTML(), widgets.HTML()
        self._block = sentence_block(_NONE)
        self.refresh()
        self.show(row(self.what, self.layer, self.button), self.cost, self.picture)
        self.watch(run, self.refresh, name=f"histograms-{run.id}")

    def take(self) -> None:
        """Request histograms from the run."""
        asked = self._run.request_histograms()
        self.say("" if asked else "No worker is training, so no histogram can be taken.")

    def refresh(self) -> None:
        """Show the latest histograms."""
        with self._lock:
            names = self._histograms.names
            self._offering = True
            try:
                _offer(self.what, [(_LABELS[what], what) for what in names])
                _offer(self.layer, [(name, name) for name in names.get(self.what.value or "", ())])
            finally:
                self._offering = False
            self.button.disabled = bool(self._run.finished)
            what, name = str(self.what.value), str(self.layer.value)
            wanted = (self._histograms.count, what, name)
            if wanted == self._shown:
                return
            self._shown = wanted
            if names:
                figure = self._histograms.figure(name, what)
                self._block = figure_block(figure)
            self.cost.value = f"<p>{escaped(cost_text(self._histograms))}</p>" if names else ""
            self.picture.value = self._block.inside()
        self._changed()

    def _chosen(self, _change: Any) -> None:
        if not self._offering:
            self.refresh()

    def _still(self) -> Block | None:
        return self._block


def histogram_blocks(run: Any) -> list[Block]:
    """Report blocks of a run's histograms; empty if none were taken."""
    found: Any = getattr(run, "histograms", None)
    if not isinstance(found, RunHistograms) or not found.count:
        return []
    blocks, left_out = list[Block](), 0
    for what, names in found.names.items():
        left_out += len(names[_REPORTED:])
        blocks += [figure_block(found.figure(name, what)) for name in names[:_REPORTED]]
    more = f" {left_out} more are in `run.histograms`." if left_out else ""
    sentence = sentence_block(cost_text(found) + more)
    return [joined("histograms", sentence, *blocks)]


def cost_text(histograms: RunHistograms) -> str:
    """The number of histograms, the time that training waited for them, and notes."""
    count, cost_s = histograms.count, histograms.cost_s
    times = "once" if count == 1 else f"{count:,} times"
    text = f"Taken {times}; training waited {duration_text(cost_s)} for that"
    text += f", {1000 * cost_s / max(count, 1):.1f} ms each time." if count > 1 else "."
    return " ".join([text, *histograms.notes])


def _offer(choice: Dropdown, options: list[tuple[str, str]]) -> None:
    """Set the options; keep the choice if possible, else choose the first option."""
    if list(choice.options) != options:
        before, values = choice.value, [value for _, value in options]
        choice.options = options
        choice.value = before if before in values else values[0] if values else None

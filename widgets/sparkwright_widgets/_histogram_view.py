"""HistogramView: how weights, updates and activations of each layer change while a run goes on."""

import threading
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.runs.histograms import RunHistograms

from ._block import Block, joined, sentence_block
from ._figure_svg import figure_block
from ._format import duration_text, escaped
from ._ui import Dropdown, Part, row

_LOOK_S = 1.0
_REPORTED = 6  # names of weights, of updates and of activations in a report
_LABELS = {"weights": "Weights", "updates": "Updates", "activations": "Activations"}
_NONE = (
    "No histograms yet. Start a run with `histograms=sw.Histograms()`, or take them now while it "
    "trains."
)


class HistogramView(Part):
    """Histograms of a layer over time, the latest in front, and what they cost.

    It follows `run`, of `network.start(…)`, until its end. *Take now* asks for histograms after the
    next averaging.

    Raises:
        ConfigurationError: if `run` is no run.
    """

    def __init__(self, run: Any) -> None:
        found = getattr(run, "histograms", None)
        if not isinstance(found, RunHistograms):
            raise ConfigurationError(
                "`run` must be a training run. "
                f"Received: a {type(run).__name__}. Give it what `network.start(…)` returned."
            )
        self._run, self._histograms = run, found
        self._shown: tuple[int, str, str] | None = None
        self._lock = threading.RLock()  # the run's follower and the user choose
        self._closing, self._offering = threading.Event(), False
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
        self._thread = threading.Thread(
            target=self._follow, name=f"sparkwright-histograms-{run.id}", daemon=True
        )
        self._thread.start()

    def take(self) -> None:
        """Ask the run for histograms."""
        asked = self._run.request_histograms()
        self.say("" if asked else "No worker is training, so no histogram can be taken.")

    def refresh(self) -> None:
        """Show what has been taken by now."""
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

    def close(self) -> None:
        """Let go of the run, and free the widgets."""
        if hasattr(self, "_closing"):  # absent if it refused its argument
            self._closing.set()
        super().close()

    def _chosen(self, _change: Any) -> None:
        if not self._offering:
            self.refresh()

    def _follow(self) -> None:
        is_over = False
        while not (is_over or self._closing.wait(_LOOK_S)):
            is_over = bool(self._run.finished)  # what came before is shown by one more look
            self.guarded(self.refresh)()

    def _still(self) -> Block | None:
        return self._block


def histogram_blocks(run: Any) -> list[Block]:
    """What a report shows of a run's histograms; nothing if none were taken."""
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
    """How often histograms were taken, how long training waited, and what could not be taken."""
    count, cost_s = histograms.count, histograms.cost_s
    times = "once" if count == 1 else f"{count:,} times"
    text = f"Taken {times}; training waited {duration_text(cost_s)} for that"
    text += f", {1000 * cost_s / max(count, 1):.1f} ms each time." if count > 1 else "."
    return " ".join([text, *histograms.notes])


def _offer(choice: Dropdown, options: list[tuple[str, str]]) -> None:
    """Offer these, and keep what was chosen; else choose the first."""
    if list(choice.options) != options:
        before, values = choice.value, [value for _, value in options]
        choice.options = options
        choice.value = before if before in values else values[0] if values else None

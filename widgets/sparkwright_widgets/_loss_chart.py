"""The loss chart as a widget: a canvas in the browser, fed with binary messages.

Points never travel in a synced trait, which would send all of them every time; see `_loss_feed`
for the messages and `static/loss_chart.mjs` for the drawing.
"""

import threading
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from ._any_page import HeardFromAnyPage
from ._assets import asset, joined_module
from ._loss_feed import LossFeed, Message


class LossChart(HeardFromAnyPage, anywidget.AnyWidget):
    """Draws what `feed` holds, and what `update` puts into it.

    Attributes:
        log_scale: whether the loss axis is logarithmic; the button in the chart sets it.
        quantity: what the chart shows: 0 the loss, else one of `quantities`; the choice in the
            chart sets it.
        quantities: names of what can be chosen; one of them, no choice.
        mean_name: what the line of the mean is called.
        summary: one line that says what the curve shows, for those who do not see it.
    """

    # Texts, not paths: a path would be watched for changes, and the watching keeps every
    # instance alive for ever (anywidget issue 929).
    _esm = joined_module("curve.mjs", "loss_chart.mjs")
    _css = asset("panel.css")

    # No echo: the value that a browser sent need not be sent back to it.
    log_scale = traitlets.Bool(False).tag(sync=True, echo_update=False)
    quantity = traitlets.Int(0).tag(sync=True, echo_update=False)
    quantities = traitlets.List(traitlets.Unicode(), ["loss"]).tag(sync=True, echo_update=False)
    mean_name = traitlets.Unicode("mean of the round").tag(sync=True, echo_update=False)
    summary = traitlets.Unicode("").tag(sync=True, echo_update=False)

    def __init__(self, feed: LossFeed, **traits: Any) -> None:
        self.feed = feed
        # Held while a message is made and sent, so that messages leave in the order in which
        # they count points, whichever threads they come from.
        self._lock = threading.Lock()
        super().__init__(**traits)
        self.on_msg(self._answer)

    def update(self, change: Callable[[LossFeed], None]) -> None:
        """Change the feed and send the browser what is new. From any thread."""
        with self._lock:
            change(self.feed)
            self._tell(self.feed.append())

    def read(self, question: Callable[[LossFeed], Any]) -> Any:
        """Ask the feed something while nobody changes it. From any thread."""
        with self._lock:
            return question(self.feed)

    def _answer(self, _widget: object, content: object, _buffers: object) -> None:
        if isinstance(content, dict) and content.get("kind") == "hello":
            with self._lock:
                self._tell(self.feed.hello())

    def _tell(self, message: Message | None) -> None:
        if message is not None:
            self.send(message.content, [message.points])

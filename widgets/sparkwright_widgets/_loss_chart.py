"""The chart as a widget: a canvas in the browser, fed with binary messages.

Points never travel in a synced trait, which would send all of them every time; see `_loss_feed`
for the messages and `static/loss_chart.mjs` for the drawing.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import anywidget
import traitlets

from ._any_page import HeardFromAnyPage
from ._assets import asset, joined_module
from ._loss_feed import Message, PointFeed
from ._quantities import LOSS, Quantity

Feed = TypeVar("Feed", bound=PointFeed)


def choices(quantities: Sequence[tuple[int, Quantity]]) -> list[dict[str, Any]]:
    """What the browser has to know of quantities and their numbers."""
    return [
        {
            "number": number,
            "label": quantity.label,
            "log": quantity.log,
            "band": None if quantity.band is None else quantity.band.to_dict(),
            "note": quantity.note,
        }
        for number, quantity in quantities
    ]


class LossChart(HeardFromAnyPage, anywidget.AnyWidget, Generic[Feed]):
    """Draws what `feed` holds, and what `update` puts into it.

    Attributes:
        log_scale: whether the axis of values is logarithmic; the button in the chart sets it.
        quantity: the number of what the chart shows, 0 the loss; the choice in the chart sets it.
        quantities: what can be chosen, in this order; see `choices`. One of them, no choice.
        mean_name: what the line of the mean is called.
        line_names: names of the lines where these are no workers; default none.
        summary: one line that says what the curve shows, for those who do not see it.
    """

    # Texts, not paths: a path would be watched for changes, and the watching keeps every
    # instance alive for ever (anywidget issue 929).
    _esm = joined_module("curve.mjs", "loss_chart.mjs")
    _css = asset("panel.css")

    # No echo: the value that a browser sent need not be sent back to it.
    log_scale = traitlets.Bool(False).tag(sync=True, echo_update=False)
    quantity = traitlets.Int(0).tag(sync=True, echo_update=False)
    quantities = traitlets.List(traitlets.Dict()).tag(sync=True, echo_update=False)
    line_names = traitlets.List(traitlets.Unicode()).tag(sync=True, echo_update=False)
    mean_name = traitlets.Unicode("mean of the round").tag(sync=True, echo_update=False)
    summary = traitlets.Unicode("").tag(sync=True, echo_update=False)

    def __init__(self, feed: Feed, **traits: Any) -> None:
        self.feed = feed
        # Held while a message is made and sent, so that messages leave in the order in which
        # they count points, whichever threads they come from.
        self._lock = threading.Lock()
        super().__init__(**{"quantities": choices([(0, LOSS)]), **traits})
        self.on_msg(self._answer)

    def update(self, change: Callable[[Feed], None]) -> None:
        """Change the feed and send the browser what is new. From any thread."""
        with self._lock:
            change(self.feed)
            self._tell(self.feed.append())

    def offer(self, quantities: Sequence[tuple[int, Quantity]]) -> None:
        """Let readers choose among these, if they are others than before. From any thread."""
        found = choices(quantities)
        if found != self.quantities:
            self.quantities = found

    def read(self, question: Callable[[Feed], Any]) -> Any:
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

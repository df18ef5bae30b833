"""A widget that follows runs: a chart with texts, updated by a background thread.

It is one AnyWidget without child widgets, so it runs wherever AnyWidget does. Points are sent as
messages, because a synced trait would send all of them each time; see `_loss_feed` for the
messages and `static/live_chart.mjs` for the page.
"""

import contextlib
import logging
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Generic, TypeVar

import anywidget
import traitlets

from . import _fragments as fragments
from ._any_page import AnyPageWidget
from ._assets import asset, joined_module
from ._block import Block
from ._loss_feed import Message, PointFeed
from ._quantities import LOSS, Quantity

Feed = TypeVar("Feed", bound=PointFeed)

_logger = logging.getLogger(__name__)
_FAILURES_ALLOWED = 10
_HEARTBEAT_S = 1.0  # after four silent seconds, the page reports a lost kernel
MODULES = tuple(
    f"{name}.mjs" for name in ("curve", "axes", "drawing", "reading", "chart", "live_chart")
)


def choices(quantities: Sequence[tuple[int, Quantity]]) -> list[dict[str, Any]]:
    """Describe quantities and their numbers for the page."""
    return [{"number": number, **asdict(quantity)} for number, quantity in quantities]


class LiveChart(AnyPageWidget, anywidget.AnyWidget, Generic[Feed]):
    """Calls `_show_new_data` several times a second until it returns True; draws `feed`.

    Errors are shown in the page, because a notebook hides them in a log. While the thread runs,
    the page receives a heartbeat each second, even if `_show_new_data` or a cell blocks.

    Attributes:
        texts: HTML by position name; the page defines the positions and their order.
        has_ended: whether all runs have ended and the page shows their final state.
        stop_word: the text of the Stop button; "" for no button. It is enabled if "Stop".
        log_scale: set in the page, like `quantity` (0: the loss), `x_axis` ("step", "epoch" or
            "time"), `smoothing` (from 0 to below 1) and `each_worker` (False: draw a band).
        epochs_done: completed epochs, including the fraction of the current one.
        line_names: names of the lines if the lines are runs; default none: they are workers.
        summary: one line that describes the curve, for screen readers.
    """

    # Text, not paths: anywidget watches paths for changes, which keeps every instance alive
    # (anywidget issue 929).
    _esm = joined_module(*MODULES)
    _css = asset("panel.css")

    # No echo: values set in the browser are not sent back to it.
    texts = traitlets.Dict(value_trait=traitlets.Unicode()).tag(sync=True, echo_update=False)
    has_ended = traitlets.Bool(False).tag(sync=True, echo_update=False)
    stop_word = traitlets.Unicode("").tag(sync=True, echo_update=False)
    stop_help = traitlets.Unicode("").tag(sync=True, echo_update=False)
    log_scale = traitlets.Bool(False).tag(sync=True, echo_update=False)
    quantity = traitlets.Int(0).tag(sync=True, echo_update=False)
    x_axis = traitlets.Unicode("step").tag(sync=True, echo_update=False)
    smoothing = traitlets.Float(0.0).tag(sync=True, echo_update=False)
    each_worker = traitlets.Bool(False).tag(sync=True, echo_update=False)
    quantities = traitlets.List(traitlets.Dict()).tag(sync=True, echo_update=False)
    epochs_done = traitlets.Float(0.0).tag(sync=True, echo_update=False)
    line_names = traitlets.List(traitlets.Unicode()).tag(sync=True, echo_update=False)
    mean_name = traitlets.Unicode("mean of the round").tag(sync=True, echo_update=False)
    summary = traitlets.Unicode("").tag(sync=True, echo_update=False)

    def __init__(self, feed: Feed, *, what: str, every_s: float, **traits: Any) -> None:
        self.feed = feed
        self._what, self._every_s = what, every_s
        self._closing, self._is_quiet = threading.Event(), threading.Event()
        self._has_looked = threading.Event()
        self._lock = threading.RLock()  # held while texts or lists of callbacks change
        # Held while a message is created and sent, so that messages of all threads are sent in
        # the order of their points.
        self._feed_lock = threading.Lock()
        super().__init__(**{"quantities": choices([(0, LOSS)]), **traits})
        self.on_msg(self._receive)

    # --- the chart, from any thread

    def update(self, change: Callable[[Feed], None]) -> None:
        """Change the feed and send the new points to the page."""
        with self._feed_lock:
            change(self.feed)
            self._send_all(self.feed.append())
            quantities = self.feed.quantities()
        self.quantities = choices(quantities)

    def read(self, question: Callable[[Feed], Any]) -> Any:
        """Return `question(feed)`, while no thread changes the feed."""
        with self._feed_lock:
            return question(self.feed)

    def show_texts(self, **texts: str) -> None:
        """Change the HTML at some positions."""
        with self._lock:
            self.texts = {**self.texts, **texts}

    def _bundle_with(self, copy: Block) -> dict[str, Any]:
        """The MIME bundle of the live view and of a static copy for saved notebooks."""
        bundle: Any = anywidget.AnyWidget._repr_mimebundle_(self) or ({}, {})
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        return {**data, **copy.mimebundle()}

    # --- the thread

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the end of all runs is shown; return False on timeout."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Stop the thread and close the widget in the kernel and the browser."""
        closing = getattr(self, "_closing", None)  # absent if __init__ failed early
        if closing is not None:
            closing.set()
        layout = self.layout
        super().close()
        layout.close()

    def _start(self, *, name: str) -> None:
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
        self._thread.start()

    def _show_new_data(self) -> bool:
        """Show what is new; return True when all runs have ended and are shown completely."""
        raise NotImplementedError

    def _end(self) -> None:
        self.has_ended = True

    def _follow(self) -> None:
        heartbeat = threading.Thread(target=self._beat, name="sparkwright-heartbeat", daemon=True)
        heartbeat.start()
        failures = 0
        while not self._closing.is_set() and failures < _FAILURES_ALLOWED:
            try:
                if self._show_new_data():
                    break
                failures = 0
            except Exception as error:
                failures += 1
                self._show_problem(error, is_last=failures >= _FAILURES_ALLOWED)
            finally:
                self._has_looked.set()
            # Slow down after a failure, which will probably repeat.
            self._closing.wait(self._every_s if failures == 0 else 10 * self._every_s)
        try:
            self._end()
        finally:
            self._is_quiet.set()
            heartbeat.join()

    def _beat(self) -> None:
        """Send heartbeats on a separate thread: a look that draws static output takes seconds."""
        while not self._is_quiet.wait(_HEARTBEAT_S):
            with contextlib.suppress(Exception):  # the widget may be closed meanwhile
                self.send({"kind": "alive"})

    def _show_problem(self, error: Exception, *, is_last: bool = False) -> None:
        title = f"The {self._what} failed to update."
        _logger.warning(title, exc_info=error)
        sentence = f"{type(error).__name__}: {error} The training is not affected."
        if is_last:
            sentence += f" The {self._what} has stopped updating; display it again to retry."
        details = "".join(traceback.format_exception(error))
        self.show_texts(problem=fragments.alert(title, sentence, details, "Traceback"))

    # --- messages of the page, on any thread

    def _receive(self, _widget: object, content: object, _buffers: object) -> None:
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind == "hello":
            with self._feed_lock:
                self._send_all(self.feed.hello())
        elif kind == "stop":
            self._stop()

    def _stop(self) -> None:
        """Handle a press of Stop."""

    def _send_all(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.send(message.content, [message.points])

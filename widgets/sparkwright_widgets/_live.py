"""A widget that follows runs on a thread of its own, which ends with them or with `close`."""

import logging
import threading
import traceback
from collections.abc import Sequence

import ipywidgets as widgets

from . import _fragments as fragments
from ._ui._part import close_all

_logger = logging.getLogger(__name__)
_FAILURES_ALLOWED = 10


class LiveView(widgets.VBox):
    """Calls `_look` a few times a second until it says that nothing more will come.

    Errors are shown in `problem`: a notebook would otherwise hide them in a log.

    Args:
        what: what it is, for messages, such as "panel".
        every_s: how long to wait between two looks.
    """

    def __init__(self, *, what: str, every_s: float) -> None:
        self._what, self._every_s = what, every_s
        self._closing = threading.Event()
        self._lock = threading.RLock()  # held while texts or lists of callbacks change
        self.problem = widgets.HTML()
        super().__init__()
        self.add_class("sparkwright-panel")

    def _start(self, children: Sequence[widgets.Widget], *, name: str) -> None:
        """Show the children and begin to look."""
        self.children = tuple(children)
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
        self._thread.start()

    def _look(self) -> bool:
        """Take what is new; True when all has ended and all of it was taken."""
        raise NotImplementedError

    def _end(self) -> None:
        """Called by the thread when it ends."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the end of all runs is shown; False if that took longer than allowed."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def close(self) -> None:
        """End the thread and free the widgets here and in the browser."""
        closing = getattr(self, "_closing", None)  # absent if __init__ did not get that far
        if closing is not None:
            closing.set()
        for child in self.children:
            close_all(child)
        layout = self.layout
        super().close()
        layout.close()

    def _follow(self) -> None:
        failures = 0
        while not self._closing.is_set() and failures < _FAILURES_ALLOWED:
            try:
                if self._look():
                    break
                failures = 0
            except Exception as error:
                failures += 1
                self._show_problem(error, gives_up=failures >= _FAILURES_ALLOWED)
            # After a failure more slowly: the same will probably fail again.
            self._closing.wait(self._every_s if failures == 0 else 10 * self._every_s)
        self._end()

    def _show_problem(self, error: Exception, *, gives_up: bool = False) -> None:
        title = f"The {self._what} had a problem."
        _logger.warning(title, exc_info=error)
        sentence = f"{type(error).__name__}: {error} The training is not affected."
        if gives_up:
            sentence += f" The {self._what} has stopped updating; display it again to retry."
        details = "".join(traceback.format_exception(error))
        html = fragments.alert(title, sentence, details, "Traceback")
        with self._lock:
            self.problem.value = html

"""Display panels in notebooks, and keep their saved output up to date."""

import time
import weakref
from typing import Any

from sparkwright.sweeps import Sweep

from ._contract import Run
from ._panel import LivePanel
from ._sweep_view import SweepView

# One panel per run, so that displaying it again adds views, not threads. A panel releases its run
# at the end, so a finished run is not kept alive.
_panels: weakref.WeakKeyDictionary[Run, LivePanel] = weakref.WeakKeyDictionary()
_views: weakref.WeakSet[SweepView] = weakref.WeakSet()


class RunDisplay:
    """Displays a run with IPython's `display`: the live panel and, below it, a result card.

    When the run ends, the panel's output is replaced by its final static copy, and the card is
    updated with the result.

    Attributes:
        panel: the live panel.
    """

    def __init__(self, panel: LivePanel) -> None:
        self.panel = panel

    def _ipython_display_(self) -> None:
        from IPython.display import display

        panel, had_ended = self.panel, self.panel.has_ended
        panel_handle = display(panel, display_id=True)
        card_handle = display(panel.still().card(), display_id=True)
        if had_ended or panel_handle is None or card_handle is None:
            return

        def refresh() -> None:
            # Update the panel only at the end: an update rebuilds the live view in the browser.
            if panel.has_ended:
                panel_handle.update(panel)
            card_handle.update(panel.still().card())

        panel.on_refresh(refresh)


class SweepDisplay:
    """Displays a sweep with IPython's `display`; its output is refreshed at the end.

    Attributes:
        view: the sweep view.
    """

    def __init__(self, view: SweepView) -> None:
        self.view = view

    def _ipython_display_(self) -> None:
        from IPython.display import display

        handle: Any = display(self.view, display_id=True)
        if handle is not None:
            self.view.on_end(lambda: handle.update(self.view))


def panel_for(run: Run | Sweep) -> RunDisplay | SweepDisplay:
    """Return the display of a run or a sweep, for `display(panel_for(run))`.

    Sparkwright finds this function through the entry point `sparkwright.display`.
    """
    if isinstance(run, Sweep):
        view = SweepView(run)
        _views.add(view)
        return SweepDisplay(view)
    panel = _panels.get(run)
    if panel is None or panel.comm is None:  # a closed panel has no comm
        panel = LivePanel(run)
        _panels[run] = panel
    return RunDisplay(panel)


def settle(timeout_s: float = 10.0) -> None:
    """Wait until the panels of all ended runs show their final state, at most `timeout_s`.

    A notebook executed without a browser ends with its last cell, and later output is lost.
    """
    deadline_s = time.monotonic() + timeout_s
    for run, panel in list(_panels.items()):
        if run.finished:
            panel.wait(max(0.0, deadline_s - time.monotonic()))
    for view in list(_views):
        if view.sweep.finished:
            view.wait(max(0.0, deadline_s - time.monotonic()))

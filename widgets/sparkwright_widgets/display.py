"""Puts panels into notebooks, and keeps what the notebook saves of them up to date."""

import time
import weakref
from typing import Any

from sparkwright.sweeps import Sweep

from ._contract import Run
from ._panel import LivePanel
from ._sweep_view import SweepView

# One panel a run, however often it is displayed: more views, not more threads. A panel lets go of
# its run at the run's end, so nothing here keeps a finished run alive.
_panels: weakref.WeakKeyDictionary[Run, LivePanel] = weakref.WeakKeyDictionary()
_views: weakref.WeakSet[SweepView] = weakref.WeakSet()


class RunDisplay:
    """What to hand to IPython's `display` to see a run: the live panel and, below it, a card.

    Both have display handles of their own. When the run ends the panel is refreshed with its
    final static copy, and the card with the result.

    Attributes:
        panel: the live panel, to be placed elsewhere or inspected.
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
            # The panel's own copy only at the end: refreshing it makes the browser build the
            # live view again.
            if panel.has_ended:
                panel_handle.update(panel)
            card_handle.update(panel.still().card())

        panel.on_refresh(refresh)


class SweepDisplay:
    """What to hand to IPython's `display` to see a sweep: its view, refreshed at the end.

    Attributes:
        view: the view, to be placed elsewhere or inspected.
    """

    def __init__(self, view: SweepView) -> None:
        self.view = view

    def _ipython_display_(self) -> None:
        from IPython.display import display

        handle: Any = display(self.view, display_id=True)
        if handle is not None:
            self.view.on_end(lambda: handle.update(self.view))


def panel_for(run: Run | Sweep) -> RunDisplay | SweepDisplay:
    """The display of a run or a sweep for a notebook: `display(panel_for(run))`.

    The engine finds this function through the entry point `sparkwright.display`.
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
    """Wait until every panel whose run has ended has shown that end.

    A notebook that is executed without a browser ends with its last cell; what a panel's thread
    displays after that would be lost.
    """
    deadline_s = time.monotonic() + timeout_s
    for run, panel in list(_panels.items()):
        if run.finished:
            panel.wait(max(0.0, deadline_s - time.monotonic()))
    for view in list(_views):
        if view.sweep.finished:
            view.wait(max(0.0, deadline_s - time.monotonic()))

"""The header of the workbench: title, state and figures of the run, Start and Stop."""

from collections.abc import Callable

import ipywidgets as widgets

from sparkwright_widgets._contract import ENDED, Status
from sparkwright_widgets._curve import MEAN
from sparkwright_widgets._format import count_text, duration_text, escaped, loss_text, rate_text
from sparkwright_widgets._fragments import STATES
from sparkwright_widgets._panel import LivePanel
from sparkwright_widgets._runs_grid import sparkline
from sparkwright_widgets._ui import Button, Text

from ._actions import Action

_MOST_POINTS = 48


class Header(widgets.HBox):
    """The title, the run's state and figures, Start (unless it runs), and the primary button."""

    def __init__(
        self, title: str, *, act: Callable[[object], None], begin: Callable[[object], None]
    ) -> None:
        self.title = Text(value=title, description="Experiment")
        self.title.add_class("sparkwright-head-title")
        self.facts = widgets.HTML()
        self.facts.add_class("sparkwright-head-facts")
        self.start = Button(description="Start", icon="play")
        self.action = Button(button_style="primary")
        self.start.on_click(begin)
        self.action.on_click(act)
        buttons = widgets.HBox([self.start, self.action])
        buttons.add_class("sparkwright-head-buttons")
        super().__init__([self.title, self.facts, buttons])
        self.add_class("sparkwright-head")

    def show(self, action: Action, *, reason: str | None, busy: bool) -> None:
        """Update the buttons; `reason`: why no run can start; `busy`: the step is working."""
        is_stop = action.does == "stop"
        self.action.description = action.label
        self.action.icon = {"stop": "stop", "open": "arrow-right"}.get(
            action.does, "play" if action.step == "train" else ""
        )
        self.action.button_style = "danger" if is_stop else "primary"
        self.action.tooltip = action.reason or None
        self.action.disabled = bool(action.reason) or busy
        starts = action.does == "own" and action.step == "train"
        self.start.layout.display = "none" if is_stop or starts else None
        self.start.disabled = reason is not None
        self.start.tooltip = reason


def facts(status: Status | None, live: LivePanel | None) -> str:
    """State, figures and sparkline of a run as HTML; None: no run yet."""
    if status is None:
        return _chip("todo", "○", "No run yet")
    icon, word = STATES.get(status.state, ("?", status.state))
    has_ended = status.state in ENDED
    epoch = ""
    if status.epoch:
        epoch = f"epoch {count_text(status.epoch)} of {count_text(status.epochs)}"
    points, loss = {}, None
    if live is not None:
        points, loss = live.read(lambda feed: (feed.curve.lines(), feed.curve.mean_loss))
    losses = points[MEAN][:, 1].tolist() if MEAN in points else []
    figures = [] if loss is None else [("loss", loss_text(loss))]
    if status.validation:
        figures.append(("validation", loss_text(status.validation[-1].loss)))
    if status.examples_per_s:
        figures.append(("examples/s", rate_text(status.examples_per_s)))
    if has_ended:
        figures.append(("time", duration_text(status.elapsed_s)))
    elif status.remaining_s is not None:
        figures.append(("left", duration_text(status.remaining_s)))
    shown = "".join(
        f'<div class="sparkwright-fact"><span>{escaped(name)}</span> <b>{escaped(value)}</b></div>'
        for name, value in figures
    )
    return (
        f'<div class="sparkwright-facts">{_chip(status.state, icon, word, epoch)}'
        f"{shown}{sparkline(losses[:: -1 - len(losses) // _MOST_POINTS][::-1])}</div>"
    )


def _chip(state: str, icon: str, word: str, more: str = "") -> str:
    text = f"<span>{escaped(more)}</span>" if more else ""
    return (
        f'<div class="sparkwright-head-state sparkwright-is-{escaped(state)}">'
        f'<b><span aria-hidden="true">{icon}</span> {escaped(word)}</b>{text}</div>'
    )

"""The line at the top of the workbench: name, the run's state and figures, Start and Stop."""

from collections.abc import Callable, Sequence

import ipywidgets as widgets
import numpy as np

from sparkwright_widgets._contract import ENDED, Run, Status, sharing_of
from sparkwright_widgets._curve import MEAN, Curve
from sparkwright_widgets._format import count_text, duration_text, escaped, loss_text, rate_text
from sparkwright_widgets._fragments import STATES
from sparkwright_widgets._ui import Button, Text

from ._actions import Action

_WIDTH, _HEIGHT = 96, 26
_MOST_POINTS = 48


class Header(widgets.HBox):
    """Always in view; see `static/workbench.css`.

    Attributes:
        title: the field with the experiment's name.
        action: the one primary button.
        start: starts a run; shown unless `action` does that, or a run goes on.

    Args:
        title: of the experiment.
        act: called when the primary button is pressed.
        begin: called when Start is pressed.
    """

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
        """Show what the buttons do.

        Args:
            action: of the primary button.
            reason: why no run can begin; None: one can.
            busy: whether the step's own work is under way.
        """
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


class LossTrail:
    """The mean loss of a run over time, for a sparkline; the same mean as in the live panel.

    Args:
        run: whose losses are taken; default None: there was no run.
    """

    def __init__(self, run: Run | None = None) -> None:
        self._run, self._next = run, 0
        self._curve = Curve(sharing=run is not None and sharing_of(run) is not None)

    @property
    def last(self) -> float | None:
        """The latest mean; None: there is none yet."""
        return self._curve.mean_loss

    @property
    def means(self) -> list[float]:
        """At most 48 means over time."""
        points = self._curve.lines().get(MEAN)
        losses = np.empty(0) if points is None else points[:, 1]
        losses = losses[np.isfinite(losses)]
        parts = np.array_split(losses, _MOST_POINTS) if len(losses) > _MOST_POINTS else losses
        return [float(np.mean(part)) for part in parts]

    def take(self) -> None:
        """Take the losses that were logged since the last call."""
        run = self._run
        if run is None:
            return
        if len(run.log) < self._next:  # a run that trains anew forgets its history
            self.__init__(run)
        rows = run.log.rows(self._next)
        self._next += len(rows["step"])
        self._curve.add_rows(rows)


def facts(status: Status | None, trail: LossTrail) -> str:
    """HTML: state, figures and sparkline of a run; None: there was no run."""
    if status is None:
        return _chip("todo", "○", "No run yet")
    icon, word = STATES.get(status.state, ("?", status.state))
    has_ended = status.state in ENDED
    epoch = ""
    if status.epoch:
        epoch = f"epoch {count_text(status.epoch)} of {count_text(status.epochs)}"
    figures = [("loss", loss_text(trail.last))] if trail.last is not None else []
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
        f"{shown}{sparkline(trail.means)}</div>"
    )


def sparkline(values: Sequence[float]) -> str:
    """SVG of a small line without axes; empty for fewer than two values.

    Example:
        >>> 'd="M1,1L95,25"' in sparkline([2.0, 1.0])
        True
    """
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    across, down = (_WIDTH - 2) / (len(values) - 1), (_HEIGHT - 2) / (high - low or 1.0)
    points = [(1 + k * across, 1 + (high - value) * down) for k, value in enumerate(values)]
    path = "L".join(f"{x:.4g},{y:.4g}" for x, y in points)
    label = f"Loss from {loss_text(values[0])} to {loss_text(values[-1])}"
    return (
        f'<svg class="sparkwright-spark" role="img" aria-label="{label}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"><path d="M{path}"/></svg>'
    )


def _chip(state: str, icon: str, word: str, more: str = "") -> str:
    text = f"<span>{escaped(more)}</span>" if more else ""
    return (
        f'<div class="sparkwright-head-state sparkwright-is-{escaped(state)}">'
        f'<b><span aria-hidden="true">{icon}</span> {escaped(word)}</b>{text}</div>'
    )

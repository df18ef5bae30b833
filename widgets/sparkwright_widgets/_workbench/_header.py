"""The line at the top of the workbench: name, the run's state and figures, Start and Stop."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean

import ipywidgets as widgets

from sparkwright_widgets._contract import ENDED, MINIBATCHES_IN_A_MEAN, Run, Status
from sparkwright_widgets._format import duration_text, escaped, loss_text, rate_text
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
    """A bounded number of mean losses of a run, for a sparkline.

    Attributes:
        means: the loss over time.
        last: the mean of the latest minibatches; None: there is no loss yet.
    """

    def __init__(self) -> None:
        self._next = 0
        self._each = 1  # losses in a mean
        self._open: list[float] = []
        self._recent: list[float] = []
        self.means: list[float] = []

    @property
    def last(self) -> float | None:
        """The mean of the latest minibatches; None: there is no loss yet."""
        return fmean(self._recent) if self._recent else None

    def take(self, run: Run) -> None:
        """Take the losses that were logged since the last call."""
        if len(run.log) < self._next:  # a run that trains anew forgets its history
            self.__init__()
        rows = run.log.rows(self._next)
        losses = [float(loss) for loss in rows["loss"] if math.isfinite(loss)]
        self._next += len(rows["loss"])
        most = MINIBATCHES_IN_A_MEAN * max(1, len(run.status.workers))
        self._recent = [*self._recent, *losses][-most:]
        self._open += losses
        while len(self._open) >= self._each:
            self.means.append(fmean(self._open[: self._each]))
            del self._open[: self._each]
            if len(self.means) >= 2 * _MOST_POINTS:
                pairs = zip(self.means[::2], self.means[1::2], strict=True)
                self.means = [fmean(pair) for pair in pairs]
                self._each *= 2


def facts(status: Status | None, trail: LossTrail) -> str:
    """HTML: state, figures and sparkline of a run; None: there was no run."""
    if status is None:
        return _chip("todo", "○", "No run yet")
    icon, word = STATES.get(status.state, ("?", status.state))
    has_ended = status.state in ENDED
    epoch = f"epoch {status.epoch} of {status.epochs}" if status.epoch else ""
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
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in figures
    )
    return (
        f"{_chip(status.state, icon, word, epoch)}"
        f"{f'<dl>{shown}</dl>' if shown else ''}{sparkline(trail.means)}"
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

"""SweepView: live results of a hyperparameter sweep, and a button to stop it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.sweeps import Sweep

from ._block import Block, fold, joined, sentence_block, table_block
from ._format import counted, duration_text, escaped, number_text, short_value
from ._ui import Part, row

_MOST_ROWS, _MOST_LINES = 200, 400
_WIDTH, _HEIGHT, _EDGE = 720, 260, 40
# Labels of Optuna's trial states.
_STATES = {
    "COMPLETE": "✓ done",
    "PRUNED": "◔ pruned",
    "FAIL": "✕ failed",
    "RUNNING": "▶ training",
    "WAITING": "⋯ waiting",
}
_WORDS = {
    "running": "Trials are training",
    "stopping": "Stopping",
    "done": "Done",
    "stopped": "Stopped",
    "failed": "Failed",
}


class SweepView(Part):
    """Live results of a sweep: the best trial, a parallel coordinates plot and a table of trials.

    The view updates until the sweep ends. The *Stop* button ends the sweep.

    Attributes:
        sweep: the sweep, from `sw.sweep(…)`.

    Raises:
        ConfigurationError: if `sweep` is not a sweep.
    """

    def __init__(self, sweep: Any) -> None:
        if not isinstance(sweep, Sweep):
            raise ConfigurationError(
                f"`sweep` must be a result of `sw.sweep(…)`. Received: a {type(sweep).__name__}."
            )
        self.sweep, self._block = sweep, sentence_block("")
        self._at_end: list[Callable[[], None]] = []
        super().__init__(f"Sweep {sweep.name}")
        self.button = self.new_button("Stop", self.stop, "Stop the trials and keep their results")
        self.body = widgets.HTML()
        self.show(row(self.button), self.body)
        self.refresh()
        self.watch(sweep, self.refresh, name=f"sweep-view-{sweep.name}", ended=self._ended)

    def stop(self) -> None:
        """Stop the sweep."""
        self.sweep.stop()
        self.refresh()

    def refresh(self) -> None:
        """Show the current results."""
        self.button.disabled = self.sweep.state != "running"
        block = sweep_block(self.sweep)
        if block != self._block:
            self._block, self.body.value = block, block.inside()
            self._changed()

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the view's thread once the final results are shown."""
        self._at_end.append(callback)

    def wait(self, timeout_s: float) -> None:
        """Wait until the final results are shown, at most `timeout_s`."""
        self._thread.join(timeout_s)

    def _ended(self) -> None:
        for callback in self._at_end:
            self.guarded(callback)()

    def _still(self) -> Block | None:
        return self._block


def sweep_block(sweep: Sweep) -> Block:
    trials = sweep.study.get_trials(deepcopy=False)
    best = sweep.best
    ended = sum(trial.state.is_finished() for trial in trials)
    text = f"{_WORDS[sweep.state]}: {ended} of {counted(sweep.trials_wanted, 'trial')}"
    if best is not None:
        chosen = ", ".join(f"{name} {short_value(value)}" for name, value in best.params.items())
        text += (
            f". Best {sweep.monitor} {number_text(best.value)}, of trial {best.number}: {chosen}"
        )
    picture = parallel_coordinates(trials, sweep.monitor, None if best is None else best.number)
    drawn = Block(html=f"<figure>{picture}</figure>" if picture else "", text="", kind="picture")
    return joined("sweep", sentence_block(f"{text}."), drawn, _table(trials, sweep.monitor))


def _table(trials: Sequence[Any], monitor: str) -> Block:
    names = list(dict.fromkeys(name for trial in trials for name in trial.params))
    heads = ["Trial", "State", monitor, "Epochs", "Time", *names, "Message"]
    rows = [
        [
            str(trial.number),
            _STATES.get(trial.state.name, trial.state.name),
            "—" if trial.value is None else number_text(trial.value),
            str(max(trial.intermediate_values, default="—")),
            duration_text(None if trial.duration is None else trial.duration.total_seconds()),
            *(short_value(trial.params[n]) if n in trial.params else "—" for n in names),
            # A trial that failed without an error was stopped, and is repeated.
            trial.user_attrs.get("error", "stopped" if trial.state.name == "FAIL" else "")[:200],
        ]
        for trial in reversed(trials[-_MOST_ROWS:])
    ]
    if not rows:
        return sentence_block("")
    left_out = max(0, len(trials) - _MOST_ROWS)
    title = f"Trials{f' (the last {_MOST_ROWS})' if left_out else ''}"
    columns = (1, len(heads) - 1)
    table = table_block(heads, rows, label="Trials", kind="trials", text_columns=columns)
    return replace(table, html=fold(title, table.html, opens=True).html)


def parallel_coordinates(trials: Sequence[Any], monitor: str, best: int | None) -> str:
    """Return hyperparameters and score of each trial with a score as SVG; `best` in bold."""
    drawn = [t for t in trials if t.value is not None and math.isfinite(t.value)][-_MOST_LINES:]
    names = list(dict.fromkeys(name for trial in drawn for name in trial.params))
    if not drawn or not names:
        return ""
    axes = [
        _Axis(name, [t.params.get(name) for t in drawn], _is_log(drawn, name)) for name in names
    ]
    axes.append(_Axis(monitor, [trial.value for trial in drawn], False))
    step = (_WIDTH - 2 * _EDGE) / (len(axes) - 1)
    paths = ""
    for index in sorted(range(len(drawn)), key=lambda index: drawn[index].number == best):
        heights = [axis.heights[index] for axis in axes]
        points = [
            f"{_EDGE + number * step:.1f},{_EDGE + (1 - height) * (_HEIGHT - 2 * _EDGE):.1f}"
            for number, height in enumerate(heights)
            if height is not None
        ]
        trial, is_best = drawn[index], drawn[index].number == best
        look = 'stroke-width="2.6"' if is_best else 'stroke-width="1" opacity="0.35"'
        label = escaped(f"trial {trial.number}: {monitor} {number_text(trial.value)}")
        paths += f'<polyline points="{" ".join(points)}" {look}><title>{label}</title></polyline>'
    marks = ""
    for number, axis in enumerate(axes):
        x = _EDGE + number * step
        anchor = "start" if number == 0 else "end" if number == len(axes) - 1 else "middle"
        marks += (
            f'<path d="M{x:.1f} {_EDGE}V{_HEIGHT - _EDGE}" opacity="0.6"/>'
            f'<g stroke="none" fill="currentColor" text-anchor="{anchor}">'
            f'<text x="{x:.1f}" y="14" font-weight="bold">{escaped(axis.name)}</text>'
            f'<text x="{x:.1f}" y="32">{escaped(axis.top)}</text>'
            f'<text x="{x:.1f}" y="{_HEIGHT - 22}">{escaped(axis.bottom)}</text></g>'
        )
    about = f"{counted(len(drawn), 'trial')} by {', '.join(names)} and {monitor}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{escaped(about)}" fill="none" stroke="currentColor" font-size="12">'
        f"{marks}{paths}</svg>"
    )


def _is_log(trials: Sequence[Any], name: str) -> bool:
    known = (trial.distributions.get(name) for trial in trials)
    return any(getattr(each, "log", False) for each in known)


class _Axis:
    """An axis of the plot: the position of each value, 0 to 1, and the labels of both ends."""

    def __init__(self, name: str, values: Sequence[Any], is_log: bool) -> None:
        self.name = name
        known = [value for value in values if value is not None]
        is_number = all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)
        if is_number:
            low, high = min(known), max(known)
            scale = math.log if is_log and low > 0 else float
            span = scale(high) - scale(low)
            places = {v: (scale(v) - scale(low)) / span if span else 0.5 for v in known}
            self.bottom, self.top = short_value(low), short_value(high)
        else:
            texts = sorted({short_value(value) for value in values})
            places = {v: texts.index(short_value(v)) / max(1, len(texts) - 1) for v in values}
            self.bottom, self.top = texts[0], texts[-1] if len(texts) > 1 else ""
        self.heights = [places.get(value) for value in values]

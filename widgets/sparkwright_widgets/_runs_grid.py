"""Tables of stored runs: the interactive one, and its static copy with the same cells."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from sparkwright.runs import RunTable, StoredRun

from . import _fragments as fragments
from ._any_page import AnyPageWidget
from ._assets import asset, joined_module
from ._block import Block
from ._format import escaped, loss_text, number_text, rate_text, short_value
from ._table import Markup, html_table, text_table

# Heading, and whether its column holds text.
_HEADS = (
    *(("Name", True), ("State", True), ("Curve", True), ("Loss", False), ("Validation", True)),
    *(("Examples/s", False), ("Started", True), ("Tags", True), ("Differs in", True)),
)
_STATES = fragments.STATES | {"lost": ("✕", "Ended with its kernel")}
_SPARK_WIDTH, _SPARK_HEIGHT = 72, 22
_MOST_DIFFERENCES = 3
Cell = dict[str, Any]


def sparkline(values: Sequence[float]) -> str:
    """Return a small line chart as inline SVG; values that are not finite are gaps.

    Example:
        >>> sparkline([2.0, 1.0]).count("<path"), sparkline([])
        (1, '')
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    across = _SPARK_WIDTH / max(1, len(values) - 1)
    up = (_SPARK_HEIGHT - 4) / ((high - low) or 1.0)
    path, pen = "", "M"
    for number, value in enumerate(values):
        if not math.isfinite(value):
            pen = "M"
            continue
        path += f"{pen}{number * across:.1f} {_SPARK_HEIGHT - 2 - (value - low) * up:.1f}"
        pen = "L"
    path += "h0.1" if len(finite) == 1 else ""
    label = f"loss from {loss_text(finite[0])} to {loss_text(finite[-1])}"
    return (
        f'<svg class="sparkwright-sparkline" viewBox="0 0 {_SPARK_WIDTH} {_SPARK_HEIGHT}" '
        f'width="{_SPARK_WIDTH}" height="{_SPARK_HEIGHT}" role="img" '
        f'aria-label="{label}"><path d="{path}" fill="none" stroke="currentColor"/></svg>'
    )


def distinct_settings(runs: RunTable) -> list[dict[str, str]]:
    """Return for each run the settings that differ from those of most runs, as short texts."""
    found: list[dict[str, str]] = [{} for _ in runs]
    for name, values in runs.settings().items():
        texts = [short_value(value) for value in values]
        usual, count = Counter(texts).most_common(1)[0]
        parts = name.split(".")
        label = ".".join(parts[-2:]) if parts[-1] == "name" else parts[-1]
        for run, text in zip(found, texts, strict=True):
            if text != "—" and not (text == usual and 2 * count > len(texts)):
                run[label] = text
    return found


def cells_of(run: StoredRun, distinct: dict[str, str]) -> list[Cell]:
    """Return the cells of a row, in the order of `_HEADS`: text or safe HTML, and a sort key."""
    icon, word = _STATES.get(run.state, ("?", run.state))
    state = (
        f'<span class="sparkwright-run-state sparkwright-is-{escaped(run.state)}">'
        f'<span aria-hidden="true">{icon}</span>{escaped(word)}</span>'
    )
    name, value = validation_metric(run)
    chips = "".join(f'<span class="sparkwright-chip">{escaped(tag)}</span>' for tag in run.tags)
    differences = [f"{label} {text}" for label, text in distinct.items()]
    shown = ", ".join(differences[:_MOST_DIFFERENCES])
    shown += ", …" if len(differences) > _MOST_DIFFERENCES else ""
    return [
        {"text": run.name, "sort": run.name},
        {"html": state, "text": f"{icon} {word}", "sort": word, "title": run.message},
        {"html": sparkline(run.sparkline), "text": "", "sort": None},
        {"text": loss_text(run.loss), "sort": _sortable(run.loss)},
        {"text": f"{name} {number_text(value)}" if name else "—", "sort": _sortable(value)},
        {"text": rate_text(run.examples_per_s or math.nan), "sort": run.examples_per_s or None},
        {
            "time": run.started_at.timestamp(),
            "text": f"{run.started_at:%Y-%m-%d %H:%M}",
            "sort": run.started_at.timestamp(),
            "title": f"{run.started_at:%Y-%m-%d %H:%M:%S}",
        },
        {"html": chips, "text": ", ".join(run.tags), "sort": ", ".join(run.tags) or None},
        {"text": shown, "sort": shown or None, "title": ", ".join(differences)},
    ]


def validation_metric(run: StoredRun) -> tuple[str, float]:
    """Return the first validation metric, else the validation loss; name "" if there is neither."""
    found = [name for name in run.metrics if name.startswith("val_")]
    name = next((name for name in found if name != "val_loss"), next(iter(found), ""))
    return name.removeprefix("val_"), run.metrics.get(name, math.nan)


class RunsGrid(AnyPageWidget, anywidget.AnyWidget):
    """The interactive table; `selected` holds the ids of selected runs, in order of selection."""

    _esm = joined_module("runs_table.mjs")
    _css = asset("panel.css") + asset("runs_table.css")

    heads = traitlets.List(traitlets.Dict()).tag(sync=True)
    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    # With echo: both sides set it, and the page must end with the kernel's value.
    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(self) -> None:
        self._cells: list[list[Cell]] = []
        super().__init__(heads=[{"name": name, "text": is_text} for name, is_text in _HEADS])

    def show(self, runs: RunTable) -> None:
        """Show these runs; the selection does not change, even if it includes hidden runs."""
        settings = distinct_settings(runs)
        self._cells = [cells_of(run, own) for run, own in zip(runs, settings, strict=True)]
        rows = [
            {"id": run.id, "cells": cells} for run, cells in zip(runs, self._cells, strict=True)
        ]
        if rows != self.rows:
            self.rows = rows

    def block(self) -> Block:
        """Return the static copy, for saved and exported notebooks."""
        heads = [name for name, _ in _HEADS]
        html = [
            [Markup(cell["html"]) if "html" in cell else cell["text"] for cell in cells]
            for cells in self._cells
        ]
        text = [[cell["text"] for cell in cells] for cells in self._cells]
        columns = [number for number, (_, is_text) in enumerate(_HEADS) if is_text]
        table = html_table(heads, html, label="Stored runs", text_columns=columns)
        return Block(
            html=f"<style>{asset('runs_table.css')}</style>{table}",
            text=text_table(heads, text, text_columns=columns),
            kind="runs",
        )


def _sortable(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value

"""Pieces of both panes: the list of layers, folds filled when opened, memory and traffic."""

from collections.abc import Callable, Sequence
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from sparkwright.networks import (
    EstimatedFigure,
    NetworkEstimate,
    NetworkSpec,
    analysis_now,
    estimate,
)
from sparkwright.options import Option
from sparkwright_widgets._any_page import HeardFromAnyPage
from sparkwright_widgets._assets import asset
from sparkwright_widgets._format import bytes_text, escaped
from sparkwright_widgets._fragments import figure_list
from sparkwright_widgets._ui import Fold, OptionForm

_OPTIONS = (
    Option(
        name="batch_size",
        kind="int",
        default=32,
        minimum=1,
        label="Minibatch of a worker",
        unit="examples",
    ),
    Option(name="workers", kind="int", default=2, minimum=1, unit="processes"),
    Option(
        name="master",
        kind="choice",
        default="averaging",
        choices=("averaging", "sharing"),
        label="Exchange",
        help="averaging: parameters now and then; sharing: compressed updates all the time.",
    ),
)


class WatchedFold(Fold):
    """A fold that says when it is opened.

    Args:
        title: what is inside.
        inside: the widgets.
        when_opened: called after each opening.
    """

    def __init__(
        self, title: str, inside: Sequence[widgets.Widget], when_opened: Callable[[], None]
    ) -> None:
        self._when_opened = when_opened
        super().__init__(title, inside)

    def set_opened(self, opened: bool) -> None:
        """Show or hide what is inside."""
        super().set_opened(opened)
        if opened:
            self._when_opened()


class LayerList(HeardFromAnyPage, anywidget.AnyWidget):
    """Shows `rows` and lets one of them be chosen.

    Attributes:
        rows: for each row its HTML, safe to insert, and its state; see `_html.layer_rows`.
        selected: the row in hand; -1: none.
        label: what the list holds, for screen readers.
    """

    _esm = asset("layer_list.mjs")  # a text, not a path: see `_loss_chart`

    rows = traitlets.List(traitlets.Dict()).tag(sync=True, echo_update=False)
    selected = traitlets.Int(-1).tag(sync=True, echo_update=False)
    label = traitlets.Unicode("Layers").tag(sync=True, echo_update=False)

    def on_action(self, callback: Callable[[str], None]) -> None:
        """Call `callback("up" | "down" | "delete")` when a key asks for it."""

        def heard(_widget: object, content: Any, _buffers: object) -> None:
            kind = content.get("kind") if isinstance(content, dict) else None
            if kind in ("up", "down", "delete"):
                callback(kind)

        self.on_msg(heard)


class EstimateView(widgets.VBox):
    """Memory per worker and bytes per round of a network."""

    def __init__(self) -> None:
        self._spec: NetworkSpec | None = None
        self.form = OptionForm(_OPTIONS)
        self.form.on_change(lambda _name: self._write())
        self.figures = widgets.HTML()
        super().__init__([self.form, self.figures])

    def set_context(self, **values: Any) -> None:
        """Take values from elsewhere: `batch_size`, `workers`, `master`; None: stays."""
        self.form.set({name: value for name, value in values.items() if value is not None})
        self._write()

    def show(self, spec: NetworkSpec) -> None:
        """Estimate another network."""
        self._spec = spec
        self._write()

    def _write(self) -> None:
        if self._spec is None:
            return
        values = self.form.values
        if not analysis_now(self._spec).ok:
            self.figures.value = (
                '<p class="sparkwright-advice">Known when the network has no problem.</p>'
            )
            return
        found = estimate(self._spec, **values)
        self.figures.value = _estimate_html(found, values["workers"])


def _estimate_html(found: NetworkEstimate, workers: int) -> str:
    """Memory of a worker and bytes that travel, with their parts."""
    figures = [
        ("Memory of one worker", f"about {bytes_text(found.worker_bytes)}"),
        (f"Memory of {workers} workers", f"about {bytes_text(workers * found.worker_bytes)}"),
        *((f"{figure.name}, sent", bytes_text(figure.size_bytes)) for figure in found.traffic),
    ]
    return (
        f"{figure_list(figures)}{_parts('Memory of one worker', found.memory)}"
        f"{_parts('Traffic of one worker', found.traffic)}"
    )


def _parts(title: str, figures: Sequence[EstimatedFigure]) -> str:
    items = "".join(
        f"<li>{escaped(figure.name)}: <b>{escaped(bytes_text(figure.size_bytes))}</b>. "
        f"{escaped(figure.sentence)}</li>"
        for figure in figures
    )
    return f'<div class="sparkwright-estimate"><b>{escaped(title)}</b><ul>{items}</ul></div>'

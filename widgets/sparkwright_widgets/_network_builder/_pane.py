"""The base class of both panes: graph, layers, memory and traffic of a network."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from sparkwright.networks import (
    EstimatedFigure,
    NetworkAnalysis,
    NetworkSpec,
    analysis_now,
    estimate,
)
from sparkwright.options import Option
from sparkwright_widgets._any_page import AnyPageWidget
from sparkwright_widgets._assets import asset
from sparkwright_widgets._format import bytes_text, escaped
from sparkwright_widgets._fragments import figure_list
from sparkwright_widgets._ui import Fold, OptionForm, advice

from ._graph import graph_svg
from ._html import layer_rows, summary_line

_OPTIONS = (
    Option(
        name="batch_size",
        kind="int",
        default=32,
        minimum=1,
        label="Minibatch size on each worker",
        unit="examples",
    ),
    Option(name="workers", kind="int", default=2, minimum=1, unit="processes"),
    Option(
        name="master",
        kind="choice",
        default="averaging",
        choices=("averaging", "sharing"),
        label="Synchronization",
        help="averaging: parameters every few minibatches; sharing: compressed updates.",
    ),
)


class NetworkPane(widgets.VBox):
    """Shows a network and its analysis; a subclass sets its `children`.

    The content of a fold is refreshed when it is opened.
    """

    analysis = NetworkAnalysis(rows=())

    def __init__(self, refresh: Callable[[], None]) -> None:
        self.summary = widgets.HTML()
        self.layers = LayerList(label="Layers. Arrow keys choose a row.")
        self.estimate = EstimateView()
        self.folds: dict[str, Fold] = {}
        self._add_fold("estimate", "Memory and traffic", refresh, self.estimate)
        super().__init__()
        self.add_class("sparkwright-builder")

    def _add_fold(
        self, name: str, title: str, when_opened: Callable[[], None], *inside: widgets.Widget
    ) -> None:
        fold = self.folds[name] = Fold(title, inside)
        watched = fold.box.layout
        watched.observe(lambda _change: when_opened() if fold.opened else None, "display")

    def columns(self, *columns: widgets.Widget) -> widgets.Box:
        """Arrange widgets in columns, or in one column on a narrow page."""
        return widgets.Box(list(columns), _dom_classes=["sparkwright-pair"])

    @property
    def name(self) -> str:
        """The network's name."""
        return self.known.name if self.known else ""

    @property
    def known(self) -> NetworkSpec | None:
        """The network as a NetworkSpec; None for a model that cannot be written as one."""
        return None

    def show_network(
        self, problem: str | None, selected: int, mistakes: Mapping[str, str] | None = None
    ) -> None:
        """Show the network, its problem (None: none) and the selected row (-1: none).

        `mistakes` maps layer names to validation errors of typed values.
        """
        rows, spec = self.analysis.rows, self.known
        outputs = [output.layer for output in spec.outputs] if spec else []
        self.layers.graph = graph_svg(rows, name=self.name, outputs=outputs)
        self.layers.rows = layer_rows(rows, outputs=outputs, mistakes=mistakes)
        self.layers.selected = selected
        self.summary.value = summary_line(self.analysis, problem)
        if spec is not None and self.folds["estimate"].opened:
            self.estimate.show(spec)


class LayerList(AnyPageWidget, anywidget.AnyWidget):
    """Shows the rows and their graph; `selected` is the selected row, -1 for none.

    `graph` is the SVG of `graph_svg`, `rows` the output of `layer_rows`: both are escaped.
    """

    _esm = asset("layer_list.mjs")  # text, not a path: see `_live_chart`

    graph = traitlets.Unicode("").tag(sync=True, echo_update=False)
    rows = traitlets.List(traitlets.Dict()).tag(sync=True, echo_update=False)
    # With echo: both sides set it, and the page must end with the kernel's value.
    selected = traitlets.Int(-1).tag(sync=True)
    label = traitlets.Unicode("Layers").tag(sync=True, echo_update=False)

    def on_action(self, callback: Callable[[str], None]) -> None:
        """Call `callback("up" | "down" | "delete")` when the key of that action is pressed."""

        def receive(_widget: object, content: Any, _buffers: object) -> None:
            kind = content.get("kind") if isinstance(content, dict) else None
            if kind in ("up", "down", "delete"):
                callback(kind)

        self.on_msg(receive)


class EstimateView(widgets.VBox):
    """Memory per worker and bytes per round of a network."""

    def __init__(self) -> None:
        self._spec: NetworkSpec | None = None
        self.form = OptionForm(_OPTIONS)
        self.form.on_change(lambda _name: self._write())
        self.figures = widgets.HTML()
        super().__init__([self.form, self.figures])

    def set_context(self, **values: Any) -> None:
        """Set `batch_size`, `workers` or `master`; None: unchanged."""
        self.form.set({name: value for name, value in values.items() if value is not None})
        self._write()

    def show(self, spec: NetworkSpec) -> None:
        """Estimate another network."""
        self._spec = spec
        self._write()

    def _write(self) -> None:
        if self._spec is None:
            return
        if not analysis_now(self._spec).ok:
            self.figures.value = advice("Available when the network is valid.")
            return
        values = self.form.values
        found, workers = estimate(self._spec, **values), values["workers"]
        figures = [
            ("Memory per worker", f"about {bytes_text(found.worker_bytes)}"),
            (f"Memory of {workers} workers", f"about {bytes_text(workers * found.worker_bytes)}"),
            *((f"{figure.name}, sent", bytes_text(figure.size_bytes)) for figure in found.traffic),
        ]
        self.figures.value = (
            f"{figure_list(figures)}{_parts('Memory per worker', found.memory)}"
            f"{_parts('Traffic per worker', found.traffic)}"
        )


def _parts(title: str, figures: Sequence[EstimatedFigure]) -> str:
    items = "".join(
        f"<li>{escaped(figure.name)}: <b>{escaped(bytes_text(figure.size_bytes))}</b>. "
        f"{escaped(figure.sentence)}</li>"
        for figure in figures
    )
    return f'<div class="sparkwright-estimate"><b>{escaped(title)}</b><ul>{items}</ul></div>'

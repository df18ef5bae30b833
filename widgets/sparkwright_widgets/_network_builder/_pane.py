"""The base class of both panes: graph and layers of a network."""

from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from sparkwright.networks import NetworkAnalysis, NetworkSpec
from sparkwright_widgets._any_page import AnyPageWidget
from sparkwright_widgets._assets import asset

from ._graph import graph_svg
from ._html import layer_rows, summary_line


class NetworkPane(widgets.VBox):
    """Shows a network and its analysis; a subclass sets its `children`."""

    analysis = NetworkAnalysis(rows=())

    def __init__(self) -> None:
        self.summary = widgets.HTML()
        self.layers = LayerList(label="Layers. Arrow keys choose a row.")
        super().__init__()
        self.add_class("sparkwright-builder")

    def columns(self, *columns: widgets.Widget) -> widgets.Box:
        """Arrange widgets in columns, or in one column on a narrow page."""
        return widgets.Box(list(columns), _dom_classes=["sparkwright-pair"])

    @property
    def name(self) -> str:
        return self.known.name if self.known else ""

    @property
    def known(self) -> NetworkSpec | None:
        """The network as a NetworkSpec; None for a model that cannot be written as one."""
        return None

    def show_network(
        self, problem: str | None, selected: int, mistakes: Mapping[str, str] | None = None
    ) -> None:
        """Show the network, its problem (None: none) and the selected row (-1: none)."""
        rows, spec = self.analysis.rows, self.known
        outputs = [output.layer for output in spec.outputs] if spec else []
        self.layers.graph = graph_svg(rows, name=self.name, outputs=outputs)
        self.layers.rows = layer_rows(rows, outputs=outputs, mistakes=mistakes)
        self.layers.selected = selected
        self.summary.value = summary_line(self.analysis, problem)


class LayerList(AnyPageWidget, anywidget.AnyWidget):
    """Shows the rows and their graph; `graph` and `rows` are escaped."""

    _esm = asset("layer_list.mjs")  # text, not a path: see `_live_chart`

    graph = traitlets.Unicode("").tag(sync=True, echo_update=False)
    rows = traitlets.List(traitlets.Dict()).tag(sync=True, echo_update=False)
    # With echo: both sides set it, and the page must end with the kernel's value.
    selected = traitlets.Int(-1).tag(sync=True)  # -1: none
    label = traitlets.Unicode("Layers").tag(sync=True, echo_update=False)

    def on_action(self, callback: Callable[[str], None]) -> None:
        """Call `callback("up" | "down" | "delete")` when the key of that action is pressed."""

        def receive(_widget: object, content: Any, _buffers: object) -> None:
            kind = content.get("kind") if isinstance(content, dict) else None
            if kind in ("up", "down", "delete"):
                callback(kind)

        self.on_msg(receive)

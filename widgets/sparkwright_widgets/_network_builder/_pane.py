"""The base class of both panes, the pane that shows a model, and the gallery of presets."""

from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from sparkwright.errors import ConfigurationError
from sparkwright.networks import PRESETS, NetworkAnalysis, NetworkSpec, describe_model, view_model
from sparkwright_widgets._any_page import AnyPageWidget
from sparkwright_widgets._assets import asset
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, advice, alert, row

from ._data_fit import DataFacts, fits
from ._graph import graph_svg, thumbnail_svg
from ._html import layer_heading, layer_rows, summary_line

EMPTY = "empty"
_PLUS = '<span class="sparkwright-preset-plus" aria-hidden="true">+</span>'


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


def preset_cards(data: DataFacts, *, is_loaded: bool) -> list[dict[str, Any]]:
    """A card for each preset, those that fit the data first, and one for an empty network."""
    fitting = [name for name, preset in PRESETS.items() if is_loaded and fits(preset, data)]
    names = [*fitting, *(name for name in PRESETS if name not in fitting)]
    cards = [
        _card(name, PRESETS[name].title, thumbnail_svg(name), name in fitting) for name in names
    ]
    return [*cards, _card(EMPTY, "Empty: no layers", _PLUS, False)]


def _card(name: str, text: str, picture: str, is_fitting: bool) -> dict[str, Any]:
    title, _, use = text.partition(": ")
    tag = '<span class="sparkwright-preset-tag">✓ fits your data</span>' if is_fitting else ""
    html = (
        f'<span class="sparkwright-preset-picture">{picture}</span>'
        f"<b>{escaped(title)}</b><span>{escaped(use)}</span>{tag}"
    )
    return {"name": name, "html": html, "fits": is_fitting}


class PresetGallery(AnyPageWidget, anywidget.AnyWidget):
    """Shows the presets in `cards`; `taken` is called with the name of one, or `EMPTY`."""

    _esm = asset("gallery.mjs")  # text, not a path: see `_live_chart`

    cards = traitlets.List(traitlets.Dict()).tag(sync=True, echo_update=False)

    def __init__(self, taken: Callable[[str], None]) -> None:
        super().__init__()

        def receive(_widget: object, content: Any, _buffers: object) -> None:
            name = content.get("name") if isinstance(content, dict) else None
            if name == EMPTY or (isinstance(name, str) and name in PRESETS):
                taken(name)

        self.on_msg(receive)


def is_model(value: Any) -> bool:
    """Whether `value` looks like a Keras model, without importing Keras."""
    return all(hasattr(value, name) for name in ("layers", "count_params", "get_weights"))


class ViewingPane(NetworkPane):
    """Shows a Keras model read-only; the button "Edit a copy" calls `edit`."""

    def __init__(self, model: Any, edit: Callable[[], None]) -> None:
        super().__init__()
        self.model, self.analysis = model, view_model(model)
        self._spec: NetworkSpec | None = None
        more = "A copy starts with new weights; the model is not changed."
        try:
            self._spec = describe_model(model)
        except ConfigurationError as error:
            self._reason = str(error)
            more = f"It cannot be edited here: {error}"
        self.edit_button = Button(description="Edit a copy", disabled=self._spec is None)
        self.edit_button.on_click(lambda _button: edit())
        self.layers.observe(lambda _change: self._refresh(), "selected")
        self.details = widgets.HTML()
        notice = widgets.HTML(
            f"<div><b>{escaped(self.name)}</b>, a Keras model, read-only. "
            f'<span class="sparkwright-message">{escaped(more)}</span></div>'
        )
        self.children = [
            *(notice, row(self.edit_button), self.summary),
            self.columns(self.layers, self.details),
        ]
        self._refresh()

    @property
    def name(self) -> str:
        return str(getattr(self.model, "name", "model"))

    @property
    def known(self) -> NetworkSpec | None:
        """The network as a NetworkSpec; None if the model cannot be written as one."""
        return self._spec

    @property
    def spec(self) -> NetworkSpec:
        """The network as a NetworkSpec; raises ConfigurationError if it cannot be written so."""
        if self._spec is None:
            raise ConfigurationError(
                f"the model {self.name!r} cannot be written as a NetworkSpec: {self._reason} "
                "`build()` returns the model."
            )
        return self._spec

    @property
    def problem(self) -> str | None:
        """Why the model cannot be trained; None if it can."""
        if getattr(self.model, "optimizer", None) is None:
            return "The model is not compiled. Call its `compile`, then show it again."
        return None

    def _refresh(self) -> None:
        selected = self.layers.selected
        self.show_network(self.problem, selected)
        self.details.value = advice("Choose a row to see its layer.")
        if 0 <= selected < len(self.analysis.rows):
            chosen = self.analysis.rows[selected]
            self.details.value = layer_heading(chosen) + alert(chosen.problem or "")

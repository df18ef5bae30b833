"""A Keras model to look at: its rows, its graph, and a button that makes a network of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.networks import NetworkAnalysis, NetworkSpec, describe_model, view_model
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, advice, alert, row

from ._html import layer_heading
from ._pane import NetworkPane


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelView:
    """A model that is shown and not edited.

    Attributes:
        model: the Keras model.
        analysis: its layers, looked at.
        spec: the same network as a value; None: it cannot be one.
        reason: why there is no `spec`; empty: there is one.
    """

    model: Any
    analysis: NetworkAnalysis
    spec: NetworkSpec | None
    reason: str = ""

    @property
    def name(self) -> str:
        """The model's name."""
        return str(getattr(self.model, "name", "model"))

    @property
    def problem(self) -> str | None:
        """Why it cannot be trained; None: it can."""
        if getattr(self.model, "optimizer", None) is None:
            return "The model is not compiled. Call its `compile`, then show it again."
        return None


def is_model(value: Any) -> bool:
    """Whether `value` looks like a Keras model; Keras itself is not imported for that."""
    return all(hasattr(value, name) for name in ("layers", "count_params", "get_weights"))


def view_of(model: Any) -> ModelView:
    """Look at a model; never raises for what is in it."""
    analysis = view_model(model)
    try:
        return ModelView(model=model, analysis=analysis, spec=describe_model(model))
    except ConfigurationError as error:
        return ModelView(model=model, analysis=analysis, spec=None, reason=str(error))


class ViewingPane(NetworkPane):
    """Shows a model, and changes nothing.

    Args:
        view: the model, looked at.
        edit: called when a person wants a copy to edit.
    """

    def __init__(self, view: ModelView, edit: Callable[[], None]) -> None:
        super().__init__(self._refresh)
        self._view = view
        self.edit_button = Button(description="Edit a copy", disabled=view.spec is None)
        self.edit_button.on_click(lambda _button: edit())
        self.layers.observe(lambda _change: self._refresh(), "selected")
        self.details = widgets.HTML()
        more = f"It cannot be edited here: {view.reason}"
        if view.spec is not None:
            more = "A copy begins with new weights; the model itself stays as it is."
        else:
            self.folds["estimate"].layout.display = "none"
        notice = widgets.HTML(
            f"<div><b>{escaped(view.name)}</b>, a Keras model, to look at. "
            f'<span class="sparkwright-message">{escaped(more)}</span></div>'
        )
        self.children = [
            *(notice, row(self.edit_button), self.summary),
            *(self.columns(self.layers, self.details), *self.folds.values()),
        ]
        self._refresh()
        if not view.analysis.is_chain:
            self.folds["graph"].set_opened(True)

    def _refresh(self) -> None:
        view, selected = self._view, self.layers.selected
        self.show_network(
            view.analysis, view.spec, name=view.name, problem=view.problem, selected=selected
        )
        self.details.value = advice("Choose a row to see its layer.")
        if 0 <= selected < len(view.analysis.rows):
            chosen = view.analysis.rows[selected]
            self.details.value = layer_heading(chosen) + alert(chosen.problem or "")

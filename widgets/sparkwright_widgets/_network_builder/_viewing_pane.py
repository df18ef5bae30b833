"""A Keras model to look at: its rows, its graph, and a button that makes a network of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.networks import NetworkAnalysis, NetworkSpec
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, row

from ._graph import graph_svg, is_chain
from ._html import layer_heading, layer_problem, layer_rows, summary_line
from ._pieces import EstimateView, LayerList, WatchedFold


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
    from sparkwright.networks import describe_model, view_model

    analysis = view_model(model)
    try:
        return ModelView(model=model, analysis=analysis, spec=describe_model(model))
    except ConfigurationError as error:
        return ModelView(model=model, analysis=analysis, spec=None, reason=str(error))


class ViewingPane(widgets.VBox):
    """Shows a model, and changes nothing.

    Args:
        view: the model, looked at.
        edit: called when a person wants a copy to edit.
    """

    def __init__(self, view: ModelView, edit: Callable[[], None]) -> None:
        self._view = view
        rows = view.analysis.rows
        self.edit_button = Button(description="Edit a copy", disabled=view.spec is None)
        self.edit_button.on_click(lambda _button: edit())
        self.layers = LayerList(label="Layers. Arrow keys choose a row.")
        self._outputs = [output.layer for output in view.spec.outputs] if view.spec else []
        self.layers.rows = layer_rows(rows, outputs=self._outputs)
        self.layers.observe(lambda _change: self._show_row(), "selected")
        self.details = widgets.HTML()
        self.graph = widgets.HTML()
        self.estimate = EstimateView()
        columns = widgets.Box([self.layers, self.details])
        columns.add_class("sparkwright-builder-columns")
        self.graph_fold = WatchedFold("Graph", [self.graph], self._draw)
        folds = [self.graph_fold]
        if view.spec is not None:
            folds.append(WatchedFold("Memory and traffic", [self.estimate], self._estimate))
        super().__init__(
            [
                *(widgets.HTML(_notice(view)), row(self.edit_button)),
                *(widgets.HTML(summary_line(view.analysis, view.problem)), columns, *folds),
            ]
        )
        self.add_class("sparkwright-builder")
        self._show_row()
        if not is_chain(rows):
            self.graph_fold.set_opened(True)

    def _show_row(self) -> None:
        rows, selected = self._view.analysis.rows, self.layers.selected
        if 0 <= selected < len(rows):
            self.details.value = layer_heading(rows[selected]) + layer_problem(rows[selected])
        else:
            self.details.value = '<p class="sparkwright-advice">Choose a row to see its layer.</p>'
        if self.graph_fold.opened:
            self._draw()

    def _draw(self) -> None:
        view = self._view
        self.graph.value = graph_svg(
            view.analysis.rows,
            name=view.name,
            outputs=self._outputs,
            selected=self.layers.selected,
        )

    def _estimate(self) -> None:
        if self._view.spec is not None:
            self.estimate.show(self._view.spec)


def _notice(view: ModelView) -> str:
    """What is shown, and whether it can be edited."""
    if view.spec is not None:
        more = "A copy begins with new weights; the model itself stays as it is."
    else:
        more = f"It cannot be edited here: {view.reason}"
    return (
        f"<div><b>{escaped(view.name)}</b>, a Keras model, to look at. "
        f'<span class="sparkwright-message">{escaped(more)}</span></div>'
    )

"""A Keras model to look at: its rows, its graph, and a button that makes a network of it."""

from collections.abc import Callable

import ipywidgets as widgets

from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, row

from ._estimate_view import EstimateView
from ._graph_svg import graph_svg, is_chain
from ._layer_html import layer_heading, layer_problem
from ._layer_list import LayerList
from ._model_view import ModelView
from ._rows_html import layer_rows
from ._summary_html import summary_line
from ._watched_fold import WatchedFold


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

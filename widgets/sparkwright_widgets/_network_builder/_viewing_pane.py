"""The pane that shows a Keras model read-only, with a button to edit a copy."""

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.networks import NetworkSpec, describe_model, view_model
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, advice, alert, row

from ._html import layer_heading
from ._pane import NetworkPane


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

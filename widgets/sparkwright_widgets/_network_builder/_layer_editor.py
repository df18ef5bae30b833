"""The row in hand: what can be done with it, its name, what it takes, its options."""

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from sparkwright._option import Option
from sparkwright.networks import LayerAnalysis, LayerKind, LayerSpec, layer_kind
from sparkwright.networks.keras_catalog import is_loaded
from sparkwright_widgets._ui import Button, OptionForm, close_all, row

from ._inputs_editor import InputsEditor
from ._layer_html import layer_heading, layer_problem
from ._option_values import as_json, fill, same_value

ACTIONS = (
    ("up", "↑ Move up"),
    ("down", "↓ Move down"),
    ("duplicate", "Duplicate"),
    ("switch", "Switch off"),
    ("delete", "Delete"),
)
_NAME = Option(name="name", kind="text", label="Name")


class LayerEditor(widgets.VBox):
    """Edits one layer. Fields stay the same widgets while they are typed into.

    Args:
        act: called with one of `ACTIONS`.
        name: called with a new name.
        inputs: called with names of inputs.
        options: called with the layer's options and the name of the one that was changed.
        mistaken: called when a field has come to hold something impossible, or no longer does.
    """

    def __init__(
        self,
        *,
        act: Callable[[str], None],
        name: Callable[[str], None],
        inputs: Callable[[tuple[str, ...]], None],
        options: Callable[[dict[str, Any], str], None],
        mistaken: Callable[[], None],
    ) -> None:
        self._name, self._options, self._mistaken = name, options, mistaken
        self._shown: LayerSpec | None = None
        self.heading = widgets.HTML()
        self.buttons = {key: Button(description=text) for key, text in ACTIONS}
        for key, button in self.buttons.items():
            button.on_click(lambda _button, key=key: act(key))
        self.actions = row(*self.buttons.values())
        self.problem = widgets.HTML()
        self.name_form = OptionForm([_NAME], {"name": ""})
        self.name_form.on_change(lambda _name: self._named())
        self.inputs = InputsEditor(inputs)
        self.form: OptionForm | None = None
        self._form_of = ""  # the kind of layer that the form is for
        self._wrong: dict[str, Any] = {}  # options that no field can hold, as the network has them
        self._above_form = (
            *(self.heading, self.actions, self.problem),
            *(self.name_form, self.inputs),
        )
        super().__init__(self._above_form)
        self.add_class("sparkwright-layer-editor")

    @property
    def mistake(self) -> str:
        """What is wrong with a value that was typed and not taken; empty: nothing."""
        problems = {**self.name_form.problems, **(self.form.problems if self.form else {})}
        return next(iter(problems.values()), "")

    def show(self, layer: LayerSpec | None, names: Sequence[str] = (), before: str = "") -> None:
        """Show a layer; what is being typed into its fields stays if it means the same.

        Args:
            layer: the row in hand; None: none.
            names: of the layers above it.
            before: the name of the nearest one that is switched on; empty: none.
        """
        for part in self.children[1:]:
            part.layout.display = "none" if layer is None else None
        if layer is None:
            self._shown = None
            self.heading.value = '<p class="sparkwright-advice">Choose a row to edit its layer.</p>'
            return
        kind = _known(layer)
        if self._form_of != layer.kind:
            self._make_form(layer)
        if self._is_in_hand(layer):
            self._follow(layer)
        else:
            self._fill(layer)
        self._shown = layer
        self.inputs.show(kind.takes if kind else "several", names, layer.inputs, before)
        self.buttons["switch"].description = "Switch off" if layer.enabled else "Switch on"

    def tell(self, analysis: LayerAnalysis) -> None:
        """Show the row's shape, its size and what is wrong with it."""
        self.heading.value = layer_heading(analysis, self.mistake)
        self.problem.value = layer_problem(analysis)

    def complain_of_name(self, sentence: str) -> None:
        """Say at the name's field what is wrong with it."""
        self.name_form.complain("name", sentence)

    def forget(self) -> None:
        """Fill the fields anew at the next `show`, whatever was typed into them."""
        self._shown = None

    def _make_form(self, layer: LayerSpec) -> None:
        kind = _known(layer)
        old, self.form = self.form, None
        self._form_of, self._shown = layer.kind if is_loaded() else "", None
        if kind is not None:
            self.form = OptionForm(kind.options)
            self.form.on_change(self._optioned)
        self.children = [*self._above_form, *([self.form] if self.form is not None else [])]
        if old is not None:
            close_all(old)

    def _fill(self, layer: LayerSpec) -> None:
        self.name_form.set({"name": layer.name})
        self._wrong = {} if self.form is None else fill(self.form, layer.options)

    def _follow(self, layer: LayerSpec) -> None:
        """The layer may have been changed elsewhere, by undo for instance."""
        is_renamed = self._shown is not None and layer.name != self._shown.name
        if is_renamed and self.name_form.values["name"] != layer.name:
            self.name_form.set({"name": layer.name})  # a name that was refused stays to be mended
        for name, field in self.form.fields.items() if self.form is not None else ():
            value = layer.options.get(name, field.option.default)
            if name not in self._wrong and not same_value(field.value, value):
                field.set(value)

    def _is_in_hand(self, layer: LayerSpec) -> bool:
        """Whether `layer` is what the fields were about, perhaps changed."""
        return self._shown is not None and layer.name in (
            self._shown.name,
            self.name_form.values["name"],
        )

    def _named(self) -> None:
        if self.name_form.problems:
            self._mistaken()
        else:
            self._name(str(self.name_form.values["name"]).strip())

    def _optioned(self, name: str) -> None:
        assert self.form is not None
        if name in self.form.problems:
            self._mistaken()
            return
        shown = self._shown
        kind = layer_kind(shown.kind) if shown else None
        if shown is None or kind is None:
            return
        self._wrong.pop(name, None)
        values = {key: as_json(value) for key, value in self.form.values.items()}
        self._options(kind.tidy({**shown.options, **values, **self._wrong}), name)


def _known(layer: LayerSpec) -> LayerKind | None:
    """The class of a layer; None: there is none, or Keras is still loading."""
    return layer_kind(layer.kind) if is_loaded() else None

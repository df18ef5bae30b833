"""The selected row: what can be done with it, its name, what it takes, its options."""

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from sparkwright.networks import LayerAnalysis, LayerKind, LayerSpec, layer_kind
from sparkwright.networks.keras_catalog import is_loaded
from sparkwright.options import Option
from sparkwright_widgets._ui import Button, Dropdown, close_all, row

from ._html import layer_heading, layer_problem
from ._value_form import ValueForm

ACTIONS = (
    ("up", "↑ Move up"),
    ("down", "↓ Move down"),
    ("duplicate", "Duplicate"),
    ("switch", "Switch off"),
    ("delete", "Delete"),
)
_NAME = (Option(name="name", kind="text", label="Name", default=""),)


class LayerEditor(widgets.VBox):
    """Edits one layer. Fields stay the same widgets while they are typed into.

    Args:
        act: called with one of `ACTIONS`.
        name: called with a new name.
        inputs: called with names of inputs.
        options: called with the layer's options and the name of the one that was changed.
        mistaken: called when a field has come to hold something invalid, or no longer does.
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
        self._options = options
        self._shown: LayerSpec | None = None
        self.heading, self.problem = widgets.HTML(), widgets.HTML()
        self.buttons = {key: Button(description=text) for key, text in ACTIONS}
        for key, button in self.buttons.items():
            button.on_click(lambda _button, key=key: act(key))
        self.name_form = ValueForm(lambda _: name(self._name), mistaken)
        self.inputs = InputsEditor(inputs)
        self.form = ValueForm(self._changed, mistaken)
        actions = row(*self.buttons.values())
        super().__init__(
            [self.heading, actions, self.problem, self.name_form, self.inputs, self.form]
        )
        self.add_class("sparkwright-layer-editor")

    @property
    def mistake(self) -> str:
        """What is wrong with a value that was typed and not taken; empty: nothing."""
        return "" if self._shown is None else self.name_form.mistake or self.form.mistake

    @property
    def _name(self) -> str:
        return str(self.name_form.fields["name"].value).strip()

    def show(self, layer: LayerSpec | None, names: Sequence[str] = (), before: str = "") -> None:
        """Show a layer; what is being typed into its fields stays if it means the same.

        Args:
            layer: the selected row; None: none.
            names: of the layers above it.
            before: the name of the nearest one that is switched on; empty: none.
        """
        for part in self.children[1:]:
            part.layout.display = "none" if layer is None else None
        if layer is None:
            self._shown = None
            self.heading.value = '<p class="sparkwright-advice">Choose a row to edit its layer.</p>'
            return
        shown, self._shown = self._shown, layer
        # A layer that was renamed here is still the one that is edited.
        is_same = shown is not None and layer.name in (shown.name, self._name)
        is_renamed = shown is None or layer.name != shown.name
        if is_renamed or not is_same:  # otherwise a name that was refused stays to be mended
            self.name_form.show(_NAME, {"name": layer.name}, anew=not is_same)
        kind = _known(layer)
        self.form.show(kind.options if kind else (), layer.options, anew=not is_same)
        self.inputs.show(kind.takes if kind else "several", names, layer.inputs, before)
        self.buttons["switch"].description = "Switch off" if layer.enabled else "Switch on"

    def tell(self, analysis: LayerAnalysis) -> None:
        """Show the row's shape, its size and what is wrong with it."""
        self.heading.value = layer_heading(analysis, self.mistake)
        self.problem.value = layer_problem(analysis)

    def complain_of_name(self, sentence: str) -> None:
        """Show at the name's field what is wrong with it."""
        self.name_form.complain("name", sentence)

    def forget(self) -> None:
        """Fill the fields anew at the next `show`, whatever was typed into them."""
        self._shown = None

    def _changed(self, name: str) -> None:
        kind = _known(self._shown) if self._shown is not None else None
        if self._shown is not None and kind is not None:
            self._options(kind.tidy({**self._shown.options, **self.form.values}), name)


def _known(layer: LayerSpec) -> LayerKind | None:
    """The class of a layer; None: there is none, or Keras is not loaded."""
    return layer_kind(layer.kind) if is_loaded() else None


class InputsEditor(widgets.Box):
    """Chooses inputs by name.

    Args:
        chosen: called with the names when a person has changed them; empty: the layer before.
    """

    def __init__(self, chosen: Callable[[tuple[str, ...]], None]) -> None:
        super().__init__()
        self.add_class("sparkwright-grid")
        self._chosen = chosen
        self._setting = False
        self._choices: list[Dropdown] = []

    @property
    def choices(self) -> tuple[Dropdown, ...]:
        """The controls in view, one an input and, where several are taken, one to add another."""
        return tuple(self._choices)

    def show(self, takes: str, names: Sequence[str], chosen: Sequence[str], before: str) -> None:
        """Show what is chosen, without telling anybody.

        Args:
            takes: "none", "one" or "several".
            names: of the layers above.
            chosen: names, also such as are not among `names`; empty: the layer before.
            before: that layer's name; empty: there is none.
        """
        count = {"none": 0, "one": 1}.get(takes, len(chosen) + 1)
        self._setting = True
        try:
            self._show_choices(count)
            for place, choice in enumerate(self._choices):
                choice.description = "Takes" if takes == "one" else f"Input {place + 1}"
                value = chosen[place] if place < len(chosen) else ""
                options = _choices(names, value, _empty(takes, place, chosen, before))
                if tuple(choice.options) != options:
                    choice.options = options
                choice.value = value
        finally:
            self._setting = False

    def _show_choices(self, count: int) -> None:
        """Have `count` fields; those that stay keep their widgets."""
        fields: list[widgets.Widget] = list(self.children)
        while len(self._choices) < count:
            choice = Dropdown(style={"description_width": "initial"})
            choice.observe(lambda _change: self._heard(), "value")
            self._choices.append(choice)
            fields.append(widgets.VBox([choice], _dom_classes=["sparkwright-field"]))
        del self._choices[count:]
        self.children = fields[:count]
        for field in fields[count:]:
            close_all(field)

    def _heard(self) -> None:
        if not self._setting:
            self._chosen(tuple(str(choice.value) for choice in self._choices if choice.value))


def _empty(takes: str, place: int, chosen: Sequence[str], before: str) -> str:
    """What choosing no name at `place` means."""
    if takes == "one" or (place == 0 and not chosen):
        return f"(the layer above: {before})" if before else "(the layer above)"
    return "(add another)" if place == len(chosen) else "(take this one out)"


def _choices(names: Sequence[str], value: str, empty: str) -> tuple[tuple[str, str], ...]:
    lost = ((f"{value} (not above this row)", value),) if value and value not in names else ()
    return ((empty, ""), *((name, name) for name in names), *lost)

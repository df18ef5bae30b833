"""Edit the selected row: actions, name, inputs and options of its layer."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.networks import (
    LayerAnalysis,
    LayerKind,
    LayerSpec,
    NetworkSpec,
    duplicate_layer,
    layer_kind,
    move_layer,
    remove_layer,
    replace_layer,
    switch_layer,
)
from sparkwright.networks.keras_catalog import is_loaded
from sparkwright.options import Option
from sparkwright_widgets._ui import Button, Dropdown, advice, alert, close_all, field, row

from ._html import layer_heading
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
    """Edits one layer. Fields are reused while the user types."""

    def __init__(
        self,
        # Called with the new network, what changed, the row to select and the edited field.
        change: Callable[[NetworkSpec, str, int, str], None],
        say: Callable[[str], None],
        # Called when a field becomes invalid, or valid again.
        mistaken: Callable[[], None],
    ) -> None:
        self._change, self._say, self._mistaken = change, say, mistaken
        self._spec, self._row = NetworkSpec(), 0
        self._shown: LayerSpec | None = None
        self.heading, self.problem = widgets.HTML(), widgets.HTML()
        self.buttons = {key: Button(description=text) for key, text in ACTIONS}
        for key, button in self.buttons.items():
            button.on_click(lambda _button, key=key: self.act(key))
        self.name_form = ValueForm(lambda _: self._rename(), mistaken)
        self.inputs = InputsEditor(lambda names: self._set("inputs", names))
        self.form = ValueForm(self._typed, mistaken)
        actions = row(*self.buttons.values())
        super().__init__(
            [self.heading, actions, self.problem, self.name_form, self.inputs, self.form]
        )
        self.add_class("sparkwright-layer-editor")

    @property
    def mistake(self) -> str:
        """The first validation error of a field; empty if there is none."""
        return "" if self._shown is None else self.name_form.mistake or self.form.mistake

    def show(self, spec: NetworkSpec, selected: int | None, rows: Sequence[LayerAnalysis]) -> None:
        """Show the selected layer, if any; keep typed text with the same value."""
        for part in self.children[1:]:
            part.layout.display = "none" if selected is None else None
        if selected is None:
            self._shown = None
            self.heading.value = advice("Choose a row to edit its layer.")
            return
        self._spec, self._row = spec, selected
        shown, self._shown = self._shown, spec.layers[selected]
        layer, above = self._shown, rows[:selected]
        # A layer renamed in this editor is still the same layer.
        is_same = shown is not None and layer.name in (shown.name, self._typed_name)
        is_renamed = shown is None or layer.name != shown.name
        if is_renamed or not is_same:  # else keep an invalid name, to be corrected
            self.name_form.show(_NAME, {"name": layer.name}, reset=not is_same)
        kind = _known(layer)
        self.form.show(kind.options if kind else (), layer.options, reset=not is_same)
        before = next((r.name for r in reversed(above) if r.enabled), "")
        most = kind.takes[1] if kind else None
        self.inputs.show(most, [r.name for r in above], layer.inputs, before)
        self.buttons["switch"].description = "Switch off" if layer.enabled else "Switch on"
        found = rows[selected]
        self.heading.value = layer_heading(found, self.mistake)
        problem = (found.problem or "") if found.enabled else ""
        self.problem.value = alert(problem)
        words = re.findall(r"\w+", problem)
        for name, each in self.form.fields.items():
            is_named = name in layer.options and name.removesuffix("_size") in words
            is_named = is_named or bool(each.problem)
            (each.add_class if is_named else each.remove_class)("sparkwright-has-problem")

    def discard_typed(self) -> None:
        """Discard typed text at the next `show`."""
        self._shown = None

    def act(self, what: str) -> None:
        if self._shown is None:
            return
        spec, selected, name = self._spec, self._row, self._shown.name
        if what in ("up", "down"):
            to = selected + (-1 if what == "up" else 1)
            if 0 <= to < len(spec.layers):
                self._change(move_layer(spec, selected, to - selected), f"move {name}", to, "")
            else:
                end = "first" if what == "up" else "last"
                self._say(f"The row is already the {end} one.")
        elif what == "duplicate":
            copied = duplicate_layer(spec, selected)
            self._change(copied, f"duplicate {name}", selected + 1, "")
        elif what == "switch":
            state = "off" if self._shown.enabled else "on"
            self._change(switch_layer(spec, selected), f"switch {name} {state}", selected, "")
        else:
            self._change(remove_layer(spec, selected), f"delete {name}", selected, "")

    @property
    def _typed_name(self) -> str:
        return str(self.name_form.fields["name"].value).strip()

    def _rename(self) -> None:
        try:
            self._set("name", self._typed_name, "the name")
        except ConfigurationError as error:
            self.name_form.complain("name", str(error))
            self._mistaken()

    def _typed(self, name: str) -> None:
        kind = None if self._shown is None else _known(self._shown)
        if self._shown is not None and kind is not None:
            options = kind.tidy({**self._shown.options, **self.form.values})
            self._set("options", options, name)

    def _set(self, field: str, value: Any, typed: str = "") -> None:
        if self._shown is not None:
            layer = replace(self._shown, **{field: value})
            what = f"set {typed or f'the {field}'} of {self._shown.name}"
            changed = replace_layer(self._spec, self._row, layer)
            self._change(changed, what, self._row, f"{typed} of row {self._row}" if typed else "")


def _known(layer: LayerSpec) -> LayerKind | None:
    """The kind of a layer; None if it is unknown or Keras is not loaded."""
    return layer_kind(layer.kind) if is_loaded() else None


class InputsEditor(widgets.Box):
    """Chooses the inputs of a layer by name; calls `chosen` with them, empty: the layer above."""

    def __init__(self, chosen: Callable[[tuple[str, ...]], None]) -> None:
        super().__init__()
        self.add_class("sparkwright-grid")
        self._chosen = chosen
        self._setting = False
        self.choices: list[Dropdown] = []  # one per input, and one to add another

    def show(
        self, most: int | None, names: Sequence[str], chosen: Sequence[str], before: str
    ) -> None:
        """Show the chosen inputs, at most `most` (None: any number), without calling back."""
        count = len(chosen) + 1 if most is None or most > 1 else most
        self._setting = True
        try:
            self._resize(count)
            for place, choice in enumerate(self.choices):
                choice.description = "Input" if most == 1 else f"Input {place + 1}"
                value = chosen[place] if place < len(chosen) else ""
                empty = "(add another)" if place == len(chosen) else "(remove this input)"
                if most == 1 or (place == 0 and not chosen):
                    empty = f"(the layer above: {before})" if before else "(the layer above)"
                is_lost = bool(value) and value not in names
                lost = [(f"{value} (not above this row)", value)] if is_lost else []
                options = ((empty, ""), *((name, name) for name in names), *lost)
                if tuple(choice.options) != options:
                    choice.options = options
                choice.value = value
        finally:
            self._setting = False

    def _resize(self, count: int) -> None:
        """Add or remove fields at the end until there are `count`."""
        fields: list[widgets.Widget] = list(self.children)
        while len(self.choices) < count:
            choice = Dropdown()
            choice.observe(lambda _change: self._selected(), "value")
            self.choices.append(choice)
            fields.append(field(choice))
        del self.choices[count:]
        self.children = fields[:count]
        for removed in fields[count:]:
            close_all(removed)

    def _selected(self) -> None:
        if not self._setting:
            self._chosen(tuple(str(choice.value) for choice in self.choices if choice.value))

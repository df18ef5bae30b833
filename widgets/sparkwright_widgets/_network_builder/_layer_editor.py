"""The selected row: what can be done with it, its name, what it takes, its options."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.networks import LayerAnalysis, LayerKind, LayerSpec, layer_kind
from sparkwright.networks.keras_catalog import is_loaded
from sparkwright.options import Option
from sparkwright_widgets._ui import Button, Dropdown, OptionForm, close_all, row

from ._html import layer_heading, layer_problem


def as_json(value: Any) -> Any:
    """Tuples as lists.

    Example:
        >>> as_json((3, 5))
        [3, 5]
    """
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value


def same_value(one: Any, other: Any) -> bool:
    """Whether two values of an option mean the same, lists and tuples alike."""
    return as_json(one) == as_json(other)


def fill(form: OptionForm, options: Mapping[str, Any]) -> dict[str, Any]:
    """Show `options`, the defaults for what they leave out; complain of what cannot be meant.

    Returns:
        What cannot be meant, by name: no field can hold it.
    """
    wrong: dict[str, Any] = {}
    for name, field in form.fields.items():
        value = options.get(name, field.option.default)
        try:
            field.option.check(value)
        except ConfigurationError as error:
            field.set(field.option.default)
            field.complain(str(error))
            wrong[name] = value
        else:
            field.set(value)
    return wrong


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
            while len(self._choices) < count:
                self._choices.append(self._new_choice())
            del self._choices[count:]
            for place, choice in enumerate(self._choices):
                choice.description = "Takes" if takes == "one" else f"Input {place + 1}"
                value = chosen[place] if place < len(chosen) else ""
                options = _options(names, value, _empty(takes, place, chosen, before))
                if tuple(choice.options) != options:
                    choice.options = options
                choice.value = value
            self._show_choices()
        finally:
            self._setting = False

    def _show_choices(self) -> None:
        """As many fields as choices; those that stay keep their widgets."""
        shown: list[widgets.Widget] = list(self.children)
        fields = shown[: len(self._choices)]
        self.children = [*fields, *(_field(choice) for choice in self._choices[len(fields) :])]
        for field in shown[len(fields) :]:
            close_all(field)

    def _new_choice(self) -> Dropdown:
        choice = Dropdown(style={"description_width": "initial"})
        choice.observe(lambda _change: self._heard(), "value")
        return choice

    def _heard(self) -> None:
        if not self._setting:
            self._chosen(tuple(str(choice.value) for choice in self._choices if choice.value))


def _empty(takes: str, place: int, chosen: Sequence[str], before: str) -> str:
    """What choosing no name at `place` means."""
    if takes == "one" or (place == 0 and not chosen):
        return f"(the layer above: {before})" if before else "(the layer above)"
    return "(add another)" if place == len(chosen) else "(take this one out)"


def _options(names: Sequence[str], value: str, empty: str) -> tuple[tuple[str, str], ...]:
    lost = ((f"{value} (not above this row)", value),) if value and value not in names else ()
    return ((empty, ""), *((name, name) for name in names), *lost)


def _field(choice: Dropdown) -> widgets.Box:
    box = widgets.VBox([choice])
    box.add_class("sparkwright-field")
    return box


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

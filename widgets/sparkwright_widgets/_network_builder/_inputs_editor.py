"""Which layers a layer takes: one choice by name for each, and one more to add another."""

from collections.abc import Callable, Sequence

import ipywidgets as widgets

from sparkwright_widgets._ui import Dropdown, close_all


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

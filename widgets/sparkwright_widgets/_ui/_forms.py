"""Forms generated from declared options: a field for each, with its help and its problem."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.options import Option
from sparkwright_widgets._format import escaped

from ._controls import Checkbox, Dropdown, Text
from ._fold import Fold
from ._part import grid


def advice(text: str) -> str:
    """Return help text as HTML; "" if it is empty."""
    return f'<div class="sparkwright-advice">{escaped(text)}</div>' if text else ""


def help_icon(text: str, about: str) -> str:
    """Return the HTML of an icon that opens the help text; "" if it is empty."""
    if not text:
        return ""
    return (
        f'<details class="sparkwright-help"><summary title="{escaped(text)}">'
        f'<span aria-hidden="true">i</span><span class="sparkwright-hidden">Help: {escaped(about)}'
        f"</span></summary>{escaped(text)}</details>"
    )


def alert(sentence: str) -> str:
    """Return the HTML of a problem, which screen readers announce; "" if it is empty."""
    if not sentence:
        return ""
    return (
        '<div class="sparkwright-problem" role="alert"><span aria-hidden="true">✕</span> '
        f"{escaped(sentence)}</div>"
    )


class OptionForm(widgets.VBox):
    """Fields for `options` with initial `values`; each group of options is collapsible."""

    def __init__(self, options: Sequence[Option], values: Mapping[str, Any] | None = None) -> None:
        self._listeners: list[Callable[[str], None]] = []
        given = dict(values or {})
        self.fields = {
            option.name: OptionField(option, given.get(option.name, option.default), self._changed)
            for option in options
        }
        groups: dict[str, list[widgets.Widget]] = {}
        for option in options:
            groups.setdefault(option.group, []).append(self.fields[option.name])
        self.folds = {name: Fold(name, [grid(*inside)]) for name, inside in groups.items() if name}
        first = [grid(*groups[""])] if "" in groups else []
        super().__init__([*first, *self.folds.values()])

    @property
    def values(self) -> dict[str, Any]:
        """Value of each option; for an invalid field, its most recent valid value."""
        return {name: field.value for name, field in self.fields.items()}

    @property
    def changed_values(self) -> dict[str, Any]:
        """Values that differ from their defaults."""
        return {
            name: field.value
            for name, field in self.fields.items()
            if field.value != field.option.default
        }

    @property
    def problems(self) -> dict[str, str]:
        return {name: field.problem for name, field in self.fields.items() if field.problem}

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call `callback(name)` when the value or the problem of an option changes."""
        self._listeners.append(callback)

    def set(self, values: Mapping[str, Any]) -> None:
        """Show other values, without calling the callbacks."""
        for name, value in values.items():
            self.fields[name].set(value)

    def complain(self, name: str, sentence: str) -> None:
        """Show a problem beside a field; an empty sentence removes it."""
        self.fields[name].complain(sentence)

    def _changed(self, name: str) -> None:
        for callback in list(self._listeners):
            callback(name)


class OptionField(widgets.VBox):
    """One option: label, control, help, and its problem."""

    def __init__(self, option: Option, value: Any, changed: Callable[[str], None]) -> None:
        self.option = option
        self._value = value
        self._changed = changed
        self._problem = self._complaint = ""
        self._setting = False
        self.control = _control(option, value)
        self.control.observe(self._typed, "value")
        self.advice = widgets.HTML(help_icon(option.help, option.title))
        self.alert = widgets.HTML()
        super().__init__([self.control, self.advice, self.alert])
        self.add_class("sparkwright-field")
        self.add_class(f"sparkwright-kind-{option.kind}")

    @property
    def value(self) -> Any:
        """The most recent valid value."""
        return self._value

    @property
    def problem(self) -> str:
        """The problem of the input, or of its combination with other options; "" if none."""
        return self._problem or self._complaint

    def set(self, value: Any) -> None:
        """Set the value, without calling the callback."""
        self._setting = True
        try:
            self._value, self._problem, self._complaint = value, "", ""
            self.control.value = _shown(self.option, value)
        finally:
            self._setting = False
        self._show_problem()

    def set_none_text(self, text: str | None) -> None:
        """Set the placeholder; None restores the option's own."""
        if isinstance(self.control, Text) and self.option.optional:
            self.control.placeholder = self.option.none_text if text is None else text

    def complain(self, sentence: str) -> None:
        """Show a conflict with other options; an empty sentence removes it."""
        self._complaint = sentence
        self._show_problem()

    def _typed(self, change: Any) -> None:
        if self._setting:
            return
        new = change["new"]
        try:
            value = new if isinstance(self.control, Checkbox) else self.option.parse(new)
            self.option.check(value)
        except ConfigurationError as error:
            self._problem = str(error)
        else:
            self._value, self._problem, self._complaint = value, "", ""
        self._show_problem()
        self._changed(self.option.name)

    def _show_problem(self) -> None:
        self.alert.value = alert(self.problem)
        (self.add_class if self.problem else self.remove_class)("sparkwright-has-problem")


def _control(option: Option, value: Any) -> Any:
    title = f"{option.title} ({option.unit})" if option.unit else option.title
    if option.kind == "flag" and not option.optional:
        return Checkbox(value=bool(value), description=title)
    if option.kind == "choice":
        # Choices are text: a Dropdown with the value None shows no selection.
        none = [(f"({option.none_text})", "")] if option.optional else []
        choices = [
            *none,
            *((option.text(choice), option.text(choice)) for choice in option.choices),
        ]
        return Dropdown(options=choices, value=option.text(value), description=title)
    placeholder = option.none_text if option.optional else ""
    return Text(value=option.text(value), placeholder=placeholder, description=title)


def _shown(option: Option, value: Any) -> Any:
    is_checkbox = option.kind == "flag" and not option.optional
    return bool(value) if is_checkbox else option.text(value)

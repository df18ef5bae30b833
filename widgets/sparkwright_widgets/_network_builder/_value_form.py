"""A form of externally held values: it follows their changes and keeps typed text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.options import Option
from sparkwright_widgets._ui import OptionForm, swap


class ValueForm(widgets.VBox):
    """Fields for options, generated when the options change."""

    def __init__(self, changed: Callable[[str], None], mistaken: Callable[[], None]) -> None:
        self._changed, self._mistaken = changed, mistaken
        self._options: tuple[Option, ...] = ()
        self._form = OptionForm(())
        self._invalid: dict[str, Any] = {}  # values that no field can hold, by option
        super().__init__([self._form])

    @property
    def fields(self) -> Mapping[str, Any]:
        return self._form.fields

    @property
    def values(self) -> dict[str, Any]:
        """The JSON value of each option; invalid values are kept as given."""
        return {**{name: as_json(v) for name, v in self._form.values.items()}, **self._invalid}

    @property
    def mistake(self) -> str:
        """The first validation error of a field; empty if there is none."""
        return next(iter(self._form.problems.values()), "")

    def show(
        self, options: Sequence[Option], values: Mapping[str, Any], *, reset: bool = False
    ) -> None:
        """Show values; keep typed text with the same value, unless `reset`."""
        # Leave out objects of Keras, such as seeded initializers.
        options = [each for each in options if not isinstance(values.get(each.name), Mapping)]
        if tuple(options) != self._options:
            self._options, reset = tuple(options), True
            rare = sum(1 for option in options if option.group)
            more = {True: f"More options ({rare})", False: ""}
            self._form = OptionForm([replace(o, group=more[bool(o.group)]) for o in options])
            self._form.on_change(self._typed)
            swap(self, self._form)
        for name, field in self.fields.items():
            value = values.get(name, field.option.default)
            if not reset and as_json(self._invalid.get(name, field.value)) == as_json(value):
                continue
            self._invalid.pop(name, None)
            try:
                field.option.check(value)
            except ConfigurationError as error:
                field.set(field.option.default)
                field.complain(str(error))
                self._invalid[name] = value
            else:
                field.set(value)

    def complain(self, name: str, sentence: str) -> None:
        """Show a validation error at a field."""
        self._form.complain(name, sentence)

    def _typed(self, name: str) -> None:
        if self.fields[name].problem:
            self._mistaken()
        else:
            self._invalid.pop(name, None)
            self._changed(name)


def as_json(value: Any) -> Any:
    """Convert tuples to lists."""
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value

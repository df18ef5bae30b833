"""Values of options between a network, which has JSON's, and the fields of a form."""

from collections.abc import Mapping
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright_widgets._ui import OptionForm


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

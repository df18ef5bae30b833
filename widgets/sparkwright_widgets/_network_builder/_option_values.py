"""Values of options as JSON has them: a field gives a tuple where a network keeps a list. Pure."""

from typing import Any


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

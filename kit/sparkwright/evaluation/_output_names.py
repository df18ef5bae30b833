"""Names of classes and outputs, and how a method's `of=` picks one."""

from collections.abc import Iterable
from typing import Any

from sparkwright.errors import ConfigurationError


def checked_names(option: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    """Different names, at least one; None stays None.

    Args:
        option: what the caller calls them.
        names: to check.

    Raises:
        ConfigurationError: if they are one string, no strings, none at all or not unique.
    """
    if names is None:
        return None
    checked: tuple[Any, ...] = (names,) if isinstance(names, str) else tuple(names)
    texts = not isinstance(names, str) and all(isinstance(name, str) for name in checked)
    if not texts or len(set(checked)) != len(checked) or not checked:
        raise ConfigurationError(
            f"`{option}` must be different names, in a list. Received: {option}={names!r:.100}."
        )
    return checked


def number_of(of: int | str, names: tuple[str, ...]) -> int:
    """The number that `of`, a number or a name, stands for.

    Raises:
        ConfigurationError: if there is no such one.
    """
    if isinstance(of, str) and of in names:
        return names.index(of)
    if not isinstance(of, str | bool) and 0 <= of < len(names):
        return int(of)
    raise ConfigurationError(
        f"`of` must be a number from 0 to {len(names) - 1} or one of {list(names[:20])}. "
        f"Received: of={of!r}."
        if names
        else f"`of` must name what there is data about. Received: of={of!r} without any data."
    )

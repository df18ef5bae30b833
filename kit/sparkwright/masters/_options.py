"""Checks that name the option, shared by the configuration classes."""

import sys
from collections.abc import Collection
from typing import Any

from sparkwright._option import MAX_COUNT
from sparkwright.errors import ConfigurationError

MAX_BYTES = 2**53
MAX_SEED = 2**64 - 1


def check_count(
    name: str,
    value: Any,
    *,
    minimum: int = 1,
    maximum: int = MAX_COUNT,
    optional: bool = False,
) -> None:
    """Refuse anything but an integer from `minimum` to `maximum` (or None, if `optional`).

    Raises:
        ConfigurationError: naming the option and what it received.
    """
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigurationError(
            f"`{name}` must be an integer of at least {minimum}{' or None' if optional else ''}. "
            f"Received: {name}={value!r}."
        )
    if value > maximum:
        received = str(value) if value.bit_length() <= 64 else f"{value.bit_length()} bits"
        raise ConfigurationError(
            f"`{name}` must be an integer of at most {maximum}{' or None' if optional else ''}. "
            f"Received: {name}={received}."
        )


def check_seconds(name: str, value: Any) -> None:
    """Refuse anything but a finite number greater than 0.

    Raises:
        ConfigurationError: naming the option and what it received.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 < value <= sys.float_info.max):
        raise ConfigurationError(
            f"`{name}` must be a finite number of seconds greater than 0. "
            f"Received: {name}={value!r}."
        )


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Refuse anything but one of `choices`.

    Raises:
        ConfigurationError: naming the option, the choices and what it received.
    """
    if value not in list(choices):  # a list, because the value may not be hashable
        raise ConfigurationError(
            f"`{name}` must be one of {', '.join(sorted(map(repr, choices)))}. "
            f"Received: {name}={value!r}."
        )


def check_text(name: str, value: Any) -> None:
    """Refuse anything but text or None.

    Raises:
        ConfigurationError: naming the option and what it received.
    """
    if not (value is None or isinstance(value, str)):
        raise ConfigurationError(f"`{name}` must be text or None. Received: {name}={value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Refuse anything but True or False.

    Raises:
        ConfigurationError: naming the option and what it received.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"`{name}` must be True or False. Received: {name}={value!r}.")


def check_instance(name: str, value: Any, kind: type[Any], *, optional: bool = False) -> None:
    """Refuse anything but a `kind` (or None, if `optional`).

    Raises:
        ConfigurationError: naming the option and what it received.
    """
    if not (isinstance(value, kind) or (optional and value is None)):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ConfigurationError(
            f"`{name}` must be {article} {kind.__name__}{' or None' if optional else ''}. "
            f"Received: {name}={value!r}."
        )


def check_protocol(name: str, value: Any, kind: type[Any], methods: Collection[str]) -> None:
    """Refuse anything but an object with `methods`, such as a class in place of its instance.

    Raises:
        ConfigurationError: naming the option, the methods and what it received.
    """
    if isinstance(value, type) or not all(callable(getattr(value, m, None)) for m in methods):
        raise ConfigurationError(
            f"`{name}` must be a {kind.__name__}, an object with "
            f"{' and '.join(f'`{method}`' for method in methods)}. Received: {name}={value!r}."
        )

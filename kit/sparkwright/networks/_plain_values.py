"""Checks on what comes from JSON and YAML: plain values of the kinds that are expected."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sparkwright.errors import ConfigurationError

LARGEST = 2**63  # integers stay below it, as everywhere where they end


def plain(value: Any, where: str) -> Any:
    """`value` as JSON would give it back: tuples become lists, NumPy's floats Python's.

    Raises:
        ConfigurationError: if it is anything else than JSON's values, a number without end or an
            integer of more than 64 bits.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and abs(value) < LARGEST:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(inner, where) for inner in value]
    raise ConfigurationError(
        f"{where} must be a number (integers less than 2**63), text, true, false, null or a list "
        f"of these. Received: {shown('', value)}."
    )


def shown(name: str, value: Any) -> str:
    """`name=value` for a message; Python does not write an integer of any length."""
    large = isinstance(value, int) and abs(value) >= LARGEST
    text = "an integer of more than 64 bits" if large else f"{value!r:.200}"
    return f"{name}={text}" if name else text


def fields_of(settings: Any, known: Collection[str], where: str) -> Mapping[str, Any]:
    """`settings`, if they are a mapping with no other keys than `known`.

    Raises:
        ConfigurationError: naming what is unknown.
    """
    if not isinstance(settings, Mapping):
        raise ConfigurationError(
            f"{where} must be a mapping of names. Received: {settings!r:.200}."
        )
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise ConfigurationError(
            f"{where} has no field {unknown[0]!r}. Received: {unknown[0]}="
            f"{settings[unknown[0]]!r:.200}. Use: {', '.join(known)}."
        )
    return settings


def text_of(value: Any, where: str) -> str:
    """`value`, if it is text that is not empty.

    Raises:
        ConfigurationError: if it is not.
    """
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{where} must be text. Received: {value!r:.200}.")
    return value


def list_of(value: Any, where: str) -> Sequence[Any]:
    """`value`, if it is a list.

    Raises:
        ConfigurationError: if it is not.
    """
    if not isinstance(value, list | tuple):
        raise ConfigurationError(f"{where} must be a list. Received: {value!r:.200}.")
    return value


def texts_of(value: Any, where: str) -> tuple[str, ...]:
    """A list of texts.

    Raises:
        ConfigurationError: if it is something else.
    """
    return tuple(text_of(inner, f"each of {where}") for inner in list_of(value, where))


def options_of(value: Any, where: str) -> dict[str, Any]:
    """Options by name, with JSON's values.

    Raises:
        ConfigurationError: if they are something else.
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{where} must be a mapping of names. Received: {value!r:.200}.")
    return {
        text_of(name, f"each name in {where}"): plain(inner, f"{where}[{name!r}]")
        for name, inner in value.items()
    }


def given_fields(
    settings: Any, known: tuple[str, ...], required: tuple[str, ...], where: str
) -> dict[str, Any]:
    """The fields of a value's settings.

    Raises:
        ConfigurationError: if one that is `required` is missing, or one is not `known`.
    """
    given = dict(fields_of(settings, known, where))
    for name in required:
        if name not in given:
            raise ConfigurationError(
                f"{where} must have the field {name!r}. Received: {given!r:.200}."
            )
    return given

"""Settings as dictionaries, JSON and YAML."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Self

from sparkwright._yaml import read_json, read_yaml, write_yaml
from sparkwright.errors import ConfigurationError


class Serialisable:
    """Turns a frozen dataclass of options into a dictionary, JSON or YAML, and back.

    Options that are objects are nested, by their own `to_dict`; of one without it, such as the
    user's own, only the name of its class is kept. Hooks are left out: they are code.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-able settings with the name of the class, without hooks."""
        settings = {
            option: _plain(value) for option, value in options_of(self).items() if option != "hooks"
        }
        return {"name": type(self).__name__, **settings}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; options left out take their defaults.

        Raises:
            ConfigurationError: if an option is unknown or has a value that it cannot have.
        """
        given = cls._as_of_today(checked_dict(settings))
        name = given.pop("name", cls.__name__)
        if name != cls.__name__:
            raise ConfigurationError(
                f"`name` must be {cls.__name__!r} here. Received: name={name!r}."
            )
        refuse_unknown(cls, given)
        for option, read in cls._readers().items():
            if isinstance(given.get(option), dict):
                given[option] = read(given[option])
        return cls(**given)

    def to_json(self) -> str:
        """Indented JSON of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`.

        Raises:
            ConfigurationError: if the text is no JSON, or not of these settings.
        """
        return cls.from_dict(read_json(text))

    def to_yaml(self) -> str:
        """YAML of `to_dict`."""
        return write_yaml(self.to_dict())

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """The inverse of `to_yaml`; numbers may be written as 1e-3.

        Raises:
            ConfigurationError: if the text is no YAML, or not of these settings.
        """
        return cls.from_dict(read_yaml(text))

    @classmethod
    def _as_of_today(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """What settings that an earlier version wrote mean today."""
        return settings

    @classmethod
    def _readers(cls) -> Mapping[str, Callable[[dict[str, Any]], Any]]:
        """Nested options -> what makes them from their dictionaries."""
        return {}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return {"name": type(value).__name__, "configuration": {}}


def options_of(configuration: Any) -> dict[str, Any]:
    """The fields of a dataclass, in order, as they are."""
    return {field.name: getattr(configuration, field.name) for field in fields(configuration)}


def checked_dict(settings: Any) -> dict[str, Any]:
    """A copy of `settings`.

    Raises:
        ConfigurationError: if they are no dict.
    """
    if not isinstance(settings, dict):
        raise ConfigurationError(f"settings must be a dict. Received: {settings!r}.")
    return dict(settings)


def refuse_unknown(cls: type[Any], given: Mapping[str, Any]) -> None:
    """Refuse options that `cls` does not have: a misspelt one would be ignored.

    Raises:
        ConfigurationError: naming them, and those that there are.
    """
    known = {field.name for field in fields(cls)}
    unknown = sorted(map(str, set(given) - known))
    if unknown:
        raise ConfigurationError(
            f"unknown options {unknown} for {cls.__name__}. Known are {sorted(known)}."
        )

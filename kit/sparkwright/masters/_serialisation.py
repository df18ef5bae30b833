"""Settings as dictionaries, JSON and YAML."""

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Self

from sparkwright.errors import ConfigurationError

# PyYAML follows YAML 1.1, in which 1e-3 is text: a number needs a point there. Nobody means that.
_NUMBER = re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$")


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
        given = checked_dict(settings)
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
        """The inverse of `to_json`."""
        return cls.from_dict(json.loads(text))

    def to_yaml(self) -> str:
        """YAML of `to_dict`."""
        import yaml

        # By way of JSON, because YAML does not know NumPy's floats, which are floats too.
        return yaml.dump(json.loads(self.to_json()), Dumper=_dialect("Dumper"), sort_keys=False)

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """The inverse of `to_yaml`; numbers may be written as 1e-3."""
        return cls.from_dict(read_yaml(text))

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


def read_yaml(text: str) -> Any:
    """What `text` holds: plain values only, no objects.

    Raises:
        ConfigurationError: if it is no YAML; says where.

    Example:
        >>> read_yaml("threshold: 1e-3")
        {'threshold': 0.001}
    """
    import yaml

    try:
        return yaml.load(text, _dialect("Loader"))
    except yaml.YAMLError as error:
        raise ConfigurationError(f"settings must be YAML. Received: {error}") from error


@functools.cache
def _dialect(kind: str) -> Any:
    """PyYAML's safe "Loader" or "Dumper", that knows numbers as `_NUMBER` does."""
    import yaml

    # The one in C, where there is one, is ten times as fast.
    base = getattr(yaml, f"CSafe{kind}", None) or getattr(yaml, f"Safe{kind}")
    dialect: Any = type(kind, (base,), {})
    dialect.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+0123456789"))
    return dialect

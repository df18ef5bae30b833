"""One option that is an object with options of its own."""

import importlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True, slots=True)
class NestedOption:
    """An option that is an object with options of its own.

    In settings it is None or the object's options. With several kinds, it is a name and a
    configuration, or the class name beside the options.
    """

    name: str
    # Name in settings -> class; with one kind, settings omit the name.
    kinds: Mapping[str, type[Any]]
    default: str | None  # name of the default kind; None if the default is None
    label: str = ""  # for forms
    help: str = ""  # what to choose, and why
    optional: bool = False  # whether None is valid
    none_text: str = "none"  # what None means
    methods: tuple[str, ...] = ()  # required of a user-defined object; empty if none is accepted
    group: str = ""  # of options in a form

    @property
    def named(self) -> bool:
        """Whether settings contain a name and a configuration."""
        return any(getattr(kind, "_kind", "") for kind in self.kinds.values())

    def check(self, value: Any) -> None:
        """Raise if `value` is invalid."""
        if (value is None and self.optional) or isinstance(value, tuple(self.kinds.values())):
            return
        own = bool(self.methods) and not isinstance(value, type)
        if own and all(callable(getattr(value, method, None)) for method in self.methods):
            return
        kinds = [kind.__name__ for kind in self.kinds.values()]
        names = [f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}" for kind in kinds]
        if self.methods:
            names.append("an object with " + ", ".join(f"`{each}`" for each in self.methods))
        if self.optional:
            names.append("None")
        listed = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        raise ConfigurationError(
            f"`{self.name}` must be {listed}. Received: {self.name}={value!r:.200}."
        )

    def read(self, setting: Any) -> tuple[str | None, dict[str, Any]]:
        """Return the kind and options of a setting; no options for a user-defined object."""
        if setting is None:
            return None, {}
        given = checked_dict(setting, name=self.name)
        if not self.named:
            first = next(iter(self.kinds))
            return (first if len(self.kinds) == 1 else str(given.get("name", first))), given
        inside = checked_dict(given.get("configuration", {}), name="configuration")
        return str(given.get("name")), inside

    def write(self, kind: str | None, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the setting for a kind and its options; the inverse of `read`."""
        if kind is None:
            return None
        return {"name": kind, "configuration": dict(options)} if self.named else dict(options)

    def from_setting(self, setting: Any, *, allow: Collection[str] = ()) -> Any:
        """Create the object that a setting describes; an instance of a kind stays as it is."""
        if isinstance(setting, tuple(self.kinds.values())):
            return setting
        kind, options = self.read(setting)
        if kind is not None and kind in self.kinds:
            return self.kinds[kind].from_dict(setting, allow=allow)
        if self.methods and kind in list(allow):
            return self._own(str(kind), options)
        own = (
            f" To import a class of your own, name it: `from_json(text, allow=[{kind!r}])`. Or set "
            f"the object with `dataclasses.replace(…, {self.name}=…)`."
        )
        raise ConfigurationError(
            f"`{self.name}` must be named one of {', '.join(map(repr, self.kinds))} in "
            f"settings. Received: name={setting.get('name')!r}.{own if self.methods else ''}"
        )

    def _own(self, name: str, options: dict[str, Any]) -> Any:
        """Create an object of the user-defined class `name`, which `allow` includes."""
        module, _, qualified = name.rpartition(".")
        try:
            cls = getattr(importlib.import_module(module), qualified)
            if not hasattr(cls, "from_dict") and {*options} == {"name", "configuration"}:
                options = options["configuration"]
            made = cls.from_dict(options) if hasattr(cls, "from_dict") else cls(**options)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise ConfigurationError(
                f"`{self.name}` must be of a class that can be imported, and made of its "
                f"configuration. Received: name={name!r}, configuration={options!r:.200}: {error}."
            ) from error
        self.check(made)
        return made


def checked_dict(settings: Any, *, name: str = "settings") -> dict[str, Any]:
    """Copy `settings` into a dictionary."""
    if not isinstance(settings, Mapping):
        raise ConfigurationError(
            f"`{name}` must be a dictionary of options. Received: {name}={settings!r:.200}."
        )
    return {str(key): value for key, value in settings.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

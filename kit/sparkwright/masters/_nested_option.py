"""An option of a training master that is an object with options of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True, slots=True)
class NestedOption:
    """One option that is an object, or one of several kinds of objects.

    In settings, that is in what a master's `to_dict` gives, it is None, the object's options, or
    with several kinds a name and a configuration.

    Attributes:
        name: the name of the argument.
        label: a word or two for a form.
        advice: one sentence: what to choose, and why.
        kinds: name in settings -> class. With one kind the name is no part of the settings.
        default: the name of the default kind; None: nothing.
        optional: whether None may be given.
        named: whether settings hold a name and a configuration.
        group: options of one group stand together.
    """

    name: str
    label: str
    advice: str
    kinds: Mapping[str, type[Any]]
    default: str | None
    optional: bool = False
    named: bool = False
    group: str = ""

    def read(self, setting: Any) -> tuple[str | None, dict[str, Any]]:
        """Kind and options that a setting holds; of an object of the user's own, no options.

        Args:
            setting: the value in the master's `to_dict`.

        Example:
            >>> option = NestedOption(
            ...     name="size", label="", advice="", kinds={}, default="a", named=True
            ... )
            >>> option.read({"name": "a", "configuration": {"size": 3}})
            ('a', {'size': 3})
        """
        if setting is None:
            return None, {}
        if not isinstance(setting, Mapping):
            raise ConfigurationError(
                f"`{self.name}` must be a dictionary of options. Received: {setting!r}."
            )
        given: dict[str, Any] = {str(key): value for key, value in setting.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if not self.named:
            return next(iter(self.kinds)), given
        return str(given.get("name")), dict(given.get("configuration") or {})

    def write(self, kind: str | None, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """The setting that `read` takes apart."""
        if kind is None:
            return None
        if not self.named:
            return dict(options)
        return {"name": kind, "configuration": dict(options)}

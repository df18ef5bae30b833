"""Configurations: frozen dataclasses that declare each option once, in its field.

    @configuration
    class Clipping(Configuration):
        multiple: float = option(default=5.0, minimum=1, unit="thresholds", help="The bound.")

The declaration generates the constructor's checks, the class's documentation, JSON and YAML
serialization, and the fields of forms (`plain_options`, `nested_options`).
"""

import functools
import json
import textwrap
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import (
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
    get_type_hints,
)

from sparkwright._yaml import read_json, read_yaml, write_yaml
from sparkwright.errors import ConfigurationError
from sparkwright.nested_options import NestedOption, checked_dict
from sparkwright.options import Option, check_choice, option_of, variants_of

T = TypeVar("T")
_WIDTH = 96


def option(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] | Any = MISSING,
    kw_only: bool = True,
    help: str = "",
    kinds: Mapping[str, type[Any]] | None = None,
    methods: Sequence[str] = (),
    form: bool = True,
    saved: bool = True,
    **description: Any,
) -> Any:
    """Declare an option: a dataclass field with metadata.

    Args:
        default: the default value; without one the option is required.
        default_factory: creates the default value of an option that is an object.
        kw_only: whether the option is keyword-only; default True.
        help: what the option does and how to choose it; shown in forms and documentation.
        kinds: for an option that is an object: name in settings -> class.
        methods: for an option that accepts a user-defined object: its required methods.
        form: whether forms show the option; default True.
        saved: whether the option is part of settings and equality; default True. False for code.
        description: further attributes of `Option` (or `NestedOption`): `minimum`, `unit`, `label`…
    """
    metadata = {
        "form": form,
        "saved": saved,
        "kinds": kinds,
        "methods": tuple(methods),
        "description": {"help": help, **description},
    }
    made: Any = field(
        default=default,
        default_factory=default_factory,
        kw_only=kw_only,
        compare=saved,
        metadata=metadata,
    )
    return made


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, field))
def configuration(cls: type[T]) -> type[T]:
    """Make a frozen, keyword-only dataclass with slots and document its options."""
    made = dataclass(frozen=True, kw_only=True, slots=True)(cls)
    made.__doc__ = _documented(made)
    return made


class Configuration:
    """Base class of configurations: validation, and conversion to dict, JSON, YAML and Python.

    In settings, an option that is an object is nested, as its own `to_dict`. A user-defined object
    becomes `{"name": "module.Class", "configuration": {…}}`, with the result of its `to_dict`.
    The readers import its class only if `allow` names it. They pass the configuration to its
    `from_dict`, or else as keyword arguments to the class.
    """

    __slots__ = ()
    # The name of this class in settings: {"name": …, "configuration": {…}}.
    _kind: ClassVar[str] = ""
    # Whether settings include the class name beside the options.
    _tagged: ClassVar[bool] = False
    # Class name -> class, of a base class that reads settings of each; see `choose_by_name`.
    _named: ClassVar[dict[str, type[Any]]]

    def __post_init__(self) -> None:
        """Check each option, then their combination."""
        for declared in (*plain_options(type(self)), *nested_options(type(self))):
            declared.check(getattr(self, declared.name))
        self._check()

    def _check(self) -> None:
        """Raise if options are incompatible, or a value breaks a rule specific to this class."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable settings, without options that are code."""
        options = {
            each.name: _setting(each, self.shown(each.name))
            for each in _fields(type(self), "saved")
        }
        if self._kind:
            return {"name": self._kind, "configuration": options}
        return {"name": type(self).__name__, **options} if self._tagged else options

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any], *, allow: Collection[str] = ()) -> Self:
        """Create a configuration from `to_dict` settings; missing options take their defaults.

        `TrainingMaster` and `Normalizer` create an object of the class that "name" states.
        User-defined classes are imported only if `allow` names them as "package.module.Class".

        Raises:
            ConfigurationError: if an option is unknown or invalid, or its class is not allowed.
        """
        given = checked_dict(settings)
        if "_named" in vars(cls):
            check_choice("name", given.get("name"), cls._named)
            return cls._named[given["name"]].from_dict(given, allow=allow)
        if cls._kind:
            if given.keys() - {"name", "configuration"} or given.get("name") != cls._kind:
                raise ConfigurationError(
                    f"settings of {cls.__name__} must be {cls._kind!r} and a configuration. "
                    f"Received: {given!r:.200}."
                )
            given = checked_dict(given.get("configuration", {}))
        else:
            given = cls._updated(given)
            name = given.pop("name", cls.__name__) if cls._tagged else cls.__name__
            if name != cls.__name__:
                raise ConfigurationError(
                    f"`name` must be {cls.__name__!r} here. Received: name={name!r}."
                )
        known = {each.name: each for each in _fields(cls, "saved")}
        unknown = sorted(map(str, given.keys() - known.keys()))
        if unknown:
            raise ConfigurationError(
                f"unknown options {unknown} of {cls.__name__}. Known are {sorted(known)}."
            )
        for nested in nested_options(cls):
            if given.get(nested.name) is not None:
                given[nested.name] = nested.from_setting(given[nested.name], allow=allow)
        missing = [
            name
            for name, each in known.items()
            if name not in given and each.default is MISSING and each.default_factory is MISSING
        ]
        if missing:
            raise ConfigurationError(
                f"`{missing[0]}` must be given. Received: {sorted(map(str, given))}."
            )
        return cls(**given)

    def shown(self, name: str) -> Any:
        """The value of an option as shown in files, code and documents."""
        return getattr(self, name)

    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults, without options that are code."""
        return {name: getattr(self, name) for name in changed_names(self)}

    def to_json(self) -> str:
        """Return `to_dict` as indented JSON."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str, *, allow: Collection[str] = ()) -> Self:
        """Create a configuration from JSON; `allow` as for `from_dict`.

        Raises:
            ConfigurationError: if the text is not JSON, or does not match these settings.
        """
        return cls.from_dict(read_json(text), allow=allow)

    def to_yaml(self) -> str:
        """Return `to_dict` as YAML."""
        return write_yaml(self.to_dict())

    @classmethod
    def from_yaml(cls, text: str, *, allow: Collection[str] = ()) -> Self:
        """Create a configuration from YAML; accepts floats like 1e-3, `allow` as for `from_dict`.

        Raises:
            ConfigurationError: if the text is not YAML, or does not match these settings.
        """
        return cls.from_dict(read_yaml(text), allow=allow)

    @classmethod
    def _updated(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Convert settings of an earlier version to the current format."""
        return settings


def choose_by_name(base: type[Any], *kinds: type[Any]) -> dict[str, type[Any]]:
    """Let `from_dict` of a base class create the class that "name" states; return them by name."""
    base._named = {kind.__name__: kind for kind in kinds}
    return base._named


@functools.cache
def plain_options(cls: type[Any]) -> tuple[Option, ...]:
    """The options of a configuration that are plain values, in the order of its fields.

    Raises:
        ConfigurationError: if `cls` is not a configuration.
    """
    return tuple(each for each in _declared(cls) if isinstance(each, Option))


@functools.cache
def nested_options(cls: type[Any]) -> tuple[NestedOption, ...]:
    """The options of a configuration that are objects with options of their own.

    Raises:
        ConfigurationError: if `cls` is not a configuration.
    """
    return tuple(each for each in _declared(cls) if isinstance(each, NestedOption))


def _fields(cls: Any, flag: Literal["saved", "form"]) -> list[Field[Any]]:
    return [each for each in fields(cls) if each.metadata.get(flag, True)]


def _declared(cls: type[Any]) -> list[Option | NestedOption]:
    if not issubclass(cls, Configuration):
        raise ConfigurationError(f"options are declared by configurations. Received: {cls!r}.")
    hints = get_type_hints(cls)
    return [_describe(each, hints[each.name]) for each in _fields(cls, "form")]


def _describe(declared: Field[Any], hint: Any) -> Option | NestedOption:
    description: dict[str, Any] = dict(declared.metadata.get("description", {}))
    default, (kind, *more) = _default(declared), variants_of(hint)
    kinds: Mapping[str, type[Any]] | None = declared.metadata.get("kinds")
    if kinds is None and hasattr(kind, "from_dict"):
        kinds = {"on": kind}
    if kinds is None:
        return option_of(declared.name, hint, default, **description)
    return NestedOption(
        name=declared.name,
        kinds=kinds,
        default=next((name for name, each in kinds.items() if type(default) is each), None),
        methods=declared.metadata["methods"],
        optional=types.NoneType in more,
        **description,
    )


def changed_names(settings: Any, always: Collection[str] = ()) -> list[str]:
    """Names of the options that differ from their defaults, and those in `always`."""
    return [
        each.name
        for each in _fields(type(settings), "saved")
        if each.name in always or getattr(settings, each.name) != _default(each)
    ]


def _default(declared: Any) -> Any:
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    return declared.default


def _documented(cls: type[Any]) -> str:
    """Return the docstring with an "Attributes" section before the examples."""
    lines = ["Attributes:"]
    for each in fields(cls):
        if each.name.startswith("_"):
            continue
        description = each.metadata.get("description", {})
        text = description.get("help", "")
        if isinstance(each.default_factory, type):
            text += f" Default: {each.default_factory.__name__}()."
        elif each.default is not MISSING:
            meaning = description.get("none_text") if each.default is None else None
            text += f" Default: {each.default!r}{f' ({meaning})' if meaning else ''}."
        lines.append(
            textwrap.fill(
                f"{each.name}: {text}",
                _WIDTH,
                initial_indent=" " * 8,
                subsequent_indent=" " * 12,
                break_on_hyphens=False,
            )
        )
    section = "\n".join(lines)
    before, mark, after = (cls.__doc__ or "").partition("\n    Example:")
    return f"{before.rstrip()}\n\n    {section}\n{mark}{after or '    '}"


def _setting(declared: Field[Any], value: Any) -> Any:
    """Return the value of an option as stored in settings."""
    kinds = tuple((declared.metadata.get("kinds") or {}).values())
    if not declared.metadata.get("methods") or value is None or isinstance(value, kinds):
        return _plain(value)
    kind, given = type(value), value.to_dict() if hasattr(value, "to_dict") else {}
    return {"name": f"{kind.__module__}.{kind.__qualname__}", "configuration": _plain(given)}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in cast("dict[Any, Any]", value).items()}
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return {"name": type(value).__name__, "configuration": {}}

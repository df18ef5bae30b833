"""Configurations: frozen dataclasses that declare each option once, in its field.

    @configuration
    class Clipping(Configuration):
        multiple: float = option(default=5.0, minimum=1, unit="thresholds", help="The bound.")

The declaration generates the constructor's checks, the class's documentation, JSON and YAML
serialization, and the fields of forms (`plain_options`, `nested_options`).
"""

import functools
import importlib
import json
import sys
import textwrap
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import (
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from sparkwright._yaml import read_json, read_yaml, write_yaml
from sparkwright.errors import ConfigurationError
from sparkwright.options import Option, OptionKind, check_choice

T = TypeVar("T")
_KINDS: dict[Any, OptionKind] = {bool: "flag", int: "int", float: "float", str: "text"}
_WIDTH = 96
_CODE_WIDTH = 88


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
        return {name: getattr(self, name) for name in _changed(self)}

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


@dataclass(frozen=True, kw_only=True, slots=True)
class NestedOption:
    """An option that is an object with options of its own.

    In settings it is None or the object's options. With several kinds, it is a name and a
    configuration, or the class name beside the options.

    Attributes:
        name: the name of the argument.
        kinds: name in settings -> class. With one kind, settings omit the name.
        default: the name of the default kind; None if the default is None.
        label: a short label for forms.
        help: what to choose, and why.
        optional: whether None is valid.
        none_text: what None means.
        methods: the required methods of a user-defined object; empty if none is accepted.
        group: the group of options in a form.
    """

    name: str
    kinds: Mapping[str, type[Any]]
    default: str | None
    label: str = ""
    help: str = ""
    optional: bool = False
    none_text: str = "none"
    methods: tuple[str, ...] = ()
    group: str = ""

    @property
    def named(self) -> bool:
        """Whether settings contain a name and a configuration."""
        return any(getattr(kind, "_kind", "") for kind in self.kinds.values())

    def check(self, value: Any) -> None:
        """Raise if `value` is invalid.

        Raises:
            ConfigurationError: naming the option, the rule and the value.
        """
        if (value is None and self.optional) or isinstance(value, tuple(self.kinds.values())):
            return
        own = bool(self.methods) and not isinstance(value, type)
        if own and all(callable(getattr(value, method, None)) for method in self.methods):
            return
        names = [_with_article(kind.__name__) for kind in self.kinds.values()]
        if self.methods:
            names.append("an object with " + ", ".join(f"`{each}`" for each in self.methods))
        if self.optional:
            names.append("None")
        listed = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        raise ConfigurationError(
            f"`{self.name}` must be {listed}. Received: {self.name}={value!r:.200}."
        )

    def read(self, setting: Any) -> tuple[str | None, dict[str, Any]]:
        """Return the kind and options of a setting; no options for a user-defined object.

        Args:
            setting: the value from `to_dict`.

        Raises:
            ConfigurationError: if it is neither None nor a mapping.
        """
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
        """Create the object that a setting describes; an instance of a kind is returned unchanged.

        Raises:
            ConfigurationError: if the kind or an option is unknown, or an option invalid.
        """
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


def checked_dict(settings: Any, *, name: str = "settings") -> dict[str, Any]:
    """Copy `settings` into a dictionary.

    Raises:
        ConfigurationError: if `settings` is not a mapping.
    """
    if not isinstance(settings, Mapping):
        raise ConfigurationError(
            f"`{name}` must be a dictionary of options. Received: {name}={settings!r:.200}."
        )
    return {str(key): value for key, value in settings.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


class Expression(str):
    """Python source that `to_code` writes without quotes."""

    __slots__ = ()


def to_code(settings: Any, *, prefix: str = "sw.", named: Mapping[str, str] | None = None) -> str:
    """Return the Python expression that creates a value; defaults of objects are omitted.

    Args:
        settings: a configuration, another dataclass, or plain values in lists, tuples and
            dictionaries. Options that are code are left out.
        prefix: prefix of class names; default "sw.". Classes that `sparkwright` does not export
            also get the name of their package.
        named: option -> Python source to write instead of its value, such as a variable. These
            options are always written. Default None: none.

    Example:
        >>> from sparkwright.masters import MeshConfig, ParameterAveragingTrainingMaster
        >>> to_code(ParameterAveragingTrainingMaster(mesh=MeshConfig(ports="50000"), seed=1))
        'sw.ParameterAveragingTrainingMaster(seed=1, mesh=sw.MeshConfig(ports="50000"))'
        >>> to_code(["a", 1, None, Expression("count")])
        '["a", 1, None, count]'
    """
    if not is_dataclass(settings) or isinstance(settings, type):
        return _literal(settings, prefix)
    named = named or {}
    shown = settings.shown if isinstance(settings, Configuration) else settings.__getattribute__
    given = (
        f"{name}={named.get(name) or to_code(shown(name), prefix=prefix)}"
        for name in _changed(settings, named)
    )
    kind = type(settings)
    top, package, *_ = f"{kind.__module__}..".split(".")
    place = "" if hasattr(sys.modules.get(top), kind.__name__) else f"{package}."
    return f"{prefix}{place}{kind.__name__}({', '.join(given)})"


def call_to_code(function: str, *arguments: Any, **named: Any) -> str:
    """Return the Python source of a call, over several lines if it is long.

    Args:
        function: the function's name, or any text before the parenthesis, such as "data = load".
        arguments: positional arguments.
        named: keyword arguments.

    Example:
        >>> call_to_code("data = load", Expression("spark"), url="a.csv")
        'data = load(spark, url="a.csv")'
    """
    parts = [*map(to_code, arguments), *(f"{k}={_wrapped(v, k)}" for k, v in named.items())]
    line = f"{function}({', '.join(parts)})"
    if len(line) <= _CODE_WIDTH and "\n" not in line:
        return line
    return f"{function}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _wrapped(value: Any, name: str) -> str:
    """Return the source of an argument; wrap long lists."""
    text = to_code(value)
    if not isinstance(value, list) or len(text) + len(name) + 6 <= _CODE_WIDTH:
        return text
    items: list[Any] = value
    lines = [""]
    for item in items:
        shown = f"{to_code(item)},"
        if lines[-1] and len(lines[-1]) + len(shown) > _CODE_WIDTH - 10:
            lines.append("")
        lines[-1] += f" {shown}" if lines[-1] else shown
    return "[\n" + "".join(f"        {line}\n" for line in lines) + "    ]"


def _literal(value: Any, prefix: str) -> str:
    """Return a plain value as Python source, with double-quoted strings where possible."""
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, float):
        return repr(float(value))  # NumPy floats have a `repr` with NumPy's name
    if isinstance(value, str):
        # With a leading apostrophe, `repr` uses double quotes.
        return repr(str(value)) if '"' in value else f'"{repr(chr(39) + value)[2:-1]}"'
    if isinstance(value, list | tuple):
        items = [to_code(item, prefix=prefix) for item in cast("list[Any]", value)]
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, dict):
        pairs = (
            f"{to_code(key, prefix=prefix)}: {to_code(inner, prefix=prefix)}"
            for key, inner in cast("dict[Any, Any]", value).items()
        )
        return "{" + ", ".join(pairs) + "}"
    return repr(value)


def _changed(settings: Any, always: Collection[str] = ()) -> list[str]:
    """Names of the options that differ from their defaults, and those in `always`."""
    return [
        each.name
        for each in _fields(type(settings), "saved")
        if each.name in always or getattr(settings, each.name) != _default(each)
    ]


def _fields(cls: Any, flag: Literal["saved", "form"]) -> list[Field[Any]]:
    return [each for each in fields(cls) if each.metadata.get(flag, True)]


def _declared(cls: type[Any]) -> list[Option | NestedOption]:
    if not issubclass(cls, Configuration):
        raise ConfigurationError(f"options are declared by configurations. Received: {cls!r}.")
    hints = get_type_hints(cls)
    return [_describe(each, hints[each.name]) for each in _fields(cls, "form")]


def _describe(declared: Field[Any], hint: Any) -> Option | NestedOption:
    description: dict[str, Any] = dict(declared.metadata.get("description", {}))
    default, variants = _default(declared), _variants(hint)
    if types.NoneType in variants:
        description["optional"] = True
        variants.remove(types.NoneType)
    kinds: Mapping[str, type[Any]] | None = declared.metadata.get("kinds")
    if kinds is None and hasattr(variants[0], "from_dict"):
        kinds = {"on": variants[0]}
    if kinds is not None:
        chosen = [name for name, kind in kinds.items() if type(default) is kind]
        return NestedOption(
            name=declared.name,
            kinds=kinds,
            default=chosen[0] if chosen else None,
            methods=declared.metadata["methods"],
            **description,
        )
    return option_of(declared.name, hint, default, **description)


def option_of(name: str, hint: Any, default: Any = MISSING, **description: Any) -> Option:
    """Return the option for an argument with this annotation.

    Example:
        >>> option_of("missing", Literal["skip"] | float, "skip").rule
        "a finite number, or one of 'skip'"
    """
    variants = _variants(hint)
    if types.NoneType in variants:
        description.setdefault("optional", True)
    literals = [each for each in variants if get_origin(each) is Literal]
    plain = [each for each in variants if each is not types.NoneType and each not in literals]
    if literals and plain:
        words = (word for each in literals for word in get_args(each))
        description.setdefault("words", tuple((str(word), word) for word in words))
    elif literals:
        description.setdefault("choices", get_args(literals[0]))
    kind: OptionKind = "choice"
    if "choices" not in description:
        kind = description.pop("kind", None) or _KINDS.get(plain[0]) or "texts"
    return Option(
        name=name, kind=kind, default=None if default is MISSING else default, **description
    )


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _variants(hint: Any) -> list[Any]:
    return list(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else [hint]


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
    if not mark:
        return f"{before.rstrip()}\n\n    {section}\n    "
    return f"{before.rstrip()}\n\n    {section}\n{mark}{after}"


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
